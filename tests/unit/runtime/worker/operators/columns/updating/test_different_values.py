"""Different values of groups without windows: through marks, snapshots between marks and rescaling, of rows
that come and of rows that go.
"""

from __future__ import annotations

import datetime as dt
from collections import Counter
from decimal import Decimal
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from operator_samples import context, opened
from subtask_samples import Checkpoints, Subtasks, on_disk

import headgate as hg
import headgate.functions as F  # noqa: N812  # as PySpark's users write it
from headgate.api.tables.updating import folded
from headgate.core.marks import Mark
from headgate.graph.table_nodes import AccumulateNode, ColumnsNode, RunningAggregateNode
from headgate.records.arrow_batch import ArrowBatch
from headgate.relational.changes import CHANGE, Change
from headgate.runtime.worker.operators.columns import window_state
from headgate.runtime.worker.operators.columns.making import table_operator
from headgate.runtime.worker.operators.columns.updating.different import finding_values
from headgate.testing import MiniCluster

NAN = float("nan")
SCHEMA = pa.schema(
    {
        "k": pa.string(),
        "v": pa.int64(),
        "x": pa.float64(),
        "t": pa.string(),
        "d": pa.decimal128(6, 2),
        "m": pa.timestamp("us", "UTC"),
        "b": pa.bool_(),
    }
)
ROW = st.fixed_dictionaries(
    {
        "k": st.sampled_from("abcdefgh"),
        "v": st.none() | st.integers(-3, 3),
        "x": st.none() | st.sampled_from([0.5, 0.0, -0.0, NAN, float("inf")]),
        "t": st.none() | st.sampled_from(["", "p", "q", "r" * 70]),
        "d": st.none() | st.sampled_from([Decimal("1.50"), Decimal("-7.25")]),
        "m": st.none()
        | st.sampled_from([dt.datetime(2024, 2, day, 1, 2, 3, 456, dt.UTC) for day in (28, 29)]),
        "b": st.none() | st.booleans(),
    }
)
ROWS = st.lists(ROW, min_size=1, max_size=8)
KINDS = st.tuples(st.sampled_from(["rows", "rows", "gone", "early"]), ROWS)
OTHERS = st.tuples(st.just("mark")) | st.tuples(st.just("restore"), st.integers(1, 3))
OF_VALUES: dict[str, tuple[Any, Any]] = {
    # name -> the aggregate, and its different values in Python
    "values": (F.count_distinct("v"), lambda row: (row["v"],)),
    "low": (
        F.count_distinct(F.when(F.col("v") < 1, F.col("v"))),
        lambda row: (row["v"] if low(row) else None,),
    ),
    "known": (
        F.count_distinct(F.when(F.col("t").isNotNull(), F.col("v"))),
        lambda row: (None if row["t"] is None else row["v"],),
    ),
    "texts": (F.count_distinct("t"), lambda row: (row["t"],)),
    "pairs": (F.count_distinct("v", "t"), lambda row: (row["v"], row["t"])),
    "floats": (F.count_distinct("x"), lambda row: (row["x"],)),
    "decimals": (F.count_distinct("d"), lambda row: (row["d"],)),
    "moments": (F.count_distinct("m"), lambda row: (row["m"],)),
    "truths": (F.count_distinct("b"), lambda row: (row["b"],)),
    "failing": (
        F.count_distinct(F.when(F.col("v") != 0, 12 / F.col("v"))),
        lambda row: (12 / row["v"] if row["v"] else None,),
    ),
}
SUMS: dict[str, tuple[Any, Any]] = {
    "sum_values": (F.sum_distinct("v"), lambda row: (row["v"],)),
    "sum_decimals": (F.sum_distinct("d"), lambda row: (row["d"],)),
}


def low(row: dict[str, Any]) -> bool:
    return row["v"] is not None and row["v"] < 1


