"""Declares the state of an aggregation in windows, under names and types by which savepoints hold it."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from headgate.api.declared.keyed_states import MapState, map_state
from headgate.api.declared.operator_state import OperatorListState, operator_list_state
from headgate.api.functions import KeyedProcessFunction
from headgate.api.site import user_site
from headgate.common.errors import PlanError
from headgate.common.hints import Hint
from headgate.relational.aggregating.lists import kept_list
from headgate.relational.python_types import hint_of
from headgate.relational.relations import RUNNING, Aggregation

GROUPS: Final = "groups"
"""Name of the keyed state of an aggregation without windows: a map from 0 to what the last mark's answer was
made of, and from 1 to what came since. Where different values are counted, the places are (0, number) and
(1, number), and other records under (0, number) have lists of values, with what was told of each.
"""


def state_declaration(plan: Aggregation) -> KeyedProcessFunction[Any, Any, Any]:
    """Return a function, never run, whose class declares the state of an aggregation, as savepoints hold it.

    The keyed state `windows` maps the ms since 1970 at which a slice of event time, or a session, begins to
    its accumulators. The operator state `forgotten` lists (first key group, last key group, ms): in these key
    groups windows whose last ms is at most that one were removed. PlanError: two accumulators get one name.
    """
    record = accumulators_record(plan)
    if plan.window.kind == RUNNING and plan.distinct:
        numbered = MapState[tuple[int, int], record]  # type: ignore[valid-type]
        return windows_function("RunningAggregation", numbered, GROUPS)
    if plan.window.kind == RUNNING:
        return windows_function("RunningAggregation", MapState[int, record], GROUPS)  # type: ignore[valid-type]
    windows = MapState[int, record]  # type: ignore[valid-type]
    return windows_function("WindowAggregation", windows, forgotten=OperatorListState[tuple[int, int, int]])


def windows_function(
    name: str, windows: Hint, state: str = "windows", **more: Hint
) -> KeyedProcessFunction[Any, Any, Any]:
    """Return a function, never run, of class `name`, with a map state called `state` of the type `windows`.

    It also declares operator states, as union lists: `more`, name -> type, and `ahead`, which holds the key
    groups that are further in event time than their subtask, each with its watermark.
    """
    ahead = OperatorListState[tuple[int, int]]
    of_operator = {"ahead": ahead, **more}
    unions = {each: operator_list_state(redistribution="union") for each in of_operator}
    states = {state: map_state(), **unions}
    hints = {"__annotations__": {state: windows, **of_operator}}
    body = {**hints, **states, "process": _refuse, "__module__": __name__}
    function: KeyedProcessFunction[Any, Any, Any] = type(name, (KeyedProcessFunction,), body)()
    return function


def _refuse(_self: Any, _record: Any, _ctx: Any) -> None:
    raise AssertionError("windows of columns are not run row by row")


def accumulators_record(plan: Aggregation) -> type:
    fields: list[tuple[str, Hint]] = [("end", int)] if plan.window.kind == "session" else []
    for each in plan.aggregates:
        for name, kind in plan.parts_of(each).fields:
            fields.append((stored_name(each.name, name), hint_of(kind)))
    for one in plan.distinct:
        for column, name, kind in (*one.value_fields, *one.told_fields):
            fields.append((stored_name(column, name), hint_of(kept_list(kind))))
    names = [name for name, _ in fields]
    if len(set(names)) != len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise PlanError(
            f"two results of agg() ({user_site()}) would be stored as {twice!r}, since their names differ in "
            "signs only; give one another name with alias()"
        )
    # Counts of another operation on sets would be the same, and what was sent of them another.
    name = plan.window.stored_name if plan.copies is None else f"Rows_to_{plan.copies}"
    record: type = NamedTuple(name, fields)  # type: ignore[misc]
    record.__module__ = "headgate"
    return record


def stored_name(column: str, accumulator: str) -> str:
    return f"{plain_name(column)}_{accumulator}"


def plain_name(column: str) -> str:
    """Return `column` as an ASCII identifier: other signs are "_"; ``column_`` leads if no letter does."""
    plain = "".join(each if each.isalnum() and each.isascii() else "_" for each in column).strip("_")
    return f"{'' if plain[:1].isalpha() else 'column_'}{plain}"
