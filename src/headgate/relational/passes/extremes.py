"""Finds joins of a table with the greatest or least value of its windows, for which few rows have to travel.

In such a join nearly all rows of one side have no partner, and that is known as soon as a row with a greater
value was read in the same window. So the rows are dropped before the exchange; see :class:`Extremes`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple

import pyarrow as pa

from headgate.relational.aggregates import Aggregate
from headgate.relational.firing import AT_END
from headgate.relational.joins.equal_joins import WindowJoin
from headgate.relational.passes.fused_steps import AnyStep, pruned, steps_of
from headgate.relational.relations import (
    WINDOW_START,
    Aggregation,
    Explode,
    Filter,
    JoinKind,
    Project,
    Relation,
    Scan,
    Windowed,
)
from headgate.relational.resolved import Choice, Column, PythonApply, WindowsOf, columns_in, parts_of
from headgate.relational.spark_types import WINDOW

SAME: Final = "same"
"""The kind of windows that are those in the input's column of event time."""

_DROPPING: Final[tuple[frozenset[JoinKind], frozenset[JoinKind]]] = (
    frozenset({"inner", "semi", "right"}),
    frozenset({"inner", "left"}),
)
"""The joins in which rows of the left, or right, side without a partner do not come out."""


@dataclass(frozen=True, slots=True)
class Extremes:
    """Which rows of a side of a join can have the greatest (or least) value of their window.

    The join asks for rows whose value is the extreme of a tumbling window of the same rows, or of the window
    that is a column of theirs. A row has no partner if one with a greater value was read in the same window.

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
        windows = "their window" if self.of_column else f"{self.window.size_ms} ms"
        return f"rows that cannot have the {which} {self.value} of {windows}"

    @property
    def of_column(self) -> bool:
        """Whether the windows are a column of the rows, by which they are joined as well."""
        return self.window.kind == SAME


class _Origin(NamedTuple):
    """Where a column comes from: the number of a stream, and a field of its records, read as a type."""

    stream: int
    name: str
    type: pa.DataType


def extremes_of(join: WindowJoin, side: int) -> Extremes | None:
    """Return which rows of side 0 (left) or 1 (right) of a join can have a partner; None: all, or unknown.
    The other rows are dropped before the exchange.

    The other side has to be an aggregation of all rows of the same stream in tumbling windows, or those of
    its column of event time, without keys, and one of the columns that are equal its greatest or least value
    of the same column, an integer. In each window of the join there may be the result of one window of the
    aggregation only. What is computed of the result must never fail, as it is computed of values that become
    no results, too.
    """
    rows, found = (join.right, join.left) if side else (join.left, join.right)
    below, steps = steps_of(found)
    plan = below.of if isinstance(below, Scan) else None
    if join.how not in _DROPPING[side] or plan is None or not steps or not _is_of_all_rows(plan):
        return None
    steps = pruned(steps)
    if any(map(_may_fail, steps)) or not _one_result_each(found, plan):
        return None
    shown = {field.name for field in plan.schema if field.type == WINDOW}
    for name in join.shown_keys:
        extreme = _extreme_of(plan, _key_origin(found, name))
        if extreme is None or set(steps[0].reads.names) - {*shown, extreme.name}:
            continue
        asked = extreme.arguments[0]
        of_all = _origin(plan.child, asked.index, filtered=False) if isinstance(asked, Column) else None
        if of_all is not None and of_all == _key_origin(rows, name) and _in_its_windows(rows, plan):
            greatest = extreme.function == "max"
            return Extremes(name, greatest, plan.window, extreme.name, steps)
    return None


def _is_of_all_rows(plan: Aggregation) -> bool:
    window = plan.window
    tumbling = window.kind == "sliding" and window.size_ms == window.slide_ms
    keys = [plan.child.schema.fields[place].name for place in plan.keys]
    whole = keys == [WINDOW_START] if window.kind == SAME else tumbling and not keys
    return whole and window.clock == "event" and plan.firing == AT_END


def _in_its_windows(rows: Relation, plan: Aggregation) -> bool:
    """Return whether rows that have their windows in a column are joined in the windows of that column."""
    if plan.window.kind != SAME:
        return True
    below = plan.child
    while isinstance(below, Project | Filter):
        below = below.child
    if not isinstance(rows, Project) or not isinstance(below, Scan) or below.schema.event_time is None:
        return False
    starts = rows.columns[rows.schema.place(WINDOW_START)]
    places = [part.index for part in parts_of(starts) if isinstance(part, Column)]
    windows = _Origin(below.stream, below.schema.event_time, WINDOW)
    return len(places) == 1 and _origin(rows.child, places[0], filtered=True) == windows


def _may_fail(step: AnyStep) -> bool:
    # What reads only windows cannot meet other values: they are those of results in any case.
    for each in step.expressions:
        reads = {step.reads.fields[place].type for place in columns_in(each)}
        calls = any(isinstance(part, PythonApply) for part in parts_of(each))
        if calls or (each.may_fail and reads != {WINDOW}):
            return True
    return False


def _one_result_each(found: Relation, plan: Aggregation) -> bool:
    """Return whether results of different windows of the aggregation lie in different windows of the join.

    They do if the join's windows are the aggregation's, or windows of their last moment such that each has
    one such moment at most.
    """
    starts = found.columns[found.schema.place(WINDOW_START)] if isinstance(found, Project) else None
    places = [part.index for part in parts_of(starts) if isinstance(part, Column)] if starts else []
    if not isinstance(found, Project) or len(places) != 1:
        return False
    below, place = found.child, places[0]
    while isinstance(below, Filter | Project):
        if isinstance(below, Project):
            column = below.columns[place]
            if not isinstance(column, Column):
                return False
            place = column.index
        below = below.child
    if isinstance(below, Scan) or plan.window.kind == SAME:
        return isinstance(below, Scan) and below.of is plan
    windows = below.values if isinstance(below, Explode) and place == len(below.child.schema) else None
    if not isinstance(windows, WindowsOf) or windows.grow or not isinstance(below, Explode):
        return False
    window = next(field.name for field in plan.schema if field.type == WINDOW)
    last_moment = f"timestamp_micros((unix_micros({window}.end) - 1))"
    at_scan = isinstance(below.child, Scan) and below.child.of is plan
    return at_scan and str(windows.child) == last_moment and _lasts_within(windows, plan) <= 1


def _lasts_within(windows: WindowsOf, plan: Aggregation) -> int:
    # Last moments of the aggregation's windows in each of these windows, in microseconds.
    every, first = plan.window.size_ms * 1000, plan.window.offset_ms * 1000 - 1
    if windows.slide % every:
        return windows.size  # it depends on the window
    start = windows.offset
    return (start + windows.size - 1 - first) // every - (start - 1 - first) // every


def _extreme_of(plan: Aggregation, origin: _Origin | None) -> Aggregate | None:
    for aggregate in plan.aggregates:
        if origin is not None and aggregate.name == origin.name and aggregate.function in ("max", "min"):
            return aggregate if pa.types.is_integer(aggregate.result) else None
    return None


def _key_origin(side: Relation, name: str) -> _Origin | None:
    # In the input of a join a key has 0 in place of null.
    column = side.columns[side.schema.place(name)] if isinstance(side, Project) else None
    if isinstance(column, Choice) and isinstance(column.otherwise, Column):
        nulls = [each for each, _ in column.branches]
        if [str(each) for each in nulls] == [f"isnull({column.otherwise})"]:
            column = column.otherwise
    if not isinstance(side, Project) or not isinstance(column, Column):
        return None
    return _origin(side.child, column.index, filtered=True)


def _origin(relation: Relation, place: int, *, filtered: bool) -> _Origin | None:
    """Return the column of a stream that a plan's column is, unchanged; None if it is computed.

    With `filtered`, the plan may drop rows, and repeat them.
    """
    match relation:
        case Scan():
            field = relation.schema.fields[place]
            return _Origin(relation.stream, field.name, field.type)
        case Project():
            column = relation.columns[place]
            if isinstance(column, Column):
                return _origin(relation.child, column.index, filtered=filtered)
        case Filter() if filtered:
            return _origin(relation.child, place, filtered=True)
        case Explode() if filtered and place < len(relation.child.schema):
            return _origin(relation.child, place, filtered=True)
    return None
