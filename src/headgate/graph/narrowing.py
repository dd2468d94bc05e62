"""The pass that lets a source read only the columns that are used, where only tables read of it."""

from __future__ import annotations

from dataclasses import replace

from headgate.graph.logical import Node, SourceNode, TimestampsNode
from headgate.graph.rewrites import Flow
from headgate.graph.table_nodes import ColumnsNode, TableFunctionNode


def narrow_sources(flow: Flow) -> Flow:
    """Return the graph with sources that read only the columns used, where only tables follow a source."""
    nodes = dict(flow.nodes)
    for node in flow.nodes.values():
        if isinstance(node, SourceNode) and (names := _columns_used(flow, node)) is not None:
            nodes[node.id] = replace(node, source=node.source.with_columns(names))
    return replace(flow, nodes=nodes)


def _columns_used(flow: Flow, node: Node) -> list[str] | None:
    found: list[str] = []
    for link in flow.out_of(node.id):
        consumer = flow.nodes[link.target]
        match consumer:
            case ColumnsNode() if link.tag is None:
                names = consumer.steps[0].reads.names
            case TableFunctionNode() if link.tag is None and consumer.reads is not None:
                names = consumer.reads.names
            case TimestampsNode() if isinstance(consumer.strategy.timestamp, str):
                after = _columns_used(flow, consumer)
                if after is None:
                    return None
                names = [consumer.strategy.timestamp, *after]
            case _:
                return None
        found += [name for name in dict.fromkeys(names) if name not in found]
    return found or None
