"""Unions of two tables: columns are paired by place or name, each gets the type that both fit into."""

from __future__ import annotations

from typing import NamedTuple

import pyarrow as pa

from headgate.common.errors import PlanError
from headgate.relational.relations import Project, Relation, Union
from headgate.relational.resolved import Column, Constant, Typed
from headgate.relational.resolving import convert
from headgate.relational.schema import Field, Schema
from headgate.relational.spark_types import common_type, text_of


class Pair(NamedTuple):
    """A column of a union: its name, and its index in the left and right table; None: that table lacks it."""

    name: str
    left: int | None
    right: int | None


def by_position(left: Schema, right: Schema) -> list[Pair]:
    """Return the columns of a union that pairs columns by position; names are those of the left table.

    Raises:
        PlanError: the tables have different numbers of columns.
    """
    if len(left) != len(right):
        raise PlanError(
            f"the tables have {len(left)} and {len(right)} columns: {', '.join(left.names)}; and "
            f"{', '.join(right.names)}; select the same columns of both"
        )
    return [Pair(name, place, place) for place, name in enumerate(left.names)]


def by_name(left: Schema, right: Schema, *, allow_missing: bool) -> list[Pair]:
    """Return the columns of a union by name, in the order of the left; those of the right alone come last.

    Raises:
        PlanError: a column is on one side only, and `allow_missing` is false; or two match one.
    """
    pairs = [Pair(name, place, right.find(name)) for place, name in enumerate(left.names)]
    known = {pair.right for pair in pairs}
    if len([pair for pair in pairs if pair.right is not None]) > len(known - {None}):
        raise PlanError(
            f"several of the columns {', '.join(left.names)} are called the same but for case, and one of "
            f"the other table, which has {', '.join(right.names)}, would be taken for each; rename them"
        )
    pairs += [Pair(name, None, place) for place, name in enumerate(right.names) if place not in known]
    for name, mine, its in pairs:
        if not allow_missing and (mine is None or its is None):
            other = left if mine is None else right
            raise PlanError(
                f"column {name!r} is in one of the tables only; the other one has {', '.join(other.names)}; "
                "with allow_missing=True it is null there"
            )
    return pairs


def united(left: Relation, right: Relation, pairs: list[Pair]) -> Union:
    """Return the plan of a union of `pairs` of columns. Event time stays if a pair carries it on both sides.

    Raises:
        PlanError: two columns have no type in common.
    """
    both = [(_column(left, pair.left), _column(right, pair.right)) for pair in pairs]
    fields = [_field(pair.name, mine, its) for pair, (mine, its) in zip(pairs, both, strict=True)]
    time = next(
        (pair.name for pair in pairs if _is_time(left, pair.left) and _is_time(right, pair.right)), None
    )
    schema = Schema(tuple(fields), time)
    sides = [
        Project(schema, child, tuple(convert(c, f.type) for c, f in zip(columns, fields, strict=True)))
        for child, columns in zip((left, right), zip(*both, strict=True), strict=True)
    ]
    return Union(schema, tuple(sides))


def _column(relation: Relation, place: int | None) -> Typed:
    if place is None:
        return Constant(pa.null(), True, pa.scalar(None))
    field = relation.schema.fields[place]
    return Column(field.type, field.nullable, place, field.name)


def _is_time(relation: Relation, place: int | None) -> bool:
    return place is not None and relation.schema.fields[place].name == relation.schema.event_time


def _field(name: str, left: Typed, right: Typed) -> Field:
    kind = common_type(left.type, right.type)
    if kind is None:
        raise PlanError(
            f"column {name!r} is {text_of(left.type)} in one table and {text_of(right.type)} in the other, "
            "which have no type in common; cast one of them"
        )
    return Field(name, kind, left.nullable or right.nullable)
