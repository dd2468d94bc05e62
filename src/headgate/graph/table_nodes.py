"""Nodes that tables add to a program's graph: columns, functions, windowed aggregations and joins."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, TypeAlias, get_args

from headgate.common.plain_data import Json
from headgate.graph.logical import KeyedProcessNode, Node

if TYPE_CHECKING:
    from headgate.relational.joins.equal_joins import Join, WindowJoin
    from headgate.relational.joins.timed_joins import TimedJoin
    from headgate.relational.passes.extremes import Extremes
    from headgate.relational.passes.fused_steps import AnyStep
    from headgate.relational.patterns.match_plan import Match
    from headgate.relational.relations import Aggregation, Deduplicate, Form, Lookup, Over, Rank
    from headgate.relational.schema import Schema


@dataclass(frozen=True, eq=False)
class ColumnsNode(Node):
    """Filters and computed columns of a table: `steps` (of `relational.passes`), in order.

    After them, rows that cannot be `extremes` of their window are dropped; None: all go on.
    """

    steps: tuple[AnyStep, ...] = ()
    extremes: Extremes | None = None


@dataclass(frozen=True, eq=False)
class AccumulateNode(Node):
    """The part of a table's aggregation before the exchange: rows of a batch become accumulators."""

    aggregation: Aggregation = field(kw_only=True)


@dataclass(frozen=True, eq=False)
class WindowAggregateNode(KeyedProcessNode):
    """A table's aggregation in windows, after the exchange; its `function` only declares the state."""

    aggregation: Aggregation = field(kw_only=True)


@dataclass(frozen=True, eq=False)
class RunningAggregateNode(WindowAggregateNode):
    """A table's aggregation without windows, after the exchange: it corrects its rows at marks."""


@dataclass(frozen=True, eq=False)
class WindowJoinNode(KeyedProcessNode):
    """A join of two tables in windows, whose input has the rows of both; its `function` declares state."""

    join: WindowJoin = field(kw_only=True)


@dataclass(frozen=True, eq=False)
class JoinNode(KeyedProcessNode):
    """A join of tables whose rows only grow in number; its input has the rows of all."""

    join: Join = field(kw_only=True)


@dataclass(frozen=True, eq=False)
class UpdatingJoinNode(JoinNode):
    """A join of tables that corrects its rows at marks."""


@dataclass(frozen=True, eq=False)
class TimedJoinNode(KeyedProcessNode):
    """A join of two tables by event time; its input has the rows of both."""

    join: TimedJoin = field(kw_only=True)


@dataclass(frozen=True, eq=False)
class FirstRowsNode(Node):
    """The part of a rank before the exchange: rows of a batch that others of it precede are left out."""

    rank: Rank = field(kw_only=True)


@dataclass(frozen=True, eq=False)
class RankNode(KeyedProcessNode):
    """The first rows of each key in some order, after the exchange; it corrects its rows at marks."""

    rank: Rank = field(kw_only=True)


@dataclass(frozen=True, eq=False)
class LookupNode(Node):
    """A join with a table that every subtask has all of, row by row of the input."""

    lookup: Lookup = field(kw_only=True)


@dataclass(frozen=True, eq=False)
class LoadedLookupNode(LookupNode):
    """A lookup whose table a function loads. It begins a chain, as no row may come before the table."""


@dataclass(frozen=True, eq=False)
class CheckedKeysNode(Node):
    """Before the exchange: rows whose keys can be grouped by."""

    plan: Aggregation | Rank | Over = field(kw_only=True)


@dataclass(frozen=True, eq=False)
class RecomputeNode(KeyedProcessNode):
    """An aggregation or a rank that is computed anew for the keys that changed, at marks."""

    plan: Aggregation | Rank | Over = field(kw_only=True)


@dataclass(frozen=True, eq=False)
class DeduplicateNode(KeyedProcessNode):
    """The first row of each key as it comes; nothing is corrected."""

    plan: Deduplicate = field(kw_only=True)


@dataclass(frozen=True, eq=False)
class TimedRowsNode(Node):
    """Before the exchange: the rows that a pattern is matched against, each with its event time."""

    match: Match = field(kw_only=True)


@dataclass(frozen=True, eq=False)
class MatchNode(KeyedProcessNode):
    """The matches of a pattern among the rows of each key, after the exchange."""

    match: Match = field(kw_only=True)


@dataclass(frozen=True, eq=False)
class TableFunctionNode(Node):
    """A table's step that calls a function of the program with the columns `reads`, and emits `gives`.

    `form` is what the function takes and returns: batches of a kind, or rows.
    """

    function: Callable[..., object] = field(kw_only=True)
    form: Form = field(kw_only=True)
    reads: Schema = field(kw_only=True)
    gives: Schema = field(kw_only=True)


