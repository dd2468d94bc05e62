"""Joins without windows through marks, snapshots between marks, and changes of the parallelism; as DuckDB."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from operator_samples import Recorder, context, opened
from subtask_samples import Checkpoints, Subtasks, on_disk

import headgate as hg
import headgate.functions as F  # noqa: N812  # as PySpark's users write it
from headgate.common.time import WATERMARK_MAX
from headgate.core.marks import Mark
from headgate.graph.table_nodes import ColumnsNode, JoinNode
from headgate.records.arrow_batch import ArrowBatch
from headgate.relational.changes import CHANGE, Change
from headgate.runtime.worker.operators.columns.making import table_operator
from headgate.testing import MiniCluster

GROUPS = 6
KINDS = ["inner", "left", "right", "full", "semi", "anti"]
SCHEMAS = [pa.schema({"k": pa.float64(), name: pa.int64()}) for name in ("a", "b", "c")]
KEYS = st.sampled_from([None, 0.0, -0.0, 1.0, 2.0, float("nan")])
ROW = st.tuples(KEYS, st.integers(0, 2))


def rows_of(tables: int) -> st.SearchStrategy[Any]:
    return st.tuples(st.integers(0, tables - 1), st.lists(ROW, min_size=1, max_size=6))


def steps_of(tables: int) -> st.SearchStrategy[list[Any]]:
    others = st.just(("mark",)) | st.tuples(st.just("restore"), st.integers(1, 3))
    return st.lists(rows_of(tables) | others, max_size=12)


STEPS, ON_DISK = steps_of(2), on_disk(rows_of(2))


class Job(Subtasks):
    """The subtasks of one join, before which its tables are read."""

    def __init__(
        self,
        how: str,
        checkpoints: Checkpoints | None = None,
        where: hg.Column | None = None,
        *,
        tables: int = 2,
    ) -> None:
        env = hg.Environment(parallelism=1, executor=MiniCluster())
        left, *others = (env.from_collection([]).to_table(schema) for schema in SCHEMAS[:tables])
        joined = left.join(others, "k", how, uid="j", where=where)
        nodes = env.program.nodes()
        of_columns = [each for each in nodes if isinstance(each, ColumnsNode)]
        self._before = [table_operator(context(), each) for each in of_columns[:tables]]
        (node,) = [each for each in nodes if isinstance(each, JoinNode)]
        self.updating = joined.schema.updating
        self._sent = [opened(each)[0] for each in self._before]
        self.net: Counter[str] = Counter()
        super().__init__("j", node, list(node.join.keys), checkpoints)

    def rows(self, side: int, rows: list[tuple[Any, int]]) -> None:
        self._sent[side].batches.clear()
        name = SCHEMAS[side].names[1]
        self._before[side].process(
            ArrowBatch(
                pa.RecordBatch.from_pylist([{"k": key, name: value} for key, value in rows], SCHEMAS[side])
            )
        )
        for sent in self._sent[side].batches:
            self.deal(sent)

    def mark(self) -> Counter[str]:
        for operator in self.operators:
            operator.mark(Mark(1))
        self._note()
        return +self.net

    def _note(self) -> None:
        for out in self.out:
            for row in map(dict, out.records):
                kind = Change(row.pop(CHANGE, Change.INSERT))
                self.net[shown(row)] += 1 if kind.adds else -1
            out.batches.clear()
        assert min(self.net.values(), default=0) >= 0

    def checkpoint(self) -> list[Any]:
        self._note()
        return super().checkpoint()


def shown(row: dict[str, Any]) -> str:
    return repr([(name, 0.0 if value == 0 else value) for name, value in sorted(row.items())])


def answer(how: str, sides: list[list[tuple[Any, int]]], where: str | None = None) -> Counter[str]:
    left, right, *third = (
        pa.Table.from_pylist([{"k": key, schema.names[1]: value} for key, value in rows], schema)
        for rows, schema in zip(sides, SCHEMAS, strict=False)
    )
    with duckdb.connect() as database:
        database.register("l", left)
        database.register("r", right)
        if third:
            database.register("t", third[0])
            found = database.sql("SELECT l.k AS k, a, b, c FROM l JOIN r USING (k) JOIN t USING (k)")
            return Counter(map(shown, found.to_arrow_table().to_pylist()))
        on = "USING (k)" if where is None else f"ON l.k = r.k AND {where}"
        b = "" if how in ("semi", "anti") else ", b"
        k = "coalesce(l.k, r.k)" if b else "l.k"
        found = database.sql(f"SELECT {k} AS k, a{b} FROM l {how} JOIN r {on}").to_arrow_table()
    return Counter(map(shown, found.to_pylist()))


def check(job: Job, how: str, steps: list[Any], where: str | None = None, tables: int = 2) -> None:
    sides: list[list[Any]] = [[] for _ in range(tables)]
    for step in [*steps, ("mark",)]:
        match step:
            case ("mark",):
                assert job.mark() == answer(how, sides, where)
            case ("checkpoint",):
                job.checkpoint()
            case ("restore", parallelism, *rocks):
                job.restore(parallelism, rocks=rocks != [False])
            case (side, rows):
                sides[side].extend(rows)
                job.rows(side, rows)


@pytest.mark.parametrize("how", KINDS)
@given(steps=STEPS)
def test_at_each_mark_the_answer_is_that_of_all_rows_before_it(how: str, steps: list[Any]) -> None:
    """With null, NaN and both zeros as keys, wherever a snapshot falls."""
    check(Job(how), how, steps)


@pytest.mark.parametrize("how", KINDS)
@settings(max_examples=10)
@given(steps=ON_DISK)
def test_what_changed_since_the_last_checkpoint_is_enough(how: str, steps: list[Any]) -> None:
    """With RocksDB, over several checkpoints, to RocksDB or the heap and back."""
    with TemporaryDirectory() as folder:
        check(Job(how, Checkpoints(Path(folder))), how, steps)


@settings(max_examples=60)
@given(steps=steps_of(3))
def test_several_tables_are_joined_at_once(steps: list[Any]) -> None:
    """As one inner join after the other, wherever a snapshot falls."""
    check(Job("inner", tables=3), "inner", steps, tables=3)


@settings(max_examples=20)
@given(steps=on_disk(rows_of(3)))
def test_several_tables_have_one_log_of_changes(steps: list[Any]) -> None:
    """With RocksDB, over several checkpoints, to RocksDB or the heap and back."""
    with TemporaryDirectory() as folder:
        check(Job("inner", Checkpoints(Path(folder)), tables=3), "inner", steps, tables=3)


def test_rows_with_the_columns_of_all_tables_are_taken() -> None:
    """So do those look that were on their way when an older version took an unaligned checkpoint."""
    job = Job("inner")
    (operator,), (out,) = job.operators, job.out
    for side, value in enumerate(({"left/a": 1}, {"right/b": 2})):
        row = {"__side": side, "k": 1.0, "__odd_keys": 0, **value}
        operator.process(ArrowBatch(pa.RecordBatch.from_pylist([row], operator._came)))
    operator.mark(Mark(1))
    assert list(map(dict, out.records)) == [{"k": 1.0, "a": 1, "b": 2}]


@pytest.mark.parametrize("how", KINDS[1:])
@settings(max_examples=40)
@given(steps=STEPS)
def test_a_condition_may_rule_out_partners(how: str, steps: list[Any]) -> None:
    """A row whose partners all fail it is one without partner; wherever a snapshot falls."""
    check(Job(how, where=F.col("a") < F.col("b")), how, steps, "l.a < r.b")


EVENTS = {
    "mark": lambda operator: operator.mark(Mark(1)),
    "idle": lambda operator: operator.idle(),
    "end": lambda operator: operator.end_of_data(),
}


def gathered(*, restored: bool) -> tuple[Any, Recorder]:
    """A join that has got a pair of rows and not joined them, before or after a restore."""
    job = Job("inner")
    job.rows(0, [(1.0, 1)])
    job.rows(1, [(1.0, 2)])
    if restored:
        job.restore(1)
    (operator,), (out,) = job.operators, job.out
    assert not out.log
    return operator, out


@pytest.mark.parametrize("restored", [False, True])
@pytest.mark.parametrize("event", EVENTS)
def test_pairs_are_not_behind_what_came_after_their_rows(event: str, restored: bool) -> None:
    """They go out before a mark, and before the operator is idle or ends."""
    operator, out = gathered(restored=restored)
    EVENTS[event](operator)
    pair, after = out.log
    assert dict(pair[0]) == {"k": 1.0, "a": 1, "b": 2}
    assert not isinstance(after, tuple)


@pytest.mark.parametrize("restored", [False, True])
@pytest.mark.parametrize("event", [*EVENTS, "go on"])
def test_a_watermark_waits_for_the_rows_before_it(event: str, restored: bool) -> None:
    """Pairs are not late, and a join for each watermark would be of few rows."""
    operator, out = gathered(restored=restored)
    operator.watermark(1_000)
    operator.watermark(2_000)
    assert not out.log
    {**EVENTS, "go on": lambda operator: operator.go_on()}[event](operator)
    pair, watermark, *_ = out.log
    assert dict(pair[0]) == {"k": 1.0, "a": 1, "b": 2}
    assert watermark == ("watermark", 2_000)
    operator.watermark(3_000)
    assert out.log[-1] == ("watermark", 3_000)


def test_the_watermark_of_a_drained_job_does_not_wait() -> None:
    """The barrier of its savepoint follows at once, and what the rows join to is to be before it."""
    operator, out = gathered(restored=False)
    operator.watermark(WATERMARK_MAX)
    pair, watermark = out.log
    assert dict(pair[0]) == {"k": 1.0, "a": 1, "b": 2}
    assert watermark == ("watermark", WATERMARK_MAX)


def test_a_watermark_that_waits_is_sent_after_a_restore() -> None:
    """No input may bring it again."""
    job = Job("inner")
    job.rows(0, [(1.0, 1)])
    job.rows(1, [(1.0, 2)])
    job.operators[0].watermark(1_000)
    job.restore(1)
    (operator,), (out,) = job.operators, job.out
    assert not out.log
    operator.go_on()
    pair, watermark = out.log
    assert dict(pair[0]) == {"k": 1.0, "a": 1, "b": 2}
    assert watermark == ("watermark", 1_000)


@pytest.mark.parametrize("restored", [False, True])
def test_rows_wait_for_some_milliseconds(restored: bool) -> None:
    """Those of a snapshot too, as no batch may come any more."""
    operator, out = gathered(restored=restored)
    due = operator.next_wakeup()
    assert due == operator.context.clock.now + 20
    assert not operator.busy
    operator.context.clock.now = due
    assert operator.busy
    operator.go_on()
    assert list(map(dict, out.records)) == [{"k": 1.0, "a": 1, "b": 2}]
    assert not operator.busy
    assert operator.next_wakeup() is None
