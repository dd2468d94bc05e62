"""The two graphs of a job for people and for machines: one dict of plain values, and its text.

The caller passes the names and types of states, because declarations belong to the API. Shapes are what can
be known without running: a source says whether it gives columns, and the first per-record function turns them
into rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

from headgate.common.plain_data import Json
from headgate.graph.guarantees import NO_CHECKPOINTS, Checkpointing, always_aligned, sink_guarantees
from headgate.graph.kept_state import kept_lines
from headgate.graph.logical import (
    KeyedProcessNode,
    Node,
    PartitionNode,
    SelectNode,
    Side,
    SideOutputNode,
    SinkNode,
    SourceNode,
    TimestampsNode,
)
from headgate.graph.partitioners import Broadcast, ByKeyGroup, Forward, Partitioner, Rebalance
from headgate.graph.physical import Edge, PhysicalPlan, Vertex
from headgate.graph.rewrites import TWO_SIDED
from headgate.graph.source_filters import filter_lines
from headgate.graph.table_nodes import TABLES, columns_read, table_details, table_lines
from headgate.graph.type_text import COLUMNS, MIXED, ROWS, StateFact, States, type_text
from headgate.records.selectors import KeySelector

Facts: TypeAlias = dict[str, Json]  # what is known of a part of a graph, as plain values

Guarantees = Mapping[int, str]  # sink's node id -> what it may promise, in words


def describe(
    name: str,
    nodes: Iterable[Node],
    plan: PhysicalPlan,
    states: States,
    reserved_slots: int = 0,
    checkpointing: Checkpointing = Checkpointing(),  # noqa: B008 - frozen
) -> dict[str, Any]:
    """Return the logical and the physical graph of a job as a dict that is ready for JSON, for ``explain()``.

    Args:
        name: of the job.
        nodes: the logical graph, as the program wrote it.
        plan: the physical graph of these nodes.
        states: node id -> the states that its function declares.
        reserved_slots: slots kept for the job beyond those that it needs; only shown.
        checkpointing: the settings on which the guarantees of sinks depend; by default checkpoints are off.
    """
    promised = sink_guarantees(plan, checkpointing)
    shapes = _Shapes(plan)
    uids = {node.id: node.uid for vertex in plan.vertices for node in vertex.chain}
    from headgate.graph.type_facts import type_rows  # it loads the serializers, which a program need not

    nodes = list(nodes)
    return {
        "job": name,
        "slots": plan.slots,
        "slots_reserved": reserved_slots,
        "max_parallelism": plan.max_parallelism,
        "logical": [_logical(node, uids, states, promised) for node in nodes],
        "vertices": [_vertex(vertex, shapes, states, promised) for vertex in plan.vertices],
        "edges": [_edge(edge, shapes, checkpointing.unaligned) for edge in plan.edges],
        "types": type_rows(nodes, plan, states, shapes.of_edge),
    }


def render(facts: Mapping[str, Any]) -> str:
    lines = [_head_line(facts), "", "as written"]
    lines += [f"  {_logical_line(node)}" for node in facts["logical"]]
    return "\n".join([*lines, "", "as it runs", *running_lines(facts)])


def running_lines(facts: Mapping[str, Any]) -> list[str]:
    return [line for vertex in facts["vertices"] for line in _vertex_lines(vertex, facts["edges"])]


def key_text(key: KeySelector) -> str:
    """Return a key selector as text for people: the function's name, or the fields' names.

    Example:
        >>> key_text("author"), key_text(("repo", "author")), key_text(len)
        ("'author'", "('repo', 'author')", 'len()')
    """
    if callable(key):
        return f"{getattr(key, '__qualname__', type(key).__name__)}()"
    return repr(key)


def partitioner_text(partitioner: Partitioner) -> str:
    match partitioner:
        case ByKeyGroup(key):
            return f"by key {key_text(key)}"
        case Forward():
            return "forward"
        case Rebalance():
            return "rebalance"
        case Broadcast():
            return "broadcast"


class _Shapes:
    """The shape of the batches that enter and leave each operator: "rows", "columns" or "rows or columns"."""

    def __init__(self, plan: PhysicalPlan) -> None:
        self.entering: dict[int, str] = {}
        self.leaving: dict[int, str] = {}
        self._plan = plan
        for vertex in plan.vertices:
            arriving = self._arriving(vertex)
            for node in vertex.chain:
                self.entering[node.id] = arriving
                arriving = self.leaving[node.id] = _leaving(node, arriving)

    def of_edge(self, edge: Edge) -> str:
        if edge.tag is not None:
            return ROWS
        return self.leaving[self._plan.vertices[edge.source].chain[edge.operator].id]

    def conversion(self, node: Node) -> str | None:
        arriving = self.entering[node.id]
        if isinstance(node, TABLES):
            return None if arriving == COLUMNS else f"{arriving} -> columns"
        if arriving == ROWS or isinstance(node, SourceNode) or _keeps_columns(node):
            return None
        return f"{arriving} -> rows"

    def _arriving(self, vertex: Vertex) -> str:
        kinds = {self.of_edge(edge) for edge in self._plan.inputs(vertex.id)}
        return kinds.pop() if len(kinds) == 1 else MIXED if kinds else ROWS


def _leaving(node: Node, arriving: str) -> str:
    if isinstance(node, SourceNode):
        return COLUMNS if node.source.produces_columns else ROWS
    if isinstance(node, TABLES):
        return COLUMNS
    return arriving if _keeps_columns(node) else ROWS


def _keeps_columns(node: Node) -> bool:
    if isinstance(node, TimestampsNode):
        return isinstance(node.strategy.timestamp, str)
    if isinstance(node, SinkNode):
        return node.sink.accepts_columns is not False
    return isinstance(node, (SelectNode, *TABLES))


def _logical(node: Node, uids: Mapping[int, str | None], states: States, promised: Guarantees) -> Facts:
    facts: Facts = {
        "id": node.id,
        "kind": type(node).__name__.removesuffix("Node"),
        "name": node.name,
        "uid": uids.get(node.id, node.uid),
        "uid_given": node.uid is not None,
        "inputs": [source.id for source in node.inputs],
        "parallelism": node.parallelism,
        "record_type": type_text(node.record_type),
        "site": node.site,
    }
    if isinstance(node, TWO_SIDED):
        facts["broadcast_input"] = node.inputs[1].id
    return facts | _details(node, states, promised)


def _details(node: Node, states: States, promised: Guarantees) -> Facts:
    match node:
        case SourceNode():
            return {"source": node.source.describe(), "boundedness": node.source.boundedness.value}
        case SinkNode():
            return {"sink": node.sink.describe(), "guarantee": promised[node.id]}
        case KeyedProcessNode():
            found: list[Json] = [_state(fact) for fact in states.get(node.id, ())]
            return {"key": key_text(node.key), "state": found}
        case PartitionNode():
            return {"partitioner": partitioner_text(node.partitioner)}
        case SideOutputNode():
            return {"tag": node.tag}
        case TimestampsNode():
            return {
                "timestamp": key_text(node.strategy.timestamp),
                "out_of_orderness_ms": node.strategy.out_of_orderness_ms,
                "idleness_ms": node.strategy.idleness_ms,
                "max_drift_ms": node.strategy.max_drift_ms,
            }
        case SelectNode():
            return {"columns": list(node.columns)}
    return table_details(node)


def _state(fact: StateFact) -> Facts:
    return {"name": fact.name, "kind": fact.kind, "types": list(fact.types)}


def _vertex(vertex: Vertex, shapes: _Shapes, states: States, promised: Guarantees) -> Facts:
    return {
        "id": int(vertex.id),
        "name": vertex.name,
        "parallelism": vertex.parallelism,
        "chain": [_operator(node, shapes, states, promised) for node in vertex.chain],
    }


def _operator(node: Node, shapes: _Shapes, states: States, promised: Guarantees) -> Facts:
    facts: Facts = {
        "node": node.id,
        "name": node.name,
        "uid": node.uid,
        "emits": None if isinstance(node, SinkNode) else shapes.leaving[node.id],
        "conversion": shapes.conversion(node),
        "columns_read": columns_read(node),
        "does": [*filter_lines(node), *table_lines(node), *kept_lines(node)],
        "blocking": node.blocking,
        "state": [_state(fact) for fact in states.get(node.id, ())],
    }
    if isinstance(node, SinkNode):
        facts["guarantee"] = promised[node.id]
    return facts


def _edge(edge: Edge, shapes: _Shapes, unaligned: bool) -> Facts:
    return {
        "id": int(edge.id),
        "source": int(edge.source),
        "operator": edge.operator,
        "tag": edge.tag,
        "target": int(edge.target),
        "side": edge.side.value,
        "partitioner": partitioner_text(edge.partitioner),
        "shape": shapes.of_edge(edge),
        # Null where the question does not arise, because no checkpoint is unaligned.
        "always_aligned": always_aligned(edge) if unaligned else None,
    }


def _head_line(facts: Mapping[str, Any]) -> str:
    slots = f"{facts['slots']} slots and {facts['slots_reserved']} reserved"
    return f"job {facts['job']!r}: needs {slots}; {facts['max_parallelism']} key groups"


def _logical_line(node: Mapping[str, Any]) -> str:
    words = [f"{node['id']:>2}  {node['kind']} {node['name']!r}"]
    if node["uid_given"]:
        words.append(f"uid {node['uid']!r}")
    if node["inputs"]:
        words.append("from " + _inputs_text(node))
    for fact in ("source", "sink", "key", "partitioner", "timestamp"):
        if fact in node:
            words.append(f"{fact} {node[fact]}" if fact != "partitioner" else str(node[fact]))
    if node["record_type"] != "unknown":
        words.append(f"emits {node['record_type']}")
    if node["site"]:
        words.append(f"at {node['site']}")
    return "  ".join(words)


def _inputs_text(node: Mapping[str, list[str]]) -> str:
    if "broadcast_input" in node:
        return f"{node['inputs'][0]} and broadcast side {node['broadcast_input']}"
    return ", ".join(str(source) for source in node["inputs"])


def _vertex_lines(vertex: Mapping[str, Any], edges: Iterable[Mapping[str, Any]]) -> list[str]:
    lines = [f"  vertex {vertex['id']}: {vertex['name']}  x{vertex['parallelism']}"]
    for operator in vertex["chain"]:
        lines += _operator_lines(operator)
    for edge in edges:
        if edge["source"] == vertex["id"]:
            tag = "" if edge["tag"] is None else f" side output {edge['tag']!r}"
            aligned = ", always aligned" if edge["always_aligned"] else ""
            side = " (broadcast side)" if edge["side"] == Side.BROADCAST else ""
            way = f"{edge['partitioner']} to vertex {edge['target']}{side}, {edge['shape']}{aligned}"
            lines.append(f"    =>{tag} {way}")
    return lines


def _operator_lines(operator: Mapping[str, Any]) -> list[str]:
    lines = [f"    {operator['name']} (uid {operator['uid']!r})"]
    if operator["blocking"]:
        lines.append("      runs beside the loop")
    if operator["conversion"]:
        columns = operator["columns_read"]
        count = "" if columns is None else f": conversion of {columns} column{'s' if columns != 1 else ''}"
        lines.append(f"      converts {operator['conversion']}{count}")
    lines += [f"      {line}" for line in operator["does"]]
    for state in operator["state"]:
        lines.append(f"      state {StateFact(state['name'], state['kind'], tuple(state['types']))}")
    if "guarantee" in operator:
        promise = operator["guarantee"]
        lines.append(f"      {promise if promise == NO_CHECKPOINTS else f'guarantee {promise}'}")
    return lines