class Job(Subtasks):
    """The subtasks of one aggregation, of rows that come or of rows that go, too."""

    def __init__(self, *, corrected: bool, checkpoints: Checkpoints | None = None) -> None:
        env = hg.Environment(parallelism=1, executor=MiniCluster())
        table = env.from_collection([]).to_table(SCHEMA)
        if corrected:
            table = table.top_n(2, "k", "v", uid="s")
        every = [each.alias(name) for name, (each, _) in (OF_VALUES | SUMS).items()]
        table.group_by("k").agg(
            F.count("*").alias("n"), *every, F.count("v").alias("s"), uid="g"
        ).to_changes()
        nodes = env.program.nodes()
        before = [each for each in nodes if isinstance(each, ColumnsNode | AccumulateNode)][-3:]
        if isinstance(before[-1], ColumnsNode):
            before = before[:-1]
        before = before[-2:]
        node = [each for each in nodes if isinstance(each, RunningAggregateNode)][-1]
        assert isinstance(before[0], ColumnsNode)
        self._columns = before[0].steps[0].reads.to_arrow()
        self._before, accumulating = [table_operator(context(), each) for each in before]
        self._sent, _ = opened(accumulating)
        self._before.next = accumulating
        self.changes: list[dict[str, Any]] = []
        super().__init__("g", node, ["k"], checkpoints)

    def rows(self, rows: list[dict[str, Any]], kind: Change = Change.INSERT) -> None:
        wide = [{name: {**row, CHANGE: int(kind)}[name] for name in self._columns.names} for row in rows]
        self._before.process(ArrowBatch(pa.RecordBatch.from_pylist(wide, self._columns)))
        self._deal_sent()

    def _deal_sent(self) -> None:
        for sent in self._sent.batches:
            self.deal(sent)
        self._sent.batches.clear()

    def checkpoint(self) -> list[Any]:
        """Rows that wait go before the barrier, as in :class:`Task`."""
        for each in (self._before, self._before.next):
            each.pass_on()
        self._deal_sent()
        return super().checkpoint()

    def mark(self) -> list[dict[str, Any]]:
        self._before.mark(Mark(1))
        self._deal_sent()
        for operator, out in zip(self.operators, self.out, strict=True):
            operator.mark(Mark(1))
            self.changes += out.records
            out.batches.clear()
        return folded(dict(row) for row in self.changes)


def different(rows: list[dict[str, Any]], of: Any) -> dict[str, tuple[Any, ...]]:
    found = {}
    for row in rows:
        values = of(row)
        if None not in values:
            found[
                repr(tuple(0.0 if value == 0.0 and isinstance(value, float) else value for value in values))
            ] = values
    return found


def answer(rows: list[dict[str, Any]]) -> Counter[str]:
    """What Python computes."""
    found: Counter[str] = Counter()
    for key in {row["k"] for row in rows}:
        mine = [row for row in rows if row["k"] == key]
        values = {name: len(different(mine, of)) for name, (_, of) in OF_VALUES.items()}
        for name, (_, of) in SUMS.items():
            summed = [value for (value,) in different(mine, of).values()]
            values[name] = sum(summed) if summed else None
        known = [row["v"] for row in mine if row["v"] is not None]
        found[repr((key, len(mine), values, len(known)))] += 1
    return found


def shown(rows: list[dict[str, Any]]) -> Counter[str]:
    names = [*OF_VALUES, *SUMS]
    return Counter(repr((row["k"], row["n"], {name: row[name] for name in names}, row["s"])) for row in rows)


def check(job: Job, steps: list[tuple[Any, ...]], *, corrected: bool) -> None:
    there, owed = list[dict[str, Any]](), list[dict[str, Any]]()
    for step in [*steps, ("mark",)]:
        match step:
            case ("rows", more):
                there += more
                job.rows(more)
            case ("gone", more) if corrected:
                gone, there = there[: len(more)], there[len(more) :]
                if gone:
                    job.rows(gone, Change.DELETE)
            case ("early", more) if corrected:
                # They go before they come; by the mark they have.
                job.rows(more, Change.DELETE)
                owed += more
            case ("mark",):
                if owed:
                    job.rows(owed)
                    owed.clear()
                assert shown(job.mark()) == answer(there)
            case ("checkpoint",):
                job.checkpoint()
            case ("restore", parallelism, *rocks):
                job.restore(parallelism, rocks=rocks != [False])


