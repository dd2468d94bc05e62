"""Joins with the one row that was there at a row's time: checks them, and makes their plan."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, get_args

from headgate.api.tables.joins.kinds_and_bounds import kind_of
from headgate.api.tables.joins.sides import Sides
from headgate.common.errors import PlanError
from headgate.common.time import duration_ms
from headgate.relational.joins.timed_joins import AsOfJoin, Direction
from headgate.relational.relations import Relation

KINDS: Final = ("inner", "left")


def as_of_join(
    left: Relation,
    right: Relation,
    by: Sequence[str],
    how: str,
    direction: Direction,
    tolerance: str | int | None,
    exact: bool,
    uid: str | None,
) -> AsOfJoin:
    """Return the plan of a join with the nearest row in event time, for :meth:`Table.join_asof`.

    PlanError: a column, `how`, `direction` or `tolerance` is wrong, a table has no event time, or two other
    columns share a name.
    """
    sides = Sides("join_asof", left, right, by)
    kind = kind_of(sides.where, how)
    if kind not in KINDS:
        raise PlanError(f"{sides.where}: how is {how!r}; expected one of {', '.join(KINDS)}")
    if direction not in get_args(Direction):
        expected = ", ".join(get_args(Direction))
        raise PlanError(f"{sides.where}: direction is {direction!r}; expected one of {expected}")
    if tolerance is None and direction != "backward":
        raise PlanError(
            f"{sides.where}: direction {direction!r} has no tolerance, so a row would wait for ever for one "
            "that is nearer; give the longest time as tolerance="
        )
    try:
        most = None if tolerance is None else duration_ms(tolerance, "tolerance")
    except (TypeError, ValueError) as error:
        raise PlanError(f"{sides.where}: {error}") from None
    schema, inputs = sides.schema(kind), sides.inputs(kind)
    return AsOfJoin(schema, *inputs, sides.keys, kind, uid, direction, most, exact)
