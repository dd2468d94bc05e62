"""Filters and computed columns as one operator runs them, and the pass that makes them of plan nodes.

Each step reads columns of what comes in, drops rows, then computes the columns that it gives.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from headgate.relational.relations import Aggregation, Filter, Project, Relation, Scan
from headgate.relational.resolved import (
    Apply,
    Choice,
    Column,
    Conversion,
    Member,
    Typed,
    columns_in,
    parts_of,
)
from headgate.relational.schema import Schema


@dataclass(frozen=True, slots=True)
class Step:
    """One pass over a batch: `conditions` choose rows, then `columns` are computed; both read `reads`.

    A row that fails a condition is not there for the conditions after it.
    """

    reads: Schema
    conditions: tuple[Typed, ...]
    columns: tuple[Typed, ...]
    gives: Schema

    def __str__(self) -> str:
        kept = " and ".join(map(str, self.conditions))
        named = zip(self.gives, self.columns, strict=True)
        shown = [str(each) if str(each) == field.name else f"{each} AS {field.name}" for field, each in named]
        return f"{', '.join(shown)}{f' where {kept}' if kept else ''}"


def steps_of(relation: Relation) -> tuple[Scan, tuple[Step, ...]]:
    """Return the scan below a plan of filters and projections, and the steps that compute it, fused.

    Aggregations are not below: a table that is aggregated scans the aggregation's results.
    """
    match relation:
        case Scan():
            return relation, ()
        case Project():
            scan, steps = steps_of(relation.child)
            return scan, _fused(steps, Step(relation.child.schema, (), relation.columns, relation.schema))
        case Filter():
            scan, steps = steps_of(relation.child)
            kept = _all_of(relation.schema)
            return scan, _fused(
                steps, Step(relation.child.schema, (relation.condition,), kept, relation.schema)
            )
        case Aggregation():
            raise AssertionError("an aggregation is a node of its own")
    raise AssertionError(f"{type(relation).__name__} does not run yet")


def _all_of(schema: Schema) -> tuple[Typed, ...]:
    return tuple(Column(each.type, each.nullable, place, each.name) for place, each in enumerate(schema))


def _fused(steps: tuple[Step, ...], last: Step) -> tuple[Step, ...]:
    """Append a step; it becomes one with the step before where no column is then computed twice."""
    if not steps or not _goes_into(steps[-1], last):
        return (*steps, last)
    before = steps[-1]
    conditions = (*before.conditions, *(substituted(each, before.columns) for each in last.conditions))
    columns = tuple(substituted(each, before.columns) for each in last.columns)
    return (*steps[:-1], Step(before.reads, conditions, columns, last.gives))


def _goes_into(before: Step, last: Step) -> bool:
    uses = [
        part.index
        for each in (*last.conditions, *last.columns)
        for part in parts_of(each)
        if isinstance(part, Column)
    ]
    computed = {place for place, each in enumerate(before.columns) if not isinstance(each, Column)}
    once = all(uses.count(place) <= 1 for place in computed)
    # What may fail was computed for all rows that came in; a new condition before it would hide its error.
    fails = any(before.columns[place].may_fail for place in computed)
    return once and not (fails and last.conditions)


def substituted(expression: Typed, columns: tuple[Typed, ...]) -> Typed:
    """Return an expression in which every column is replaced by the one at its place in `columns`."""
    match expression:
        case Column():
            return columns[expression.index]
        case Member() | Conversion():
            return replace(expression, child=substituted(expression.child, columns))
        case Apply():
            inner = tuple(substituted(each, columns) for each in expression.arguments)
            return replace(expression, arguments=inner)
        case Choice():
            branches = tuple(
                (substituted(c, columns), substituted(v, columns)) for c, v in expression.branches
            )
            return replace(
                expression, branches=branches, otherwise=substituted(expression.otherwise, columns)
            )
    return expression


def pruned(steps: tuple[Step, ...]) -> tuple[Step, ...]:
    """Return the steps such that each reads, and the one before it gives, only columns that are used."""
    if not steps:
        return ()
    *earlier, last = steps
    used = sorted(set().union(*(columns_in(each) for each in (*last.conditions, *last.columns))))
    new_place = {place: at for at, place in enumerate(used)}
    read = tuple(last.reads.fields[place] for place in used)
    moved = tuple(
        Column(field.type, field.nullable, new_place.get(place, 0), field.name)
        for place, field in enumerate(last.reads)
    )
    conditions = tuple(substituted(each, moved) for each in last.conditions)
    columns = tuple(substituted(each, moved) for each in last.columns)
    narrow = Step(Schema(read, last.reads.event_time), conditions, columns, last.gives)
    if not earlier:
        return (narrow,)
    before = earlier[-1]
    kept = replace(before, columns=tuple(before.columns[place] for place in used), gives=narrow.reads)
    return (*pruned((*earlier[:-1], kept)), narrow)
