"""Windows over several changes of the parallelism, whose subtasks stand at different times of event time.

A key group must give what it would give if it had a subtask of its own all the time: that is the model.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from functools import cache
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from operator_samples import columns, context, finished, opened

import headgate as hg
import headgate.functions as F  # noqa: N812  # as PySpark's users write it
from headgate.common.keys.keygroups import key_group_range
from headgate.common.time import WATERMARK_MAX
from headgate.graph.table_nodes import AccumulateNode, ColumnsNode, WindowAggregateNode, WindowJoinNode
from headgate.records.arrow_batch import ArrowBatch
from headgate.restore.assignment import share_operator
from headgate.runtime.worker.operators.columns.making import table_operator
from headgate.runtime.worker.operators.columns.panes import groups_of_rows
from headgate.testing import MiniCluster

GROUPS = 6
KEYS = "abcdefgh"
SCHEMA = pa.schema({"at": pa.int64(), "k": pa.string()})
WINDOWS = {
    "tumbling": F.window("at", 10),
    "sliding": F.window("at", 20, 10),
    "cumulative": F.cumulate_window("at", 30, 10),
    "session": F.session_window("at", 7),
}
Row = tuple[str, int, int]
"""Key, event time, and of joins the side."""


class Job:
    """The operators of a table that counts in windows, or joins in them."""

    def __init__(self, kind: str) -> None:
        env = hg.Environment(parallelism=1, executor=MiniCluster())
        tables = [env.from_collection([]).with_event_time("at").to_table(SCHEMA) for _ in range(2)]
        if kind == "join":
            sides = [
                each.select(WINDOWS["tumbling"], "k", F.col("at").alias(f"at{n}"))
                for n, each in enumerate(tables)
            ]
            sides[0].join(sides[1], ["window", "k"], "full", uid="w").to_stream()
        else:
            tables[0].group_by("k", WINDOWS[kind]).agg(F.count("*").alias("n"), uid="w").to_stream()
        nodes = env.program.nodes()
        before = [
            each for each in nodes if isinstance(each, ColumnsNode if kind == "join" else AccumulateNode)
        ]
        (self._node,) = [each for each in nodes if isinstance(each, WindowAggregateNode | WindowJoinNode)]
        self._before = [table_operator(context(), each) for each in before]
        self._sent = [opened(each)[0] for each in self._before]

    def batch(self, row: Row, mark: int) -> Any:
        """What is sent of a row whose sender's watermark is `mark`."""
        key, at, side = row
        side = min(side, len(self._before) - 1)
        self._sent[side].batches.clear()
        self._before[side].process(columns([{"at": at, "k": key}], [at], [mark]))
        (sent,) = self._sent[side].batches
        return sent

    def operator(self, subtask: int, parallelism: int, restored: Iterable[Any] = ()) -> Any:
        """A subtask that has its windows back."""
        where = context(
            "w", subtask=subtask, parallelism=parallelism, max_parallelism=GROUPS, restored=list(restored)
        )
        made = table_operator(where, self._node)
        opened(made)
        return made


