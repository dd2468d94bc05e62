"""Plans of operations on sets of rows, in which null is equal to null: both sides are counted, row by row."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Final

import pyarrow as pa

from headgate.api.tables.checked_columns import all_columns, checked, projected
from headgate.api.tables.firing_rules import refuse_repeated, time_to_live
from headgate.api.tables.retracting import WEIGHT, with_weights
from headgate.relational.aggregates import resolve_aggregate
from headgate.relational.changes import CHANGE
from headgate.relational.expressions import AggregateCall, Expression, Reference
from headgate.relational.joins.odd_keys import keys_with_nulls
from headgate.relational.relations import RUNNING, Aggregation, Copies, Project, Relation, Windowed
from headgate.relational.resolved import Column, Constant, Typed
from headgate.relational.schema import Field, Schema, shown
from headgate.relational.united_tables import by_position, united

_SIDES: Final = ("__left", "__right")
"""Names of the columns that say how often a row is there on either side."""


def set_operation(
    verb: str, copies: Copies, left: Relation, right: Relation | None, uid: str | None, ttl: str | int | None
) -> tuple[Aggregation, dict[str, Expression]]:
    """Return the plan of an operation on the rows of tables, for the call `verb`, and the columns of its
    result as computed of the plan's. `right` is None where there is one table. PlanError: tables have other
    numbers of columns, types without one in common, or columns that are not compared.
    """
    for each in (left, right):
        if each is not None:
            refuse_repeated(verb, each)
    both: Relation = _counted(left, 0)
    if right is not None:
        both = checked(verb, partial(_both, left, right))
    count = len(both.schema) - len(_SIDES)
    keys = checked(verb, partial(keys_with_nulls, both.schema, list(range(count))))
    child = projected(verb, both, [*keys.columns, *all_columns(both)[count:]])
    child = replace(child, schema=Schema(child.schema.fields))
    sums = tuple(
        resolve_aggregate(AggregateCall("sum", (Reference(side),)), side, child.schema) for side in _SIDES
    )
    places = tuple(range(len(keys.columns)))
    fields = (*(child.schema.fields[place] for place in places), Field(CHANGE, pa.int8(), False))
    plan = Aggregation(
        Schema(fields),
        child,
        places,
        Windowed(0, 0, 0, RUNNING),
        sums,
        uid,
        copies=copies,
        ttl_ms=time_to_live(verb, ttl),
    )
    return plan, keys.given


def _both(left: Relation, right: Relation) -> Relation:
    by_position(Schema(shown(left.schema)), Schema(shown(right.schema)))
    mine, its = _counted(left, 0), _counted(right, 1)
    return united(mine, its, by_position(mine.schema, its.schema))


def _counted(side: Relation, number: int) -> Project:
    weighted = with_weights(side) if side.schema.updating else _once(side)
    columns: list[tuple[str, Typed]] = all_columns(weighted)
    (_, weight), none = columns.pop(), Constant(pa.int32(), False, pa.scalar(0, pa.int32()))
    columns += [(name, weight if number == place else none) for place, name in enumerate(_SIDES)]
    fields = tuple(Field(name, each.type, each.nullable) for name, each in columns)
    return Project(Schema(fields), weighted, tuple(each for _, each in columns))


def _once(side: Relation) -> Project:
    kept = [Column(each.type, each.nullable, place, each.name) for place, each in enumerate(side.schema)]
    once = Constant(pa.int32(), False, pa.scalar(1, pa.int32()))
    fields = (*side.schema.fields, Field(WEIGHT, pa.int32(), False))
    return Project(Schema(fields), side, (*kept, once))
