"""Event time of keyed operators is exact: outputs do not depend on how the input is cut into batches.

The operator is compared with a model that handles record by record and fires timers one by one.
"""

from __future__ import annotations

import itertools
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from operator_samples import Recorder, context, finished, opened
from timer_samples import CUTS, RECORDS, Item, Rig, batch_of, items_of, renewed

from headgate.common.time import WATERMARK_MAX, WATERMARK_MIN
from headgate.runtime.worker.operators.keyed_operator import KeyedProcessOperator


class Model:
    """What :class:`Rig` should give, record by record."""

    def __init__(self) -> None:
        self.mark, self.number = WATERMARK_MIN, itertools.count()
        self.timers: dict[tuple[int, str], int] = {}
        self.count: dict[str, int] = {}
        self.seen: dict[str, list[int]] = {}
        self.out: list[Any] = []
        self.late: list[Any] = []

    def record(self, record: dict[str, Any], timestamp: int, mark: int) -> None:
        self.fire(max(mark, self.mark))
        key = record["key"]
        count = self.count[key] = self.count.get(key, 0) + 1
        if count % 3 == 0:
            self.seen.setdefault(key, []).append(timestamp)
        for due in record["register"]:
            self.timers.setdefault((due, key), next(self.number))
        for due in record["delete"]:
            self.timers.pop((due, key), None)
        if timestamp <= self.mark:
            self.late.append(((key, record["n"], self.mark), timestamp, self.mark))
        self.emit(("record", record["n"], key, timestamp, self.mark, count), timestamp)
        if count % 4 == 0:
            self.emit(("seen", key, tuple(self.seen.get(key, []))), timestamp)
        self.fire(self.mark)

    def fire(self, limit: int) -> None:
        while self.timers:
            (due, key), _ = min(self.timers.items(), key=lambda item: (item[0][0], item[1]))
            if due > limit:
                break
            del self.timers[due, key]
            self.mark = max(self.mark, due - 1)
            count = self.count[key] = self.count.get(key, 0) + 1
            self.emit(("timer", key, due, due, self.mark, count), due)
            for again in renewed(due, count):
                self.timers.setdefault((again, key), next(self.number))
            if count % 5 == 0:
                self.timers.pop((due + 1, key), None)
        self.mark = max(self.mark, limit)

    def emit(self, value: Any, timestamp: int) -> None:
        self.out.append((value, timestamp, self.mark))


def operator(**changes: Any) -> tuple[KeyedProcessOperator, Recorder, Recorder]:
    """An open operator, its main output and its late ones."""
    made = KeyedProcessOperator(context(**changes), Rig(), "key")
    main, sides = opened(made, "late")
    return made, main, sides["late"]


def play(op: KeyedProcessOperator, items: list[Item], cuts: list[tuple[int, bool, bool]]) -> None:
    """Feed `items` in batches: (size, columnar, whether a watermark event follows)."""
    at, plans = 0, itertools.cycle(cuts)
    while at < len(items):
        size, columnar, event = next(plans)
        op.process(batch_of(items[at : at + size], columnar))
        at += size
        if event and at < len(items):
            op.watermark(items[at][2])


@settings(max_examples=300)
@given(RECORDS, CUTS)
def test_every_cut_gives_what_record_by_record_gives(
    drawn: list[Any], cuts: list[tuple[int, bool, bool]]
) -> None:
    """Main and late outputs, their times and watermarks, equal the model's for every way of cutting."""
    items, model = items_of(drawn), Model()
    for item in items:
        model.record(*item)
    model.fire(WATERMARK_MAX)
    op, main, late = operator()
    play(op, items, cuts)
    op.watermark(WATERMARK_MAX)
    assert main.timed() == model.out
    assert late.timed() == model.late


@settings(max_examples=150)
@given(RECORDS, CUTS, CUTS, st.integers(0, 25))
def test_a_restore_in_the_middle_changes_nothing(
    drawn: list[Any], before: list[tuple[int, bool, bool]], after: list[tuple[int, bool, bool]], at: int
) -> None:
    """Snapshot, restore into a new operator and go on: each key sees what it would have seen without.

    Across keys the order of timers with one timestamp may change with a restore, so keys are compared
    one by one, and the watermark that late outputs carry with them.
    """
    items = items_of(drawn)
    at = min(at, len(items))
    straight, main, late = operator()
    play(straight, items, before)
    straight.watermark(WATERMARK_MAX)
    first, main_1, late_1 = operator()
    play(first, items[:at], before)
    second, main_2, late_2 = operator(restored=[finished(first.snapshot(1))])
    play(second, items[at:], after)
    second.watermark(WATERMARK_MAX)
    for whole, parts in ((main, (main_1, main_2)), (late, (late_1, late_2))):
        together = [entry for part in parts for entry in part.timed()]
        for key in "abc":
            assert [e for e in together if key in e[0]] == [e for e in whole.timed() if key in e[0]]


@given(RECORDS, CUTS)
def test_output_watermarks_never_fall_and_outputs_of_timers_are_not_late(
    drawn: list[Any], cuts: list[tuple[int, bool, bool]]
) -> None:
    """Behind the operator time goes on in order; a timer that fires in time emits records in time."""
    op, main, _ = operator()
    play(op, items_of(drawn), cuts)
    op.watermark(WATERMARK_MAX)
    marks = [mark for _, _, mark in main.timed()]
    assert marks == sorted(marks)
    for value, timestamp, mark in main.timed():
        if value[0] == "timer" and value[4] < value[2]:
            assert timestamp > mark


@given(RECORDS, CUTS, st.integers(0, 60))
def test_after_a_restore_time_does_not_go_back(
    drawn: list[Any], cuts: list[tuple[int, bool, bool]], reached: int
) -> None:
    """Batches that carry older watermarks than was reached before see the time that was reached."""
    op, main, _ = operator()
    op.watermark(reached)
    play(op, items_of(drawn), cuts)
    assert all(mark >= reached for _, _, mark in main.timed())