class Owners:
    """Subtasks of one job with their watermarks; the results of all that there ever were."""

    def __init__(self, job: Job, parallelism: int) -> None:
        self._job = job
        self.results: Counter[str] = Counter()
        self.late = 0
        self._start([job.operator(subtask, parallelism) for subtask in range(parallelism)])

    def _start(self, operators: list[Any]) -> None:
        self._operators = operators
        self._ranges = [key_group_range(GROUPS, len(operators), n) for n in range(len(operators))]

    @property
    def keys(self) -> tuple[str, ...]:
        """The columns by which rows are partitioned."""
        keys: tuple[str, ...] = self._operators[0]._keys
        return keys

    def owner(self, group: int) -> int:
        """The subtask that has a key group."""
        return next(n for n, (first, last) in enumerate(self._ranges) if first <= group <= last)

    def groups(self, subtask: int) -> range:
        """The key groups of a subtask."""
        first, last = self._ranges[subtask % len(self._ranges)]
        return range(first, last + 1)

    def process(self, group: int, batch: ArrowBatch) -> None:
        """Give a batch of one row to the subtask of its group."""
        self._operators[self.owner(group)].process(batch)

    def advance(self, subtask: int, mark: int) -> None:
        """Let event time go on in a subtask, unless it is as far."""
        self._operators[subtask % len(self._operators)].watermark(mark)

    def rescale(self, parallelism: int) -> None:
        """Take a snapshot, and go on from it with so many subtasks."""
        self.end()
        old = [finished(each.snapshot(1)) for each in self._operators]
        shares = share_operator(old, parallelism, GROUPS)
        self._start([self._job.operator(n, parallelism, share) for n, share in enumerate(shares)])

    def end(self) -> None:
        """Note the results and late rows of the subtasks that there are."""
        for each in self._operators:
            self.results.update(map(str, each.next.records))
            self.late += sum(each.measured().values())


@cache
def job_of(kind: str) -> Job:
    """The job, whose operators before the exchange keep nothing."""
    return Job(kind)


RESCALE = st.tuples(st.just("rescale"), st.integers(1, 4), st.just(0))
ADVANCE = st.tuples(st.just("advance"), st.integers(0, 3), st.integers(1, 25))
ROW = st.tuples(st.just("row"), st.sampled_from(KEYS), st.tuples(st.integers(-40, 30), st.integers(0, 1)))
STEPS = st.lists(st.one_of(ROW, ROW, ROW, ADVANCE, ADVANCE, RESCALE), max_size=40)
Steps = list[tuple[str, Any, Any]]


def check(kind: str, steps: Steps) -> None:
    """Run the steps at the parallelisms that they ask for, and with a subtask for each group."""
    job = job_of(kind)
    real, model = Owners(job, 2), Owners(job, GROUPS)
    marks = [0] * GROUPS
    for each in (real, model):
        for subtask in range(GROUPS):
            each.advance(subtask, 0)
    for verb, what, how in steps:
        if verb == "row":
            at, side = how
            # Its sender is behind, so that the receiver's event time decides.
            batch = job.batch((what, max(marks) + at, side), 0)
            (group,) = groups_of_rows(pa.table(batch.columns), real.keys, GROUPS).tolist()
            real.process(group, batch)
            model.process(group, batch)
        elif verb == "advance":
            groups = real.groups(what)
            mark = min(marks[group] for group in groups) + how
            real.advance(what, mark)
            for group in groups:
                model.advance(group, max(marks[group], mark))
                marks[group] = max(marks[group], mark)
        else:
            real.rescale(what)
    for each in (real, model):
        for subtask in range(GROUPS):
            each.advance(subtask, WATERMARK_MAX)
        each.end()
    assert real.results == model.results
    assert real.late == model.late


@pytest.mark.parametrize("kind", [*WINDOWS, "join"])
@settings(max_examples=25, deadline=None)
@given(steps=STEPS)
def test_a_group_goes_on_as_if_it_were_alone(kind: str, steps: Steps) -> None:
    """Rows come between any number of rescales; watermarks rise in some subtasks, and in others not."""
    check(kind, steps)


@pytest.mark.parametrize("widths", [(1,), (3, 1, 2)])
@pytest.mark.parametrize("kind", [*WINDOWS, "join"])
def test_what_a_group_sent_out_before_two_rescales_is_not_sent_again(
    kind: str, widths: tuple[int, ...]
) -> None:
    """The group may have nothing left; a row comes for a window that it has sent out."""
    for fast in (0, 1):
        for key in "ade":
            rescales: Steps = [("rescale", width, 0) for width in widths]
            check(kind, [("row", key, (0, 0)), ("advance", fast, 50), *rescales, ("row", key, (-45, 0))])
