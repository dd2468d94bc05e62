"""Cuts out of a plan what one keyed operator needs: itself, and everything upstream, without sinks.

The parts keep the parallelism that they had, so each reader goes on with the splits that it had, and each
channel carries what it carried.
"""

from __future__ import annotations

import copy
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import msgspec

from headgate.common.errors import UsageError
from headgate.common.hints import Hint
from headgate.common.ids import EdgeId, VertexId
from headgate.common.keys.keygroups import key_group, operator_index_for_key_group
from headgate.graph.logical import FilterNode, KeyedProcessNode, Node, SourceNode, TimestampsNode
from headgate.graph.partitioners import ByKeyGroup, Forward
from headgate.graph.physical import Edge, PhysicalPlan, Vertex
from headgate.graph.table_nodes import TableNode
from headgate.offline.replay.meant_keys import meant_key
from headgate.records.selectors import KeySelector
from headgate.restore.in_flight_shares import records_of
from headgate.state.snapshots import CheckpointMetadata, OperatorSubtaskState


@dataclass(frozen=True, slots=True)
class Cut:
    """The part of a plan that is replayed: `plan` has the operator as the only one of its last vertex."""

    plan: PhysicalPlan
    types: Mapping[EdgeId, Hint]  # types of the records on its exchanges, where known
    node: KeyedProcessNode
    key: Hashable
    key_group: int
    subtask: int  # that owns the key group
    given: str | None = None  # uid of a source in whose place records are given; None: of none

    @property
    def vertex(self) -> Vertex:
        return self.plan.vertices[-1]

    @property
    def sources(self) -> dict[int, SourceNode]:
        """The sources that feed the operator, by vertex id."""
        heads = {vertex.id: vertex.chain[0] for vertex in self.plan.vertices}
        return {at: head for at, head in heads.items() if isinstance(head, SourceNode)}

    @property
    def uids(self) -> set[str]:
        return {node.uid or "" for vertex in self.plan.vertices for node in vertex.chain}

    @property
    def selector(self) -> KeySelector:
        """How records have their keys, by the exchange in front of the operator."""
        partitioners = [edge.partitioner for edge in self.plan.inputs(self.vertex.id)]
        keys = [each.key for each in partitioners if isinstance(each, ByKeyGroup)]
        return keys[0]

    def channels(self, vertex: Vertex) -> int:
        """Return from how many subtasks one subtask of `vertex` gets records."""
        return sum(
            1 if isinstance(edge.partitioner, Forward) else self.plan.vertices[edge.source].parallelism
            for edge in self.plan.inputs(vertex.id)
        )

    def in_the_loop(self) -> Cut:
        """Return the cut without threads of their own for functions that are marked as blocking."""
        vertices = tuple(
            replace(vertex, chain=tuple(replace(node, blocking=False) for node in vertex.chain))
            for vertex in self.plan.vertices
        )
        node = vertices[-1].chain[0]
        assert isinstance(node, KeyedProcessNode)
        return replace(self, plan=replace(self.plan, vertices=vertices), node=node)

    def plan_of(self, slot: int) -> PhysicalPlan:
        """Return what the worker of `slot` runs: other subtasks of the operator only drop what they get."""
        if slot == self.subtask:
            return self.plan
        node = self.node
        dropping = FilterNode(node.id, node.name, uid=node.uid, function=_dropped)
        last = replace(self.vertex, chain=(dropping,))
        return replace(self.plan, vertices=(*self.plan.vertices[:-1], last))

    def of_snapshot(self, metadata: CheckpointMetadata) -> CheckpointMetadata:
        """Return what a snapshot has of the operators that are replayed, without a source that is not."""
        uids = self.uids - {self.given}
        return msgspec.structs.replace(
            metadata,
            operators={uid: states for uid, states in metadata.operators.items() if uid in uids},
            enumerators={uid: state for uid, state in metadata.enumerators.items() if uid in uids},
            in_flight=[
                stream
                for stream in metadata.in_flight
                if stream.receiver in uids and stream.sender in self.uids
            ],
            finished={uid: subtasks for uid, subtasks in metadata.finished.items() if uid in uids},
        )


def held_back(cut: Cut, until: CheckpointMetadata) -> int:
    """Return how many records, the last that the operator's subtask got, were in flight to it at `until`.

    With several channels, or records in flight before other operators, that is unknown: 0. So it is before
    operators of tables, where rows are put together by the batch.
    """
    streams = [stream for stream in cut.of_snapshot(until).in_flight if records_of(stream)]
    mine = [stream for stream in streams if stream.receiver == cut.node.uid]
    if len(mine) < len(streams) or cut.channels(cut.vertex) > 1 or isinstance(cut.node, TableNode):
        return 0
    return sum(records_of(stream) for stream in mine if stream.receiver_subtask == cut.subtask)


