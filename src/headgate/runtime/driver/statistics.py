"""Totals of a job over all its attempts, and a listener's front row: it passes everything on."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from headgate.api.jobs.executor_contract import JobControl, RepeatingFailure
from headgate.common.errors import HeadgateError
from headgate.display.printed import printed_lines
from headgate.graph.logical import Node
from headgate.graph.physical import PhysicalPlan
from headgate.runtime.job.listener import JobListener
from headgate.runtime.job.live_state import LiveState
from headgate.runtime.master.checkpoints.checkpoint_contents import add_totals, chain_name
from headgate.runtime.protocol.messages import Counters

Totals = Mapping[str, tuple[int, int]]


class JobStatistics(JobListener):
    """Counts for the result, then tells the next listener.

    Attributes:
        checkpoints: how many completed.
        counters: last running totals of the present attempt's subtasks.
    """

    def __init__(
        self, plan: PhysicalPlan, listener: JobListener, told: Callable[[str, int, bytes], None] | None = None
    ) -> None:
        self._plan, self._next, self._told = plan, listener, told
        self._printed = printed_lines()
        self.checkpoints = 0
        self._skipped_before: dict[str, int] = {}
        self.counters: dict[tuple[int, int], Counters] = {}

    def records_in(self, base: Totals) -> dict[str, int]:
        """Uid of a chain's first operator -> records that it took in, each counted once."""
        totals = add_totals(self._plan, base, self.counters.values())
        return {
            _uid(vertex.chain[0]): totals.get(chain_name(vertex), (0, 0))[0] for vertex in self._plan.vertices
        }

    def records_out(self, base: Totals) -> dict[str, int]:
        """Uid of a chain's last operator -> records that it emitted; of a sink: that it wrote."""
        totals = add_totals(self._plan, base, self.counters.values())
        return {
            _uid(vertex.chain[-1]): totals.get(chain_name(vertex), (0, 0))[1]
            for vertex in self._plan.vertices
        }

    def skipped(self) -> dict[str, int]:
        """Uid of a source -> bad records skipped in all attempts: one that is read again counts again."""
        found = dict(self._skipped_before)
        for (vertex, _), counters in self.counters.items():
            if counters.skipped:
                uid = _uid(self._plan.vertices[vertex].chain[0])
                found[uid] = found.get(uid, 0) + counters.skipped
        return found

    # -- JobListener -----------------------------------------------------------------------------

    def begins(self, live_state: LiveState) -> None:
        """See :class:`JobListener`."""
        self._next.begins(live_state)

    def controllable(self, control: JobControl) -> None:
        """See :class:`JobListener`."""
        self._next.controllable(control)

    def gang_submitted(self, gang: int, slots: int) -> None:
        """See :class:`JobListener`."""
        self._next.gang_submitted(gang, slots)

    def worker_registered(self, slot: int, pid: int, host: str) -> None:
        """See :class:`JobListener`."""
        self._next.worker_registered(slot, pid, host)

    def deploying(self, attempt: int, checkpoint: int | None) -> None:
        """See :class:`JobListener`."""
        self._skipped_before = self.skipped()
        self.counters.clear()
        self._next.deploying(attempt, checkpoint)

    def running(self, attempt: int) -> None:
        """See :class:`JobListener`."""
        self._next.running(attempt)

    def progress(self, counters: Sequence[Counters]) -> None:
        """See :class:`JobListener`."""
        self.counters.update({(entry.vertex, entry.subtask): entry for entry in counters})
        # Those of workers that have left by now belong to the totals, too.
        self._next.progress(list(self.counters.values()))

    def checkpoint_completed(self, checkpoint: int, took_ms: int) -> None:
        """See :class:`JobListener`."""
        self.checkpoints += 1
        self._next.checkpoint_completed(checkpoint, took_ms)

    def savepoint_completed(self, checkpoint: int, uri: str, took_ms: int) -> None:
        """See :class:`JobListener`."""
        self._next.savepoint_completed(checkpoint, uri, took_ms)

    def rescaled(self, plan: PhysicalPlan) -> None:
        """See :class:`JobListener`."""
        self._skipped_before = self.skipped()
        self._plan = plan
        self.counters.clear()
        self._next.rescaled(plan)

    def failed(self, attempt: int, error: HeadgateError, restart_in_ms: int | None) -> None:
        """See :class:`JobListener`."""
        self._next.failed(attempt, error, restart_in_ms)

    def reverted(self, attempt: int, error: HeadgateError) -> None:
        """See :class:`JobListener`."""
        self._next.reverted(attempt, error)

    def repeats(self, failure: RepeatingFailure) -> None:
        """See :class:`JobListener`."""
        self._next.repeats(failure)

    def told(self, uid: str, subtask: int, data: bytes) -> None:
        """See :class:`JobListener`."""
        if self._told is not None:
            self._told(uid, subtask, data)
        self._next.told(uid, subtask, data)

    def printed(self, lines: list[str], left_out: int) -> None:
        """See :class:`JobListener`."""
        self._printed.show(lines, left_out)
        self._next.printed(lines, left_out)

    def note(self, text: str) -> None:
        """See :class:`JobListener`."""
        self._next.note(text)

    def ended(self, state: str) -> None:
        """See :class:`JobListener`."""
        self._printed.close()
        self._next.ended(state)


def _uid(node: Node) -> str:
    return node.uid or f"node-{node.id}"
