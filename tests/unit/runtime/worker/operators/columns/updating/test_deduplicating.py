"""The first rows of keys through batches, snapshots, and changes of the parallelism, against a loop over
rows.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st
from table_subtasks import Subtasks, nodes_of

import headgate as hg
from headgate.graph.table_nodes import ColumnsNode, DeduplicateNode
from headgate.runtime.worker.operators.columns.updating.seen_keys import SeenKeys
from headgate.testing import MiniCluster

SCHEMA = pa.schema({"k": pa.string(), "x": pa.float64(), "i": pa.int64(), "at": pa.int64()})
KEYS = st.tuples(st.none() | st.just("a"), st.none() | st.sampled_from([0.0, -0.0, float("nan")]))
STEPS = st.lists(
    st.tuples(st.just("rows"), st.lists(st.tuples(KEYS, st.integers(0, 15)), min_size=1, max_size=8))
    | st.tuples(st.just("watermark"), st.integers(0, 15))
    | st.tuples(st.just("restore"), st.integers(1, 3)),
    max_size=20,
)


def job(**arguments: Any) -> Subtasks:
    env = hg.Environment(parallelism=1, executor=MiniCluster())
    table = env.from_collection([]).with_event_time("at").to_table(SCHEMA)
    table.drop_duplicates(["k", "x"], uid="d", **arguments).to_stream()
    before, node = nodes_of(env.program.nodes(), ColumnsNode, DeduplicateNode)
    return Subtasks([before], node)


def same(key: tuple[str | None, float | None]) -> str:
    return repr((key[0], key[1] if key[1] is None or key[1] != key[1] else key[1] + 0.0))


def batch(rows: list[tuple[tuple[Any, Any], int]], first: int) -> pa.RecordBatch:
    found = [{"k": k, "x": x, "i": first + number, "at": at} for number, ((k, x), at) in enumerate(rows)]
    return pa.RecordBatch.from_pylist(found, SCHEMA)


@given(STEPS)
def test_the_first_row_of_each_key_is_sent_once(steps: list[Any]) -> None:
    """Null, NaN and both zeros are keys like others."""
    subtasks, seen, wanted, count = job(), set[str](), list[int](), 0
    for step in steps:
        match step:
            case ("rows", rows):
                subtasks.send(batch(rows, count), [at for _, at in rows], 0)
                for number, (key, _) in enumerate(rows, count):
                    if same(key) not in seen:
                        seen.add(same(key))
                        wanted.append(number)
                count += len(rows)
            case ("restore", parallelism):
                subtasks.restore(parallelism)
    assert sorted(row["i"] for row in subtasks.received) == wanted


@given(STEPS, st.integers(1, 6))
def test_within_some_time_a_row_is_a_duplicate(steps: list[Any], within: int) -> None:
    """Whatever was forgotten by then, and wherever a snapshot falls; late rows are left out."""
    subtasks, until, wanted, count, mark = job(within=within), dict[str, int](), list[int](), 0, -1
    for step in steps:
        match step:
            case ("rows", rows):
                subtasks.send(batch(rows, count), [at for _, at in rows], mark)
                for number, (key, at) in enumerate(rows, count):
                    if at > mark and at >= until.get(same(key), -1):
                        until[same(key)] = at + within
                        wanted.append(number)
                count += len(rows)
            case ("watermark", timestamp):
                mark = max(mark, timestamp)
                subtasks.watermark(mark)
            case ("restore", parallelism):
                subtasks.restore(parallelism)
    assert sorted(row["i"] for row in subtasks.received) == wanted


def test_what_is_kept_is_bounded_by_the_keys_of_that_time() -> None:
    """Keys are forgotten once the watermark has passed them."""
    seen = SeenKeys(pa.schema({"k": pa.int64()}), within_ms=10)
    most = 0
    for at in range(500):
        keys = pa.table({"k": pa.array(np.arange(at * 100, at * 100 + 100))})
        assert len(seen.first(keys, np.full(100, at))) == 100
        assert len(seen.first(keys, np.full(100, at))) == 0
        seen.expire(at)
        most = max(most, seen.count)
    assert most < 3_500  # of 50,000


def test_late_rows_are_counted() -> None:
    """They are left out, as their keys may be forgotten."""
    subtasks = job(within="1s")
    subtasks.send(batch([(("a", 1.0), 5), (("b", 1.0), 15)], 0), [5, 15], 10)
    assert [row["i"] for row in subtasks.received] == [1]
    assert list(subtasks.operators[0].measured().values()) == [1]


def test_a_key_is_forgotten_after_its_time_to_live() -> None:
    """Rows that are duplicates keep it."""
    subtasks = job(ttl=100)
    for now, sent in ((1_000, 1), (1_090, 1), (1_180, 1), (1_300, 2), (1_310, 2)):
        subtasks.clock.now = now
        subtasks.send(batch([(("a", 1.0), 0)], now), [0], -1)
        assert len(subtasks.received) == sent, now
