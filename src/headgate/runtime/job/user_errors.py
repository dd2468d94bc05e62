"""Reports errors of user code with operator, record and line.

Every exception out of a function of the program passes through :func:`user_error`: in :func:`blamed`, or
where the operators call the function.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Final

from headgate.common.errors import (
    ConfigError,
    HeadgateError,
    NoEntryError,
    PlanError,
    UsageError,
    UserFunctionError,
)
from headgate.common.keys.key_text import key_text
from headgate.common.process.process_exceptions import is_about_the_process, let_pass
from headgate.common.refusals.users_frames import is_standard_library, users_line, users_traceback
from headgate.runtime.job.operator_context import OperatorContext
from headgate.runtime.job.public_names import say_public_names

_KEY_CHARS_MAX: Final = 1_000
"""Of a longer key an error does not say the text, which nobody would type."""


def user_error(
    context: OperatorContext, error: BaseException, record: object, key: Hashable = None
) -> BaseException:
    """Return the error to raise instead of `error`, which user code raised while it handled `record`, of the
    key `key` (None: of none).
    It names operator, record and the user's line: a UserFunctionError or, for a wrong use of Headgate, an
    error of the same class (:func:`placed`). Returned as they are: Headgate's other errors, and errors that
    end the process, such as KeyboardInterrupt by Ctrl-C.
    """
    if is_about_the_process(error):
        return error
    if isinstance(error, HeadgateError):
        return placed(context, error, record)
    say_public_names(error)
    trace, line = users_traceback(error), users_line(error) or ""
    kind = type(error).__name__
    return UserFunctionError(
        context.label, shorten(record), trace, context.attempt, kind, line, context.uid, _text_of(key)
    )


def _text_of(key: Hashable) -> str:
    if key is None:
        return ""
    try:
        text = key_text(key)
    except UsageError:  # a class of the program's own; it is not asked for by its key
        return ""
    return text if len(text) <= _KEY_CHARS_MAX else ""


def placed(context: OperatorContext, error: HeadgateError, record: object = None) -> HeadgateError:
    """Return an error of wrong use with operator, line and record (None: no record) put before its text.
    Unchanged: errors that name an operator, or are no UsageError, PlanError, ConfigError or NoEntryError.
    """
    text = str(error)
    if type(error) not in _REFUSALS or "operator '" in text:
        return error
    line = users_line(error)
    at = f" for record {shorten(record)}" if record is not None else ""
    return type(error)(f"{context.label}{f' ({line})' if line else ''}{at}: {text}").with_traceback(
        error.__traceback__
    )


_REFUSALS: Final = (UsageError, PlanError, ConfigError, NoEntryError)


class NoRecord(str):
    """What user code did (such as "in open()") when it raised without a record; shown instead of a record."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"none ({self})"


def timer_error(
    context: OperatorContext, error: BaseException, key: Hashable, timestamp: int
) -> BaseException:
    """Return :func:`user_error`'s for a timer of `key` at `timestamp` (ms)."""
    return user_error(context, error, NoRecord(f"timer of key {key!r} at {timestamp}"), key)


@contextmanager
def blamed(context: OperatorContext, doing: str) -> Iterator[None]:
    """Run the `with` block, which calls user or connector code, and report its errors with the operator.
    One with a frame of such code becomes :func:`user_error`'s, with what it was `doing`; others pass as is.
    """
    try:
        yield
    except BaseException as error:
        if not has_user_frame(error.__traceback__):
            raise
        raise user_error(context, error, NoRecord(doing)) from None


def has_user_frame(trace: TracebackType | None) -> bool:
    while trace is not None:
        name = trace.tb_frame.f_code.co_filename
        module = trace.tb_frame.f_globals.get("__name__", "")
        ours = name.startswith("<headgate") or module.startswith("headgate.")
        if not ours and not is_standard_library(name):
            return True
        trace = trace.tb_next
    return False


def shorten(value: object, limit: int = 300) -> str:
    """Return the `repr` of a value, cut to `limit` characters; if it fails, a text that says with what."""
    try:
        text = repr(value)
    except BaseException as error:
        let_pass(error)
        text = f"<{type(value).__name__}, whose repr raised {type(error).__name__}>"
    return text if len(text) <= limit else f"{text[: limit - 3]}..."
