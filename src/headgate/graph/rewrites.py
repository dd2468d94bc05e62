"""The passes between the program's graph and the graph that runs, one function each. A pass takes a
:class:`Flow` and returns a new one. Passes decide and refuse; they look at nothing but nodes and links, so
what a function or a connector is stays outside. The list that puts them in order is in ``graph.plan``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from headgate.common.errors import InternalError, PlanError
from headgate.common.ids import EdgeId, VertexId
from headgate.graph.async_nodes import WAITING
from headgate.graph.logical import (
    BroadcastProcessNode,
    KeyedBroadcastProcessNode,
    KeyedProcessNode,
    Node,
    PartitionNode,
    ProcessNode,
    Side,
    SideOutputNode,
    SourceNode,
    TimestampsNode,
    UnionNode,
)
from headgate.graph.partitioners import Broadcast, ByKeyGroup, Forward, Partitioner, Rebalance
from headgate.graph.physical import Edge, Vertex

VIRTUAL = (UnionNode, PartitionNode, SideOutputNode)
"""Nodes that only say how records travel; no operator runs for them."""

TWO_SIDED = (BroadcastProcessNode, KeyedBroadcastProcessNode)
"""Nodes whose second input is the broadcast side; the inputs of all other nodes are alike."""

N = TypeVar("N", bound=Node)


@dataclass(frozen=True, slots=True)
class Link:
    """A link of the graph: records go from one node to another; `partitioner` None: not chosen yet."""

    source: int  # id of the node that emits
    target: int  # id of the node that receives
    tag: str | None = None  # the side output's name, or None for the main output
    partitioner: Partitioner | None = None  # who receives what; None while nobody said
    side: Side = Side.MAIN  # which input of the target it is


@dataclass(frozen=True, slots=True)
class Flow:
    """The graph between two passes of the planner: nodes, links between them, and chains."""

    nodes: dict[int, Node]  # by id, in the order of the program, which is topological
    links: tuple[Link, ...]  # in order of the target, then of its inputs
    chains: tuple[tuple[int, ...], ...] = ()  # ids of nodes that run together; empty before the chaining pass

    def into(self, node: int) -> list[Link]:
        return [link for link in self.links if link.target == node]

    def out_of(self, node: int) -> list[Link]:
        return [link for link in self.links if link.source == node]


def place(node: Node) -> str:
    return f"{node.name!r} ({node.site})" if node.site else f"{node.name!r}"


def flow_of(nodes: Iterable[Node]) -> Flow:
    """Return the program's graph before all passes, as it was written: one link for each input of a node."""
    ordered = sorted(nodes, key=lambda node: node.id)
    links = [
        Link(source.id, node.id, side=_side(node, number))
        for node in ordered
        for number, source in enumerate(node.inputs)
    ]
    return Flow({node.id: node for node in ordered}, tuple(links))


def assign_uids(flow: Flow) -> Flow:
    """Give every operator without a uid one made of its kind and position. Such a uid names the operator in
    logs and messages. It changes when the program changes, so the API refuses it beforehand where state
    depends on it. A step that gives event time is named after its input: its watermark is stored by the name.
    """
    taken = {node.uid for node in flow.nodes.values() if node.uid is not None}
    nodes: dict[int, Node] = {}
    for key, node in flow.nodes.items():
        if node.uid is None and not isinstance(node, VIRTUAL):
            kind = type(node).__name__.removesuffix("Node").lower()
            uid = f"{kind}-{node.id}"
            if isinstance(node, TimestampsNode):
                uid = f"{nodes[node.inputs[0].id].uid or kind}-event-time"
            while uid in taken:
                uid += "'"
            taken.add(uid)
            node = replace(node, uid=uid)
        nodes[key] = node
    return replace(flow, nodes=nodes)


