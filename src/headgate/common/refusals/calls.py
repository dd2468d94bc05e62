"""Checks arguments of calls of the public API; a wrong one is refused with a sentence that says what fits.

The kinds of the arguments' values are checked before the call (`argument_types`). A refusal of any kind has
no frame of Headgate's own in its traceback: below the line of the program that called, there is only the
sentence.

All public names of a package get this in one place, so none is forgotten. Signatures, docstrings and names
stay as they are; a call that fits costs one more frame. What runs once per record is left out, and so is what
a program implements itself, because Headgate calls that.
"""

from __future__ import annotations

import difflib
import functools
import sys
import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import Enum
from types import FunctionType
from typing import TYPE_CHECKING, Any, Final, Generic, ParamSpec, TypeVar

from headgate.common.errors import HeadgateError, PlanError, UsageError
from headgate.common.refusals.users_frames import calling_line, is_standard_library, is_users_file

if TYPE_CHECKING:
    from inspect import Parameter

    from headgate.common.refusals.argument_types import Parameters

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")

_CHECKED: Final = "__headgate_checked__"
_PER_RECORD: Final = frozenset({"Row", "DataInputView", "DataOutputView"})
_ALSO_CALLED: Final[Mapping[str, str]] = {
    **dict.fromkeys(["interval", "period"], "every"),
    **dict.fromkeys(["dir", "directory", "checkpoint_dir"], "storage"),
    **dict.fromkeys(["func", "fn", "f"], "function"),
    **dict.fromkeys(["lateness", "max_out_of_orderness", "delay"], "out_of_orderness"),
    **dict.fromkeys(["on_errors", "errors"], "on_error"),
    "key_selector": "key",
    "paths": "path",
}
"""Names that other systems have for an argument."""


def check_calls(module: str, names: Iterable[str]) -> None:
    """Wrap the functions and classes called `names` in a loaded module, so that calls check their arguments.

    They are replaced in the module, of classes the methods; names of anything else are left as they are.
    """
    scope = vars(sys.modules[module])
    for name in names:
        thing = scope.get(name)
        if isinstance(thing, FunctionType):
            scope[name] = _in_place(thing)
        elif isinstance(thing, type):
            check_calls_of(thing)


def with_checked_calls(thing: T) -> T:
    """Wrap a function or class in place to check arguments, and return it; for those loaded at first use."""
    if isinstance(thing, FunctionType):
        checked: T = _in_place(thing)
        return checked
    if isinstance(thing, type):
        check_calls_of(thing)
    return thing


def check_calls_of(cls: type) -> None:
    """Wrap the public methods of a class and its bases in Headgate, in place, to check their arguments.

    Of abstract classes only constructors; exceptions, enums, structs, per-record classes stay as they are.
    """
    for each in cls.__mro__:
        if each.__module__.startswith("headgate") and _CHECKED not in vars(each) and not _left_out(each):
            type.__setattr__(each, _CHECKED, True)
            _check_own(each)


def called(verb: str, function: Callable[P, R]) -> Callable[P, R]:
    """Return `function` with checked arguments; errors call it `verb`, the method that passes options to it.

    Example:
        >>> called("write_json", lambda path, *, roll_bytes=0: None)("out", rol_bytes=5)
        Traceback (most recent call last):
        headgate.common.errors.PlanError: write_json() (...) takes no argument 'rol_bytes'; did you mean ...
    """
    return _Checked(verb, function, own=False)


def _check_own(cls: type) -> None:
    abstract = [name for name in getattr(cls, "__abstractmethods__", ()) if not name.startswith("_")]
    implemented = bool(abstract) or getattr(cls, "_is_protocol", False)
    for name, member in list(vars(cls).items()):
        bound = isinstance(member, (classmethod, staticmethod))
        function = member.__func__ if bound else member
        public = name == "__init__" or not (name.startswith("_") or implemented)
        if not public or not isinstance(function, FunctionType):
            continue
        verb = cls.__name__ if name == "__init__" else name
        wrapped = _wrapped(function, verb, own=not isinstance(member, staticmethod))
        type.__setattr__(cls, name, type(member)(wrapped) if bound else wrapped)


def _left_out(cls: type) -> bool:
    struct = hasattr(cls, "__struct_fields__")  # plain values that programs are given
    return issubclass(cls, (BaseException, Enum)) or struct or cls.__name__ in _PER_RECORD


