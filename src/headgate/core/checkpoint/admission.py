"""Admission of checkpoint requests: each is refused, queued or started, within the job's limits."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import Generic

from headgate.common.errors import InternalError
from headgate.common.ids import AttemptId
from headgate.core.checkpoint.effects import Effect, RequestKind, RunHooks, S, TriggerCheckpoint
from headgate.core.checkpoint.failures import CheckpointFailureReason
from headgate.core.checkpoint.ledger import Ledger
from headgate.core.checkpoint.modes import Mode, Order
from headgate.core.checkpoint.pending import PendingCheckpoint, Phase
from headgate.core.checkpoint.queue import Request
from headgate.core.checkpoint.requests import CheckpointSettings, Load, Requests
from headgate.core.machine import Machine


class Admission(Generic[S]):
    """Refuses, queues and starts a job's requested checkpoints: not too many at a time, with pauses. It is a
    part of the coordinator, whose other parts it shares: `ledger` (facts of all checkpoints), `mode`.
    """

    def __init__(
        self,
        settings: CheckpointSettings,
        uniform: Callable[[float, float], float],
        hooks: Iterable[str],
        ledger: Ledger[S],
        mode: Machine[Mode, Order],
    ) -> None:
        self._settings, self._ledger, self._mode = settings, ledger, mode
        self._hooks = tuple(hooks)
        self.requests = Requests(settings, uniform)
        self.last_completion_ms: int | None = None  # of this attempt
        self._attempt: AttemptId | None = None
        self._tasks: tuple[tuple[int, int], ...] = ()
        self._cleaning = 0

    @property
    def load(self) -> Load:
        ledger = self._ledger
        return Load(len(ledger.pending), ledger.preparing, self._cleaning, self.last_completion_ms)

    def check_attempt(self, attempt: AttemptId, tasks: tuple[tuple[int, int], ...]) -> None:
        """Raise InternalError unless `attempt` is newer than the present one and `tasks` is not empty."""
        if self._attempt is not None and attempt <= self._attempt:
            raise InternalError(self._mode.explain(f"cannot start attempt {attempt} after {self._attempt}"))
        if not tasks:
            raise InternalError(self._mode.explain(f"cannot start attempt {attempt} without tasks"))

    def open(self, attempt: AttemptId, tasks: tuple[tuple[int, int], ...], now_ms: int) -> None:
        self._attempt, self._tasks = attempt, tasks
        self.last_completion_ms = None
        self.requests.open(now_ms)

    def refusal_of(self, kind: RequestKind) -> CheckpointFailureReason | None:
        """Return why no request of this kind can start at all; None while the job's tasks run."""
        if self._mode.state is Mode.SHUTDOWN:
            return CheckpointFailureReason.CHECKPOINT_COORDINATOR_SHUTDOWN
        if self._mode.state is Mode.RUNNING:
            return None
        if kind is RequestKind.PERIODIC:
            return CheckpointFailureReason.PERIODIC_SCHEDULER_SHUTDOWN
        return CheckpointFailureReason.NOT_ALL_REQUIRED_TASKS_RUNNING

    def submit(self, request: Request, now_ms: int) -> list[Effect[S]]:
        """Queue or refuse a request, and start each queued checkpoint that may start; return the effects.
        They also answer requests that are refused or displaced. InternalError: the ticket is in use.
        """
        tickets = self._ledger.tickets
        tickets.open(request)
        refusal = self.refusal_of(request.kind)
        displaced: list[tuple[Request, CheckpointFailureReason]] = []
        if refusal is None:
            refusal, displaced = self.requests.submit(request, now_ms)
        if refusal is not None:
            return [*tickets.refuse(request, refusal)]
        effects: list[Effect[S]] = []
        for other, reason in displaced:
            effects += tickets.refuse(other, reason)
        return effects + self.admit(now_ms)

    def admit(self, now_ms: int) -> list[Effect[S]]:
        """Start each queued or due checkpoint that may start now; return the effects that trigger them."""
        effects: list[Effect[S]] = []
        while self._mode.state is Mode.RUNNING and self._attempt is not None:
            request = self.requests.choose(self.load, now_ms)
            if request is None:
                break
            timeout_ms = self._settings.timeout_ms if request.timeout_ms is None else request.timeout_ms
            deadline_ms = now_ms + timeout_ms
            pending = self._ledger.begin(request, self._attempt, self._tasks, deadline_ms, self._hooks)
            self._mode.note(f"begin {pending.checkpoint} {request.kind.value}")
            effects.append(_run_hooks(pending) if pending.phase is Phase.PREPARING else _trigger(pending))
        return effects

    def hooks_done(self, pending: PendingCheckpoint[S], hooks: Iterable[str] | None) -> list[Effect[S]]:
        """Mark hooks (steps before a trigger; None: all) of `pending` as ended; return the effects. They
        trigger the tasks after the last hook; else, and for a hook that has ended, there is none.
        """
        # Not any() of a generator: each must be marked off.
        done = [pending.hook_done(hook) for hook in (self._hooks if hooks is None else hooks)]
        return [_trigger(pending)] if any(done) else []

    def next_wakeup_ms(self) -> int | None:
        """Return when :meth:`admit` or the expiry of a pending checkpoint is next due; None: never."""
        times = [pending.deadline_ms for pending in self._ledger.pending.values() if pending.can_expire]
        due_ms = self.requests.next_wakeup_ms(self.load)
        if due_ms is not None:
            times.append(due_ms)
        return min(times, default=None)

    def cleaning_started(self) -> None:
        self._cleaning += 1

    def cleaning_ended(self) -> None:
        if self._cleaning == 0:
            raise InternalError(self._mode.explain("got the end of a cleaning that never began"))
        self._cleaning -= 1

    def describe(self) -> tuple[Hashable, ...]:
        return (self._attempt, self.last_completion_ms, self._cleaning, self.requests.describe())


def _trigger(pending: PendingCheckpoint[S]) -> TriggerCheckpoint:
    return TriggerCheckpoint(pending.checkpoint, pending.attempt, pending.kind, pending.request.ticket)


def _run_hooks(pending: PendingCheckpoint[S]) -> RunHooks:
    hooks, ticket = pending.hooks, pending.request.ticket
    return RunHooks(pending.checkpoint, pending.attempt, pending.kind, hooks, ticket)
