"""Filters and computed columns as one operator runs them, and the pass that makes them of plan nodes.

Each step reads columns of its input, drops rows, then computes the columns of its result. A step that makes a
row for each element of an array is a kind of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from headgate.relational.exploding import made_by
from headgate.relational.relations import Explode, Filter, Project, Relation
from headgate.relational.resolved import Column, Typed, columns_in, parts_of, with_inner
from headgate.relational.schema import Schema


@dataclass(frozen=True, slots=True)
class Step:
    """One pass over a batch: `conditions` choose rows, then `columns` are computed for those that are left.

    Attributes:
        reads: the input's columns, to which the expressions refer by index.
        conditions: a row for which one is not true is not seen by those after it.
        gives: names and types of the computed columns.
    """

    reads: Schema
    conditions: tuple[Typed, ...]
    columns: tuple[Typed, ...]
    gives: Schema

    @property
    def expressions(self) -> tuple[Typed, ...]:
        """The expressions that are evaluated for each row: first the conditions, then the columns."""
        return (*self.conditions, *self.columns)

    def __str__(self) -> str:
        kept = " and ".join(map(str, self.conditions))
        named = zip(self.gives, self.columns, strict=True)
        shown = [str(each) if str(each) == field.name else f"{each} AS {field.name}" for field, each in named]
        return f"{', '.join(shown)}{f' where {kept}' if kept else ''}"


@dataclass(frozen=True, slots=True)
class ExplodeStep:
    """A step that makes a row for each element of the array or map `values`; `gives` has its columns.

    Attributes:
        kept: indices of the columns of `reads` that the new rows keep.
        made: which columns are made: "pos", and "col", or "key" and "value".
        outer: whether a row without elements gives one row, with nulls.
    """

    reads: Schema
    values: Typed
    kept: tuple[int, ...]
    made: tuple[str, ...]
    outer: bool
    gives: Schema

    @property
    def expressions(self) -> tuple[Typed, ...]:
        return (self.values,)

    def __str__(self) -> str:
        name = f"{'posexplode' if 'pos' in self.made else 'explode'}{'_outer' if self.outer else ''}"
        return ", ".join([*(self.reads.names[place] for place in self.kept), f"{name}({self.values})"])


AnyStep: TypeAlias = "Step | ExplodeStep"
"""A step of an operator that computes with columns."""


def steps_of(relation: Relation) -> tuple[Relation, tuple[AnyStep, ...]]:
    """Split a plan into what lies below its filters, projections and explodes, and these as fused steps.

    What lies below is a scan, or a node that is an operator of its own. Steps come in order of execution.
    """
    match relation:
        case Project():
            below, steps = steps_of(relation.child)
            return below, _fused(steps, Step(relation.child.schema, (), relation.columns, relation.schema))
        case Filter():
            below, steps = steps_of(relation.child)
            kept = _all_of(relation.schema)
            return below, _fused(
                steps, Step(relation.child.schema, (relation.condition,), kept, relation.schema)
            )
        case Explode():
            below, steps = steps_of(relation.child)
            return below, (*steps, _exploding(relation))
    return relation, ()


def _exploding(relation: Explode) -> ExplodeStep:
    reads = relation.child.schema
    made = made_by(relation.values.type, position=relation.position)
    return ExplodeStep(
        reads, relation.values, tuple(range(len(reads))), made, relation.outer, relation.schema
    )


def _all_of(schema: Schema) -> tuple[Typed, ...]:
    return tuple(Column(each.type, each.nullable, place, each.name) for place, each in enumerate(schema))


def _fused(steps: tuple[AnyStep, ...], last: Step) -> tuple[AnyStep, ...]:
    # Not where a column would be computed twice, or a new condition would hide a row's error.
    before = steps[-1] if steps else None
    if not isinstance(before, Step) or not _goes_into(before, last):
        return (*steps, last)
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
    """Return an expression in which each column is replaced by the expression at its index in `columns`."""
    if isinstance(expression, Column):
        return columns[expression.index]
    return with_inner(expression, tuple(substituted(part, columns) for part in expression.inner))


def pruned(steps: Sequence[AnyStep]) -> tuple[AnyStep, ...]:
    """Return steps with the same result, of which each reads and passes on only columns that are used."""
    if not steps:
        return ()
    *earlier, last = steps
    # Columns carry the number of rows, so that a step after another one reads at least one of them.
    used = _used(last) or ([0] if earlier else [])
    narrow = _narrow(last, used)
    if not earlier:
        return (narrow,)
    before = _giving(earlier[-1], used, narrow.reads)
    return (*pruned((*earlier[:-1], before)), narrow)


def _narrow(step: AnyStep, used: Sequence[int]) -> AnyStep:
    new_place = {place: at for at, place in enumerate(used)}
    read = Schema(tuple(step.reads.fields[place] for place in used), step.reads.event_time)
    moved = tuple(
        Column(field.type, field.nullable, new_place.get(place, 0), field.name)
        for place, field in enumerate(step.reads)
    )
    if isinstance(step, ExplodeStep):
        kept = tuple(new_place[place] for place in step.kept)
        return replace(step, reads=read, values=substituted(step.values, moved), kept=kept)
    conditions = tuple(substituted(each, moved) for each in step.conditions)
    return Step(read, conditions, tuple(substituted(each, moved) for each in step.columns), step.gives)


def _used(step: AnyStep) -> list[int]:
    if isinstance(step, ExplodeStep):
        return sorted({*step.kept, *columns_in(step.values)})
    return sorted(set().union(*(columns_in(each) for each in (*step.conditions, *step.columns))))


def _giving(step: AnyStep, places: Sequence[int], gives: Schema) -> AnyStep:
    if isinstance(step, ExplodeStep):
        all_made, first = step.made, len(step.kept)
        kept = tuple(step.kept[place] for place in places if place < first)
        made = tuple(all_made[place - first] for place in places if place >= first)
        return replace(step, kept=kept, made=made, gives=gives)
    return replace(step, columns=tuple(step.columns[place] for place in places), gives=gives)
