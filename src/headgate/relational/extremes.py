"""Finds joins of a table with the greatest or least value of its windows, for which few rows have to travel.

In such a join nearly all rows of one side have no partner, and that is known as soon as a row with a greater
value was read in the same window. So the rows are dropped before the exchange; see :class:`Extremes`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple, TypeGuard

import pyarrow as pa

from headgate.relational.aggregates import Aggregate
from headgate.relational.firing import AT_END
from headgate.relational.fused_steps import AnyStep, pruned, steps_of
from headgate.relational.relations import (
    Aggregation,
    Explode,
    Filter,
    JoinKind,
    Project,
    Relation,
    Scan,
    Windowed,
    WindowJoin,
)
from headgate.relational.resolved import Choice, Column, Constant, Typed
from headgate.relational.spark_types import WINDOW

_DROPPING: Final[tuple[frozenset[JoinKind], frozenset[JoinKind]]] = (
    frozenset({"inner", "semi", "right"}),
    frozenset({"inner", "left"}),
)
"""The joins in which rows of the left, or right, side without a partner do not come out."""


@dataclass(frozen=True, slots=True)
class Extremes:
    """Which rows of a side of a join can have the greatest (or least) value of their window.

    The join asks for rows whose value is the extreme of a tumbling window of the same rows. A row has no
    partner if one with a greater value was read in the same window.

    Attributes:
        value: name of the column that is joined by; it holds integers and no null.
        greatest: whether the extreme is the greatest value; otherwise the least.
        window: of the aggregation that finds the extreme.
        extreme: name of the aggregation's result.
        found: what makes the join's input of the aggregation's results.
    """

    value: str
    greatest: bool
    window: Windowed
    extreme: str
    found: tuple[AnyStep, ...]

    def __str__(self) -> str:
        which = "greatest" if self.greatest else "least"
        return f"rows that cannot have the {which} {self.value} of {self.window.size_ms} ms"


class _Origin(NamedTuple):
    """Where a column comes from: a stream by its number, and the place of the column in it."""

    stream: int
    place: int


def extremes_of(join: WindowJoin, side: int) -> Extremes | None:
    """Return which rows of side 0 (left) or 1 (right) of a join can have a partner; None if all can.

    The other side has to be an aggregation of all rows of the same stream in tumbling windows, without keys,
    and one of the columns that are equal its greatest or least value of the same column, an integer.
    """
    rows, found = (join.right, join.left) if side else (join.left, join.right)
    below, steps = steps_of(found)
    plan = below.of if isinstance(below, Scan) else None
    if join.how not in _DROPPING[side] or plan is None or not steps or not _is_of_all_rows(plan):
        return None
    steps = pruned(steps)
    shown = {field.name for field in plan.schema if field.type == WINDOW}
    for name in join.shown_keys:
        extreme = _extreme_of(plan, _origin(found, found.schema.place(name), filtered=True))
        if extreme is None or set(steps[0].reads.names) - {*shown, extreme.name}:
            continue
        asked = extreme.arguments[0]
        summed = _origin(plan.child, asked.index) if isinstance(asked, Column) else None
        if summed is not None and summed == _origin(rows, rows.schema.place(name), filtered=True):
            greatest = extreme.function == "max"
            return Extremes(name, greatest, plan.window, extreme.name, steps)
    return None


def _is_of_all_rows(plan: Aggregation) -> bool:
    window = plan.window
    tumbling = window.kind == "sliding" and window.size_ms == window.slide_ms
    return tumbling and window.clock == "event" and not plan.keys and plan.firing == AT_END


def _extreme_of(plan: Aggregation, origin: _Origin | None) -> Aggregate | None:
    """Return the aggregate whose result a column of the aggregation is, if that is an extreme of integers."""
    if origin is None:
        return None
    name = plan.schema.names[origin.place]
    for aggregate in plan.aggregates:
        if aggregate.name == name and aggregate.function in ("max", "min"):
            return aggregate if pa.types.is_integer(aggregate.result) else None
    return None


def _origin(relation: Relation, place: int, *, filtered: bool = False) -> _Origin | None:
    """Return the column of a stream that a plan's column is, unchanged; None if it is computed.

    With `filtered`, the plan may drop rows, and repeat them; nulls that became 0 are taken for dropped.
    """
    match relation:
        case Scan():
            return _Origin(relation.stream, place)
        case Project():
            column = relation.columns[place]
            if filtered and _is_without_nulls(column):
                column = column.otherwise
            if isinstance(column, Column):
                return _origin(relation.child, column.index, filtered=filtered)
        case Filter() if filtered:
            return _origin(relation.child, place, filtered=True)
        case Explode() if filtered and place < len(relation.child.schema):
            return _origin(relation.child, place, filtered=True)
    return None


def _is_without_nulls(column: Typed) -> TypeGuard[Choice]:
    """Return whether an expression is a column with a constant in place of nulls, as keys of a join are."""
    return isinstance(column, Choice) and all(isinstance(value, Constant) for _, value in column.branches)
