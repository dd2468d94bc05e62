"""Joins of tables by equal columns in the same window: checks them, and makes their plan."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import reduce

import pyarrow as pa

from headgate.api.site import user_site
from headgate.api.tables.checked_columns import all_columns, resolved
from headgate.api.tables.column import Column
from headgate.api.tables.firing_rules import refuse_repeated, refuse_wall_clock
from headgate.api.tables.joins.conditions import residual_of
from headgate.api.tables.joins.kinds_and_bounds import kind_of
from headgate.common.errors import PlanError
from headgate.relational.expressions import Call, Literal, Reference
from headgate.relational.joins.equal_joins import ODD_KEYS, SIDE, WINDOW_LAST, WindowJoin, side_prefix
from headgate.relational.joins.odd_keys import as_key, bit_where, is_float
from headgate.relational.python_types import can_be_key
from headgate.relational.relations import WINDOW_START, Filter, JoinKind, Project, Relation
from headgate.relational.resolved import Constant, Typed
from headgate.relational.resolving import called, common_of, convert
from headgate.relational.schema import Field, Schema, shown
from headgate.relational.spark_types import WINDOW, text_of


def joins_windows(tables: Sequence[Relation], on: Sequence[str]) -> bool:
    """Return whether one of the columns `on` is a window, in all tables."""
    return any(all(_is_window(each, name) for each in tables) for name in on)


def _is_window(side: Relation, name: str) -> bool:
    place = side.schema.find(name)
    return place is not None and side.schema.fields[place].type == WINDOW


def window_join(
    tables: Sequence[Relation],
    on: Sequence[str],
    how: str,
    uid: str | None,
    condition: Column | None = None,
) -> WindowJoin:
    """Return the plan of a join of two tables by equal columns in a window, for :meth:`Table.join`. `on`
    names columns that both have, exactly one of them a window that is never null; `how` is any of PySpark's
    names; `uid` names the operator (None: not given); `condition` is of the columns of both, and None for an
    inner join. PlanError: `on`, `how` or `condition` is wrong, a key is of no possible type, the windows are
    of the wall clock or emit more than once, or two other columns share a name.
    """
    where = f"join() ({user_site()})"
    kind = kind_of(where, how)
    left, right = tables
    for side in tables:
        refuse_repeated("join", side)
        refuse_wall_clock("join", side)
    window = _window_of(where, left, right, on)
    names = [name for name in on if name != window]
    if len({name.lower() for name in names}) < len(names):
        raise PlanError(f"{where}: a column is named twice in {', '.join(on)}; name each once")
    keys = keys_of(where, names, left, right)
    both = [keys, others_of(left, on), others_of(right, on)]
    kept = (kind in ("left", "full", "anti"), kind in ("right", "full"))
    inputs = [
        _input(each if kept[side] else with_keys(each, keys), side, window, both)
        for side, each in enumerate(tables)
    ]
    schema = _schema(where, window, kind, both)
    equal = (*names, ODD_KEYS, WINDOW_START) if names else (WINDOW_START,)
    join = WindowJoin(schema, inputs[0], inputs[1], equal, kind, window, uid)
    if condition is None:
        return join
    # A semi join may share names with the other table, unless a condition has to tell them apart.
    pairs = _schema(where, window, "inner", both)
    return replace(join, pairs=pairs, where=residual_of(where, pairs, condition))


def with_keys(side: Relation, keys: list[Field]) -> Relation:
    for key in keys:
        if key.nullable:
            condition = resolved(side, "join", Call("isnotnull", (Reference(key.name),)))
            side = Filter(side.schema, side, condition)
    return side


def _window_of(where: str, left: Relation, right: Relation, on: Sequence[str]) -> str:
    windows = [
        name
        for name in on
        if all(_type(resolved(each, "join", Reference(name))) == WINDOW for each in (left, right))
    ]
    if len(windows) != 1:
        raise PlanError(
            f"{where} got {len(windows)} windows among the columns {', '.join(on) or '(none)'}; expected one "
            "that both tables have, as rows without a window would have to be kept for ever"
        )
    for side, each in (("left", left), ("right", right)):
        if resolved(each, "join", Reference(windows[0])).nullable:
            raise PlanError(
                f"{where}: {windows[0]!r} of the {side} table may be null, and a row without a window would "
                "have to be kept for ever; join before the union by which it may be missing"
            )
    return windows[0]


def _type(column: Typed) -> pa.DataType:
    return column.type


def keys_of(where: str, keys: Sequence[str], *tables: Relation) -> list[Field]:
    found = []
    for name in keys:
        sides = [resolved(each, "join", Reference(name)) for each in tables]
        both = "both" if len(tables) == 2 else "all"
        kind = common_of(sides, f"{where}: the columns {name!r} of {both} tables")
        if not can_be_key(kind):
            raise PlanError(
                f"{where}: {name} is {text_of(kind)}, by which rows cannot be joined; cast it to string or "
                "to a number"
            )
        found.append(Field(name, kind, any(each.nullable for each in sides)))
    return found


def others_of(side: Relation, on: Sequence[str]) -> list[Field]:
    joined = {name.lower() for name in on}
    return [field for field in shown(side.schema) if field.name.lower() not in joined]


def _input(side: Relation, number: int, window: str, both: list[list[Field]]) -> Project:
    keys, *others = both
    last = Call("-", (Call("unix_millis", (Reference(f"{window}.end"),)), Literal(1)))
    columns: list[tuple[str, Typed]] = [
        (WINDOW_LAST, resolved(side, "join", last)),
        (SIDE, Constant(pa.int32(), False, pa.scalar(number, pa.int32()))),
        *equal_columns(side, number, keys),
        (WINDOW_START, resolved(side, "join", Call("unix_millis", (Reference(f"{window}.start"),)))),
    ]
    mine = dict(all_columns(side))
    for at, fields in enumerate(others):
        for field in fields:
            null = Constant(field.type, True, pa.scalar(None, field.type))
            columns.append((side_column(at, field.name), mine[field.name] if at == number else null))
    never_null = (WINDOW_LAST, SIDE, WINDOW_START, ODD_KEYS)
    fields = [Field(name, each.type, name not in never_null) for name, each in columns]
    return Project(Schema(tuple(fields)), side, tuple(each for _, each in columns))


def equal_columns(side: Relation, number: int, keys: list[Field]) -> list[tuple[str, Typed]]:
    found = [convert(resolved(side, "join", Reference(key.name)), key.type) for key in keys]
    columns = [(key.name, as_key(each)) for key, each in zip(keys, found, strict=True)]
    if not keys:
        return columns
    nulls = [called("isnull", [each]) for each in found]
    bits = [bit_where(bit, called("isnan", [each])) for bit, each in enumerate(found) if is_float(each)]
    bits += [bit_where(len(keys) + bit, null) for bit, null in enumerate(nulls)]
    if number:
        bits.append(bit_where(2 * len(keys), reduce(lambda one, other: called("or", [one, other]), nulls)))
    return [*columns, (ODD_KEYS, reduce(lambda one, other: called("|", [one, other]), bits))]


def side_column(side: int, name: str) -> str:
    return f"{side_prefix(side)}{name}"


def _schema(where: str, window: str, kind: JoinKind, both: list[list[Field]]) -> Schema:
    keys, left, right = both
    if kind in ("semi", "anti"):
        right = []
    fields = [
        *keys,
        Field(window, WINDOW, False),
        *(nullable(each, kind in ("right", "full")) for each in left),
        *(nullable(each, kind in ("left", "full")) for each in right),
    ]
    names = [field.name for field in fields]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise PlanError(
            f"{where}: both tables have a column {twice[0]!r} that is not joined by; rename one of them"
        )
    return Schema(tuple(fields), window)


def nullable(field: Field, may_be_missing: bool) -> Field:
    return Field(field.name, field.type, field.nullable or may_be_missing)
