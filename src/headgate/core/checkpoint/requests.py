"""Which requested checkpoint may start now: the preconditions in their order, each with its reason.

Policy only: it decides by the times and counts that the caller passes in, and starts nothing itself.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Final

from headgate.common.errors import ConfigError
from headgate.core.checkpoint.effects import RequestKind
from headgate.core.checkpoint.failures import CheckpointFailureReason as Reason
from headgate.core.checkpoint.queue import QUEUED_MAX as QUEUED_MAX
from headgate.core.checkpoint.queue import Request, RequestQueue
from headgate.core.checkpoint.retention import RETAIN_ALWAYS, Discards
from headgate.core.checkpoint.schedule import PeriodicSchedule

_LOWEST: Final = {
    "interval_ms": 1,
    "min_pause_ms": 0,
    "max_concurrent": 1,
    "timeout_ms": 1,
    "tolerable_failures": 0,
    "num_retained": 1,
    "final_retry_ms": 0,
}


@dataclass(frozen=True, slots=True)
class CheckpointSettings:
    """A job's checkpoint settings: interval, pause, limits, timeout, retention; ConfigError if one is low."""

    interval_ms: int | None = None  # between periodic triggers; None: none. Raised to `min_pause_ms`
    min_pause_ms: int = 0  # between a completion and the next periodic trigger
    max_concurrent: int = 1  # pending checkpoints at a time
    timeout_ms: int = 600_000  # from its beginning (before its hooks) to the last acknowledgement
    tolerable_failures: int = 0  # counted failures in a row that do not fail the job
    num_retained: int = 1  # completed checkpoints kept
    final_retry_ms: int = 1_000  # pause before a failed final checkpoint is tried again
    retention: Discards = RETAIN_ALWAYS

    def __post_init__(self) -> None:
        for name, lowest in _LOWEST.items():
            value = getattr(self, name)
            if value is not None and value < lowest:
                raise ConfigError(f"checkpoint setting {name} is {value}; expected at least {lowest}")

    @property
    def period_ms(self) -> int | None:
        """Interval of periodic checkpoints, at least the minimum pause; None: no periodic checkpoints."""
        return None if self.interval_ms is None else max(self.interval_ms, self.min_pause_ms)


@dataclass(frozen=True, slots=True)
class Load:
    """What is in progress: checkpoints, hooks of one (`preparing`), file deletions (`cleaning`)."""

    pending: int = 0  # checkpoints and savepoints
    preparing: bool = False  # one of them still runs its hooks
    cleaning: int = 0  # deletions in progress
    last_completion_ms: int | None = None  # in this attempt; None before the first