@pytest.mark.parametrize("corrected", [False, True])
@settings(max_examples=40)
@given(steps=st.lists(KINDS | OTHERS, max_size=12), as_columns=st.booleans())
def test_at_each_mark_different_values_are_those_of_all_rows_before_it(
    steps: list[tuple[Any, ...]], corrected: bool, as_columns: bool
) -> None:
    """Wherever a snapshot falls, in which form it is stored, and however many subtasks there are
    afterwards.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(window_state, "COLUMNS_FROM", 1 if as_columns else 1 << 20)
        check(Job(corrected=corrected), steps, corrected=corrected)


@pytest.mark.parametrize("corrected", [False, True])
@settings(max_examples=20)
@given(steps=on_disk(KINDS))
def test_what_changed_of_sets_since_the_last_checkpoint_is_enough(
    steps: list[tuple[Any, ...]], corrected: bool
) -> None:
    """With RocksDB, over several checkpoints, to RocksDB or the heap and back."""
    with TemporaryDirectory() as folder:
        check(Job(corrected=corrected, checkpoints=Checkpoints(Path(folder))), steps, corrected=corrected)


def test_rows_wait_for_the_mark_or_for_enough_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """What waited becomes one batch, with a row for each of its groups."""
    monkeypatch.setattr(finding_values, "_TOGETHER", 5)
    job, row = Job(corrected=False), {"v": 1, "x": 1.0, "t": "p", "d": None, "m": None, "b": None}
    sent = job._sent.batches
    first, second = ([{**row, "k": key} for key in keys] for keys in ("aba", "cb"))
    before = job._before
    before.process(ArrowBatch(pa.RecordBatch.from_pylist(first, job._columns)))
    assert sent == []
    before.process(ArrowBatch(pa.RecordBatch.from_pylist(second, job._columns)))
    assert [each.columns.column("k").to_pylist() for each in sent] == [["a", "b", "c"]]
    for end in (lambda: before.mark(Mark(1)), before.idle, before.end_of_data):
        sent.clear()
        before.process(ArrowBatch(pa.RecordBatch.from_pylist(second, job._columns)))
        assert sent == []
        end()
        assert [each.columns.column("k").to_pylist() for each in sent] == [["c", "b"]]


def test_values_far_from_each_other_are_told_apart() -> None:
    """Where they do not fit into one integer with the numbers of their groups."""
    job = Job(corrected=False)
    row = {"x": 1.0, "t": "p", "d": None, "m": None, "b": None}
    far = [-(2**63), -1, 0, 2**33, 2**63 - 1]
    rows = [{**row, "k": key, "v": value} for key in "ab" for value in [*far, *far[1:]]]
    job.rows(rows)
    found = {each["k"]: each["values"] for each in job.mark()}
    assert found == {"a": 5, "b": 5}


def test_aggregates_of_one_value_share_a_set() -> None:
    """Their conditions are columns, and the plan says what the program wrote."""
    job = Job(corrected=False)
    plan = job._node.aggregation
    shared = {one.name: [each.name for each in one.told] for one in plan.distinct}
    assert shared["known"] == ["values", "low", "known"]
    assert shared["sum_values"] == ["sum_values"]
    assert "count_distinct(case when (v < 1) then v else NULL end) AS low" in str(plan_text(plan))


def plan_text(plan: Any) -> str:
    from headgate.relational.plan_text import aggregates_text

    return aggregates_text(plan)


@pytest.mark.parametrize("on_rocksdb", [False, True])
def test_values_of_groups_that_go_are_forgotten(on_rocksdb: bool, tmp_path: Path) -> None:
    """Groups come and go: places of their values are used anew, and the answer stays right."""
    job = Job(corrected=True, checkpoints=Checkpoints(tmp_path) if on_rocksdb else None)
    before: list[dict[str, Any]] = []
    for step in range(12):
        row = {"k": f"k{step % 3}", "x": 1.0, "t": "p", "d": None, "m": None, "b": None}
        rows = [{**row, "v": step * 8_000 + n} for n in range(8_000)]
        job.rows(rows)
        if before:
            job.rows(before, Change.DELETE)
        before = rows
        assert shown(job.mark()) == answer(before)
        job.checkpoint()
        if on_rocksdb and step % 5 == 4:
            job.restore(1 + step % 3)
        (kept, *_) = [each._kept for each in job.operators]
        assert max(one.count for one in kept._sets) < 60_000
    assert shown(job.mark()) == answer(before)
