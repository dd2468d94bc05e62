"""Joins of tables by equal columns, without windows: checks them, and makes their plan."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from headgate.api.site import user_site
from headgate.api.tables.checked_columns import all_columns
from headgate.api.tables.column import Column
from headgate.api.tables.firing_rules import refuse_repeated, time_to_live
from headgate.api.tables.joins.conditions import residual_of
from headgate.api.tables.joins.kinds_and_bounds import kind_of
from headgate.api.tables.joins.window_joins import (
    equal_columns,
    keys_of,
    nullable,
    others_of,
    side_column,
    with_keys,
)
from headgate.common.errors import PlanError
from headgate.relational.changes import CHANGE, Change
from headgate.relational.joins.equal_joins import ODD_KEYS, SIDE, Join
from headgate.relational.relations import JoinKind, Project, Relation
from headgate.relational.resolved import Column as ColumnOf
from headgate.relational.resolved import Constant, Typed
from headgate.relational.schema import Field, Schema

_CHANGES = (CHANGE, SIDE, ODD_KEYS)


def regular_join(
    tables: Sequence[Relation],
    on: Sequence[str],
    how: str,
    uid: str | None,
    ttl: str | int | None,
    condition: Column | None = None,
) -> Join:
    """Return the plan of a join of tables by the equal columns `on`, for :meth:`Table.join`. `how` is any of
    PySpark's names, an inner join where there are more than two tables; `uid` names the operator (None: not
    given); `condition` is of the columns of all, and None for an inner join. PlanError: `on`, `how` or
    `condition` is wrong, a key is of no possible type, windows emit more than once, or two other columns
    share a name.
    """
    where = f"join() ({user_site()})"
    kind, ttl_ms = kind_of(where, how), time_to_live("join", ttl)
    if not on or len({name.lower() for name in on}) < len(on):
        raise PlanError(
            f"{where} got the columns {', '.join(on) or '(none)'}; expected each once, one at least"
        )
    for side in tables:
        refuse_repeated("join", side)
    keys = keys_of(where, on, *tables)
    both = [keys, *(others_of(each, on) for each in tables)]
    kept = (kind in ("left", "full", "anti"), kind in ("right", "full"))
    taken_back = any(each.schema.updating for each in tables)
    inputs = [
        input_of(each if any(kept[side : side + 1]) else with_keys(each, keys), side, both, taken_back)
        for side, each in enumerate(tables)
    ]
    updating = taken_back or kind not in ("inner", "semi")
    # A semi join may share names with the other table, unless a condition has to tell them apart.
    pairs = None if condition is None else joined_schema(where, "inner", both, False)
    return Join(
        joined_schema(where, kind, both, updating or kind == "semi"),
        tuple(inputs),
        (*on, ODD_KEYS),
        kind,
        uid,
        ttl_ms,
        pairs=pairs,
        where=None if pairs is None or condition is None else residual_of(where, pairs, condition),
    )


def check_several(tables: Sequence[Relation], how: str, *, by_time: bool) -> None:
    """Raise PlanError if the join of these tables needs two of them; `by_time`: it has a window or an
    interval.
    """
    where = f"join() ({user_site()})"
    if len(tables) < 2:
        raise PlanError(f"{where} got no other table; expected one, or a list of them")
    if len(tables) == 2 or (kind_of(where, how) == "inner" and not by_time):
        return
    way = "by windows or within=" if by_time else f"of kind {how!r}"
    raise PlanError(
        f"{where} got {len(tables) - 1} other tables for a join {way}; only an inner join without them takes "
        "several at once, so join one table after the other"
    )


def input_of(
    side: Relation, number: int, both: list[list[Field]], taken_back: bool = False, *, whole: bool = False
) -> Project:
    """Return an input of a join: its columns, as a `whole` row with null for those of the other tables, and,
    if rows may be `taken_back`, whether they are. `both` are the equal columns, then the others of each
    table.
    """
    keys, *others = both
    columns: list[tuple[str, Typed]] = [
        (SIDE, Constant(pa.int32(), False, pa.scalar(number, pa.int32()))),
        *equal_columns(side, number, keys),
    ]
    mine = dict(all_columns(side))
    for at, fields in enumerate(others):
        for field in fields if whole or at == number else ():
            null = Constant(field.type, True, pa.scalar(None, field.type))
            columns.append((side_column(at, field.name), mine[field.name] if at == number else null))
    if taken_back:
        columns.append((CHANGE, _change(side)))
    fields = [Field(name, each.type, name not in _CHANGES) for name, each in columns]
    return Project(Schema(tuple(fields)), side, tuple(each for _, each in columns))


def _change(side: Relation) -> Typed:
    if not side.schema.updating:
        return Constant(pa.int8(), False, pa.scalar(Change.INSERT.value, pa.int8()))
    return ColumnOf(pa.int8(), False, len(side.schema) - 1, CHANGE)


def joined_schema(where: str, kind: JoinKind, both: list[list[Field]], updating: bool) -> Schema:
    """Return the columns of a join, changes if `updating`; PlanError, after `where`: two share a name."""
    keys, left, *others = both
    if kind in ("semi", "anti"):
        others = []
    fields = [
        *keys,
        *(nullable(each, kind in ("right", "full")) for each in left),
        *(nullable(each, kind in ("left", "full")) for right in others for each in right),
    ]
    names = [field.name for field in fields]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        some = "both" if len(both) == 3 else "two"
        raise PlanError(
            f"{where}: {some} tables have a column {twice[0]!r} that is not joined by; rename one of them"
        )
    changes = [Field(CHANGE, pa.int8(), False)] if updating else []
    return Schema((*fields, *changes))
