"""Operators with a broadcast input: a second input whose records every subtask receives.
Each input has its own batches. While a keyed operator fires due timers in slices, it reads neither input.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import Final, TypeVar, cast

from headgate.api.broadcast import (
    BroadcastProcessFunction,
    KeyedBroadcastContext,
    KeyedBroadcastProcessFunction,
)
from headgate.common.keys.key_types import DeclaredKeys
from headgate.common.ports import Clock
from headgate.graph.logical import Side
from headgate.records.batch import Batch
from headgate.records.selectors import KeySelector
from headgate.runtime.job.operator_context import OperatorContext
from headgate.runtime.job.user_errors import user_error
from headgate.runtime.worker.operators.broadcast_side import KeyedSides, TwoSidedState, refuse_keyless
from headgate.runtime.worker.operators.function_state import FunctionState
from headgate.runtime.worker.operators.keyed_context import KeyContext, KeyedOutput
from headgate.runtime.worker.operators.keyed_operator import KeyedProcessOperator
from headgate.runtime.worker.operators.operator_contract import R
from headgate.runtime.worker.operators.outputs import SideBuffer, checked_outputs
from headgate.runtime.worker.operators.stateless import ProcessOperator

_NO_KEY: Final = object()
S = TypeVar("S")


class BroadcastProcessOperator(ProcessOperator):
    """Runs a `BroadcastProcessFunction`: a function without keys and with a broadcast input."""

    _state_type: type[FunctionState] = TwoSidedState
    _state: TwoSidedState

    def __init__(self, context: OperatorContext, function: BroadcastProcessFunction) -> None:
        super().__init__(context, function)
        self._process_broadcast = function.process_broadcast

    def entry(self, side: Side) -> Callable[[Batch], int]:
        return self.broadcast_some if side is Side.BROADCAST else self.process_some

    def broadcast_some(self, batch: Batch) -> int:
        with self._state.broadcast_side():
            self._call(batch, self._process_broadcast)
        return len(batch)


class KeyedBroadcastProcessOperator(KeyedProcessOperator):
    """Runs a `KeyedBroadcastProcessFunction`: a keyed function that has a broadcast input, too."""

    _state_type: type[FunctionState] = TwoSidedState
    _own: TwoSidedState

    def __init__(
        self,
        context: OperatorContext,
        function: KeyedBroadcastProcessFunction,
        key: KeySelector,
        keys: DeclaredKeys | None = None,
    ) -> None:
        super().__init__(context, function, key, keys)
        self._process_broadcast = function.process_broadcast
        self._broadcast_ctx = BroadcastSideContext(self._side, context.clock, context.label, self)

    def open(self) -> None:
        # `process_broadcast` gets the same timers.
        super().open()
        self._keyed_sides = KeyedSides(self._function, self._backend.handles)
        timers = self._broadcast_ctx.timers
        timers.event, timers.processing = self._timers.event, self._timers.processing

    def entry(self, side: Side) -> Callable[[Batch], int]:
        return self.broadcast_some if side is Side.BROADCAST else self.process_some

    def broadcast_some(self, batch: Batch) -> int:
        """Process broadcast records until due timers exceed a slice; return how many. InternalError: busy."""
        return self._run(batch, _BroadcastRun)

    def apply_to_all_keys(self, state: S, function: Callable[[Hashable, S], Iterable[R] | None]) -> list[R]:
        """Call `function(key, state)` for each key of this subtask in `state`; return the outputs of all
        calls. Keyed state may be used in the calls. Raises TypeError: `state` is no keyed state of the
        function, or `function` returns a single record or calls this again.
        """
        outputs: list[R] = []
        ctx = self._broadcast_ctx
        with self._keyed_sides.every_key(state) as name:
            handle = self._backend.handles[name]
            try:
                for key in self._backend.keys(name):
                    ctx.key = key
                    outputs.extend(self._called(function, key, handle))
            finally:
                ctx.key = _NO_KEY
        return outputs

    def _called(
        self, function: Callable[[Hashable, S], Iterable[R] | None], key: Hashable, handle: S
    ) -> list[R]:
        for bound in self._bound:
            bound.bind(key)
        for eager in self._eager:
            eager.load(key)
        try:
            result = function(key, handle)
            giver = "the function of apply_to_all_keys()"
            return [] if result is None else list(checked_outputs(result, giver))
        except BaseException as error:
            error.add_note(f"apply_to_all_keys() was at key {key!r}")
            raise
        finally:
            # Also after an error that process_broadcast() catches: other kinds of state keep their changes.
            for eager in self._eager:
                eager.store()


class BroadcastSideContext(KeyContext):
    """The context that `process_broadcast()` gets: an `api.broadcast.KeyedBroadcastContext`."""

    __slots__ = ("_current", "_operator")

    def __init__(
        self, side: SideBuffer, clock: Clock, label: str, operator: KeyedBroadcastProcessOperator
    ) -> None:
        super().__init__(side, clock, label)
        self._operator, self._current = operator, _NO_KEY

    @property
    def key(self) -> Hashable:
        """The key for which `apply_to_all_keys` calls its function now; RuntimeError out of such a call."""
        if self._current is _NO_KEY:
            refuse_keyless("the key (also of a timer)")
        return self._current

    @key.setter
    def key(self, key: Hashable) -> None:
        self._current = key

    def apply_to_all_keys(self, state: S, function: Callable[[Hashable, S], Iterable[R] | None]) -> list[R]:
        return self._operator.apply_to_all_keys(state, function)


class _BroadcastRun:
    """Callable for a broadcast batch: processes records `start` to `stop` - 1, or until a timer is due."""

    __slots__ = ("_marks", "_operator", "_origins", "_out", "_rows", "_times")

    def __init__(
        self,
        operator: KeyedBroadcastProcessOperator,
        batch: Batch,
        out: KeyedOutput,
        origins: list[int],
        times: Iterable[int] | None,
        marks: Iterable[int] | None,
    ) -> None:
        self._operator, self._out, self._origins = operator, out, origins
        self._rows, self._times = batch.rows(), None if times is None else [*map(int, times)]
        self._marks = None if marks is None else [*map(int, marks)]

    def __call__(self, start: int, stop: int) -> int:
        operator = self._operator
        with operator._own.broadcast_side(), operator._keyed_sides.broadcast_side():
            for index in range(start, stop):
                try:
                    self._record(index)
                except BaseException as error:
                    raise user_error(operator.context, error, self._rows[index]) from None
                if self._marks is not None and operator._timers.event.interrupt:
                    return index + 1
        return stop

    def _record(self, index: int) -> None:
        operator, records = self._operator, self._out.records
        ctx, mark = operator._broadcast_ctx, operator._mark
        ctx.timestamp = None
        if self._times is not None and self._marks is not None:
            ctx.timestamp, mark = self._times[index], self._marks[index]
        ctx.timers.current_watermark = operator._timers.current_watermark = mark
        before = len(records)
        result = operator._process_broadcast(self._rows[index], cast(KeyedBroadcastContext, ctx))
        if result is not None:
            records.extend(checked_outputs(result))
            if self._times is not None:
                self._origins.extend([index] * (len(records) - before))
