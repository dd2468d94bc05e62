"""Calls a keyed function for the records of one batch, by the generated loop that fits its operator."""

from __future__ import annotations

import sys
from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from headgate.api.broadcast import KeyedBroadcastProcessFunction
from headgate.api.functions import KeyedProcessFunction
from headgate.records.arrow_batch import ArrowBatch
from headgate.records.batch import Batch
from headgate.records.selectors import KeySelector
from headgate.runtime.job.operator_context import OperatorContext
from headgate.runtime.job.user_errors import has_user_frame, user_error
from headgate.runtime.worker.operators.keyed_context import KeyContext, KeyedOutput, Timers
from headgate.runtime.worker.operators.keyed_loop import LoopShape, compile_keyed_loop
from headgate.runtime.worker.operators.keyed_state import EagerHandle
from headgate.runtime.worker.operators.outputs import checked_kind
from headgate.runtime.worker.operators.seen_key_types import KeyTypes
from headgate.runtime.worker.operators.wrong_use import refuse_keys, with_event_time_hint
from headgate.state.backend import KeyedBackend, StateHandle
from headgate.state.changelog.change_tracking import TrackedStore
from headgate.state.undo.journal import Journal

if TYPE_CHECKING:
    from headgate.records.batch import Int64s


class Keyed(Protocol):
    """The operator whose function is called."""

    context: OperatorContext
    _function: KeyedProcessFunction | KeyedBroadcastProcessFunction
    _key: KeySelector
    _key_types: KeyTypes
    _ctx: KeyContext
    _timers: Timers
    _backend: KeyedBackend
    _eager: list[EagerHandle]
    _bound: list[StateHandle]
    _journal: Journal | None


class KeyedRun:
    """Calls the user's function for records of one batch, by the generated loop that fits the operator.
    Made for each batch. A call processes records from `start` on, until `stop` or until one makes a timer
    due. Outputs go to `out`, the index of each output's record to `origins`. `times` and `marks` are the
    records' timestamps and watermarks (ms), None without event time; `keys` are the records' keys if known.
    """

    __slots__ = ("_arguments", "_at", "_loop", "_operator", "_out", "_rest", "_row_class", "_rows")

    guarded = False  # whether it goes on after a record that fails

    def __init__(
        self,
        operator: Keyed,
        batch: Batch,
        out: KeyedOutput,
        origins: list[int],
        times: Int64s | None,
        marks: Int64s | None,
        keys: Sequence[Hashable] | None = None,
    ) -> None:
        columnar = isinstance(batch, ArrowBatch)
        eager, bound = operator._eager, operator._bound
        keeps_changes = any(isinstance(handle, TrackedStore) for handle in eager)
        shape = LoopShape(len(eager), len(bound), columnar, times is not None, keeps_changes, self.guarded)
        self._operator, self._out = operator, out
        self._rows = batch.views() if isinstance(batch, ArrowBatch) else batch.rows()
        self._loop = compile_keyed_loop(shape)
        self._at: list[Any] = [0, 0, operator._journal]
        if keys is None:
            keys = operator._key_types.keys_of(batch, operator._key)
        operator._backend.prefetch(keys)
        at = (None, None) if times is None or marks is None else (times.tolist(), marks.tolist())
        called = operator._ctx, operator._timers, operator._timers.event, operator._function.process
        self._arguments = (keys, self._rows, *at, *called)
        self._row_class = batch.row_class() if isinstance(batch, ArrowBatch) else None
        self._rest = (origins, eager, bound, self._row_class, sys.getrefcount, checked_kind, self._at)

    def __call__(self, start: int, stop: int) -> int:
        """Process records `start` to `stop` - 1, fewer if one makes a timer due; return the next record's
        index. Raises UserFunctionError if user code raises, UsageError if a record's key cannot be a key.
        """
        operator = self._operator
        fresh: list[Any] = []
        try:
            position = self._loop(start, stop, *self._arguments, fresh, *self._rest)
        except BaseException as error:
            record = self._record(self._at[0])
            if isinstance(error, TypeError) and not has_user_frame(error.__traceback__):
                refuse_keys(operator.context, operator._key, (record,))
            with_event_time_hint(error, operator._ctx.timestamp)
            keys = self._arguments[0]
            raise user_error(operator.context, error, record, keys[self._at[0]]) from None
        self._out.records.extend(fresh)
        return position

    def _record(self, index: int) -> Any:
        if self._row_class is None:
            return self._rows[index]  # type: ignore[index]
        row = self._row_class()
        row._c, row._i = self._rows, index
        return row
