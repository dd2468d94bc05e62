"""Resolves the columns that a program names; errors say in which call and on which line it is wrong."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from headgate.api.site import user_site
from headgate.common.errors import PlanError
from headgate.relational.changes import CHANGE
from headgate.relational.expressions import Expression
from headgate.relational.relations import Project, Relation
from headgate.relational.resolved import Column, Typed
from headgate.relational.resolving import resolve
from headgate.relational.schema import Field, Schema, refuse_reserved, shown

T = TypeVar("T")
"""The type of the result of the function that `checked` calls."""


def all_columns(relation: Relation) -> list[tuple[str, Typed]]:
    return [
        (each.name, Column(each.type, each.nullable, place, each.name))
        for place, each in enumerate(shown(relation.schema))
    ]


def checked(verb: str, made: Callable[[], T]) -> T:
    """Call `made` and return its result; a PlanError that it raises gets the call `verb` and its line."""
    try:
        return made()
    except PlanError as error:
        raise PlanError(f"{verb}() ({user_site()}): {error}") from None


def place_of(relation: Relation, verb: str, name: str) -> int:
    """Return the index of column `name`, from 0; PlanError, with the nearest name, if there is none."""
    return checked(verb, lambda: relation.schema.place(name))


def resolved(relation: Relation, verb: str, expression: Expression) -> Typed:
    """Return `expression` with its type; PlanError, naming `verb`, if a column is missing or does not fit."""
    return checked(verb, lambda: resolve(expression, relation.schema))


def projected(verb: str, child: Relation, chosen: list[tuple[str, Typed]]) -> Project:
    """Return a plan of the columns `chosen` (name, resolved column) of plan `child`, for call `verb`. It
    keeps event time if the column that carries it is chosen. PlanError: no column, or a name twice or kept
    for changes.
    """
    made = [name for name, each in chosen if not (isinstance(each, Column) and each.name == name)]
    refuse_reserved(made, f"{verb}() ({user_site()})")
    if child.schema.updating:  # whatever a program selects of changes, they stay changes
        change = child.schema.fields[-1]
        chosen = [*chosen, (CHANGE, Column(change.type, False, len(child.schema) - 1, CHANGE))]
    names = [name for name, _ in chosen]
    twice = {name for name in names if names.count(name) > 1}
    if twice or not names:
        what = (
            f"{sorted(twice)[0]!r} is there twice; give one another name with alias()"
            if twice
            else "no column"
        )
        raise PlanError(f"{verb}() ({user_site()}): {what}")
    time = child.schema.event_time
    kept = next((n for n, e in chosen if isinstance(e, Column) and e.name == time), None)
    fields = tuple(Field(name, each.type, each.nullable) for name, each in chosen)
    return Project(Schema(fields, kept), child, tuple(each for _, each in chosen))


def check_partitions(relation: Relation, verb: str, options: dict[str, Any]) -> None:
    """Replace the names in option `partition_by` by those that the plan's result has, in `options` itself.

    Raises:
        PlanError: there is no such column, or none is left for the files.
    """
    given = options.get("partition_by", ())
    names = [given] if isinstance(given, str) else list(given)
    if not all(isinstance(name, str) and name for name in names):
        return  # the sink refuses it
    places = [place_of(relation, verb, name) for name in names]
    if places and len(set(places)) == len(relation.schema):
        raise PlanError(f"{verb}() ({user_site()}): partition_by has every column; leave one out")
    options["partition_by"] = [relation.schema.names[place] for place in places]
