"""The first rows of keys through marks, snapshots between marks, and changes of the parallelism."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st
from operator_samples import context, opened
from subtask_samples import Checkpoints, Subtasks, on_disk

import headgate as hg
import headgate.functions as F  # noqa: N812  # as PySpark's users write it
from headgate.api.tables.updating import folded
from headgate.core.marks import Mark
from headgate.graph.table_nodes import FirstRowsNode, RankNode
from headgate.records.arrow_batch import ArrowBatch
from headgate.relational.changes import Change
from headgate.runtime.worker.operators.columns.making import table_operator
from headgate.testing import MiniCluster

GROUPS = 6
ROWS = st.lists(
    st.tuples(
        st.sampled_from("abcde"),
        st.sampled_from([None, float("nan"), float("-inf"), -0.0, 0.0, 1.0, 2.0]),
        st.integers(0, 2),
    ),
    min_size=1,
    max_size=6,
)
STEPS = st.lists(
    st.tuples(st.just("rows"), ROWS) | st.just(("mark",)) | st.tuples(st.just("restore"), st.integers(1, 3)),
    max_size=12,
)

ON_DISK = on_disk(st.tuples(st.just("rows"), ROWS))


class Job(Subtasks):
    """The subtasks of one rank, and the part before the exchange."""

    def __init__(self, n: int, checkpoints: Checkpoints | None = None) -> None:
        env = hg.Environment(parallelism=1, executor=MiniCluster())
        schema = pa.schema({"k": pa.string(), "v": pa.float64(), "i": pa.int64()})
        table = env.from_collection([]).to_table(schema)
        table.top_n(n, "k", [F.desc("v"), F.asc("i")], rank="place", uid="r").to_changes()
        nodes = env.program.nodes()
        (before,) = [each for each in nodes if isinstance(each, FirstRowsNode)]
        (self.rank,) = [each for each in nodes if isinstance(each, RankNode)]
        self._before = table_operator(context(), before)
        self.sent, _ = opened(self._before)
        self.changes: list[dict[str, Any]] = []
        super().__init__("r", self.rank, ["k"], checkpoints)

    def rows(self, rows: list[tuple[str, Any, int]]) -> None:
        self.sent.batches.clear()
        schema = self.rank.rank.child.schema.to_arrow()
        wide = [dict(zip(schema.names, (*row, *row[1:]), strict=True)) for row in rows]
        self._before.process(ArrowBatch(pa.RecordBatch.from_pylist(wide, schema)))
        (sent,) = self.sent.batches
        self.deal(sent)

    def mark(self) -> Counter[str]:
        for operator, out in zip(self.operators, self.out, strict=True):
            operator.mark(Mark(1))
            self.changes += map(dict, out.records)
            out.batches.clear()
        return Counter(map(shown, folded(map(dict, self.changes))))


def shown(row: dict[str, Any]) -> str:
    return repr((row["k"], row["v"] or (None if row["v"] is None else 0.0), row["i"], row["place"]))


def answer(rows: list[tuple[str, Any, int]], n: int) -> Counter[str]:
    def greatest_first(row: tuple[str, Any, int]) -> tuple[Any, ...]:
        known, nan = row[1] is not None, row[1] != row[1]
        return (not known, not nan, -(row[1] if known and not nan else 0), row[2])

    found = Counter[str]()
    for key in {row[0] for row in rows}:
        mine = sorted((row for row in rows if row[0] == key), key=greatest_first)[:n]
        for place, (_, value, number) in enumerate(mine, 1):
            found[shown({"k": key, "v": value, "i": number, "place": place})] += 1
    return found


def check(job: Job, n: int, steps: list[Any]) -> None:
    rows = list[tuple[str, Any, int]]()
    for step in [*steps, ("mark",)]:
        match step:
            case ("rows", more):
                rows += more
                job.rows(more)
            case ("mark",):
                assert job.mark() == answer(rows, n)
            case ("checkpoint",):
                job.checkpoint()
            case ("restore", parallelism, *rocks):
                job.restore(parallelism, rocks=rocks != [False])


@given(STEPS, st.integers(1, 3))
def test_at_each_mark_the_answer_is_that_of_all_rows_before_it(steps: list[Any], n: int) -> None:
    """Wherever a snapshot falls, with null, NaN, both zeros, and ties."""
    check(Job(n), n, steps)


@settings(max_examples=30)
@given(ON_DISK, st.integers(1, 3))
def test_what_changed_since_the_last_checkpoint_is_enough(steps: list[Any], n: int) -> None:
    """With RocksDB, over several checkpoints, to RocksDB or the heap and back."""
    with TemporaryDirectory() as folder:
        check(Job(n, Checkpoints(Path(folder))), n, steps)


@given(st.lists(ROWS, min_size=2, max_size=5), st.integers(1, 4))
def test_no_row_goes_and_comes_at_one_mark(batches: list[Any], n: int) -> None:
    """Of equal rows one may take the place of the other, which is no change."""
    job = Job(n)
    for rows in batches:
        job.rows([(key, value, 0) for key, value, _ in rows])
        before = len(job.changes)
        job.mark()
        kinds = {True: set[str](), False: set[str]()}
        for row in job.changes[before:]:
            kinds[row["__change"] == Change.INSERT].add(repr({**row, "__change": None}))
        assert not kinds[True] & kinds[False]


def test_columns_to_order_by_are_sent_once() -> None:
    """Those that rows have anyway; in flight of earlier versions they were there twice."""
    job = Job(2)
    job.rows([("a", 1.0, 1)])
    (sent,) = job.sent.batches
    assert sent.columns.schema.names == ["k", "v", "i"]
    whole = job.rank.rank.child.schema.to_arrow()
    assert len(whole) == 5
    earlier = dict(zip(whole.names, ["a", 2.0, 2, 2.0, 2], strict=True))
    job.deal(ArrowBatch(pa.RecordBatch.from_pylist([earlier], whole)))
    assert job.mark() == answer([("a", 1.0, 1), ("a", 2.0, 2)], 2)
    (stored,) = job.operators[0]._pending().views[0].tables()
    assert stored.schema.names == ["__pane", *whole.names]
    assert stored.select(whole.names[1:3]).to_pydict() == {"v": [2.0, 1.0], "i": [2, 1]}


def test_rows_are_stored_in_the_order_of_their_places() -> None:
    """Whenever they came: state is compared byte by byte, as a replay does."""
    job = Job(3)
    for value in (1.0, 3.0, 2.0, 4.0):
        job.rows([("a", value, 0), ("b", -value, 0)])
        job.mark()
        stored = pa.concat_tables(job.operators[0]._pending().views[0].tables())
        found = list(zip(stored.column("k").to_pylist(), stored.column("__pane").to_pylist(), strict=True))
        assert found == sorted(found)


def test_rows_are_ordered_by_what_is_computed_of_them() -> None:
    """And by texts: the lesser values come first, then the greater ones."""
    env = hg.Environment(parallelism=1, executor=MiniCluster())
    rows = [{"k": 1, "v": v, "s": s} for v, s in ((3, "b"), (5, "a"), (4, "a"), (5, "b"))]
    table = env.from_collection(rows).to_table(
        pa.schema({"k": pa.int64(), "v": pa.int64(), "s": pa.string()})
    )
    best = table.top_n(2, "k", [F.asc(F.col("v") % 2), F.desc("s"), F.desc("v")], rank="place", uid="r")
    found = sorted((row["place"], row["v"], row["s"]) for row in best.collect())
    assert found == [(1, 4, "a"), (2, 5, "b")]
