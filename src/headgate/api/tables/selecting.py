"""Plans of the columns that a program selects; at most one column makes several rows of one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import pyarrow as pa

from headgate.api.site import user_site
from headgate.api.tables.checked_columns import checked, projected, resolved
from headgate.common.errors import PlanError
from headgate.relational.changes import CHANGE
from headgate.relational.exploding import fields_made
from headgate.relational.expressions import (
    Alias,
    Aliases,
    Expression,
    Generator,
    Reference,
    TimeWindow,
    name_of,
)
from headgate.relational.relations import Explode, Project, Relation
from headgate.relational.resolved import Column, Typed
from headgate.relational.resolving import windows_of
from headgate.relational.schema import Field, Schema
from headgate.relational.spark_types import text_of

Chosen: TypeAlias = Sequence[tuple[str | None, Expression]]
"""Expressions, each with the name of its column; None: the expression's own name."""


def selected(verb: str, child: Relation, chosen: Chosen) -> Project:
    """Return a plan that computes the columns `chosen` of plan `child`, for the call `verb`.

    Raises:
        PlanError: a column does not exist, does not fit its function, or is named twice; or several of them
            make rows.
    """
    generators = [each for _, each in chosen if isinstance(_bare(each), Generator | TimeWindow)]
    if not generators:
        return projected(
            verb, child, [(name or name_of(each), resolved(child, verb, each)) for name, each in chosen]
        )
    if len(generators) > 1:
        raise PlanError(
            f"{verb}() ({user_site()}): {generators[0]} and {generators[1]} both make rows; there may be one "
            "of them in a call"
        )
    generator = _bare(generators[0])
    assert isinstance(generator, Generator | TimeWindow)  # as it was chosen
    plan, made = _exploding(verb, child, generator)
    columns: list[tuple[str, Typed]] = []
    for name, each in chosen:
        if each is generators[0]:
            columns += zip(_names(verb, name, each, made), made, strict=True)
        else:
            columns.append((name or name_of(each), resolved(child, verb, each)))
    if child.schema.updating:  # elements come and go with their row
        change = child.schema.fields[-1]
        columns.append((CHANGE, Column(change.type, False, len(child.schema) - 1, CHANGE)))
    return projected(verb, plan, columns)


def only(verb: str, child: Relation, names: Sequence[str]) -> Project:
    """Return a plan of the columns `names` of plan `child`, for the call `verb`."""
    return selected(verb, child, [(None, Reference(name)) for name in names])


def _bare(expression: Expression) -> Expression:
    return expression.child if isinstance(expression, Alias | Aliases) else expression


def _exploding(verb: str, child: Relation, generator: Generator | TimeWindow) -> tuple[Explode, list[Column]]:
    position = outer = False
    if isinstance(generator, TimeWindow):
        values = checked(verb, lambda: windows_of(generator, child.schema))
    else:
        values = resolved(child, verb, generator.child)
        position, outer = generator.position, generator.outer
    if not (pa.types.is_list(values.type) or pa.types.is_map(values.type)):
        raise PlanError(
            f"{verb}() ({user_site()}): {generator} is of {text_of(values.type)}; expected an array or a map"
        )
    fields = fields_made(values, position=position, outer=outer)
    if isinstance(generator, TimeWindow):
        fields = (Field(generator.name, fields[0].type, False),)
    # Names that no column has, since those of the program may be the same.
    named = [Field(f"{generator}.{each.name}", each.type, each.nullable) for each in fields]
    schema = Schema((*child.schema.fields, *named), child.schema.event_time)
    first = len(child.schema)
    made = [Column(each.type, each.nullable, first + place, each.name) for place, each in enumerate(fields)]
    return Explode(schema, child, values, position, outer), made


def _names(verb: str, name: str | None, expression: Expression, made: list[Column]) -> list[str]:
    given: tuple[str, ...] = tuple(each.name for each in made)
    if isinstance(expression, Alias):
        given = (expression.name,)
    elif isinstance(expression, Aliases):
        given = expression.names
    if name is not None:
        given = (name,)
    if len(given) != len(made):
        raise PlanError(
            f"{verb}() ({user_site()}): {expression} gives {len(made)} columns "
            f"({', '.join(each.name for each in made)}) and has {len(given)} names; expected a name for each"
        )
    return list(given)
