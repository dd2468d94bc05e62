"""The sources' split enumerators, which live in the driver.

What they raise is the user's or a connector's; it names the source, like errors in workers do.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headgate.api.source import SourceReport, SplitEnumerator
from headgate.common.errors import InternalError
from headgate.graph.logical import SourceNode
from headgate.graph.physical import PhysicalPlan
from headgate.runtime.job.operator_context import OperatorContext
from headgate.runtime.job.user_errors import blamed


class Enumerators:
    """One enumerator per source of the plan, for one attempt."""

    def __init__(self, by_vertex: Mapping[int, tuple[OperatorContext, SplitEnumerator]]) -> None:
        self._by_vertex = by_vertex

    @classmethod
    def of(cls, plan: PhysicalPlan, restored: Mapping[str, Any], job: str, attempt: int) -> Enumerators:
        """Make them."""
        by_vertex: dict[int, tuple[OperatorContext, SplitEnumerator]] = {}
        for vertex in plan.vertices:
            node = vertex.chain[0]
            if isinstance(node, SourceNode):
                uid = node.uid or f"node-{node.id}"
                place = OperatorContext(uid, node.name, 0, vertex.parallelism, attempt, job, 0, clock=None)
                with blamed(place, "in create_enumerator()"):
                    by_vertex[vertex.id] = (place, node.source.create_enumerator(restored.get(uid)))
        return cls(by_vertex)

    def next_splits(self, vertex: int, subtask: int) -> list[tuple[str, Any]] | None:
        """Return splits for a reader that has none left."""
        if vertex not in self._by_vertex:
            raise InternalError(f"vertex {vertex} asked for splits but has no source")
        place, enumerator = self._by_vertex[vertex]
        with blamed(place, f"in next_splits({subtask})"):
            splits = enumerator.next_splits(subtask)
        return None if splits is None else [(split.id, split.position) for split in splits]

    def ready(self) -> bool:
        """Return whether every source may be snapshotted now."""
        for place, enumerator in self._by_vertex.values():
            with blamed(place, "in ready_to_snapshot()"):
                if not enumerator.ready_to_snapshot():
                    return False
        return True

    def want_checkpoint(self) -> bool:
        """Return whether a source waits for a checkpoint."""
        for place, enumerator in self._by_vertex.values():
            with blamed(place, "in wants_checkpoint()"):
                if enumerator.wants_checkpoint():
                    return True
        return False

    def snapshot(self, checkpoint: int) -> dict[str, Any]:
        """Return a dict: source uid -> state without what was handed out."""
        states = {}
        for place, enumerator in self._by_vertex.values():
            with blamed(place, "in snapshot()"):
                states[place.uid] = enumerator.snapshot_for(checkpoint)
        return states

    def checkpoint_ended(self, checkpoint: int, *, complete: bool) -> None:
        """`checkpoint` is in the log, or came to nothing."""
        for place, enumerator in self._by_vertex.values():
            with blamed(place, f"at the {'completion' if complete else 'end'} of checkpoint {checkpoint}"):
                if complete:
                    enumerator.checkpoint_complete(checkpoint)
                else:
                    enumerator.checkpoint_aborted(checkpoint)

    def reports(self) -> dict[str, SourceReport]:
        """Return the status per source uid, for sources that report one."""
        found = {place.uid: enumerator.report() for place, enumerator in self._by_vertex.values()}
        return {uid: report for uid, report in found.items() if report is not None}

    def close(self) -> list[Exception]:
        """Release connections; gives what went wrong, because closing must not stop anything else."""
        errors: list[Exception] = []
        for place, enumerator in self._by_vertex.values():
            try:
                with blamed(place, "in close()"):
                    enumerator.close()
            except Exception as error:
                errors.append(error)
        return errors
