"""Windows of rows that are computed as columns: when they are, and that both ways give the same answers."""

from __future__ import annotations

import datetime as dt
from collections import defaultdict
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mini_jobs import ListEnumerator, ListReader, environment

import headgate as hg
from headgate.graph.logical import PartitionNode, WindowNode
from headgate.graph.table_nodes import WindowAggregateNode

SCHEMA = pa.schema(
    {"at": pa.int64(), "user": pa.string(), "kind": pa.int64(), "price": pa.int64(), "cost": pa.float64()}
)


class Batches(hg.Source[Any]):
    """Rows of one split with known columns, of which each poll gives as many as the next number says."""

    def __init__(self, rows: Sequence[dict[str, Any]], sizes: Sequence[int] = (1_000,), schema: Any = SCHEMA):
        self.rows, self.sizes, self.schema = list(rows), list(sizes), schema

    def arrow_schema(self) -> Any:
        return self.schema

    def create_enumerator(self, restored: Any) -> hg.SplitEnumerator:
        return ListEnumerator([0] if restored is None else restored)

    def create_reader(self, context: hg.SourceReaderContext) -> hg.SourceReader[Any]:
        return _Reader(self)


class _Reader(ListReader):
    def poll(self, max_records: int) -> Any:
        if not self.splits:
            return hg.END_OF_INPUT if self.final else hg.NOTHING_AVAILABLE
        position, sizes = self.splits[0][1], self.source.sizes
        taken = self.source.rows[position : position + min(max_records, sizes[position % len(sizes)])]
        self.splits[0][1] += len(taken)
        if self.splits[0][1] == len(self.source.rows):
            self.splits.pop(0)
        return taken


def windows(
    source: Any, assigner: Any, keys: Sequence[str] = ("user",), disorder: int = 0, n: int = 1
) -> Any:
    """A stream in windows; nothing is said of triggers."""
    env = environment(n)
    stream = env.from_source(source, uid="in").with_event_time("at", out_of_orderness=disorder)
    return stream.key_by(*keys).window(assigner)


def aggregated(windows: Any) -> Any:
    """All aggregates that columns have."""
    return windows.aggregate(
        uid="w",
        n=hg.count(),
        some=hg.count("price"),
        total=hg.sum("price"),
        low=hg.min("price"),
        top=hg.max("cost"),
        mean=hg.avg("price"),
    )


def of_columns(stream: Any) -> bool:
    """Whether the results are computed as columns."""
    node = stream._environment.program.node(stream._number)
    assert isinstance(node, WindowNode | WindowAggregateNode)
    return isinstance(node, WindowAggregateNode)


def plain(rows: Sequence[Any]) -> list[dict[str, Any]]:
    """Results in an order."""
    return sorted((dict(row) for row in rows), key=lambda row: (row["window"]["start"], str(row)))


ROW = st.fixed_dictionaries(
    {
        "at": st.integers(-30, 150),
        "user": st.sampled_from(["a", "b", ""]),
        "kind": st.integers(0, 1),
        "price": st.one_of(st.none(), st.integers(-5, 5)),
        "cost": st.one_of(st.none(), st.sampled_from([0.5, -1.0, float("inf"), 1e9])),
    }
)
SHAPES = [(20, 20, 0), (20, 20, 7), (30, 10, 0), (25, 10, 3)]


@given(
    rows=st.lists(ROW, min_size=1, max_size=20),
    sizes=st.lists(st.integers(1, 4), min_size=1, max_size=3),
    shape=st.sampled_from(SHAPES),
    disorder=st.sampled_from([0, 15, 500]),
    keys=st.sampled_from([("user",), ("kind",), ("user", "kind")]),
    parallelism=st.sampled_from([1, 2]),
)
@settings(max_examples=25, deadline=None)
def test_both_ways_and_a_plain_model_agree(
    rows: list[dict[str, Any]],
    sizes: list[int],
    shape: tuple[int, int, int],
    disorder: int,
    keys: tuple[str, ...],
    parallelism: int,
) -> None:
    """Whatever the keys, nulls, disorder and batches."""
    found = []
    for trigger in (None, hg.at_end()):
        made = windows(Batches(rows, sizes), hg.sliding(*shape), keys, disorder, parallelism)
        results = aggregated(made if trigger is None else made.trigger(trigger))
        assert of_columns(results) == (trigger is None)
        found.append(plain(results.collect()))
    assert found[0] == found[1] == plain(model(rows, shape, disorder, keys))


