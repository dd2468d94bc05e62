"""Refuses wrong arguments of the stream calls at the line that gives them, and makes uids of paths. The
parameters are typed for type checkers; these checks are for programs that run without one.
"""

from __future__ import annotations

import functools
import re
import threading
from collections.abc import Callable
from typing import Final

from headgate.api.functions import is_blocking
from headgate.api.site import user_site
from headgate.common.errors import PlanError, UsageError

_CONNECTOR: Final = re.compile(r"(the )?\w+[ _](source|sink)(?= got )")
"""Matches the beginning of a connector's message about an argument, as in ``the json source got ...``."""


def check_callable(verb: str, function: object) -> None:
    """Raise PlanError unless the call `verb` got a function of one record that is not async and, for
    "filter", no generator function. A function without a signature, such as a builtin, passes.
    """
    if not callable(function):
        columns = "; for columns call to_table() before" if hasattr(function, "expression") else ""
        raise _refusal(
            verb,
            f"{function!r} of type {type(function).__name__}; expected a function of one record{columns}",
        )
    refuse_arity(f"{verb}() ({user_site()})", function, "one record")
    refuse_unawaited(verb, function)


def refuse_unawaited(verb: str, function: object) -> None:
    """Raise PlanError if `verb` got an async function or, where `verb` is "filter", a generator function."""
    import inspect

    bare = inspect.unwrap(function) if callable(function) else function
    while isinstance(bare, functools.partial):
        bare = bare.func
    name = getattr(bare, "__name__", type(bare).__name__)
    call = bare if inspect.isroutine(bare) else inspect.getattr_static(type(bare), "__call__", bare)
    if inspect.iscoroutinefunction(call) or inspect.isasyncgenfunction(call):
        raise _refusal(
            verb,
            f"{name}, an `async def`, which nothing here awaits; write it with `def`, and mark what waits "
            "with hg.blocking",
        )
    if verb == "filter" and inspect.isgeneratorfunction(call):
        raise _refusal(
            verb, f"{name}, which yields, and a generator is true whatever it gives; return True or False"
        )


def _refusal(verb: str, got: str) -> PlanError:
    return PlanError(f"{verb}() ({user_site()}) got {got}")


def refuse_arity(what: str, function: Callable[..., object], *arguments: str) -> None:
    """Raise PlanError unless `function` can be called with the arguments that `arguments` describe in words.
    `what` names the call that got the function. A function without a signature, such as a builtin, passes.

    Example:
        >>> refuse_arity("map()", lambda: 5, "one record")
        Traceback (most recent call last):
        headgate.common.errors.PlanError: map() got <lambda>, which takes (); expected a function of ...
    """
    import inspect

    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # built in
        return
    try:
        signature.bind(*arguments)
    except TypeError:
        name = getattr(function, "__name__", None) or type(function).__name__
        takes, wanted = ", ".join(signature.parameters), " and ".join(arguments) or "nothing"
        raise PlanError(
            f"{what} got {name}, which takes ({takes}); expected a function of {wanted}"
        ) from None


def refuse_blocking(verb: str, function: object) -> None:
    """Raise PlanError for a function marked with `hg.blocking`, as `verb` calls it in the worker's loop."""
    if is_blocking(function):
        raise _refusal(
            verb,
            "a function marked with blocking(), but calls it in the worker's loop; call the function in map"
            "() before, and keep what it gives in the record",
        )


def check_columns(verb: str, columns: tuple[object, ...]) -> None:
    """Raise PlanError unless `columns`, given to the call `verb`, are one or more different field names."""
    for column in columns or (None,):
        if not (isinstance(column, str) and column) or columns.count(column) > 1:
            also = ", or one function of the record" if verb in ("key_by", "where") else ""
            names = "a field name" if verb == "where" else "one or more different field names"
            raise _refusal(verb, f"{column!r}; expected {names}{also}")


def path_uid(verb: str, path: object) -> str:
    """Return a uid made of call `verb` and its path or topics alone; another operator may have the same uid.

    Example:
        >>> path_uid("read_json", "in/*.jsonl.gz")
        'read_json:in-.jsonl.gz'
    """
    text = " ".join(map(str, path)) if isinstance(path, (list, tuple)) else str(path)
    words = "".join(c if c.isalnum() or c in "._-" else " " for c in text).split()
    return f"{verb}:{'-'.join(words)}"[:200]


def check_count(verb: str, count: object) -> None:
    """Raise PlanError unless `count`, the number of records that `verb` is to return, is an int above 0."""
    if isinstance(count, bool) or not isinstance(count, int) or count < 1:
        raise _refusal(verb, f"{count!r}; expected how many records, a whole number of at least 1")


def check_seconds(verb: str, seconds: object, zero: bool = False) -> None:
    """Raise PlanError unless `verb` got as `seconds` a limit above 0, None (no limit) or, with `zero`, 0."""
    if seconds is None or (
        isinstance(seconds, int | float)
        and not isinstance(seconds, bool)
        and (0 < seconds < threading.TIMEOUT_MAX or (zero and seconds == 0))
    ):
        return
    bound = "of at least 0" if zero else "above 0"
    raise PlanError(
        f"timeout_s of {verb}() ({user_site()}) is {seconds!r}; expected a number of seconds {bound}, or None"
    )


class made_by:  # noqa: N801 - reads as a function; as a generator it would run in a frame of contextlib
    """Context manager in which the stream call `verb` makes a connector. A UsageError about one of the
    connector's arguments is raised anew, with the call and the user's line in its text; other errors pass.
    """

    def __init__(self, verb: str) -> None:
        self._verb, self._site = verb, user_site()

    def __enter__(self) -> None: ...

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, UsageError):
            text = under_verb(str(error), self._verb, self._site)
            if text is not None:
                raise type(error)(text) from None


def under_verb(text: str, verb: str, site: str) -> str | None:
    """Return a connector's argument error, `text`, reworded to name stream call `verb` and its line, `site`.
    None for other errors.

    Example:
        >>> under_verb("csv_source got delimiter='ab'; expected one character", "read_csv", "job.py:3")
        "read_csv() (job.py:3) got delimiter='ab'; expected one character"
    """
    found = _CONNECTOR.match(text)
    return None if found is None else f"{verb}() ({site}){text[found.end() :]}"


def check_timestamp(timestamp: object) -> None:
    """Raise PlanError unless `timestamp` is a field name, or a function of one record that is not async."""
    if not (callable(timestamp) or (isinstance(timestamp, str) and timestamp)):
        raise PlanError(
            f"timestamp of with_event_time() ({user_site()}) is {timestamp!r}; expected the name of a "
            "field or a function of the record"
        )
    if callable(timestamp):
        refuse_arity(f"with_event_time() ({user_site()})", timestamp, "one record")
        refuse_unawaited("with_event_time", timestamp)


def check_peers(verb: str, others: tuple[object, ...], fits: Callable[[object], bool]) -> None:
    """Raise PlanError unless `verb` got one or more streams, `others`, for all of which `fits` is true."""
    if not others:
        raise _refusal(verb, "no stream; give it at least one")
    for other in others:
        if not fits(other):
            raise _refusal(verb, f"{type(other).__name__}; expected streams of the same Environment")


def check_job_name(name: object) -> None:
    """Raise PlanError unless a job's name is printable text that is not only spaces."""
    if not isinstance(name, str) or not name.strip() or not name.isprintable():
        raise PlanError(f"the job's name is {name!r}; expected printable text")
