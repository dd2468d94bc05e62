"""The sources' split enumerators, living in the driver: made, asked, snapshotted, told."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headgate.api.source import SplitEnumerator
from headgate.common.errors import InternalError
from headgate.graph.logical import SourceNode
from headgate.graph.physical import PhysicalPlan


class Enumerators:
    """One enumerator per source of the plan, for one attempt.

    Args:
        plan: what runs.
        restored: uid -> state from the restored checkpoint; empty to begin anew.
    """

    def __init__(self, plan: PhysicalPlan, restored: Mapping[str, Any]) -> None:
        self._by_vertex: dict[int, tuple[str, SplitEnumerator]] = {}
        for vertex in plan.vertices:
            node = vertex.chain[0]
            if isinstance(node, SourceNode):
                uid = node.uid or f"node-{node.id}"
                self._by_vertex[vertex.id] = (uid, node.source.create_enumerator(restored.get(uid)))

    def next_splits(self, vertex: int, subtask: int) -> list[tuple[str, Any]] | None:
        """Splits for a reader that has none left."""
        if vertex not in self._by_vertex:
            raise InternalError(f"vertex {vertex} asked for splits but has no source")
        splits = self._by_vertex[vertex][1].next_splits(subtask)
        return None if splits is None else [(split.id, split.position) for split in splits]

    def snapshot(self) -> dict[str, Any]:
        """Source uid -> state without what was handed out."""
        return {uid: enumerator.snapshot() for uid, enumerator in self._by_vertex.values()}

    def checkpoint_complete(self, checkpoint: int) -> None:
        """`checkpoint` is in the log."""
        for _, enumerator in self._by_vertex.values():
            enumerator.checkpoint_complete(checkpoint)

    def close(self) -> None:
        """Release connections."""
        for _, enumerator in self._by_vertex.values():
            enumerator.close()
