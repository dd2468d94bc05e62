"""Totals of a job over all its attempts, and a listener's front row: it passes everything on."""

from __future__ import annotations

from collections.abc import Sequence

from headgate.common.errors import HeadgateError
from headgate.graph.logical import SinkNode, SourceNode
from headgate.graph.physical import PhysicalPlan
from headgate.runtime.control.messages import Counters
from headgate.runtime.events import JobListener


class JobStatistics(JobListener):
    """Counts for the result, then tells the next listener.

    Attributes:
        checkpoints: how many completed.
        counters: last running totals of the present attempt's subtasks.
    """

    def __init__(self, plan: PhysicalPlan, listener: JobListener) -> None:
        self._plan, self._next = plan, listener
        self.checkpoints = 0
        self.counters: dict[tuple[int, int], Counters] = {}

    def records_in(self) -> dict[str, int]:
        """uid of a chain's first operator -> records that it took in, in the last attempt."""
        return self._sum("records_in", 0)

    def records_out(self) -> dict[str, int]:
        """uid of a chain's last operator -> records that it emitted, in the last attempt."""
        return self._sum("records_out", -1)

    def skipped(self) -> dict[str, int]:
        """uid of a source -> bad records skipped in the last attempt."""
        return {uid: count for uid, count in self._sum("skipped", 0).items() if count}

    def _sum(self, field: str, position: int) -> dict[str, int]:
        totals: dict[str, int] = {}
        for (vertex, _), counters in self.counters.items():
            node = self._plan.vertices[vertex].chain[position]
            # A sink emits to nobody; what it wrote is what its chain took in.
            name = "records_in" if field == "records_out" and isinstance(node, SinkNode) else field
            if field == "skipped" and not isinstance(node, SourceNode):
                continue
            uid = node.uid or f"node-{node.id}"
            totals[uid] = totals.get(uid, 0) + getattr(counters, name)
        return totals

    # -- JobListener -----------------------------------------------------------------------------

    def gang_submitted(self, gang: int, slots: int) -> None:
        """See :class:`JobListener`."""
        self._next.gang_submitted(gang, slots)

    def deploying(self, attempt: int, checkpoint: int | None) -> None:
        """See :class:`JobListener`."""
        self.counters.clear()
        self._next.deploying(attempt, checkpoint)

    def running(self, attempt: int) -> None:
        """See :class:`JobListener`."""
        self._next.running(attempt)

    def progress(self, counters: Sequence[Counters]) -> None:
        """See :class:`JobListener`."""
        self.counters.update({(entry.vertex, entry.subtask): entry for entry in counters})
        self._next.progress(counters)

    def checkpoint_completed(self, checkpoint: int, took_ms: int) -> None:
        """See :class:`JobListener`."""
        self.checkpoints += 1
        self._next.checkpoint_completed(checkpoint, took_ms)

    def failed(self, attempt: int, error: HeadgateError, restart_in_ms: int | None) -> None:
        """See :class:`JobListener`."""
        self._next.failed(attempt, error, restart_in_ms)

    def note(self, text: str) -> None:
        """See :class:`JobListener`."""
        self._next.note(text)

    def ended(self, state: str) -> None:
        """See :class:`JobListener`."""
        self._next.ended(state)
