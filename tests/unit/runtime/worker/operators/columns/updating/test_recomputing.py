"""What is computed anew takes back what it sent: whatever the order in which rows of a key come back."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from operator_samples import context, opened
from subtask_samples import Subtasks

import headgate as hg
import headgate.functions as F  # noqa: N812  # as PySpark's users write it
from headgate.core.marks import Mark
from headgate.graph.table_nodes import CheckedKeysNode, RecomputeNode
from headgate.records.arrow_batch import ArrowBatch
from headgate.relational.changes import CHANGE, Change
from headgate.runtime.worker.operators.columns.making import table_operator
from headgate.testing import MiniCluster

SCHEMA = pa.schema({"k": pa.string(), "i": pa.int64(), "x": pa.float64()})
VALUES = (0.1, 1 / 3, 4 / 3, -1.1, 7 / 4, 1e16, 0.0, -0.0, float("nan"), None)

Computed = Callable[[hg.Table], hg.Table]
COMPUTED: dict[str, Computed] = {
    "sum": lambda table: table.group_by("k").agg(F.sum("x").alias("s"), F.avg("x").alias("m"), uid="c"),
    "first": lambda table: table.group_by("k").agg(F.first("x").alias("f"), F.last("i").alias("l"), uid="c"),
    "top": lambda table: table.top_n(2, "k", "n", rank="place", uid="c"),
    "over": lambda table: table.over(F.sum("x").alias("s"), by="k", order_by="n", uid="c"),
}
"""Answers that depend on the order of rows: rounded sums, first values, and ties of an order."""

_GIVEN = {
    "s/argument": "x", "m/argument": "x", "f/argument": "x", "s/argument5": "x",
    "l/argument": "i", "order/0 n": "n",
}  # fmt: skip
"""Column that only what is computed needs -> the one of the table that it is."""


class Job(Subtasks):
    """The subtasks of what is computed anew of a table whose rows are corrected."""

    def __init__(self, computed: Computed) -> None:
        env = hg.Environment(parallelism=1, executor=MiniCluster())
        table = env.from_collection([]).to_table(SCHEMA)
        corrected = table.group_by("k", "i").agg(F.max("x").alias("x"), F.count("*").alias("n"), uid="g")
        computed(corrected).to_changes()
        nodes = env.program.nodes()
        (before,) = [each for each in nodes if isinstance(each, CheckedKeysNode)]
        (node,) = [each for each in nodes if isinstance(each, RecomputeNode)]
        self._before, self._columns = table_operator(context(), before), node.plan.child.schema.to_arrow()
        self._sent, _ = opened(self._before)
        self.net: Counter[str] = Counter()
        super().__init__("c", node, ["k"])

    def change(self, rows: list[dict[str, Any]], kind: Change) -> None:
        """Rows of the corrected table come, or go."""
        self._sent.batches.clear()
        wide = [
            {name: row[_GIVEN.get(name, name)] for name in self._columns.names if name != CHANGE}
            | {CHANGE: int(kind)}
            for row in rows
        ]
        self._before.process(ArrowBatch(pa.RecordBatch.from_pylist(wide, self._columns)))
        for sent in self._sent.batches:
            self.deal(sent)

    def mark(self) -> None:
        """Take what is sent; nothing that is taken back was never sent."""
        for operator, out in zip(self.operators, self.out, strict=True):
            operator.mark(Mark(1))
            for row in map(dict, out.records):
                added = 1 if Change(row.pop(CHANGE)).adds else -1
                self.net[repr(sorted(row.items()))] += added
            out.batches.clear()
        assert min(self.net.values(), default=0) >= 0


@pytest.mark.parametrize("name", COMPUTED)
@pytest.mark.parametrize("seed", range(5))
def test_nothing_is_taken_back_that_was_not_sent(name: str, seed: int) -> None:
    """A stored blob is one table, what was in memory are several; rows come back in another order."""
    rng, job, there = random.Random(seed), Job(COMPUTED[name]), list[dict[str, Any]]()
    for step in range(30):
        rows = [
            {"k": rng.choice("ab"), "i": step * 10 + n, "x": rng.choice(VALUES), "n": rng.randrange(2)}
            for n in range(rng.randrange(1, 4))
        ]
        job.change(rows, Change.INSERT)
        there += rows
        if rng.random() < 0.5:
            gone = there.pop(rng.randrange(len(there)))
            job.change([gone], Change.DELETE)
        job.mark()
        if rng.random() < 0.3:
            job.restore(rng.choice((1, 2)))
    job.restore(2)
    job.change(there, Change.DELETE)
    job.mark()
    assert +job.net == Counter()