def model(
    rows: Sequence[dict[str, Any]], shape: tuple[int, int, int], disorder: int, keys: Sequence[str]
) -> list[dict[str, Any]]:
    """The batch answer, of records that were in time."""
    size, slide, offset = shape
    groups: dict[Any, list[dict[str, Any]]] = defaultdict(list)
    mark = -(2**63)
    for row in rows:
        for start in range(offset - 40 * slide, 200, slide):
            if start <= row["at"] < start + size and start + size - 1 > mark:
                groups[start, tuple(row[key] for key in keys)].append(row)
        mark = max(mark, row["at"] - disorder - 1)
    found = []
    for (start, values), group in groups.items():
        prices = [row["price"] for row in group if row["price"] is not None]
        costs = [row["cost"] for row in group if row["cost"] is not None]
        edges = [dt.datetime.fromtimestamp(ms / 1000, dt.UTC) for ms in (start, start + size)]
        found.append(
            {
                **dict(zip(keys, values, strict=True)),
                "window": dict(zip(("start", "end"), edges, strict=True)),
                "n": len(group),
                "some": len(prices),
                "total": sum(prices) if prices else None,
                "low": min(prices, default=None),
                "top": max(costs, default=None),
                "mean": sum(prices) / len(prices) if prices else None,
            }
        )
    return found


