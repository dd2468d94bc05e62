"""The table of metrics: names as Prometheus wants them, and one value of several subtasks."""

from __future__ import annotations

import re

import pytest

from headgate.common.errors import InternalError
from headgate.common.time import WATERMARK_MIN
from headgate.core.execution import JobState
from headgate.metrics import metric_table as table
from headgate.metrics import of_jobs, of_parts, of_rocksdb
from headgate.metrics.metric_table import HISTOGRAMS, NUMBERS, PREFIX, TABLE, Kind, Merge, Metric, Place

BASE_UNITS = ("seconds", "bytes")


@pytest.mark.parametrize("metric", TABLE, ids=lambda metric: metric.name)
def test_names_follow_prometheus(metric: Metric) -> None:
    """Prefix, base unit, `_total` for counters alone; what is counted is no fraction of a unit."""
    assert re.fullmatch(PREFIX + r"[a-z][a-z_]*[a-z]", metric.name)
    assert metric.name.endswith("_total") == (metric.kind is Kind.COUNTER)
    if metric.unit in BASE_UNITS:
        assert metric.name.removesuffix("_total").endswith(f"_{metric.unit}")
    else:
        assert metric.unit in metric.name
        assert metric.per_unit == 1
    assert not any(word in metric.name for word in ("_ms", "_us", "per_second", "milli"))


@pytest.mark.parametrize("metric", TABLE, ids=lambda metric: metric.name)
def test_each_metric_is_explained_in_a_sentence(metric: Metric) -> None:
    """It begins with a capital letter and ends with its only full stop."""
    assert metric.help[0].isupper()
    assert metric.help.endswith(".")
    assert metric.help.count(". ") == 0
    assert "|" not in metric.help


def test_each_name_is_there_once() -> None:
    """Also among the constants: what is defined is in the table."""
    assert len({metric.name for metric in TABLE}) == len(TABLE)
    defined = {**vars(table), **vars(of_jobs), **vars(of_parts), **vars(of_rocksdb)}.values()
    assert {value.name for value in defined if isinstance(value, Metric)} == {each.name for each in TABLE}


def test_all_states_of_a_job_are_told() -> None:
    """By the words that `headgate status` has for them."""
    assert tuple(state.value for state in JobState) == of_jobs.STATES


def test_a_heartbeat_has_all_series_of_subtasks() -> None:
    """Each once, single numbers and histograms apart."""
    of_subtasks = [metric for metric in TABLE if metric.place is Place.SUBTASK]
    assert [*NUMBERS, *HISTOGRAMS] == sorted(
        (series for metric in of_subtasks for series in metric.series), key=[*NUMBERS, *HISTOGRAMS].index
    )
    assert len({*NUMBERS, *HISTOGRAMS}) == len(NUMBERS) + len(HISTOGRAMS)
    assert HISTOGRAMS == ("headgate_step_seconds",)


def test_each_label_has_its_series() -> None:
    """Named as Prometheus names them."""
    assert table.TIMERS_FIRED.series == (
        'headgate_timers_fired_total{domain="event"}',
        'headgate_timers_fired_total{domain="processing"}',
    )
    assert table.BUSY.series == ("headgate_busy_seconds_total",)


@pytest.mark.parametrize("values", [(), ("left",), ("input", "output")])
def test_a_series_that_does_not_exist_has_no_name(values: tuple[str, ...]) -> None:
    """A misspelt label would be a metric that nobody reads."""
    with pytest.raises(InternalError, match="please report this"):
        table.WATERMARK.at(*values)


@pytest.mark.parametrize(
    ("metric", "values", "together"),
    [
        (table.RECORDS_IN, [3, 4], 7),
        (table.RECORDS_IN, [], 0),
        (table.LONGEST_STEP, [3, 9, 4], 9),
        (table.LONGEST_STEP, [], 0),
        (table.WATERMARK, [5, WATERMARK_MIN, 3], 3),
        (table.WATERMARK, [WATERMARK_MIN], WATERMARK_MIN),
        (table.WATERMARK, [], WATERMARK_MIN),
    ],
    ids=str,
)
def test_several_subtasks_have_one_value(metric: Metric, values: list[int], together: int) -> None:
    """What is not known of one of them does not count."""
    assert metric.merged(values) == together


def test_event_time_of_several_subtasks_is_the_least() -> None:
    """And counters are added."""
    assert table.WATERMARK.merge is Merge.MIN
    assert {metric.merge for metric in TABLE if metric.kind is Kind.COUNTER} == {Merge.SUM}
