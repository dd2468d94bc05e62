"""Joins whose keys are split: rows of one table are dealt out over parts of each key, those of the other go
to all parts, so that the rows of one frequent key are in several subtasks.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from headgate.api.site import user_site
from headgate.api.tables.checked_columns import all_columns, projected, resolved
from headgate.api.tables.joins.kinds_and_bounds import kind_of
from headgate.api.tables.selecting import Chosen, selected
from headgate.common.errors import PlanError
from headgate.relational.expressions import Alias, Call, Expression, Generator, Literal, Reference
from headgate.relational.functions.row_hashes import has_map
from headgate.relational.joins.equal_joins import PART
from headgate.relational.relations import Project, Relation
from headgate.relational.schema import shown

PARTS_MAX: Final = 1_024


def check_split(parts: int, how: str, *, windows: bool, ttl: bool) -> None:
    """Raise PlanError if a join of kind `how` cannot be split into so many parts of each key. `windows` says
    whether it is by a window, `ttl` whether keys are forgotten.
    """
    where = f"join() ({user_site()})"
    if not 2 <= parts <= PARTS_MAX:
        raise PlanError(
            f"{where} got split={parts!r}; expected into how many parts each key is split, 2 to {PARTS_MAX:,}"
        )
    if kind_of(where, how) in ("right", "full"):
        raise PlanError(
            f"{where} got split= for a join of kind {how!r}, in which a row of the other table would come "
            "out without partner once for each part; exchange the tables and make it 'left', or leave split="
            " away"
        )
    if windows:
        raise PlanError(
            f"{where} got split= for a join by a window, of which a key has few rows; leave split= away, or "
            "join by within="
        )
    if ttl:
        raise PlanError(
            f"{where} got split= and ttl=, and parts of a key would be forgotten each by itself; leave one "
            "of them away"
        )


def dealt_out(table: Relation, parts: int) -> Project:
    """Return the rows of `table`, each with the number of a part, 0 to `parts` - 1, in the column `PART`. It
    is made of all its columns, so that a row that is taken back goes where it came; maps, which have no hash,
    are left out.
    """
    hashed = [Reference(each.name) for each in shown(table.schema) if not has_map(each.type)]
    part = Call("pmod", (Call("hash", tuple(hashed)), Literal(parts)))
    return _certain(projected("join", table, [*all_columns(table), (PART, resolved(table, "join", part))]))


def in_all_parts(table: Relation, parts: int) -> Project:
    """Return each row of `table` once for each part, with its number in the column `PART`."""
    numbers: Expression = Call("sequence", (Literal(0), Literal(parts - 1)))
    each = Alias(Generator(numbers, position=False, outer=False), PART)
    chosen: Chosen = [*((None, Reference(field.name)) for field in shown(table.schema)), (None, each)]
    return _certain(selected("join", table, chosen))


def _certain(plan: Project) -> Project:
    """Return the plan with `PART` as a column that is never null, so that nothing asks whether it is."""
    place = plan.schema.place(PART)
    fields, columns = list(plan.schema.fields), list(plan.columns)
    fields[place] = replace(fields[place], nullable=False)
    columns[place] = replace(columns[place], nullable=False)
    return replace(plan, schema=replace(plan.schema, fields=tuple(fields)), columns=tuple(columns))


def without_part(joined: Relation) -> Project:
    """Return the result of a join of parts without the column `PART`."""
    return projected("join", joined, [each for each in all_columns(joined) if each[0] != PART])
