"""The sinks' committers, living in the driver: they publish what a logged checkpoint holds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from headgate.api.sink import SinkCommitter
from headgate.graph.logical import SinkNode
from headgate.graph.physical import PhysicalPlan
from headgate.state.snapshots import OperatorSubtaskState

Operators = Mapping[str, Sequence[OperatorSubtaskState]]


class Committers:
    """One committer per two-phase sink; used by the background thread only, in order of checkpoints."""

    def __init__(self, plan: PhysicalPlan) -> None:
        self._by_uid: dict[str, SinkCommitter] = {}
        for vertex in plan.vertices:
            for node in vertex.chain:
                if isinstance(node, SinkNode):
                    committer = node.sink.create_committer()
                    if committer is not None:
                        self._by_uid[node.uid or f"node-{node.id}"] = committer

    def commit(self, operators: Operators) -> None:
        """Publish everything that the checkpoint holds; again is harmless."""
        for uid, committer in self._by_uid.items():
            committables = _committables(operators.get(uid, ()))
            if committables:
                committer.commit(committables)

    def abandon(self, operators: Operators) -> None:
        """A restart begins from a checkpoint with these states: the rest may be cleaned up."""
        for uid, committer in self._by_uid.items():
            committer.abandon(_committables(operators.get(uid, ())))

    def close(self) -> None:
        """Release connections."""
        for committer in self._by_uid.values():
            committer.close()


def _committables(states: Sequence[OperatorSubtaskState]) -> list[Any]:
    return [entry for state in states for entry in state.committables]