def _in_place(function: FunctionType) -> Any:
    if hasattr(function, _CHECKED) or not function.__module__.startswith("headgate"):
        return function
    wrapped = _wrapped(function, function.__name__, own=False)
    setattr(wrapped, _CHECKED, True)
    home = vars(sys.modules[function.__module__])
    if home.get(function.__name__) is function:
        home[function.__name__] = wrapped
    return wrapped


def _wrapped(function: Callable[P, R], verb: str, *, own: bool) -> Callable[P, R]:
    checked = _Checked(verb, function, own=own)

    @functools.wraps(function)
    def call(*given: P.args, **named: P.kwargs) -> R:
        try:
            return checked(*given, **named)
        except (UsageError, KeyboardInterrupt) as error:
            if _is_all_ours(error):
                error.__traceback__ = None  # the program's own line and the message say everything
            raise

    return call


def _is_all_ours(error: BaseException) -> bool:
    files = (frame.f_code.co_filename for frame, _ in traceback.walk_tb(error.__traceback__))
    return not any(is_users_file(file) and not is_standard_library(file) for file in files)


class _Checked(Generic[P, R]):
    """Calls a function after checking its arguments; wrong ones: PlanError, or the function's own error."""

    def __init__(self, verb: str, function: Callable[P, R], *, own: bool) -> None:
        self._verb, self._function, self._own = verb, function, own

    def __call__(self, *given: P.args, **named: P.kwargs) -> R:
        wrong = self._parameters.wrong(given, named)
        if wrong is None:
            try:
                return self._function(*given, **named)
            except TypeError as error:
                # Without a frame below this one the function was not even entered.
                if error.__traceback__ is None or error.__traceback__.tb_next is not None:
                    raise
                refusal = self._misfit(given, named)
                if refusal is None:
                    raise
                raise refusal from None
        if (misfit := self._misfit(given, named)) is not None:
            raise misfit
        if not wrong.final:
            try:  # it may have a better message
                self._function(*given, **named)
            except HeadgateError:
                raise
            except Exception:  # noqa: S110 - the error below explains more
                pass
        raise self._refusal(wrong.text)

    @functools.cached_property
    def _parameters(self) -> Parameters:
        from headgate.common.refusals.argument_types import parameters_of

        return parameters_of(self._function)

    def _misfit(self, given: Sequence[object], named: Mapping[str, object]) -> PlanError | None:
        import inspect

        try:
            parameters = list(inspect.signature(self._function).parameters.values())[self._own :]
        except (TypeError, ValueError):  # something built in without a signature
            return None
        wrong = _wrong(parameters, given[self._own :], named)
        if wrong is None:
            return None
        takes = listed([p.name for p in parameters if p.kind is not p.VAR_KEYWORD]) or "no arguments"
        return self._refusal(wrong + (f" It takes {takes}" if wrong.endswith("?") else f"; it takes {takes}"))

    def _refusal(self, wrong: str) -> PlanError:
        line = calling_line()
        return PlanError(f"{self._verb}(){f' ({line})' if line else ''} {wrong}")


def _wrong(parameters: list[Parameter], given: Sequence[object], named: Mapping[str, object]) -> str | None:
    by_name = [p for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]
    by_place = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    known = [p.name for p in by_name]
    if not any(p.kind is p.VAR_KEYWORD for p in parameters):
        for name in named:
            if name not in known:
                return f"takes no argument {name!r}{_nearest(name, known)}"
    if len(given) > len(by_place) and not any(p.kind is p.VAR_POSITIONAL for p in parameters):
        count, only = len(by_place), [p.name for p in by_name if p.kind is p.KEYWORD_ONLY]
        by = f"; give {listed(only)} by name" if only else ""
        return f"takes {count or 'no'} argument{'s' * (count != 1)} by place, and got {len(given)}{by}"
    twice = [p.name for p in by_place[: len(given)] if p.name in named]
    if twice:
        return f"got {twice[0]!r} twice, by place and by name"
    still_open = [*by_place[len(given) :], *(p for p in by_name if p.kind is p.KEYWORD_ONLY)]
    missing = [p.name for p in still_open if p.default is p.empty and p.name not in named]
    return f"is called without {listed([repr(name) for name in missing])}" if missing else None


def _nearest(name: str, known: list[str]) -> str:
    if not known:
        return ""
    other = _ALSO_CALLED.get(name)
    nearest = other if other in known else difflib.get_close_matches(name, known, n=1, cutoff=0.0)[0]
    return f"; did you mean {nearest!r}?"


def listed(names: list[str]) -> str:
    """Return names as words of a sentence, with commas and, before the last, "and"; "" if there are none."""
    return " and ".join(filter(None, [", ".join(names[:-1]), names[-1]])) if names else ""
