"""The jobs that measure corrected tables: what they send, which mark is a record's, and what is judged."""

from __future__ import annotations

import time
from collections import Counter
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pytest

import headgate as hg
from bench.jobs import due_bids, mark_delay, open_rows
from bench.jobs.due_bids import AUCTIONS, BIDS, Due, DueSource, split_id
from bench.jobs.mark_delay import MarkSink, Received
from bench.jobs.open_rows import WaitingSource
from bench.plan import FULL, SMOKE
from bench.sections import marks
from headgate.api.source import END_OF_INPUT, NOTHING_AVAILABLE, SourceReaderContext, Split
from headgate.testing import MiniCluster


def opened(source: Any, split: Split) -> Any:
    """The second of two readers, with its split."""
    reader = source.create_reader(SourceReaderContext("s", 1, 2))
    assert reader.poll(10) is NOTHING_AVAILABLE
    reader.add_splits([split])
    return reader


def read(reader: Any) -> list[Any]:
    """All rows until the end."""
    rows: list[Any] = []
    while (found := reader.poll(7)) is not END_OF_INPUT:
        if found is not NOTHING_AVAILABLE:
            assert 0 < found.num_rows <= 7
            rows += found.to_pylist()
    return rows


def test_bids_are_due_from_the_time_in_their_splits_id() -> None:
    """None before, and then by the wall clock, each second one of all in the second of two readers."""
    due = Due(1_600, 0.1, 2)
    began_ns = time.time_ns() + 50_000_000
    reader = opened(DueSource(due, BIDS), Split(split_id(1, began_ns), 0))
    assert reader.poll(7) is NOTHING_AVAILABLE
    rows = read(reader)
    assert [row["bid"] for row in rows] == list(range(1, 150, 2))
    assert time.time_ns() >= began_ns + 75 * due.step_ns(BIDS)
    assert reader.snapshot() == [Split(split_id(1, began_ns), 75)]


def test_both_tables_have_their_shares_of_the_rate() -> None:
    """One auction to fifteen bids, and every bid is on an auction that comes."""
    due = Due(16_000, 1.0, 2)
    assert (due.count(AUCTIONS), due.count(BIDS)) == (500, 7_500)
    auctions = due.rows(BIDS, np.arange(15_000)).column("auction").to_numpy()
    assert (auctions.min(), auctions.max()) == (0, 999)


def test_the_answer_is_that_of_a_batch_engine() -> None:
    """The dearest bids of each seller."""
    due = Due(400_000, 1.0, 1)
    auctions, bids = (
        pl.DataFrame(due.rows(table, np.arange(due.count(table)))) for table in (AUCTIONS, BIDS)
    )
    both = auctions.join(bids, on="auction").sort("price", descending=True)
    first = both.group_by("seller", maintain_order=True).head(due_bids.FIRST)
    assert first.height < both.height
    assert due.answer() == (first.height, first["price"].sum())


def test_a_records_mark_is_the_first_that_counts_it_in_all_subtasks() -> None:
    """Record 0 is in the mark with count 1; the mark is whole when the slower subtask has it."""
    due, key = Due(16, 2.0, 1), (BIDS, split_id(0, 1_000_000_000))
    received = Received()
    steps = {count: round(1e9 + count * due.step_ns(BIDS)) for count in (1, 10, 30)}
    marks_of = [[*key, count, at + 5_000_000] for count, at in steps.items()]
    received.add(0, marks_of, (0, 0, 0))
    received.add(1, [[*mark[:3], mark[3] + 2_000_000] for mark in marks_of[:2]], (0, 0, 0))
    histogram, missing = mark_delay.delays(received, due, 0.0)
    assert missing == 20  # the second subtask has no mark that counts the last ones
    waits_ms = [(count - number) * due.step_ns(BIDS) / 1e6 + 7 for count, number in [(1, 0)]]
    waits_ms += [(10 - number) * due.step_ns(BIDS) / 1e6 + 7 for number in range(1, 10)]
    assert histogram == Counter(int(wait * 10) for wait in waits_ms)
    assert mark_delay.delays(received, due, 1.0) == ({}, 15)


