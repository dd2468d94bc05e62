"""Mistakes that Python would tell in its own words, told in the program's.

Keys that cannot be keys, times that are not there, and keyed state where no key is.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any, Final, NoReturn, TypeVar

from headgate.api.functions import RichFunction
from headgate.common.errors import HeadgateError, PlanError, UsageError
from headgate.common.keys.keygroups import key_hash
from headgate.common.process.interruptions import let_pass
from headgate.common.refusals.users_frames import calling_line
from headgate.records.batch import Batch
from headgate.records.row_batch import field_getter
from headgate.records.selectors import KeySelector
from headgate.runtime.job.operator_context import OperatorContext, placed, shorten, user_error
from headgate.runtime.worker.operators.operator_contract import R, V, give_handles

T = TypeVar("T")
Live = TypeVar("Live")

NO_EVENT_TIME: Final = (
    "the stream has no event time, so ctx.timestamp is None; call with_event_time() before key_by(), "
    "or use processing time"
)


def with_event_time_hint(error: BaseException, timestamp: int | None) -> BaseException:
    """The error of a function, which says so where it may have reckoned with a time that is not there.

    `error`: what the function raised; `timestamp`: what `ctx.timestamp` was.
    """
    if timestamp is None and type(error) is TypeError and "NoneType" in str(error):
        error.args = (f"{NO_EVENT_TIME} ({error})",)
    return error


def keys_blamed(context: OperatorContext, batch: Batch, selector: KeySelector, compute: Callable[[], T]) -> T:
    """`compute()`, which reads the keys of a batch; should a record have none, that record is named.

    Raises UsageError: what the selector gives is no key; UserFunctionError: it raised.
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
    for record in batch.rows():  # not while the first error is handled, or it would be told twice
        try:
            field_getter(selector, record)(record)
        except BaseException as error:
            raise user_error(context, error, record) from None
    raise first


def refuse_keys(context: OperatorContext, selector: KeySelector, records: Iterable[R]) -> None:
    """Look for a record whose key is none. Raises UsageError: there is one; names the selector."""
    for record in records:
        refusal = not_a_key(context, selector, record)
        if refusal is not None:
            raise refusal from None


def not_a_key(context: OperatorContext, selector: KeySelector, record: R) -> UsageError | None:
    """Why the key of a record is none, naming who gave it; None: it is a key."""
    key = field_getter(selector, record)(record)
    try:
        hash(key)
        key_hash(key)
    except (TypeError, UsageError) as error:
        listed = "; give a tuple instead" if isinstance(key, list) else ""
        expected = f"expected int, str, bytes, bool, float, datetime, date, UUID, or a tuple of these{listed}"
        why = str(error) if isinstance(error, UsageError) else expected
        return UsageError(
            f"the key selector of {context.label}, {_told(selector)}, gave {shorten(key)} of type "
            f"{type(key).__name__} for record {shorten(record)}, which cannot be a key: {why}"
        )
    return None


def _told(selector: KeySelector) -> str:
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
    """Under `with` the keyed states of a function are refused: what it wrote would belong to no key.

    Whoever keeps such a state, or a method of it, from then has the live one afterwards. A refusal that the
    function catches, or that ends another thread, is raised at the end.

    Args:
        context: of the operator.
        function: the program's.
        handles: its live states by name.
        method: which of its methods is called under `with`: "open" or "close".
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
    """Shut while there is no key."""

    def __init__(self, context: OperatorContext, method: str) -> None:
        self._label, self._method, self.open = context.label, method, False
        self.refusal: PlanError | None = None

    def refuse(self, name: str) -> NoReturn:
        """There is no key."""
        self.refusal = self.refusal or PlanError(
            f"{self._label} uses its keyed state {name!r} in {self._method}() ({calling_line()}), "
            f"{_WHY[self._method]}"
        )
        raise self.refusal


class _KeyedStateToBe:
    """Stands for a live state from `open()` on, and is it afterwards."""

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
