"""Read-only queries on the checkpoint coordinator, which may be asked at any time."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Generic

from headgate.common.errors import InternalError
from headgate.common.ids import CheckpointId
from headgate.core.checkpoint.admission import Admission
from headgate.core.checkpoint.effects import S
from headgate.core.checkpoint.failures import CheckpointFailureReason, FailureBudget
from headgate.core.checkpoint.ledger import Ledger
from headgate.core.checkpoint.modes import CoordinatorStatistics, Mode, Order
from headgate.core.checkpoint.pending import Phase
from headgate.core.checkpoint.publishing import Publishing
from headgate.core.machine import Machine


class Questions(Generic[S]):
    """Base class of the coordinator: its parts, and the queries that read them without a change."""

    _mode: Machine[Mode, Order]
    _ledger: Ledger[S]
    _publishing: Publishing[S]
    _admission: Admission[S]
    _budget: FailureBudget

    @property
    def next_id(self) -> CheckpointId:
        return self._ledger.next_id

    @property
    def latest(self) -> CheckpointId | None:
        """The newest completed checkpoint, or savepoint that stopped the job; None if there is none."""
        return self._ledger.retention.latest

    @property
    def completed(self) -> tuple[CheckpointId, ...]:
        return self._ledger.retention.completed

    @property
    def storing(self) -> CheckpointId | None:
        """The checkpoint whose metadata and log entry are being written now, or None; at most one."""
        return self._ledger.storing

    @property
    def stopping(self) -> bool:
        return self._admission.requests.stopping

    @property
    def tickets(self) -> frozenset[int]:
        return self._ledger.tickets.waiting

    @property
    def halted(self) -> CheckpointFailureReason | None:
        """Why no checkpoint starts or proceeds now, as the reason by which requests are refused; None while
        the tasks of an attempt run.
        """
        if self._mode.state is Mode.RUNNING:
            return None
        if self._mode.state is Mode.SHUTDOWN:
            return CheckpointFailureReason.CHECKPOINT_COORDINATOR_SHUTDOWN
        return CheckpointFailureReason.CHECKPOINT_COORDINATOR_SUSPEND

    def next_wakeup(self) -> int | None:
        """Return when `tick` must be called at the latest (monotonic ms); None when nothing is due."""
        return self._admission.next_wakeup_ms() if self._mode.state is Mode.RUNNING else None

    def statistics(self, now_ms: int | None = None) -> CoordinatorStatistics:
        """Return figures for people; with `now_ms` also why the first waiting request does not start."""
        ledger, requests = self._ledger, self._admission.requests
        asked = now_ms is not None and self._mode.state is Mode.RUNNING
        held = requests.held_by(self._admission.load, now_ms or 0) if asked else None
        return CoordinatorStatistics(
            mode=self._mode.state.value,
            triggered=ledger.triggered,
            completed=ledger.completed,
            failed=ledger.failed,
            pending=tuple(ledger.pending),
            latest=ledger.retention.latest,
            last_failure=ledger.last_failure,
            savepoints=len(ledger.saved),
            waiting=requests.waiting,
            held_by=None if held is None else held.name,
        )

    def describe(self) -> tuple[Hashable, ...]:
        """Return all fields that decide on later effects, as plain values: for traces and tests."""
        committing = self._publishing.committing
        return (
            self._mode.state.value,
            self._ledger.describe(),
            committing.describe() if committing is not None else None,
            self._admission.describe(),
            self._budget.failures,
        )

    def validate(self) -> None:
        """Raise InternalError if an invariant that holds between any two calls is violated."""
        phases = [pending.phase for pending in self._ledger.pending.values()]
        committing = self._publishing.committing
        in_publication = phases.count(Phase.STORING) + (committing is not None)
        begun = [*self._ledger.pending.values(), *([committing] if committing is not None else [])]
        open_tickets = self._admission.requests.tickets() | {each.request.ticket for each in begun}
        running, failing = self._mode.state is Mode.RUNNING, self._mode.state is Mode.FAILING
        quiet = committing is None and set(phases) <= {Phase.STORING}
        checks = {
            "one publication": in_publication <= 1,
            "nothing full waits without cause": in_publication == 1 or Phase.FULL not in phases or failing,
            "suspended is quiet": running or failing or quiet,
            "each open ticket has its request": open_tickets - {None} == self.tickets,
        }
        broken = [name for name, holds in checks.items() if not holds] + self._ledger.broken()
        if broken:
            raise InternalError(self._mode.explain(f"broke {', '.join(broken)}: {self.describe()}"))
