"""Nodes that tables add to a program's graph: computed columns, and the parts of a windowed aggregation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from headgate.common.plain_data import Json
from headgate.graph.logical import KeyedProcessNode, Node

if TYPE_CHECKING:
    from headgate.relational.fused_steps import AnyStep
    from headgate.relational.relations import Aggregation, WindowJoin


@dataclass(frozen=True, eq=False)
class ColumnsNode(Node):
    """Filters and computed columns of a table: `steps` are those of `relational.fused_steps`, in order."""

    steps: tuple[AnyStep, ...] = ()


@dataclass(frozen=True, eq=False)
class AccumulateNode(Node):
    """The part of a table's aggregation before the exchange: rows of a batch become accumulators.

    `aggregation` is a `relational.relations.Aggregation`.
    """

    aggregation: Aggregation | None = None


@dataclass(frozen=True, eq=False)
class WindowAggregateNode(KeyedProcessNode):
    """A table's aggregation in windows of event time; its `function` only declares the state.

    `aggregation` is a `relational.relations.Aggregation`.
    """

    aggregation: Aggregation | None = None


@dataclass(frozen=True, eq=False)
class WindowJoinNode(KeyedProcessNode):
    """A join of two tables in windows, whose input has the rows of both; `function` only declares the state.

    `join` is a `relational.relations.WindowJoin`.
    """

    join: WindowJoin | None = None


TABLES = (ColumnsNode, AccumulateNode, WindowAggregateNode, WindowJoinNode)
"""All of these nodes: they compute with columns, and rows that come in become columns."""


def table_details(node: Node) -> dict[str, Json]:
    """Return what `explain()` says of a table's node: its steps or aggregates as text; {} of other nodes."""
    if isinstance(node, ColumnsNode):
        return {"steps": [str(step) for step in node.steps]}
    if isinstance(node, AccumulateNode | WindowAggregateNode) and node.aggregation is not None:
        return {"aggregates": [str(each) for each in node.aggregation.aggregates]}
    if isinstance(node, WindowJoinNode) and node.join is not None:
        return {"join": node.join.how, "keys": list(node.join.shown_keys)}
    return {}