def resolve_parallelism(flow: Flow, default: int) -> Flow:
    """Give every node a parallelism: its own, else `default`; a step of event time that follows a source gets
    the source's own. PlanError: such a step has another one than its source.
    """
    nodes: dict[int, Node] = {}
    for key, node in flow.nodes.items():
        value = node.parallelism if node.parallelism is not None else default
        feeding = nodes[node.inputs[0].id] if isinstance(node, TimestampsNode) else None
        if isinstance(feeding, SourceNode) and feeding.parallelism is not None:
            if node.parallelism not in (None, feeding.parallelism):
                raise PlanError(
                    f"event time {place(node)} has parallelism {node.parallelism} but its source "
                    f"{place(feeding)} has {feeding.parallelism}; timestamps are taken inside the source's "
                    "subtasks, so set the parallelism on the source only"
                )
            value = feeding.parallelism
        nodes[key] = replace(node, parallelism=value)
    return replace(flow, nodes=nodes)


def expand_unions(flow: Flow) -> Flow:
    """Replace each union by one link from each of its inputs to each of its consumers."""
    return _bypass(flow, UnionNode, lambda _union, first, then: _join(first, then))


def fold_side_outputs(flow: Flow) -> Flow:
    """Turn side-output nodes into links with the tag; PlanError: one is taken from a node that has none."""

    def compose(node: SideOutputNode, first: Link, then: Link) -> Link:
        origin = flow.nodes[first.source]
        has_some = isinstance(origin, (ProcessNode, KeyedProcessNode, SourceNode))
        if not has_some and origin.on_error is None:
            raise PlanError(
                f"side output {node.tag!r} ({node.site}) is taken from {place(origin)}, which has none; "
                "take it from the stream that process() or the source returned"
            )
        return replace(_join(first, then), tag=node.tag)

    return _bypass(flow, SideOutputNode, compose)


def fold_partitions(flow: Flow) -> Flow:
    """Turn partition nodes into links that carry the partitioner; the last one written wins."""

    def compose(node: PartitionNode, first: Link, then: Link) -> Link:
        return replace(_join(first, then), partitioner=then.partitioner or node.partitioner)

    return _bypass(flow, PartitionNode, compose)


def choose_partitioners(flow: Flow) -> Flow:
    """Give every link a partitioner: the one written, else forward for equal parallelism, else rebalance.
    PlanError where a link is written as forward, but its nodes have unequal parallelism.
    """
    return replace(flow, links=tuple(_partitioned(flow, link) for link in flow.links))


def chain_operators(flow: Flow) -> Flow:
    """Group nodes that run in one subtask and call each other batch by batch.

    Chains are linear. A node joins the chain of its only input when the link is a main output, forward, and
    the input's only main consumer; a keyed, broadcast, blocking or async node never does. Side outputs may
    leave from the middle of a chain. Raises PlanError if event time is not taken right behind its source.
    """
    chain_of: dict[int, list[int]] = {}
    for node in flow.nodes.values():
        before = _chained_to(flow, node)
        chain = [] if before is None else chain_of[before]
        chain.append(node.id)
        chain_of[node.id] = chain
    _demand_event_time_beside_source(flow, chain_of)
    chains = {chain[0]: tuple(chain) for chain in chain_of.values()}
    return replace(flow, chains=tuple(chains[first] for first in sorted(chains)))


def number_vertices(flow: Flow) -> tuple[tuple[Vertex, ...], tuple[Edge, ...]]:
    """Return chains as vertices, in topological order, and links between them as edges, after all passes."""
    vertices = []
    seat: dict[int, tuple[VertexId, int]] = {}
    for number, chain in enumerate(flow.chains):
        # Without inputs: the edges tell them, and a worker need not be sent everything upstream.
        nodes = tuple(replace(flow.nodes[key], inputs=()) for key in chain)
        parallelism = nodes[0].parallelism
        if parallelism is None:
            raise InternalError(
                f"the chain of {place(nodes[0])} was numbered before its parallelism was known"
            )
        vertices.append(Vertex(VertexId(number), nodes, parallelism))
        seat.update({key: (VertexId(number), position) for position, key in enumerate(chain)})
    edges: list[Edge] = []
    for link in flow.links:
        (source, operator), (target, entry) = seat[link.source], seat[link.target]
        if source == target:
            continue
        if entry != 0 or link.partitioner is None:
            raise InternalError(f"a link into {place(flow.nodes[link.target])} ends inside a chain")
        edges.append(
            Edge(EdgeId(len(edges)), source, operator, link.tag, target, link.partitioner, link.side)
        )
    return tuple(vertices), tuple(edges)


