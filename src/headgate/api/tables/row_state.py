"""Declares the state of rows that wait in windows, under names and types by which savepoints hold it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from headgate.api.declared.keyed_states import MapState
from headgate.api.declared.operator_state import OperatorListState
from headgate.api.functions import KeyedProcessFunction
from headgate.api.tables.aggregation_state import plain_name, windows_function
from headgate.common.errors import PlanError
from headgate.common.hints import Hint
from headgate.relational.changes import CHANGE
from headgate.relational.joins.equal_joins import SIDE, WINDOW_LAST, Join, WindowJoin
from headgate.relational.joins.timed_joins import MATCHED, TIMED, IntervalJoin, TimedJoin
from headgate.relational.patterns.match_plan import Match
from headgate.relational.python_types import hint_of
from headgate.relational.relations import Aggregation, Over, Rank
from headgate.relational.schema import Field


def rows_declaration(plan: WindowJoin, where: str) -> KeyedProcessFunction[Any, Any, Any]:
    """Return a function, never run, with a join's state: (last ms of the window, number) -> row, per key.

    The number tells rows of one key and window apart. PlanError, after `where`: columns' names collide.
    """
    record = rows_record(plan, where)
    rows = MapState[tuple[int, int], record]  # type: ignore[valid-type]
    return windows_function("WindowJoin", rows)


ROWS: Final = "rows"
"""Name of the keyed state of a join without windows: (0, number) -> a row of either side, and under (1,
number) what came since the last mark.
"""


def joined_declaration(plan: Join, where: str) -> KeyedProcessFunction[Any, Any, Any]:
    """Return a function, never run, with the state of a join without windows, `ROWS`, as savepoints hold it.
    PlanError, after `where`: two columns would be stored under one name.
    """
    record = with_defaults(rows_record(plan, where), [each.name for each in plan.came if "/" in each.name])
    return windows_function("Join", MapState[tuple[int, int], record], ROWS)  # type: ignore[valid-type]


FIRST: Final = "first"
"""Name of the keyed state of a rank: from (place, 0), with places 1 and up, to the row there at the last
mark; with places -1 and down to the first rows of those that came since.
"""


def first_declaration(plan: Rank, where: str) -> KeyedProcessFunction[Any, Any, Any]:
    """Return a function, never run, with the state of a rank, `FIRST`, as savepoints hold it. PlanError,
    after `where`: two columns would be stored under one name.
    """
    fields = plan.child.schema.fields[plan.keys :]
    record = named_record("RankedRows", [(each.name, hint_of(each.type)) for each in fields], where)
    record = with_defaults(record, _shown(fields))
    kept = {rows_kept(plan.n): OperatorListState[int]}
    return windows_function("Rank", MapState[tuple[int, int], record], FIRST, **kept)  # type: ignore[valid-type]


def rows_kept(n: int) -> str:
    """Return the name of the operator state that says of how many rows of a key a rank is: a program that
    asks for others does not declare it, and a restore refuses the rows, of which some would be missing.
    """
    return f"rows_{n}"


ALL: Final = "all"
"""Name of the keyed state of what is computed anew: (0, number) -> a row, and under (1, number) changes
that came since the last mark.
"""


def all_declaration(plan: Aggregation | Rank | Over, where: str) -> KeyedProcessFunction[Any, Any, Any]:
    """Return a function, never run, with the state `ALL`, as savepoints hold it. PlanError, after `where`:
    two columns would be stored under one name.
    """
    fields = [each for each in plan.child.schema if each.name not in plan.key_names]
    record = named_record("Rows", [(each.name, hint_of(each.type)) for each in fields], where)
    if not isinstance(plan, Aggregation):
        record = with_defaults(record, _shown(fields))
    return windows_function("Recomputed", MapState[tuple[int, int], record], ALL)  # type: ignore[valid-type]


SEEN: Final = "seen"
"""Name of the keyed state of what sends the first row of a key: from (0, 0) to the event time from which on a
row of the key is no duplicate.
"""


def seen_declaration(where: str) -> KeyedProcessFunction[Any, Any, Any]:
    """Return a function, never run, with the state `SEEN`, as savepoints hold it."""
    record = named_record("Seen", [("until", int)], where)
    return windows_function("Deduplicate", MapState[tuple[int, int], record], SEEN)  # type: ignore[valid-type]


def _shown(fields: Sequence[Field]) -> list[str]:
    # What rows are ordered by, and arguments of aggregates, cannot be missing.
    return [each.name for each in fields if "/" not in each.name and each.name != CHANGE]


def with_defaults(record: type, columns: Sequence[str]) -> type:
    """Return `record`, in which `columns` that a later version of the program adds are null in earlier
    rows.
    """
    record._field_defaults = {plain_name(name): None for name in columns}  # type: ignore[attr-defined]
    return record


def timed_declaration(plan: TimedJoin, where: str) -> KeyedProcessFunction[Any, Any, Any]:
    """Return a function, never run, with the state of a join by time, `TIMED`, as savepoints hold it: rows
    that may get partners. PlanError, after `where`: two columns would be stored under one name.
    """
    columns = [each for each in plan.left.schema if each.name not in (SIDE, *plan.keys)]
    fields: list[tuple[str, Hint]] = [(SIDE, int)]
    fields += [(MATCHED, bool)] if isinstance(plan, IntervalJoin) else []
    fields += [(each.name, hint_of(each.type)) for each in columns]
    record = named_record(plan.stored_name, fields, where)
    return windows_function("TimedJoin", MapState[tuple[int, int], record], TIMED)  # type: ignore[valid-type]


def match_declaration(plan: Match, where: str) -> KeyedProcessFunction[Any, Any, Any]:
    """Return a function, never run, with the state of a pattern, `ROWS`: (event time in ms, number) -> a row
    that waits for the watermark, or belongs to a partial match. PlanError, after `where`: two columns would
    be stored under one name.
    """
    fields = plan.child.schema.fields[plan.keys :]
    record = named_record("MatchedRows", [(each.name, hint_of(each.type)) for each in fields], where)
    return windows_function("Match", MapState[tuple[int, int], record], ROWS)  # type: ignore[valid-type]


def rows_record(plan: WindowJoin | Join, where: str) -> type:
    fields: list[tuple[str, Hint]] = []
    for field in plan.came if isinstance(plan, Join) else plan.left.schema:
        if field.name in (WINDOW_LAST, *plan.keys):
            continue
        fields.append((field.name, int if field.name == SIDE else hint_of(field.type)))
    # A join of another kind keeps the same rows, and has sent others.
    return named_record(plan.stored_name if isinstance(plan, Join) else "JoinedRows", fields, where)


def named_record(name: str, columns: Sequence[tuple[str, Hint]], where: str) -> type:
    """Return a record type for rows of `columns`; PlanError, after `where`: two would get one name."""
    fields = [("side" if column == SIDE else plain_name(column), hint) for column, hint in columns]
    names = [field for field, _ in fields]
    if len(set(names)) != len(names):
        twice = next(each for each in names if names.count(each) > 1)
        raise PlanError(
            f"{where}: two columns would be stored as {twice!r}, since their names differ in signs only; "
            "rename one of them"
        )
    record: type = NamedTuple(name, fields)  # type: ignore[misc]
    record.__module__ = "headgate"
    return record
