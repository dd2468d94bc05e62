"""Conditions that partners of a join have to meet besides equal columns: checks them."""

from __future__ import annotations

import pyarrow as pa

from headgate.api.site import user_site
from headgate.api.tables.checked_columns import resolved
from headgate.api.tables.column import Column
from headgate.common.errors import PlanError
from headgate.relational.relations import Filter, Relation
from headgate.relational.resolved import PythonApply, Typed, parts_of
from headgate.relational.schema import Schema
from headgate.relational.spark_types import text_of


def residual_of(where: str, pairs: Schema, condition: Column) -> Typed:
    """Return a condition of the columns `pairs` of both sides. PlanError, after `where`: it is no condition,
    or calls a function of the program.
    """
    found = _condition(where, Relation(pairs), condition)
    if any(isinstance(part, PythonApply) for part in parts_of(found)):
        raise PlanError(
            f"{where}: where= calls a function of the program; compute its result as a column of one of the "
            "tables before the join, or, after an inner join, filter by it"
        )
    return found


def _condition(where: str, rows: Relation, condition: Column) -> Typed:
    if not isinstance(condition, Column):
        raise PlanError(f"{where} got where={condition!r:.80}; expected a condition, as in F.col('n') > 3")
    found = resolved(rows, "join", condition.expression)
    if found.type != pa.bool_():
        raise PlanError(f"{where}: where= is {found}, which is {text_of(found.type)}; expected a condition")
    return found


def filtered(joined: Relation, condition: Column) -> Filter:
    """Return the pairs of an inner join for which `condition` is true; PlanError: it is none."""
    return Filter(joined.schema, joined, _condition(f"join() ({user_site()})", joined, condition))
