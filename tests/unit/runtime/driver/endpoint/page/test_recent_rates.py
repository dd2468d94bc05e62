"""Rates of subtasks from their heartbeats, and what becomes of them for a vertex."""

from __future__ import annotations

import math

import headgate as hg
from headgate.common.time import WATERMARK_MAX
from headgate.graph.physical import PhysicalPlan
from headgate.metrics import metric_table as table
from headgate.runtime.driver.endpoint.page.rate_history import FIELDS, RateHistory, row_of
from headgate.runtime.driver.endpoint.page.recent_rates import (
    SAMPLES,
    SILENT_AFTER_MS,
    RecentRates,
    shown_numbers,
)
from headgate.runtime.protocol.messages import Counters


def heartbeat(vertex: int, subtask: int, **numbers: int) -> Counters:
    """Counters with these values, by names of metrics without prefix and unit; others are 0 or unknown."""
    values = [0] * len(table.NUMBERS)
    for place, name in enumerate(table.NUMBERS):
        short = name.removeprefix("headgate_").partition("_total")[0].partition("_seconds")[0]
        side = name.partition('side="')[2].rstrip('"}')
        unknown = table.WATERMARK.unknown if side else 0
        values[place] = numbers.get(f"{short}_{side}" if side else short, unknown or 0)
    return Counters(vertex, subtask, values, [])


def plan() -> PhysicalPlan:
    """A source of two subtasks that sends by key to a chain of two."""
    env = hg.Environment(parallelism=2)
    env.from_collection(["a"], uid="in").rebalance().map(str, uid="work").collect_later(uid="out")
    return env.plan()


def test_rates_are_those_between_two_heartbeats() -> None:
    """By the time that the subtask itself has counted, whatever the driver's clock says."""
    rates = RecentRates()
    rates.heard([heartbeat(0, 0, records_in=100, busy=400, idle=600)], 5_000)
    rates.heard([heartbeat(0, 0, records_in=400, busy=1_900, idle=900, backpressured=200)], 99_000)
    found = rates.of_subtask((0, 0), 99_000)
    assert found is not None
    assert (found.in_per_s, found.busy, found.idle, found.backpressured) == (150.0, 0.75, 0.15, 0.1)


def test_the_first_heartbeat_counts_from_the_begin_of_the_attempt() -> None:
    """Something is known at once."""
    rates = RecentRates()
    rates.heard([heartbeat(0, 0, records_in=50, busy=500)], 0)
    found = rates.of_subtask((0, 0), 0)
    assert found is not None
    assert (found.in_per_s, found.busy) == (100.0, 1.0)


def test_old_heartbeats_are_forgotten() -> None:
    """A rate is that of the last seconds, however often heartbeats come."""
    rates = RecentRates()
    for number in range(200):
        busy = 100 * min(number, 100)
        rates.heard([heartbeat(0, 0, busy=busy, idle=100 * number - busy)], 100 * number)
    found = rates.of_subtask((0, 0), 20_000)
    assert found is not None
    assert (found.busy, found.idle) == (0.0, 1.0)
    assert len(rates._heard[0, 0]) <= SAMPLES


def test_records_are_those_of_the_last_half_minute() -> None:
    """Or of the attempt, if that is younger; a subtask that was never heard has none."""
    rates = RecentRates()
    assert rates.records_of((0, 0)) == 0
    rates.heard([heartbeat(0, 0, records_in=40, busy=100)], 700)
    rates.heard([heartbeat(0, 0, records_in=90, busy=200)], 1_400)
    assert rates.records_of((0, 0)) == 90
    for second in range(2, 200):
        rates.heard([heartbeat(0, 0, records_in=100 * second, busy=second)], 1_000 * second)
    assert 100 * 25 <= rates.records_of((0, 0)) <= 100 * 30
    rates.clear()
    assert rates.records_of((0, 0)) == 0


def test_a_silent_subtask_has_no_rates() -> None:
    """Neither has one that was never heard, nor one of an attempt that has ended."""
    rates = RecentRates()
    rates.heard([heartbeat(0, 0, busy=100)], 0)
    assert rates.of_subtask((0, 0), SILENT_AFTER_MS) is not None
    assert rates.of_subtask((0, 0), SILENT_AFTER_MS + 1) is None
    assert rates.of_subtask((0, 1), 0) is None
    rates.clear()
    assert rates.newest((0, 0)) is None


def test_a_vertex_shows_its_worst_subtask() -> None:
    """The busiest, the one that waits longest, the least watermark; records are added."""
    rates = RecentRates()
    rates.heard(
        [
            heartbeat(1, 0, records_in=10, busy=900, idle=100, watermark_timestamp_input=7_000),
            heartbeat(1, 1, records_in=30, busy=100, backpressured=900, watermark_timestamp_input=5_000),
        ],
        0,
    )
    found = rates.of_vertex(plan().vertices[1], 0)
    assert (found.busy, found.busy_mean, found.backpressured, found.idle) == (0.9, 0.5, 0.9, 0.05)
    assert (found.records_in, found.in_per_s, found.skew, found.watermark_ms) == (40, 40.0, 1.5, 5_000)


def test_nothing_known_is_not_zero() -> None:
    """A vertex of which nothing was heard has no rates; the history has NaN in their place."""
    found = RecentRates().of_vertex(plan().vertices[0], 0)
    assert (found.subtasks, found.busy, found.in_per_s, found.watermark_ms, found.skew) == (0, *[None] * 4)
    assert all(map(math.isnan, row_of([found])))
    assert len(row_of([found, found])) == 2 * len(FIELDS)


def test_a_subtask_that_has_ended_says_nothing_of_event_time() -> None:
    """It has all of it behind it, also in a job without event time, whose other subtasks know none."""
    ended = heartbeat(0, 1, watermark_timestamp_output=WATERMARK_MAX)
    for other, known in ((heartbeat(0, 0), None), (heartbeat(0, 0, watermark_timestamp_output=5_000), 5_000)):
        rates = RecentRates()
        rates.heard([other, ended], 1_000)
        assert rates.of_vertex(plan().vertices[0], 1_000).watermark_ms == known


def test_numbers_are_in_base_units() -> None:
    """Seconds for milliseconds; None for what is not known."""
    found = shown_numbers(heartbeat(0, 0, busy=1_500, records_in=3))
    assert found["headgate_busy_seconds_total"] == 1.5
    assert found["headgate_records_in_total"] == 3
    assert found[table.WATERMARK.at("input")] is None


def test_history_follows_the_plan() -> None:
    """Rows of a plan with other vertices are dropped; of a new vertex nothing is known at first."""
    history, rates = RateHistory(), RecentRates()
    one = rates.of_vertex(plan().vertices[0], 0)
    assert [history.due(moment) for moment in (0, 900, 1_000, 1_900, 1_950)] == [
        True,
        False,
        True,
        False,
        True,
    ]
    history.add(5, [one])
    assert history.columns([0, 1])["vertices"] == [
        {"id": vertex, **{field: [None] for field in FIELDS}} for vertex in (0, 1)
    ]
    history.add(6, [one, one])
    assert history.columns([0, 1])["time_ms"] == [6]