class Requests:
    """The requests of a job that have not started; priority savepoint > final > manual > periodic."""

    __slots__ = ("_final_at_ms", "_final_requested", "_queue", "_schedule", "_settings", "_stopping")

    def __init__(self, settings: CheckpointSettings, uniform: Callable[[float, float], float]) -> None:
        self._settings = settings
        self._schedule = PeriodicSchedule(settings.period_ms, settings.min_pause_ms, uniform)
        self._queue = RequestQueue()
        self._final_requested = self._stopping = False
        self._final_at_ms: int | None = None

    @property
    def waiting(self) -> int:
        """How many requests wait for their turn, the final and a due periodic one included."""
        final = self._final_at_ms is not None
        return len(self._queue) + final + self._schedule.is_late

    def open(self, now_ms: int) -> None:
        self._schedule.arm(now_ms)

    def close(self) -> list[Request]:
        """Drop the schedule and all requests, because the tasks stopped; return the queued ones in order."""
        self._schedule.disarm()
        self._final_requested = self._stopping = False
        self._final_at_ms = None
        return self._queue.drop_all()

    def submit(self, request: Request, now_ms: int) -> tuple[Reason | None, list[tuple[Request, Reason]]]:
        """Queue a request, or refuse it; return the reason if it is refused (else None), and the requests,
        each with its reason, that were queued and are dropped because of it.
        """
        if request.kind is RequestKind.FINAL:
            return None, self._submit_final(now_ms)
        if self._stopping:
            return Reason.CHECKPOINT_DECLINED_TASK_CLOSING, []
        if request.kind is RequestKind.PERIODIC:
            return self._submit_periodic(now_ms), []
        if request.kind is RequestKind.MANUAL and self._final_requested:
            return Reason.CHECKPOINT_DECLINED_INPUT_END_OF_STREAM, []
        displaced = self._queue.add(request)
        if displaced is request:
            return Reason.TOO_MANY_CHECKPOINT_REQUESTS, []
        left = [] if displaced is None else [(displaced, Reason.TOO_MANY_CHECKPOINT_REQUESTS)]
        return None, left + (self._begin_stop() if request.kind is RequestKind.STOP else [])

    def choose(self, load: Load, now_ms: int) -> Request | None:
        """Remove and return the request to start now (`now_ms`, monotonic), by its priority and the limits.
        None if none may start; a periodic one that comes too soon is put off by that until its pause is over.
        """
        self._schedule.pass_time(now_ms)
        kind = self._first(now_ms)
        if kind is None:
            return None
        held = self._hold(kind, load, now_ms)
        if held is Reason.MINIMUM_TIME_BETWEEN_CHECKPOINTS and load.last_completion_ms is not None:
            self._schedule.postpone(load.last_completion_ms + self._settings.min_pause_ms)
        return None if held is not None else self._take(kind, now_ms)

    def held_by(self, load: Load, now_ms: int) -> Reason | None:
        """Return why the first waiting request may not start; None if it may, or none waits."""
        kind = self._first(now_ms)
        return None if kind is None else self._hold(kind, load, now_ms)

    def retry_final(self, now_ms: int) -> None:
        """Schedule the failed final checkpoint again after `final_retry_ms`, if one was requested at all."""
        if self._final_requested:
            self._final_at_ms = now_ms + self._settings.final_retry_ms

    def resume(self, now_ms: int) -> None:
        """Accept requests again after a failed stop; schedule periodic ones unless a FINAL was requested."""
        self._stopping = False
        if not self._final_requested:
            self._schedule.arm(now_ms)

    def next_wakeup_ms(self, load: Load) -> int | None:
        """Return when :meth:`choose` must be called again if nothing else happens; None: never."""
        if self._stopping:
            return None
        if self._final_requested:
            held = load.pending >= self._settings.max_concurrent or self._waits_for_others(load)
            return None if held else self._final_at_ms
        return self._schedule.next_wakeup_ms

    @property
    def stopping(self) -> bool:
        return self._stopping

    def tickets(self) -> set[int | None]:
        """Return the tickets of the queued requests; None stands for requests without one."""
        return self._queue.tickets()

    def describe(self) -> tuple[Hashable, ...]:
        flags = (self._final_requested, self._final_at_ms, self._stopping)
        return (self._schedule.describe(), self._queue.describe(), *flags)

    def _submit_final(self, now_ms: int) -> list[tuple[Request, Reason]]:
        if not self._final_requested:
            self._final_requested, self._final_at_ms = True, now_ms
            self._schedule.disarm()
        ended = Reason.CHECKPOINT_DECLINED_INPUT_END_OF_STREAM
        return [(request, ended) for request in self._queue.drop_manual()]

    def _submit_periodic(self, now_ms: int) -> Reason | None:
        if not self._schedule.is_armed:
            return Reason.PERIODIC_SCHEDULER_SHUTDOWN
        if self._schedule.is_late:
            return Reason.ALREADY_QUEUED
        self._schedule.request(now_ms)
        return None

    def _begin_stop(self) -> list[tuple[Request, Reason]]:
        # Nothing starts after a stop: its sources emit no further barrier.
        self._stopping = True
        self._schedule.disarm()
        closing = Reason.CHECKPOINT_DECLINED_TASK_CLOSING
        return [(request, closing) for request in self._queue.drop_manual()]

    def _first(self, now_ms: int) -> RequestKind | None:
        if self._queue.savepoints:
            return RequestKind.SAVEPOINT
        if self._stopping:
            return None
        if self._final_requested:
            due = self._final_at_ms is not None and now_ms >= self._final_at_ms
            return RequestKind.FINAL if due else None
        if self._queue.manual:
            return RequestKind.MANUAL
        return RequestKind.PERIODIC if self._schedule.is_late else None

    def _hold(self, kind: RequestKind, load: Load, now_ms: int) -> Reason | None:
        waits_for_others = self._waits_for_others(load)
        if waits_for_others is not None or kind is RequestKind.SAVEPOINT:
            return waits_for_others
        if load.pending >= self._settings.max_concurrent:
            return Reason.TOO_MANY_CONCURRENT_CHECKPOINTS
        if kind is not RequestKind.PERIODIC or load.last_completion_ms is None:
            return None
        in_pause = now_ms < load.last_completion_ms + self._settings.min_pause_ms
        return Reason.MINIMUM_TIME_BETWEEN_CHECKPOINTS if in_pause else None

    def _waits_for_others(self, load: Load) -> Reason | None:
        # Even a savepoint waits: the triggers of one that is prepared must go out before its own.
        if load.preparing:
            return Reason.ALREADY_QUEUED
        # Checkpoints that come faster than they can be deleted would fill the storage.
        crowded = load.cleaning > self._settings.max_concurrent
        return Reason.TOO_MANY_CONCURRENT_CHECKPOINTS if crowded else None

    def _take(self, kind: RequestKind, now_ms: int) -> Request:
        if kind is RequestKind.SAVEPOINT:
            return self._queue.take_savepoint()
        if kind is RequestKind.MANUAL:
            return self._queue.take_manual()
        if kind is RequestKind.FINAL:
            self._final_at_ms = None
        else:
            self._schedule.take(now_ms)
        return Request(kind)
