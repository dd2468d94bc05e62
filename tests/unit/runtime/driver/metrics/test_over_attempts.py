"""Metrics of subtasks over attempts: counters go on, gauges do not."""

from __future__ import annotations

import msgspec
from hypothesis import given
from hypothesis import strategies as st

import headgate as hg
from headgate.metrics import metric_table as table
from headgate.metrics.histograms import Histogram
from headgate.metrics.of_programs import ProgramMetrics
from headgate.metrics.of_rocksdb import CACHE_HITS
from headgate.runtime.driver.metrics.over_attempts import OverAttempts, Task
from headgate.runtime.protocol.messages import Counters

READ, PENDING = table.NUMBERS.index(table.RECORDS_IN.at()), table.TIMERS_PENDING.at("event")
STEPS = table.STEPS.at()


def plan(parallelism: int) -> hg.PhysicalPlan:
    """A source, and an operator behind an exchange."""
    env = hg.Environment(parallelism=parallelism)
    env.from_collection([1], uid="in").rebalance().map(str, uid="most").collect_later(uid="out")
    return env.plan()


def counters(vertex: int, subtask: int, read: int, pending: int = 0, step_us: int = 5) -> Counters:
    """What a subtask reports that has read so many records, in one step."""
    values = dict.fromkeys(table.NUMBERS, 0) | {table.RECORDS_IN.at(): read, PENDING: pending}
    steps = Histogram()
    steps.add(step_us)
    return Counters(vertex, subtask, [values[series] for series in table.NUMBERS], [steps.sparse()])


def read(added: OverAttempts) -> dict[Task, int]:
    """The records that each subtask has read."""
    return {each.task: each.numbers[table.RECORDS_IN.at()] for each in added.measured()}


def test_counters_go_on_and_gauges_are_of_the_present_attempt() -> None:
    """A histogram is a counter, too."""
    added = OverAttempts(plan(1))
    added.report([counters(1, 0, read=3, pending=7)])
    added.report([counters(1, 0, read=5, pending=8)])
    (before,) = added.measured()
    assert (before.numbers[table.RECORDS_IN.at()], before.numbers[PENDING]) == (5, 8)
    added.begin()
    (between,) = added.measured()
    assert between.numbers[table.RECORDS_IN.at()] == 5
    assert PENDING not in between.numbers
    added.report([counters(1, 0, read=2, pending=1, step_us=90)])
    (after,) = added.measured()
    assert (after.numbers[table.RECORDS_IN.at()], after.numbers[PENDING]) == (7, 1)
    assert after.histograms[STEPS].sparse() == [13, 1, 29, 1]


@given(st.lists(st.integers(-1, 5), min_size=1, max_size=6))
def test_what_an_attempt_does_not_know_is_not_counted(told: list[int]) -> None:
    """Such as counts of RocksDB where it keeps none: -1 means "not known", and is not added up."""
    added, place = OverAttempts(plan(1)), table.NUMBERS.index(CACHE_HITS.at())
    for value in told:
        added.begin()
        report = counters(1, 0, read=1)
        report.values[place] = value
        added.report([report])
    known = [value for value in told if value >= 0]
    (found,) = added.measured()
    assert found.numbers[CACHE_HITS.at()] == (sum(known) if known else -1)


def test_metrics_of_the_program_go_on_in_the_same_way() -> None:
    """Counters and histograms are added, a gauge is the last one."""
    added = OverAttempts(plan(1))
    for count in (2, 3):
        added.begin()
        own = ProgramMetrics("most")
        own.counter("refused").inc(count)
        own.gauge("cached").set(count)
        own.histogram("size").add(count)
        added.report([msgspec.structs.replace(counters(1, 0, read=0), told=list(own.told()))])
    (found,) = added.measured()
    values = {metric.name: value for metric, value in found.own.items()}
    sizes = values.pop("size")
    assert values == {"refused": 5, "cached": 3}
    assert isinstance(sizes, Histogram)
    assert sizes.sparse() == [2, 1, 3, 1]
    added.begin()
    (between,) = added.measured()
    assert {metric.name for metric in between.own} == {"refused", "size"}


def test_subtasks_that_a_rescale_takes_away_stay_counted() -> None:
    """Else a sum over subtasks would go back."""
    added = OverAttempts(plan(2))
    added.report([counters(1, 0, read=3), counters(1, 1, read=4)])
    added.begin(plan(1))
    added.report([counters(1, 0, read=10)])
    assert read(added) == {Task("most", 0): 13, Task("most", 1): 4}


@given(st.lists(st.integers(0, 9) | st.just("begin"), max_size=20))
def test_no_counter_ever_goes_back(steps: list[int | str]) -> None:
    """Whatever an attempt has reported when the next one begins."""
    added, in_attempt, seen = OverAttempts(plan(1)), 0, 0
    for step in steps:
        if isinstance(step, int):
            in_attempt += step
            added.report([counters(0, 0, read=in_attempt)])
        else:
            added.begin()
            in_attempt = 0
        now = sum(read(added).values())
        assert now >= seen
        seen = now
    assert seen == sum(step for step in steps if isinstance(step, int))
