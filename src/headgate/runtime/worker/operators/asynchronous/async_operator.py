"""The operator of an asynchronous function: carries out what `core.async_requests` decides."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Any

from headgate.api.declared.operator_state import declared_operator_state
from headgate.api.streams.async_calls import IN_FLIGHT, AsyncCalls
from headgate.api.windows.window_states import Storable, record_of
from headgate.common.errors import InternalError
from headgate.common.retries import Retries
from headgate.common.time import WATERMARK_MAX, format_ms
from headgate.core.async_requests import REPLACEMENT, AsyncRequests, Expire, Request, Rules
from headgate.core.async_results import Border
from headgate.core.marks import NO_EPOCH, Mark
from headgate.records.batch import Batch
from headgate.records.row import Row
from headgate.records.row_batch import RowBatch
from headgate.runtime.job.event_loops import Ended, EventLoop, Made
from headgate.runtime.job.operator_context import OperatorContext
from headgate.runtime.job.user_errors import NoRecord, user_error
from headgate.runtime.worker.operators.asynchronous.awaited_calls import Calls
from headgate.runtime.worker.operators.asynchronous.leaving import InFlight, Leaving, copied, in_flight_of
from headgate.runtime.worker.operators.function_state import FunctionState
from headgate.runtime.worker.operators.operator_contract import Operator, PendingState, StateTypes


class AsyncOperator(Operator):
    """Calls an asynchronous function for many records at once, in an event loop of the subtask's own.

    Records whose results have not left are operator state: after a restore they are called for again.
    """

    def __init__(self, context: OperatorContext, settings: AsyncCalls) -> None:
        super().__init__(context)
        self._settings = settings = settings.of_a_subtask()
        self._requests: AsyncRequests[InFlight] = AsyncRequests(_rules(settings))
        self._calls = Calls(settings)
        self._storable = Storable(settings.record_type, f"{context.label}, while a record is called for,")
        self._stored_as: Any = declared_operator_state(settings)[IN_FLIGHT].types[0]
        self._ended: deque[Ended] = deque()
        self._restored: deque[InFlight] = deque()
        self._to_start: list[tuple[tuple[int, int], Made]] = []
        self._loop: EventLoop | None = None
        self._repeated_after = () if settings.retry is None else settings.retry.on

    def open(self) -> None:
        context = self.context
        self._now_ms = context.clock.monotonic_ms
        self._state = FunctionState(context, self._settings)
        self._kept = self._state.handles[IN_FLIGHT]
        self._leaving = Leaving(self.next, ordered=self._settings.ordered)
        if context.event_loop is None:
            raise InternalError(f"{context.label} was given no event loop; please report this")
        self._loop = context.event_loop(f"{context.uid}-{context.subtask}", self._ended.extend)
        if (opening := self._calls.open(context)) is not None:
            self._loop.run(opening)
        for record, was_row, timestamp in self._kept.get():
            self._restored.append(InFlight(record_of(record, was_row), timestamp, None))
        self._kept.clear()
        self._admit_restored()

    @property
    def waits(self) -> bool:
        """Whether no input may be taken: too much is in flight, event time ends, or a barrier comes next."""
        return self._requests.full or self._requests.sealed or bool(self._restored)

    @property
    def busy(self) -> bool:
        """Whether :meth:`go_on` has something to do: calls have ended, or are due."""
        if self._ended or self._requests.ready or (self._restored and not self._requests.full):
            return True
        due = self._requests.due()
        return due is not None and due <= self._now_ms()

    def next_wakeup(self) -> int | None:
        return self._requests.due()

    def process_some(self, batch: Batch) -> int:
        piece = batch.slice(0, self._requests.room)
        if isinstance(piece, RowBatch) and not isinstance(piece.records[0], Row):
            self._storable.check(piece.records)  # refused now, not at some checkpoint
        self._admit(in_flight_of(piece))
        return len(piece)

    def process(self, batch: Batch) -> None:
        raise InternalError(f"{self.context.label} is not the head of its chain; please report this")

    def watermark(self, timestamp: int) -> None:
        self._border(Border(timestamp, "watermark", seals=timestamp == WATERMARK_MAX))

    def idle(self) -> None:
        self._border(Border(None, "idle"))

    def mark(self, mark: Mark) -> None:
        # One without an epoch goes ahead of a barrier, and says that all before the barrier has been sent.
        self._border(Border(mark, seals=mark.epoch == NO_EPOCH))

    def go_on(self) -> None:
        now = self._now_ms()
        while self._ended:
            self._note(self._ended.popleft(), now)
        for effect in self._requests.tick(now):
            if isinstance(effect, Expire):
                self._expire(effect.request)
            else:
                self._call(effect.request)
        self._leaving.all_of(self._requests.take)
        self._admit_restored()

    def _border(self, border: Border) -> None:
        self._requests.border(border)
        self._leaving.all_of(self._requests.take)

    def _admit_restored(self) -> None:
        room = self._requests.room
        self._admit([self._restored.popleft() for _ in range(min(room, len(self._restored)))])

    def _admit(self, records: Iterable[InFlight]) -> None:
        now = self._now_ms()
        for record in records:
            self._call(self._requests.admit(record, now))
        self._start()

    # -- calls

    def _call(self, request: Request[InFlight]) -> None:
        call = self._calls.of(copied(request.record.record), request.attempt)
        self._to_start.append(((request.number, request.attempt), call))

    def _expire(self, request: Request[InFlight]) -> None:
        assert self._loop is not None
        self._loop.cancel([(request.number, request.attempt)])
        if not self._calls.can_replace:
            raise user_error(self.context, TimeoutError(self._too_late(request)), request.record.record)
        call = self._calls.of(copied(request.record.record), REPLACEMENT)
        self._to_start.append(((request.number, REPLACEMENT), call))

    def _start(self) -> None:
        if self._to_start:
            assert self._loop is not None
            calls, self._to_start = self._to_start, []
            self._loop.start(calls)

    def _note(self, ended: Ended, now: int) -> None:
        (number, attempt), answer, error = ended
        if number == 0:
            raise user_error(self.context, ended.error or RuntimeError(), NoRecord("in the event loop"))
        if error is not None:
            again = isinstance(error, self._repeated_after)
            failed = self._requests.failed(number, attempt, now, repeat=again)
            if failed is not None:
                raise user_error(self.context, error, failed.record.record) from None
        else:
            self._requests.answered(number, attempt, answer.outputs, now, wrong=answer.wrong)

    def _too_late(self, request: Request[InFlight]) -> str:
        settings, tries = self._settings, request.attempt
        after = "" if tries == 1 else f" in {tries} attempts"
        return (
            f"no answer within {format_ms(settings.timeout_ms or 0)}{after}, the timeout of the call at "
            f"{settings.site}; raise timeout=, or say with on_timeout= what is to stand for the answer"
        )

    # -- state

    def snapshot(self, checkpoint: int) -> PendingState | None:
        waiting = [*self._requests.records(), *self._restored]
        held = self._storable.held
        self._kept.update(self._stored_as(*held(each.record), each.timestamp) for each in waiting)
        try:
            return self._state.snapshot(None)
        finally:
            self._kept.clear()

    def state_types(self) -> StateTypes:
        return self._state.state_types()

    def close(self) -> None:
        loop, self._loop = self._loop, None
        if loop is not None:
            loop.close(self._calls.close)


def _rules(settings: AsyncCalls) -> Rules:
    said = settings.retry
    again = (
        Retries() if said is None else Retries(said.attempts, said.delay_ms, said.factor, said.delay_max_ms)
    )
    return Rules(settings.capacity, settings.timeout_ms, settings.ordered, again)
