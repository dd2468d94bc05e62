"""Checks of what a program sets for windows of columns: lateness, output of late rows, early results."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from headgate.api.functions import OutputTag
from headgate.api.site import user_site
from headgate.api.windows.trigger import Trigger, checked_trigger
from headgate.api.windows.triggers import wall_interval_of
from headgate.api.windows.window import checked_duration
from headgate.common.errors import PlanError
from headgate.relational.expressions import TimeWindow
from headgate.relational.passes.inputs import inputs_of
from headgate.relational.relations import Aggregation, Relation, Scan


def lateness_of(window: TimeWindow, lateness: str | int) -> int:
    """Return `lateness` in ms; PlanError: it is no duration, or the window is of processing time."""
    _demand_event_time("lateness", window)
    return checked_duration("lateness", "lateness", lateness, least=0)


def tag_name(window: TimeWindow, tag: OutputTag[Any]) -> str:
    """Return the name of `tag`; PlanError: it is no OutputTag, or `window` is of processing time."""
    _demand_event_time("late_to", window)
    if not isinstance(tag, OutputTag):
        raise PlanError(f'late_to() ({user_site()}) got {tag!r}; expected a tag such as hg.OutputTag("late")')
    return tag.name


def early_interval(window: TimeWindow, trigger: Trigger) -> int | None:
    """Return how often windows emit before their end, in ms of the wall clock; None: only at it.

    Raises:
        PlanError: `trigger` is no trigger, or one that windows of columns, or of the wall clock, do not have.
    """
    intervals = wall_interval_of(checked_trigger("trigger", trigger))
    where = f"trigger() ({user_site()})"
    if intervals is None:
        raise PlanError(
            f"{where}: windows of columns emit at their end and, before it, at intervals of the wall clock; "
            'say hg.after_watermark(early="10s") or hg.continuous("10s", time="processing"), take '
            "F.cumulate_window() for results at intervals of event time, or windows of rows, "
            "to_stream().key_by(...).window(...), for any trigger"
        )
    (early,) = intervals
    if early is not None and window.clock == "processing":
        raise PlanError(
            f"{where}: {window} is of the wall clock already and emits at its end; take shorter windows for "
            "earlier results"
        )
    return early


def _demand_event_time(verb: str, window: TimeWindow) -> None:
    if window.clock != "event":
        raise PlanError(f"{verb}() ({user_site()}): {window} is of the wall clock, so no row is late for it")


def time_to_live(verb: str, ttl: str | int | None) -> int | None:
    """Return `ttl` of the call `verb` in ms; None: there is none. PlanError: it is no duration."""
    return None if ttl is None else checked_duration(verb, "ttl", ttl)


def refuse_repeated(verb: str, relation: Relation) -> None:
    """Raise PlanError, naming call `verb`, if a row of plan `relation` may come more than once: if it has
    results of windows with early firing or lateness, through unions and steps. Each result would count as a
    row.
    """
    for plan in results_within(relation):
        if plan.firing.repeats:
            raise PlanError(
                f"{verb}() ({user_site()}): the table has results of windows with "
                f"{' and '.join(_reasons(plan))}, which come more than once, and each would count as a row; "
                "leave that away there, or write the results and keep the last one of each window"
            )


def refuse_wall_clock(verb: str, relation: Relation) -> None:
    """Raise PlanError, naming call `verb`, if `relation` has results of windows of processing time."""
    if any(plan.window.clock == "processing" for plan in results_within(relation)):
        raise PlanError(
            f"{verb}() ({user_site()}): the table has windows of processing time, which no watermark ends; "
            'take windows of event time, as F.window("at", "10s")'
        )


def _reasons(plan: Aggregation) -> Iterator[str]:
    if plan.firing.early_ms is not None:
        yield "early results"
    if plan.firing.lateness_ms:
        yield "lateness"


def results_within(relation: Relation) -> Iterator[Aggregation]:
    if isinstance(relation, Scan):
        if relation.of is not None:
            yield relation.of
        return
    for each in inputs_of(relation):
        yield from results_within(each)