def check_max_parallelism(vertices: Sequence[Vertex], max_parallelism: int) -> None:
    """Raise PlanError for an operator with more subtasks than key groups: some would never get a record."""
    for vertex in vertices:
        if vertex.parallelism > max_parallelism:
            raise PlanError(
                f"operator {place(vertex.chain[0])} has parallelism {vertex.parallelism}, more than the "
                f"{max_parallelism} key groups; lower it or raise pipeline.max-parallelism (which a job "
                "keeps for its whole life)"
            )


def check_unique_uids(nodes: Iterable[Node]) -> None:
    """Raise PlanError for a uid that two operators share: a restore could not tell their states apart."""
    named = [node for node in nodes if node.uid is not None]
    for uid, count in Counter(node.uid for node in named).items():
        if count > 1:
            places = " and ".join(place(node) for node in named if node.uid == uid)
            raise PlanError(
                f"uid {uid!r} is used {count} times, by {places}; state is found by uid, so give each "
                "operator one of its own"
            )


def _bypass(flow: Flow, kind: type[N], compose: Callable[[N, Link, Link], Link]) -> Flow:
    # Each node of the kind goes away; every pair of link in and link out becomes one link. The new
    # links stand where the link out stood, so the order of a consumer's inputs is kept.
    nodes, links = dict(flow.nodes), list(flow.links)
    for node in flow.nodes.values():
        if not isinstance(node, kind):
            continue
        arriving = [link for link in links if link.target == node.id]
        kept: list[Link] = []
        for link in links:
            if link.source == node.id:
                kept.extend(compose(node, first, link) for first in arriving)
            elif link.target != node.id:
                kept.append(link)
        links = kept
        del nodes[node.id]
    return replace(flow, nodes=nodes, links=tuple(links))


def _join(first: Link, then: Link) -> Link:
    # What is nearer to the consumer decides how records travel, and where they enter; the tag belongs to
    # the producer.
    partitioner = then.partitioner or first.partitioner
    return Link(first.source, then.target, first.tag or then.tag, partitioner, then.side)


def _side(node: Node, number: int) -> Side:
    return Side.BROADCAST if isinstance(node, TWO_SIDED) and number else Side.MAIN


def _partitioned(flow: Flow, link: Link) -> Link:
    source, target = flow.nodes[link.source], flow.nodes[link.target]
    same = source.parallelism == target.parallelism
    chosen = link.partitioner or (Forward() if same else Rebalance())
    if link.side is Side.BROADCAST:
        if not isinstance(chosen, Broadcast):
            raise InternalError(f"the broadcast side of {place(target)} is not fed by a broadcast")
    elif isinstance(target, KeyedProcessNode) and not isinstance(chosen, ByKeyGroup):
        raise InternalError(f"the keyed operator {place(target)} is not fed by key")
    if isinstance(chosen, Forward) and not same:
        raise PlanError(
            f"records are to go forward from {place(source)} with parallelism {source.parallelism} to "
            f"{place(target)} with parallelism {target.parallelism}; make them equal or use rebalance()"
        )
    return replace(link, partitioner=chosen)


def _chained_to(flow: Flow, node: Node) -> int | None:
    arriving = flow.into(node.id)
    if len(arriving) != 1 or node.blocking or isinstance(node, (*WAITING, KeyedProcessNode, *TWO_SIDED)):
        return None
    link = arriving[0]
    if link.tag is not None or not isinstance(link.partitioner, Forward):
        return None
    consumers = [other for other in flow.out_of(link.source) if other.tag is None]
    return link.source if len(consumers) == 1 else None


def _demand_event_time_beside_source(flow: Flow, chain_of: dict[int, list[int]]) -> None:
    # A watermark is exact per source subtask only where nothing lies between reading and stamping.
    for node in flow.nodes.values():
        if not isinstance(node, TimestampsNode):
            continue
        for link in flow.into(node.id):
            feeding = flow.nodes[link.source]
            if (
                isinstance(feeding, SourceNode)
                and chain_of[feeding.id] is not chain_of[node.id]
                and not link.tag
            ):
                raise PlanError(
                    f"event time {place(node)} must be taken right behind its source {place(feeding)}, but "
                    "something stands between or the source has other consumers too; call "
                    "with_event_time() on the source first and branch after it"
                )
