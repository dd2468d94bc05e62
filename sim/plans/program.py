"""The Headgate program of a plan."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import pyarrow as pa
from typing_extensions import override

import headgate.functions as F  # noqa: N812  # as PySpark's users write it
from headgate.api.environment import Environment
from headgate.api.sink import Sink
from headgate.api.source import (
    Plain,
    PollStatus,
    Source,
    SourceReader,
    SourceReaderContext,
    SplitEnumerator,
)
from headgate.api.tables.column import Column as Expression
from headgate.api.tables.column_table import Table
from headgate.api.tables.ranking.ordering import Ordered
from sim.plans import plan as p
from sim.store import EventReader, EventSource

TYPES: Final[dict[p.Kind, pa.DataType]] = {"int": pa.int64(), "float": pa.float64(), "text": pa.string()}
Tables = dict[str, Table[Any]]


class RowSource(Source[Any]):
    """A bounded source of rows as dicts."""

    def __init__(self, columns: Sequence[p.Column], rows: Sequence[p.Row], split_size: int) -> None:
        names = [column.name for column in columns]
        self._events = EventSource([dict(zip(names, row, strict=True)) for row in rows], split_size)

    @override
    def create_enumerator(self, restored: Plain | None) -> SplitEnumerator:
        return self._events.create_enumerator(restored)

    @override
    def create_reader(self, context: SourceReaderContext) -> SourceReader[Any]:
        return RowReader(self._events)


class RowReader(EventReader):
    """Reads a split to its end; every second poll gives nothing."""

    @override
    def poll(self, max_records: int) -> list[Any] | PollStatus:
        if self._polls % 3 == 0:
            self._polls += 1
        return super().poll(max_records)


def build(plan: p.Plan, env: Environment, sink: Callable[[str], Sink[Any]], width: int | None) -> None:
    """Add the program of a plan to an Environment.

    Args:
        plan: the description.
        env: gets the program.
        sink: makes the sink of a node.
        width: parallelism of the sinks; None: as of the node before.
    """
    tables: Tables = {}
    for uid, columns in plan.inputs.items():
        source = RowSource(columns, plan.rows[uid], plan.splits[uid])
        schema = pa.schema({column.name: TYPES[column.kind] for column in columns})
        tables[uid] = env.from_source(source, uid=uid).to_table(schema)
    for node in plan.nodes:
        tables[node.uid] = table_of(node, tables)
    for uid in plan.sinks:
        added = tables[uid].to_changes().sink_to(sink(uid), uid=f"out-{uid}")
        if width is not None:
            added.set_parallelism(width)


def table_of(node: p.Node, tables: Tables) -> Table[Any]:
    """The table of a node."""
    of = [tables[uid] for uid in node.inputs]
    match node:
        case p.Chosen():
            table = of[0] if node.condition is None else of[0].filter(condition(node.condition))
            return table.select(*map(computed, node.computed))
        case p.United():
            left, right = (t.select(*map(computed, side)) for t, side in zip(of, node.sides, strict=True))
            if node.how == "union":
                return left.union(right)
            found: Table[Any] = getattr(left, node.how)(right, uid=node.uid)
            return found
        case p.Different():
            return of[0].select(*map(computed, node.computed)).distinct(uid=node.uid)
        case p.Grouped():
            groups = of[0].group_by(*map(computed, node.keys))
            groups = groups.with_nulls() if node.nulls else groups
            return groups.agg(*map(aggregate, node.aggregates), uid=node.uid)
        case p.Joined():
            left, right = (
                t.select(*map(computed, (*keys, *others)))
                for t, keys, others in zip(of, node.keys, node.others, strict=True)
            )
            keys = [key.name for key in node.keys[0]]
            return left.join(right, keys, node.how, uid=node.uid, where=partners(node.where))
        case p.First():
            table = of[0].select(*map(computed, (*node.keys, *node.others)))
            names = [key.name for key in node.keys]
            if node.keep is not None:
                return table.drop_duplicates(names, node.keep, order(node.order), uid=node.uid)
            return table.top_n(node.n, names, order(node.order), node.rank, uid=node.uid)
        case p.Over():
            table = of[0].select(*map(computed, (*node.keys, *node.others)))
            aggregates, by = map(aggregate, node.aggregates), [key.name for key in node.keys]
            return table.over(
                *aggregates, by=by, order_by=order(node.order), preceding=node.preceding, uid=node.uid
            )
    raise AssertionError(node)


def partners(where: tuple[str, str, str] | None) -> Expression | None:
    """The condition that partners of a join have to meet."""
    if where is None:
        return None
    left, sign, right = where
    return F.col(left) < F.col(right) if sign == "<" else F.col(left) != F.col(right)


def order(names: Sequence[tuple[str, bool]]) -> list[Ordered]:
    """The order by names, each with whether it descends."""
    return [F.desc(name) if descends else F.asc(name) for name, descends in names]


def computed(each: p.Computed) -> Expression:
    """A computed column."""
    of = F.col(each.of)
    match each.how:
        case "plus":
            made = of + each.number
        case "modulo":
            made = of % each.number
        case "twice":
            made = of * 2.0
        case "known":
            made = F.when(F.isnotnull(of), 1).otherwise(0).cast("bigint")
        case "length":
            made = F.length(of).cast("bigint")
        case "filled":
            made = filled(of, each.kind)
        case _:
            made = of
    return made.alias(each.name)


def filled(of: Expression, kind: p.Kind) -> Expression:
    """A column without null and NaN."""
    if kind == "float":
        return F.coalesce(F.nanvl(of, F.lit(9.0)), F.lit(-9.0))
    return F.coalesce(of, F.lit(-9).cast("bigint") if kind == "int" else F.lit("?"))


def condition(each: p.Condition) -> Expression:
    """A condition."""
    of = F.col(each.of)
    match each.how:
        case "less":
            return of < F.lit(each.value)
        case "equal":
            return of == F.lit(each.value)
        case "unlike":
            return of != F.lit(each.value)
        case "known":
            return F.isnotnull(of)
    return F.isnull(of)


def aggregate(each: p.Aggregate) -> Expression:
    """An aggregate."""
    if each.of is None:
        return F.count("*").alias(each.name)
    of = F.col(each.of)
    if each.within is not None:
        of = F.when(condition(each.within), of)
    made = F.count_if(of > 1) if each.function == "count_if" else getattr(F, each.function)(of)
    result: Expression = made.alias(each.name)
    return result