def test_the_sink_sees_all_records_in_marks_and_the_right_answer() -> None:
    """A small job in threads."""
    due, sink = Due(4_000, 0.5, 1), MarkSink()
    env = hg.Environment(parallelism=1, executor=MiniCluster())
    env.config("execution.mark-interval", "20ms")
    tables = [env.from_source(DueSource(due, name), uid=name).to_table() for name in (AUCTIONS, BIDS)]
    due_bids.dearest(*tables).to_changes().sink_to(sink, uid="sink")
    env.execute("marks")
    received = sink.received
    assert (received.rows, received.total) == due.answer()
    histogram, missing = mark_delay.delays(received, due, 0.0)
    assert (missing, sum(histogram.values())) == (0, due.count(AUCTIONS) + due.count(BIDS))
    assert min(histogram) >= 0


def test_open_rows_wait_and_then_some_find_partners() -> None:
    """One reader's share: its table's keys, a rest, and keys of the other table."""
    reader = opened(WaitingSource("left", 20, 0.05), Split("1"))
    rows: list[Any] = []
    while len(rows) < 5:
        rows += reader.poll(3).to_pylist()
    assert [row["key"] for row in rows] == [2, 6, 10, 14, 18]
    assert reader.poll(3) is NOTHING_AVAILABLE
    time.sleep(0.06)
    matches = read(reader)
    assert [row["key"] for row in matches] == [3, 7, 11, 15, 19]
    assert set(matches[0]) == {"key", "left_id", "left_price", "left_text"}


def test_pairs_of_open_rows_are_the_right_ones() -> None:
    """Both tables' rows, joined by Arrow."""
    keys = [
        np.concatenate([open_rows.own_keys(side, 5_000), open_rows.matching_keys(side, 5_000)])
        for side in open_rows.SIDES
    ]
    left, right = (
        pa.Table.from_batches([open_rows.rows_of(side, of_side)])
        for side, of_side in zip(open_rows.SIDES, keys, strict=True)
    )
    pairs = left.join(right, "key", join_type="inner").select(open_rows.pair_columns())
    count, sums = open_rows.right_answer(5_000)
    assert pairs.num_rows == count == 2 * open_rows.MATCHES_MOST
    assert open_rows.table_checksums(pairs) == sums


@pytest.mark.parametrize(("others", "met"), [(0.05, False), (0.4, None)])
def test_a_delay_is_judged_on_a_quiet_machine(others: float, met: bool | None) -> None:
    """Else it is only shown."""
    row = marks._late("p50", {"p50_ms": 61.0, "others": others}, marks.P50_MS)
    assert (row["met"], row["shown"]) == (met, f"61.0 ms, others used {others:.0%}")


def cost(interval: str, cpu_us: float, marks_came: int) -> dict[str, Any]:
    """What a job tells of itself."""
    told = {"interval": interval, "workers_cpu_us": cpu_us, "marks": marks_came, "events": 1_000_000}
    return {**told, "failures": [], "answer": {"records": 5}}


@pytest.mark.parametrize(
    ("usual", "smoke", "met"), [(1.08, False, True), (1.2, False, False), (1.2, True, None)]
)
def test_the_ratio_is_the_median_of_the_rounds(usual: float, smoke: bool, met: bool | None) -> None:
    """Of marks every 100 ms to marks every second."""
    rounds = [[cost("1s", 1.0, 3), cost("100ms", cpu, 30)] for cpu in (usual, 1.0, 1.5)]
    row = marks.ratio_row([run for each in rounds for run in each], "100ms", smoke)
    assert row["met"] is met
    assert row["shown"].startswith(f"{usual:.2f} times (1.00 to 1.50)")


def test_a_mark_costs_the_more_of_cpu_by_the_more_of_marks() -> None:
    """One million events at 0.5 us more are 0.5 s, and 250 marks more."""
    row = marks.mark_row([cost("1s", 1.0, 10), cost("20ms", 1.5, 260)])
    assert row["shown"].startswith("2.00 ms of CPU in all")
    assert marks.mark_row([])["shown"] == "-"


def test_wrong_answers_are_told() -> None:
    """With the interval."""
    told = {"runs": [cost("1s", 1.0, 3)], "right": {"records": 5}}
    assert marks.wrong_runs(told) == []
    (text,) = marks.wrong_runs({**told, "right": {"records": 6}})
    assert text.startswith("q4, marks every 1s")


def test_the_smoke_form_does_not_judge_memory() -> None:
    """So few rows say nothing."""
    run = {"peak_mib": 3_000.0, "checkpoints_ms": [9, 7, 8]}
    assert marks._held(run, SMOKE)["met"] is None
    row = marks._held(run, FULL)
    assert (row["met"], row["shown"]) == (False, "3,000 MiB at most, checkpoints 8 ms, 9 at most")
