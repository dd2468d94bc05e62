"""The split enumerators of the job's sources, which run in the driver; errors of their code name a source."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from headgate.api.source import InputLeft, SourceReport, SplitEnumerator
from headgate.common.errors import InternalError
from headgate.graph.logical import SourceNode
from headgate.graph.physical import PhysicalPlan
from headgate.runtime.job.operator_context import OperatorContext
from headgate.runtime.job.user_errors import blamed
from headgate.runtime.master.attempt.unread_input import Unread, UnreadInput
from headgate.runtime.protocol.messages import Counters


class Enumerators:
    """The split enumerators of one attempt, one per source of the plan."""

    def __init__(self, by_vertex: Mapping[int, tuple[OperatorContext, SplitEnumerator]]) -> None:
        self._by_vertex = by_vertex
        self._unread: dict[int, UnreadInput] = {}

    @classmethod
    def of(cls, plan: PhysicalPlan, restored: Mapping[str, Any], job: str, attempt: int) -> Enumerators:
        """Create the enumerators of the plan's sources for attempt `attempt` of `job`; the result must be
        closed. `restored`: states by source uid; a source without one starts anew. If a source's code fails,
        its error is raised with the source's name, after the enumerators created before it were closed.
        """
        by_vertex: dict[int, tuple[OperatorContext, SplitEnumerator]] = {}
        made = cls(by_vertex)
        try:
            for vertex in plan.vertices:
                node = vertex.chain[0]
                if isinstance(node, SourceNode):
                    uid = node.known_as
                    place = OperatorContext(uid, node.name, 0, vertex.parallelism, attempt, job, 0, None)
                    with blamed(place, "in create_enumerator()"):
                        by_vertex[vertex.id] = (place, node.source.create_enumerator(restored.get(uid)))
                    left, from_start = made._left(vertex.id), restored.get(uid) is None
                    made._unread[vertex.id] = UnreadInput(left, restored=not from_start)
        except BaseException:
            made.close()
            raise
        return made

    def next_splits(self, vertex: int, subtask: int) -> list[tuple[str, Any]] | None:
        """Return new splits, (id, position), for subtask `subtask` (index) of source `vertex`, which has
        none. []: none now, ask again; None: no more. Raises the source's error; InternalError: no source.
        """
        if vertex not in self._by_vertex:
            raise InternalError(f"vertex {vertex} asked for splits but has no source")
        place, enumerator = self._by_vertex[vertex]
        with blamed(place, f"in next_splits({subtask})"):
            splits = enumerator.next_splits(subtask)
        if splits:
            self._unread[vertex].assigned(subtask, len(splits), self._left(vertex))
        return None if splits is None else [(split.id, split.position) for split in splits]

    def unassigned(self) -> Unread:
        """Return how much input of each source no reader has been given yet, by uid."""
        return {self._by_vertex[vertex][0].uid: each.unassigned for vertex, each in self._unread.items()}

    def unread(self, plan: PhysicalPlan, counters: Sequence[Counters]) -> Unread:
        """Return how much input of each source is not read, by uid, as the newest `counters` of subtasks say;
        {} between two attempts.
        """
        return {
            self._by_vertex[vertex.id][0].uid: self._unread[vertex.id].left(vertex, counters)
            for vertex in plan.vertices
            if vertex.id in self._unread
        }

    def _left(self, vertex: int) -> InputLeft | None:
        # Not when metrics are asked for: an error of the source's code has to fail the attempt.
        place, enumerator = self._by_vertex[vertex]
        with blamed(place, "in left_to_assign()"):
            return enumerator.left_to_assign()

    def ready(self) -> bool:
        """Return whether all enumerators can be snapshotted; else checkpoints wait. Raises user errors."""
        for place, enumerator in self._by_vertex.values():
            with blamed(place, "in ready_to_snapshot()"):
                if not enumerator.ready_to_snapshot():
                    return False
        return True

    def want_checkpoint(self) -> bool:
        """Return whether a source asks for an extra checkpoint now (asked in each turn); raise its error."""
        for place, enumerator in self._by_vertex.values():
            with blamed(place, "in wants_checkpoint()"):
                if enumerator.wants_checkpoint():
                    return True
        return False

    def snapshot(self, checkpoint: int) -> dict[str, Any]:
        """Return the enumerators' states by source uid for checkpoint id `checkpoint`; raise a user error."""
        states = {}
        for place, enumerator in self._by_vertex.values():
            with blamed(place, "in snapshot()"):
                states[place.uid] = enumerator.snapshot_for(checkpoint)
        return states

    def checkpoint_ended(self, checkpoint: int, *, complete: bool) -> None:
        """Notify enumerators that `checkpoint` completed or was aborted; stop at the first that raises an
        error. The source's error is raised here, and the enumerators after it are not notified.
        """
        for place, enumerator in self._by_vertex.values():
            with blamed(place, f"at the {'completion' if complete else 'end'} of checkpoint {checkpoint}"):
                if complete:
                    enumerator.checkpoint_complete(checkpoint)
                else:
                    enumerator.checkpoint_aborted(checkpoint)

    def reports(self) -> dict[str, SourceReport]:
        """Return the progress (epoch, rate, ...) of sources by uid; sources that report none are left out."""
        found = {place.uid: enumerator.report() for place, enumerator in self._by_vertex.values()}
        return {uid: report for uid, report in found.items() if report is not None}

    def close(self) -> list[Exception]:
        """Close all enumerators, also after errors; return these. Called once, at the end of the attempt."""
        errors: list[Exception] = []
        for place, enumerator in self._by_vertex.values():
            try:
                with blamed(place, "in close()"):
                    enumerator.close()
            except Exception as error:
                errors.append(error)
        return errors