@pytest.mark.parametrize("size", [1, 2, 3, 100])
def test_a_record_that_is_late_for_some_of_its_windows_is_in_the_others(size: int) -> None:
    """Wherever batches end."""
    rows = [{"at": at, "user": "a", "kind": 0, "price": at, "cost": 1.0} for at in (125, 150, 130, 148, 160)]
    found = aggregated(windows(Batches(rows, (size,)), hg.sliding(30, 10))).collect()
    sums = {row["window"]["start"].microsecond // 1000: row["total"] for row in found}
    assert sums == {100: 125, 110: 125, 120: 125, 130: 428, 140: 458, 150: 310, 160: 160}


def test_null_as_a_key_is_refused() -> None:
    """By columns with the record, by rows as everywhere."""
    rest = {"kind": 0, "price": 1, "cost": 1.0}
    rows = [{"at": at, "user": user, **rest} for at, user in ((1, None), (2, "a"))]
    of_columns = windows(Batches(rows), hg.tumbling(10))
    with pytest.raises(hg.UsageError, match="key 'user' is null in a record"):
        of_columns.aggregate(n=hg.count(), uid="w").collect()
    of_rows = windows(Batches(rows), hg.tumbling(10)).trigger(hg.at_end())
    with pytest.raises(hg.UsageError, match="fill or filter records without a key before key_by"):
        of_rows.aggregate(n=hg.count(), uid="w").collect()


def test_decimals_are_exact_in_both_ways() -> None:
    """Sum and mean, with the digits that Spark gives them."""
    schema = pa.schema({"at": pa.int64(), "user": pa.string(), "price": pa.decimal128(10, 2)})
    rows = [{"at": 1, "user": "a", "price": Decimal(text)} for text in ("1.00", "2.00", "2.05")]
    found = []
    for trigger in (None, hg.at_end()):
        made = windows(Batches(rows, schema=schema), hg.tumbling(10))
        made = made if trigger is None else made.trigger(trigger)
        results = made.aggregate(total=hg.sum("price"), mean=hg.avg("price"), uid="w")
        assert of_columns(results) == (trigger is None)
        (row,) = results.collect()
        found.append((row["total"], row["mean"]))
    assert found[0] == found[1] == (Decimal("5.05"), Decimal("1.683333"))


def test_duckdb_gives_the_same_answer() -> None:
    """A larger sample, for which it groups the rows by the window's start."""
    duckdb = pytest.importorskip("duckdb", reason="the answers are DuckDB's")
    rows = [
        {"at": 37 * n % 9_000, "user": f"u{n * n % 11}", "kind": 0, "price": n % 23 or None, "cost": n / 4}
        for n in range(3_000)
    ]
    bids = pa.Table.from_pylist(rows, schema=SCHEMA)
    connection = duckdb.connect()
    connection.register("bids", bids)
    expected = connection.execute(
        'SELECT "user", "at" - "at" % 500 AS start, count(*), count(price), sum(price)::BIGINT, min(price), '
        'max(cost), avg(price) FROM bids GROUP BY ALL ORDER BY "user", start'
    ).fetchall()
    for trigger in (None, hg.at_end()):
        made = windows(Batches(rows, (700, 3)), hg.tumbling(500), disorder=9_000, n=2)
        results = aggregated(made if trigger is None else made.trigger(trigger)).collect()
        names = ("n", "some", "total", "low", "top", "mean")
        found = sorted(
            (row["user"], round(row["window"]["start"].timestamp() * 1000), *(row[name] for name in names))
            for row in results
        )
        assert [each[:7] for each in found] == [each[:7] for each in expected]
        assert [each[7] for each in found] == pytest.approx([each[7] for each in expected])


WAYS = {
    "tumbling": (lambda made: aggregated(made), True),
    "a function of the record": (lambda made: made.aggregate(x=hg.sum(len)), False),
    "an aggregate that columns lack": (lambda made: made.aggregate(x=hg.first("price")), False),
    "a trigger": (lambda made: aggregated(made.trigger(hg.every_count(5))), False),
    "an evictor": (lambda made: aggregated(made.evict(hg.last_records(5))), False),
    "lateness": (lambda made: aggregated(made.lateness(0)), False),
    "a side output": (lambda made: aggregated(made.late_to(hg.OutputTag("late"))), False),
}


@pytest.mark.parametrize("way", WAYS)
def test_columns_are_used_where_they_can_do_the_same(way: str) -> None:
    """And only there."""
    results, expected = WAYS[way]
    made = windows(Batches([]), hg.tumbling(10))
    assert of_columns(results(made)) is expected


def test_other_windows_keys_and_streams_are_of_rows() -> None:
    """Sessions; keys that a function gives; columns that are not known."""
    assert not of_columns(aggregated(windows(Batches([]), hg.session(10))))
    assert not of_columns(aggregated(windows(Batches([]), hg.tumbling(10, time="processing"))))
    assert not of_columns(aggregated(windows(Batches([], schema=None), hg.tumbling(10))))
    assert not of_columns(aggregated(windows(Batches([]), hg.tumbling(10), keys=(lambda row: 1,))))
    timed = environment(1).from_source(Batches([]), uid="in").with_event_time(lambda row: row["at"])
    assert not of_columns(aggregated(timed.key_by("user").window(hg.tumbling(10))))
    mapped = environment(1).from_source(Batches([]), uid="in").with_event_time("at").map(dict)
    assert not of_columns(aggregated(mapped.key_by("user").window(hg.tumbling(10))))


def test_a_column_that_does_not_fit_is_refused_where_it_is_written() -> None:
    """With the nearest name, as for tables."""
    with pytest.raises(hg.PlanError, match=r"\(test_windows_as_columns.py:\d+\).*did you mean 'price'"):
        windows(Batches([]), hg.tumbling(10)).aggregate(x=hg.sum("pric"))
    with pytest.raises(hg.PlanError, match=r"sum\(\) takes a number; got string"):
        windows(Batches([]), hg.tumbling(10)).aggregate(x=hg.sum("user"))


def test_the_stream_by_key_can_be_used_besides() -> None:
    """Its records go by key to whatever else reads them."""
    rows = [{"at": at, "user": "a", "kind": 0, "price": at, "cost": 1.0} for at in range(20)]
    env = environment(2)
    keyed = env.from_source(Batches(rows), uid="in").with_event_time("at").key_by("user")
    sums = keyed.window(hg.tumbling(10)).aggregate(total=hg.sum("price"), uid="sums").collect_later(uid="a")
    sizes = keyed.window(hg.session(5)).process(lambda key, window, records, ctx: [len(records)], uid="s")
    counted = sizes.collect_later(uid="b")
    assert not any(isinstance(node, PartitionNode) and not node.inputs for node in env.program.nodes())
    env.execute("both")
    assert sorted(row["total"] for row in sums.records) == [45, 145]
    assert counted.records == [20]
