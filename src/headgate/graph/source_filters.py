"""The pass that tells a source which records all tables that read it drop, so that it may leave them out."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from headgate.graph.logical import Node, SourceNode
from headgate.graph.rewrites import Flow
from headgate.graph.table_nodes import ColumnsNode

if TYPE_CHECKING:
    from headgate.relational.column_tests import ColumnTest


def push_filters(flow: Flow) -> Flow:
    """Return the graph with sources that know the first conditions of the tables that follow them directly.

    Not past a step of event time: without the records that a filter drops, the watermark would be another.
    """
    nodes = dict(flow.nodes)
    for node in flow.nodes.values():
        tests = _tests_of_all(flow, node) if isinstance(node, SourceNode) else ()
        source = node.source.with_filters(tests) if isinstance(node, SourceNode) and tests else None
        if isinstance(node, SourceNode) and source is not None and source is not node.source:
            nodes[node.id] = replace(node, source=source, filters=tests)
    return replace(flow, nodes=nodes)


def _tests_of_all(flow: Flow, node: SourceNode) -> tuple[ColumnTest, ...]:
    """Return the conditions that all readers of a source have in common."""
    common: tuple[ColumnTest, ...] | None = None
    for link in flow.out_of(node.id):
        consumer = flow.nodes[link.target]
        if not isinstance(consumer, ColumnsNode) or link.tag is not None:
            return ()
        from headgate.relational.passes.source_conditions import conditions_for_source  # it loads Arrow

        found = conditions_for_source(consumer.steps)
        common = found if common is None else tuple(each for each in common if each in found)
    return common or ()


def filter_lines(node: Node) -> Iterator[str]:
    """Yield the line in which `explain()` tells what a source was asked to leave out; none for others."""
    if isinstance(node, SourceNode) and node.filters:
        yield f"pushed filters: {', '.join(map(str, node.filters))}"