TableNode: TypeAlias = (
    ColumnsNode
    | TableFunctionNode
    | AccumulateNode
    | WindowAggregateNode
    | WindowJoinNode
    | JoinNode
    | TimedJoinNode
    | FirstRowsNode
    | RankNode
    | CheckedKeysNode
    | RecomputeNode
    | DeduplicateNode
    | LookupNode
    | TimedRowsNode
    | MatchNode
)
"""A node that an operator of columns runs."""


TABLES: Final = get_args(TableNode)
"""All of these nodes: they compute with columns, and rows that come in become columns."""


AT_MARKS = (RunningAggregateNode, UpdatingJoinNode, RankNode, RecomputeNode)
"""Nodes whose operators gather corrections of their results, and send them at marks."""


def table_details(node: Node) -> dict[str, Json]:
    """Return what `explain()` says of a table's node: its steps or aggregates as text; {} for other nodes."""
    if isinstance(node, ColumnsNode):
        return {"steps": [str(step) for step in node.steps]}
    if isinstance(node, AccumulateNode | WindowAggregateNode):
        return {"aggregates": [str(each) for each in node.aggregation.aggregates]}
    if isinstance(node, WindowJoinNode | JoinNode | TimedJoinNode):
        return {"join": node.join.how, "keys": list(node.join.shown_keys)}
    if isinstance(node, MatchNode):
        return {"pattern": str(node.match.pattern), "keys": list(node.match.key_names)}
    return {}


def columns_given(node: Node) -> Schema | None:
    """Return the schema of the records that a table's last node emits; None for nodes of other kinds."""
    match node:
        case ColumnsNode():
            return node.steps[-1].gives
        case TableFunctionNode():
            return node.gives
        case WindowAggregateNode():
            return node.aggregation.schema
        case WindowJoinNode() | JoinNode() | TimedJoinNode():
            return node.join.schema
        case RankNode():
            return node.rank.schema
        case RecomputeNode() | DeduplicateNode():
            return node.plan.schema
        case LookupNode():
            return node.lookup.schema
        case MatchNode():
            return node.match.schema
    return None


def columns_read(node: Node) -> int | None:
    """Return how many columns a table's node makes of incoming rows; None: it does not convert any."""
    if isinstance(node, ColumnsNode):
        return len(node.steps[0].reads)
    if isinstance(node, TableFunctionNode):
        return len(node.reads)
    return len(node.aggregation.child.schema) if isinstance(node, AccumulateNode) else None


def table_lines(node: Node) -> Iterator[str]:
    """Yield the lines in which `explain()` tells what a table's node does when it runs; none for others."""
    if not isinstance(node, TABLES):
        return
    from headgate.relational.plan_text import (  # it loads Arrow
        aggregates_text,
        function_text,
        lookup_lines,
        match_lines,
    )

    if isinstance(node, ColumnsNode):
        yield f"reads {', '.join(node.steps[0].reads.names) or 'no column'}"
        yield from (f"gives {step}" for step in node.steps)
        if node.extremes is not None:
            yield f"drops, before the exchange, {node.extremes}"
    elif isinstance(node, TableFunctionNode):
        yield f"reads {', '.join(node.reads.names)}"
        if node.form == "rows":
            both = f"{len(node.reads)} columns, and of {len(node.gives)} back"
            yield f"converts columns -> rows -> columns: conversion of {both}"
        yield f"gives {', '.join(node.gives.names)} by {function_text(node.function)}"
    elif isinstance(node, LookupNode):
        yield from lookup_lines(node.lookup)
    elif isinstance(node, TimedJoinNode):
        yield from node.join.lines()
    elif isinstance(node, MatchNode):
        yield from match_lines(node.match)
    elif isinstance(node, AccumulateNode | WindowAggregateNode):
        part = "local, before the exchange" if isinstance(node, AccumulateNode) else "final"
        yield f"{part}: {aggregates_text(node.aggregation)}"
        if isinstance(node, WindowAggregateNode):
            yield from node.aggregation.firing.lines()


def functions_within(node: Node) -> list[Callable[..., object]]:
    """Return the program's functions that a table's node calls; [] for other nodes."""
    if isinstance(node, LookupNode):
        return [] if node.lookup.loading is None else [node.lookup.loading.function]
    if not isinstance(node, ColumnsNode):
        return []
    from headgate.relational.resolved import PythonApply, parts_of  # it loads Arrow, which a program need not

    parts = [part for step in node.steps for each in step.expressions for part in parts_of(each)]
    return [part.function.function for part in parts if isinstance(part, PythonApply)]