def operator_state(cut: Cut, metadata: CheckpointMetadata) -> OperatorSubtaskState | None:
    """Return what the operator's subtask stored in a snapshot; None: nothing, or the parallelism differs."""
    states = metadata.operators.get(cut.node.uid or "", [])
    return states[cut.subtask] if len(states) == cut.vertex.parallelism else None


def _dropped(_record: Any) -> bool:
    return False


def cut(
    plan: PhysicalPlan,
    types: Mapping[EdgeId, Hint],
    uid: str,
    key: Hashable,
    parallelism: Mapping[str, int],
) -> Cut:
    """Return the part of `plan` that feeds the keyed operator `uid`, as it ran.

    `parallelism`: the number of subtasks that a snapshot has, by uid; other operators keep the program's.

    Raises:
        UsageError: there is no such operator, it has no keys, or its chains are not those of the snapshot.
    """
    target, node = _found(plan, uid)
    key = meant_key(node, key)
    wanted = _upstream(plan, target)
    numbers = {vertex.id: VertexId(place) for place, vertex in enumerate(wanted)}
    kept = [edge for edge in plan.edges if edge.source in numbers and edge.target in numbers]
    vertices = tuple(
        Vertex(numbers[vertex.id], _chain(vertex, kept, node), _subtasks(vertex, parallelism))
        for vertex in wanted
    )
    edges = tuple(
        replace(edge, id=EdgeId(place), source=numbers[edge.source], target=numbers[edge.target])
        for place, edge in enumerate(kept)
    )
    _check_forward(vertices, edges)
    slots = max(vertex.parallelism for vertex in vertices)
    group = key_group(key, plan.max_parallelism)
    subtask = operator_index_for_key_group(plan.max_parallelism, vertices[-1].parallelism, group)
    known = {EdgeId(place): types[edge.id] for place, edge in enumerate(kept) if edge.id in types}
    return Cut(PhysicalPlan(vertices, edges, plan.max_parallelism, slots), known, node, key, group, subtask)


def _found(plan: PhysicalPlan, uid: str) -> tuple[Vertex, KeyedProcessNode]:
    keyed = []
    for vertex in plan.vertices:
        for node in vertex.chain:
            if isinstance(node, KeyedProcessNode):
                keyed.append(node.uid or "")
            if node.uid == uid:
                if not isinstance(node, KeyedProcessNode):
                    raise UsageError(
                        f"operator {node.name!r} (uid {uid!r}) has no keys; expected a keyed operator, such "
                        f"as {', '.join(map(repr, keyed)) or 'one after key_by()'}"
                    )
                if node is not vertex.chain[0]:
                    raise UsageError(
                        f"operator {node.name!r} (uid {uid!r}) runs in the chain of "
                        f"{vertex.chain[0].name!r}; only an operator right after "
                        "key_by() can be replayed"
                    )
                return vertex, node
    raise UsageError(
        f"the program has no operator with uid {uid!r}; its keyed operators are "
        f"{', '.join(map(repr, keyed)) or 'none'}"
    )


def _upstream(plan: PhysicalPlan, target: Vertex) -> list[Vertex]:
    found, open_ids = {target.id}, [target.id]
    while open_ids:
        for edge in plan.inputs(open_ids.pop()):
            if edge.source not in found:
                found.add(edge.source)
                open_ids.append(edge.source)
    # The operator comes last: vertices are in topological order, and nothing after it feeds it.
    return [vertex for vertex in plan.vertices if vertex.id in found]


def _chain(vertex: Vertex, kept: list[Edge], target: KeyedProcessNode) -> tuple[Node, ...]:
    if vertex.chain[0] is target:
        return (target,)
    last = max(edge.operator for edge in kept if edge.source == vertex.id)
    return tuple(_unhurried(node) for node in vertex.chain[: last + 1])


def _unhurried(node: Node) -> Node:
    # How fast a source may be has no meaning here: neither by a clock, nor by the event time of others.
    if isinstance(node, TimestampsNode) and node.strategy.max_drift_ms is not None:
        return replace(node, strategy=replace(node.strategy, max_drift_ms=None))
    if isinstance(node, SourceNode) and getattr(node.source, "rate_per_s", None) is not None:
        source = copy.copy(node.source)
        source.rate_per_s = None
        return replace(node, source=source)
    return node


def _subtasks(vertex: Vertex, parallelism: Mapping[str, int]) -> int:
    stored = [parallelism[node.uid] for node in vertex.chain if node.uid and node.uid in parallelism]
    return stored[0] if stored else vertex.parallelism


def _check_forward(vertices: tuple[Vertex, ...], edges: tuple[Edge, ...]) -> None:
    for edge in edges:
        source, target = vertices[edge.source], vertices[edge.target]
        if isinstance(edge.partitioner, Forward) and source.parallelism != target.parallelism:
            raise UsageError(
                f"{source.name!r} ran in {source.parallelism} subtasks and {target.name!r} in "
                f"{target.parallelism}, and the program passes records from each subtask to the one of the "
                "same number; replay with the program that the snapshot was taken of"
            )
