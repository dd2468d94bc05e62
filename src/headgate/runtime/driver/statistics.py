"""Counts a job's records and checkpoints over all its attempts, for the job's result."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from headgate.display.printed import printed_lines
from headgate.graph.physical import PhysicalPlan
from headgate.runtime.job.listener import JobListener
from headgate.runtime.master.checkpoints.checkpoint_contents import add_totals, chain_name
from headgate.runtime.protocol.messages import Counters

Totals = Mapping[str, tuple[int, int]]

_PASSED_ON: Final = (
    *(
        "begins",
        "controllable",
        "gang_submitted",
        "logged",
        "worker_registered",
        "running",
        "savepoint_completed",
        "traced",
        "unread",
    ),
    *("failed", "reverted", "repeats", "note"),
)
"""Reports of a job listener from which nothing is counted."""


class JobStatistics(JobListener):
    """The job listener that counts records and checkpoints for the job's result; all reports go on to
    `listener`. Its driver makes one per run, and reads the counts after the end. `told` gets messages of sink
    writers: uid, subtask and bytes; None: nobody.
    """

    def __init__(
        self, plan: PhysicalPlan, listener: JobListener, told: Callable[[str, int, bytes], None] | None = None
    ) -> None:
        self._plan, self._next, self._told = plan, listener, told
        for report in _PASSED_ON:
            setattr(self, report, getattr(listener, report))
        self._printed = printed_lines()
        self.checkpoints = 0  # how many completed
        self.counters: dict[tuple[int, int], Counters] = {}  # last totals of the present attempt's subtasks

    def records_in(self, base: Totals) -> dict[str, int]:
        """Return how many records each chain of operators received, by uid of the chain's first operator.
        `base`: records (in, out) by chain up to the snapshot that the last attempt restored; to these its own
        are added, so that a record which was processed again after a failure counts once.
        """
        totals = add_totals(self._plan, base, self.counters.values())
        return {
            vertex.chain[0].known_as: totals.get(chain_name(vertex), (0, 0))[0]
            for vertex in self._plan.vertices
        }

    def records_out(self, base: Totals) -> dict[str, int]:
        """Return how many records each chain emitted (as a sink: wrote), by uid of the chain's last operator;
        `base` and what counts are as for :meth:`records_in`.
        """
        totals = add_totals(self._plan, base, self.counters.values())
        return {
            vertex.chain[-1].known_as: totals.get(chain_name(vertex), (0, 0))[1]
            for vertex in self._plan.vertices
        }

    # -- JobListener -----------------------------------------------------------------------------

    def deploying(self, attempt: int, checkpoint: int | None) -> None:
        self.counters.clear()
        self._next.deploying(attempt, checkpoint)

    def progress(self, counters: Sequence[Counters]) -> None:
        self.counters.update({(entry.vertex, entry.subtask): entry for entry in counters})
        # Counters of workers that have exited belong to the totals, too.
        self._next.progress(list(self.counters.values()))

    def checkpoint_completed(self, checkpoint: int, took_ms: int) -> None:
        self.checkpoints += 1
        self._next.checkpoint_completed(checkpoint, took_ms)

    def rescaled(self, plan: PhysicalPlan) -> None:
        self._plan = plan
        self.counters.clear()
        self._next.rescaled(plan)

    def told(self, uid: str, subtask: int, data: bytes) -> None:
        if self._told is not None:
            self._told(uid, subtask, data)
        self._next.told(uid, subtask, data)

    def printed(self, lines: list[str], left_out: int) -> None:
        self._printed.show(lines, left_out)
        self._next.printed(lines, left_out)

    def ended(self, state: str) -> None:
        self._printed.close()
        self._next.ended(state)
