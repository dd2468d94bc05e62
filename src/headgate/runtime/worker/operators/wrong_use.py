"""Reports mistakes of user code in the program's words instead of Python's.

These are values that cannot be keys, missing event time, and keyed state where there is no key.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any, Final, NoReturn, TypeVar

from headgate.api.functions import RichFunction
from headgate.common.errors import HeadgateError, PlanError, UsageError
from headgate.common.keys.keygroups import ALLOWED_KEYS, key_hash
from headgate.common.process.process_exceptions import let_pass
from headgate.common.refusals.users_frames import calling_line
from headgate.records.batch import Batch
from headgate.records.row_batch import field_getter
from headgate.records.selectors import KeySelector
from headgate.runtime.job.operator_context import OperatorContext
from headgate.runtime.job.user_errors import placed, shorten, user_error
from headgate.runtime.worker.operators.operator_contract import R, V, give_handles

T = TypeVar("T")
Live = TypeVar("Live")

NO_EVENT_TIME: Final = (
    "the stream has no event time, so ctx.timestamp is None; call with_event_time() before key_by(), "
    "or use processing time"
)


def with_event_time_hint(error: BaseException, timestamp: int | None) -> BaseException:
    """Put a hint into `error`, in place, if it may come from a missing event time; return `error`.
    That is a TypeError about None, where `timestamp` (of the record, in ms) is None.
    """
    if timestamp is None and type(error) is TypeError and "NoneType" in str(error):
        error.args = (f"{NO_EVENT_TIME} ({error})",)
    return error


def keys_blamed(context: OperatorContext, batch: Batch, selector: KeySelector, compute: Callable[[], T]) -> T:
    """Return the result of `compute`, which reads the keys of `batch`; if it raises, name the record.
    Raises UsageError if a result of the selector cannot be a key; UserFunctionError if the selector raised.
    """
    try:
        return compute()
    except UsageError as error:
        try:
            refuse_keys(context, selector, batch.rows())
        except UsageError as refusal:
            raise placed(context, refusal) from None
        raise placed(context, error) from None
    except HeadgateError:
        raise
    except BaseException as raised:
        let_pass(raised)
        first = raised
    for record in batch.rows():  # not while the first error is handled, or it would be reported twice
        try:
            field_getter(selector, record)(record)
        except BaseException as error:
            raise user_error(context, error, record) from None
    raise first


def refuse_keys(context: OperatorContext, selector: KeySelector, records: Iterable[R]) -> None:
    """Raise UsageError, with selector and record, if the selector's result for a record cannot be a key."""
    for record in records:
        key = field_getter(selector, record)(record)
        try:
            hash(key)
            key_hash(key)
        except (TypeError, UsageError) as error:
            listed = "; give a tuple instead" if isinstance(key, list) else ""
            why = str(error) if isinstance(error, UsageError) else f"expected {ALLOWED_KEYS}{listed}"
            raise UsageError(
                f"the key selector of {context.label}, {_name_of(selector)}, gave {shorten(key)} of type "
                f"{type(key).__name__} for record {shorten(record)}, which cannot be a key: {why}"
            ) from None


def _name_of(selector: KeySelector) -> str:
    if isinstance(selector, str):
        return f"key_by({selector!r})"
    if isinstance(selector, tuple):
        return f"key_by({', '.join(map(repr, selector))})"
    code = getattr(selector, "__code__", None)
    name = getattr(selector, "__name__", None) or repr(selector)
    return name if code is None else f"{name} ({code.co_filename}:{code.co_firstlineno})"


@contextmanager
def without_key(
    context: OperatorContext, function: RichFunction, handles: Mapping[str, Live], method: str
) -> Iterator[None]:
    """Refuse (PlanError) the use of a function's keyed states in the `with` block, which calls its `method`.
    `method` is "open" or "close"; `handles` are the states by name. References that the function has kept
    work afterwards. A refusal that was caught, or raised in another thread, is raised again at the end.
    """
    gate = _Gate(context, method)
    give_handles(function, {name: _KeyedStateToBe(gate, name, handle) for name, handle in handles.items()})
    try:
        yield
    finally:
        gate.open = True
        give_handles(function, handles)
    if gate.refusal is not None:
        raise gate.refusal


_WHY: Final = {
    "open": (
        "where there is no key yet, so it would be lost; use it in process() or on_timer(), or declare "
        "operator state, which open() may change"
    ),
    "close": (
        "where there is no key any more and nothing is stored, so it would be lost; use it in process() or "
        "on_timer()"
    ),
}


class _Gate:
    """Refuses keyed states while `open` is False; `refusal` is the first PlanError that it has raised."""

    def __init__(self, context: OperatorContext, method: str) -> None:
        self._label, self._method, self.open = context.label, method, False
        self.refusal: PlanError | None = None

    def refuse(self, name: str) -> NoReturn:
        self.refusal = self.refusal or PlanError(
            f"{self._label} uses its keyed state {name!r} in {self._method}() ({calling_line()}), "
            f"{_WHY[self._method]}"
        )
        raise self.refusal


class _KeyedStateToBe:
    """Takes the place of a keyed state where there is no key; afterwards it forwards to the state."""

    __slots__ = ("_gate", "_live", "_name")

    def __init__(self, gate: _Gate, name: str, live: Live) -> None:
        for slot, value in zip(("_gate", "_name", "_live"), (gate, name, live), strict=True):
            object.__setattr__(self, slot, value)

    def _demand(self) -> Any:
        if not self._gate.open:
            self._gate.refuse(self._name)
        return self._live

    def __getattr__(self, asked: str) -> Any:
        if self._gate.open or not callable(getattr(type(self._live), asked, None)):
            return getattr(self._demand(), asked)
        return partial(self._called, asked)

    def _called(self, asked: str, *arguments: V, **named: V) -> Any:
        method: Callable[..., Any] = getattr(self._demand(), asked)
        return method(*arguments, **named)

    def __setattr__(self, asked: str, value: V) -> None:
        setattr(self._demand(), asked, value)

    def __contains__(self, key: Hashable) -> bool:
        return key in self._demand()

    def __iter__(self) -> Iterator[Hashable]:
        return iter(self._demand())

    def __len__(self) -> int:
        return len(self._demand())

    def __getitem__(self, key: Hashable) -> Any:
        return self._demand()[key]

    def __setitem__(self, key: Hashable, value: V) -> None:
        self._demand()[key] = value

    def __delitem__(self, key: Hashable) -> None:
        del self._demand()[key]
