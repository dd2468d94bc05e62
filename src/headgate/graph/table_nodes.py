"""Nodes that tables add to a program's graph: computed columns, and the parts of a windowed aggregation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from headgate.common.plain_data import Json
from headgate.graph.logical import KeyedProcessNode, Node

if TYPE_CHECKING:
    from headgate.relational.fused_steps import AnyStep
    from headgate.relational.relations import Aggregation, Form
    from headgate.relational.schema import Schema


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
class TableFunctionNode(Node):
    """A function of the program in a table: it gets the columns `reads`, as `form` says, and gives `gives`.

    `function` takes and returns columns or a row, `form` is a `relational.relations.Form`.
    """

    function: Callable[..., object] | None = None
    form: Form | None = None
    reads: Schema | None = None
    gives: Schema | None = None


TABLES = (ColumnsNode, TableFunctionNode, AccumulateNode, WindowAggregateNode)
"""All of these nodes: they compute with columns, and rows that come in become columns."""


def table_details(node: Node) -> dict[str, Json]:
    """Return what `explain()` says of a table's node: its steps or aggregates as text; {} of other nodes."""
    if isinstance(node, ColumnsNode):
        return {"steps": [str(step) for step in node.steps]}
    if isinstance(node, AccumulateNode | WindowAggregateNode) and node.aggregation is not None:
        return {"aggregates": [str(each) for each in node.aggregation.aggregates]}
    return {}


def functions_within(node: Node) -> list[Callable[..., object]]:
    """Return the program's functions that the expressions of a table's node call; [] of other nodes."""
    if not isinstance(node, ColumnsNode):
        return []
    from headgate.relational.resolved import PythonApply, parts_of  # it loads Arrow, which a program need not

    parts = [part for step in node.steps for each in step.expressions for part in parts_of(each)]
    return [part.function.function for part in parts if isinstance(part, PythonApply)]
