"""Groups without windows, through marks, snapshots between marks, and changes of the parallelism."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st
from operator_samples import columns, context, opened
from subtask_samples import Checkpoints, Subtasks, on_disk

import headgate as hg
import headgate.functions as F  # noqa: N812  # as PySpark's users write it
from headgate.api.tables.updating import folded
from headgate.core.marks import Mark
from headgate.graph.table_nodes import AccumulateNode, ColumnsNode, RunningAggregateNode
from headgate.runtime.worker.operators.columns.making import table_operator
from headgate.testing import MiniCluster

GROUPS = 6
SCHEMA = pa.schema({"k": pa.string(), "v": pa.int64(), "x": pa.float64()})
ROWS = st.lists(
    st.fixed_dictionaries(
        {
            "k": st.sampled_from("abcdefgh"),
            "v": st.none() | st.integers(-3, 3),
            "x": st.none() | st.sampled_from([0.5, -0.0, float("nan"), float("inf")]),
        }
    ),
    min_size=1,
    max_size=8,
)
STEPS = st.lists(
    st.tuples(st.just("rows"), ROWS)
    | st.tuples(st.just("mark"))
    | st.tuples(st.just("restore"), st.integers(1, 3)),
    max_size=20,
)

ON_DISK = on_disk(st.tuples(st.just("rows"), ROWS))


class Job(Subtasks):
    """The subtasks of one aggregation; a snapshot of all brings them back, with any parallelism."""

    def __init__(self, checkpoints: Checkpoints | None = None) -> None:
        env = hg.Environment(parallelism=1, executor=MiniCluster())
        table = env.from_collection([]).to_table(SCHEMA)
        aggregates = F.count("*").alias("n"), F.sum("v").alias("s"), F.max("x").alias("m")
        table.group_by("k").agg(*aggregates, F.first("v").alias("f"), uid="g").to_changes()
        nodes = env.program.nodes()
        before = [each for each in nodes if isinstance(each, ColumnsNode | AccumulateNode)][:2]
        (node,) = [each for each in nodes if isinstance(each, RunningAggregateNode)]
        self._before, accumulating = [table_operator(context(), each) for each in before]
        self._sent, _ = opened(accumulating)
        self._before.next = accumulating
        self.changes: list[dict[str, Any]] = []
        super().__init__("g", node, ["k"], checkpoints)

    def rows(self, rows: list[dict[str, Any]]) -> None:
        self._sent.batches.clear()
        self._before.process(columns(rows))
        (sent,) = self._sent.batches
        self.deal(sent)

    def mark(self) -> list[dict[str, Any]]:
        for operator, out in zip(self.operators, self.out, strict=True):
            operator.mark(Mark(1))
            self.changes += out.records
            out.batches.clear()
        return folded(dict(row) for row in self.changes)


def answer(rows: list[dict[str, Any]]) -> Counter[str]:
    """What Python computes."""
    found = Counter()
    for key in {row["k"] for row in rows}:
        mine = [row for row in rows if row["k"] == key]
        values = [row["v"] for row in mine if row["v"] is not None]
        doubles = [row["x"] for row in mine if row["x"] is not None]
        # NaN is the greatest, as in Spark.
        greatest = next((x for x in doubles if x != x), max(doubles, default=None))
        found[
            repr(
                (
                    key,
                    len(mine),
                    sum(values) if values else None,
                    None if greatest is None else greatest or 0.0,
                )
            )
        ] += 1
    return found


def shown(rows: list[dict[str, Any]]) -> Counter[str]:
    return Counter(
        repr((row["k"], row["n"], row["s"], None if row["m"] is None else row["m"] or 0.0)) for row in rows
    )


def check(job: Job, steps: list[tuple[Any, ...]]) -> None:
    rows = list[dict[str, Any]]()
    for step in [*steps, ("mark",)]:
        match step:
            case ("rows", more):
                rows += more
                job.rows(more)
            case ("mark",):
                assert shown(job.mark()) == answer(rows)
            case ("checkpoint",):
                job.checkpoint()
            case ("restore", parallelism, *rocks):
                job.restore(parallelism, rocks=rocks != [False])


@given(STEPS)
def test_at_each_mark_the_answer_is_that_of_all_rows_before_it(steps: list[tuple[Any, ...]]) -> None:
    """Wherever a snapshot falls, and however many subtasks there are afterwards."""
    check(Job(), steps)


@settings(max_examples=30)
@given(ON_DISK)
def test_what_changed_since_the_last_checkpoint_is_enough(steps: list[tuple[Any, ...]]) -> None:
    """With RocksDB, over several checkpoints, to RocksDB or the heap and back."""
    with TemporaryDirectory() as folder:
        check(Job(Checkpoints(Path(folder))), steps)


def test_a_group_whose_result_stays_sends_nothing_and_old_values_go_first() -> None:
    """A correction takes the old row back before the new one comes."""
    job = Job()
    job.rows([{"k": "a", "v": 0, "x": 1.0}])
    job.mark()
    first = len(job.changes)
    job.mark()
    assert len(job.changes) == first
    job.rows([{"k": "a", "v": 5, "x": None}, {"k": "b", "v": 1, "x": None}])
    job.mark()
    kinds = [(row["k"], row["n"], row["__change"]) for row in job.changes[first:]]
    assert sorted(kinds) == [("a", 1, 1), ("a", 2, 2), ("b", 1, 0)]
    assert kinds.index(("a", 2, 2)) == kinds.index(("a", 1, 1)) + 1
