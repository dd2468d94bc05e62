"""The subtasks of a join by time: rows, watermarks, snapshots, restores, and a model of what is late."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, NamedTuple
from unittest.mock import patch

import duckdb
import numpy as np
import pyarrow as pa
from hypothesis import strategies as st
from operator_samples import Recorder, context, finished, opened

import headgate as hg
from headgate.common.keys.keygroups import key_group_range
from headgate.common.time import WATERMARK_MAX, WATERMARK_MIN
from headgate.graph.table_nodes import ColumnsNode, TimedJoinNode
from headgate.records.arrow_batch import ArrowBatch
from headgate.restore.assignment import share_operator
from headgate.runtime.worker.operators.columns.making import table_operator
from headgate.runtime.worker.operators.columns.panes import groups_of_rows, hashes_of_rows
from headgate.runtime.worker.operators.columns.timed import layers, timed_rows, versions
from headgate.testing import MiniCluster

GROUPS = 6
SCHEMAS = [
    pa.schema({"k": pa.float64(), f"{side}_at": pa.int64(), f"{side}_v": pa.int64()}) for side in ("l", "r")
]
KEYS = st.sampled_from([1.0, 1.0, 1.0, 2.0, 0.0, -0.0, None, float("nan")])


class Row(NamedTuple):
    """A row of either side; the watermark goes up by `step` before it."""

    key: float | None
    at: int
    value: int
    step: int


ROWS = st.lists(
    st.builds(Row, KEYS, st.integers(1, 16), st.integers(0, 3), st.sampled_from([0, 0, 0, 0, 0, 1, 2])),
    min_size=3,
    max_size=8,
)
STEPS = st.lists(
    st.tuples(st.sampled_from([0, 1]), ROWS)
    | st.tuples(st.just("watermark"), st.integers(0, 2), st.integers(1, 4))
    | st.tuples(st.just("restore"), st.integers(1, 3)),
    min_size=3,
    max_size=14,
)
"""Batches of either side, watermarks of one subtask, and restores at another parallelism."""


class Planned(NamedTuple):
    """A join by time in a program: what prepares its sides, its own node, the event time of its results."""

    before: list[ColumnsNode]
    node: TimedJoinNode
    time: str | None


def planned(join: Callable[[hg.Table[Any], hg.Table[Any]], hg.Table[Any]]) -> Planned:
    """The plan of a join of two tables."""
    env = hg.Environment(parallelism=1, executor=MiniCluster())
    left, right = (
        env.from_collection([]).with_event_time(schema.names[1]).to_table(schema) for schema in SCHEMAS
    )
    joined = join(left, right)
    nodes = env.program.nodes()
    (node,) = [each for each in nodes if isinstance(each, TimedJoinNode)]
    return Planned(
        [each for each in nodes if isinstance(each, ColumnsNode)][:2], node, joined.schema.event_time
    )


@contextmanager
def few_hashes() -> Iterator[None]:
    """Have all keys in joins by time one of two hashes."""

    def few(rows: pa.Table, keys: Sequence[str]) -> Any:
        return hashes_of_rows(rows, keys) % 2

    with ExitStack() as stack:
        for module in (layers, timed_rows, versions):
            stack.enter_context(patch.object(module, "hashes_of_rows", few))
        yield


class Subtasks:
    """The subtasks of one join by time, before which both tables are read.

    Attributes:
        taken: the rows of each side that were not late.
        marks: how far each key group is.
        net: the rows that came out.
    """

    def __init__(self, plan: Planned) -> None:
        self._before = [table_operator(context(), each) for each in plan.before]
        self.node, self._time = plan.node, plan.time
        self._sent = [opened(each)[0] for each in self._before]
        self.net: Counter[str] = Counter()
        self.taken: list[list[Row]] = [[], []]
        self.late = 0
        self.marks = np.full(GROUPS, WATERMARK_MIN)
        self._open([], 1)

    def _open(self, states: list[Any], parallelism: int) -> None:
        shares = share_operator(states, parallelism, GROUPS) if states else [[]] * parallelism
        self.operators: list[Any] = [
            table_operator(
                context("j", subtask=n, parallelism=parallelism, max_parallelism=GROUPS, restored=shares[n]),
                self.node,
            )
            for n in range(parallelism)
        ]
        self._out: list[Recorder] = [opened(each)[0] for each in self.operators]

    def rows(self, side: int, rows: Sequence[Row]) -> None:
        """Send a batch to all subtasks, each its rows."""
        start = max(0, min(operator._mark for operator in self.operators))
        marks = start + np.cumsum([row.step for row in rows])
        names = SCHEMAS[side].names
        records = [dict(zip(names, row[:3], strict=True)) for row in rows]
        columns = pa.RecordBatch.from_pylist(records, SCHEMAS[side])
        self._sent[side].batches.clear()
        self._before[side].process(ArrowBatch(columns, np.array([row.at for row in rows]), marks))
        for sent in self._sent[side].batches:
            assert isinstance(sent, ArrowBatch)
            groups = groups_of_rows(pa.table(sent.columns), self.node.join.keys, GROUPS)
            for n, operator in enumerate(self.operators):
                first, last = key_group_range(GROUPS, len(self.operators), n)
                mine = np.flatnonzero((groups >= first) & (groups <= last))
                if len(mine):
                    part = sent.take(mine)
                    self._note_rows(side, rows, part, groups[mine], operator._mark)
                    operator.process(part)
                    self._reached(n, int(part.watermarks[-1]))

    def _note_rows(self, side: int, rows: Sequence[Row], part: ArrowBatch, groups: Any, mark: int) -> None:
        value = part.columns.column(f"{'right/r' if side else 'left/l'}_v").to_pylist()
        keys = part.columns.column("k").to_pylist()
        odd = part.columns.column("__odd_keys").to_pylist()
        assert part.timestamps is not None
        assert part.watermarks is not None
        for n, at in enumerate(part.timestamps.tolist()):
            if at <= max(self.marks[groups[n]], mark, int(part.watermarks[n])):
                self.late += 1
                continue
            key = float("nan") if odd[n] & 1 else None if odd[n] else keys[n]
            self.taken[side].append(Row(key, at, value[n], 0))

    def watermark(self, number: int, by: int) -> None:
        """Advance one subtask's watermark."""
        n = number % len(self.operators)
        operator = self.operators[n]
        operator.watermark(max(operator._mark, 0) + by)
        self._reached(n, operator._mark)

    def end(self) -> None:
        """Let event time end."""
        for operator in self.operators:
            operator.watermark(WATERMARK_MAX)
            assert operator._kept.sides[0].count == 0
        self.note()

    def _reached(self, n: int, mark: int) -> None:
        first, last = key_group_range(GROUPS, len(self.operators), n)
        self.marks[first : last + 1] = np.maximum(self.marks[first : last + 1], mark)

    def note(self) -> None:
        """Take over what came out, of which nothing is late."""
        for out in self._out:
            least = WATERMARK_MIN
            for entry in out.log:
                if entry[0] == "watermark":
                    least = max(least, entry[1])
                    continue
                row, at, mark = entry
                record = dict(row)
                assert at > max(least, mark)
                assert self._time is None or record[self._time] == at
                least = max(least, mark)
                self.net[shown(record)] += 1
            out.log.clear()

    def restore(self, parallelism: int) -> None:
        """Take a snapshot and go on with it at this parallelism."""
        self.note()
        self._open([finished(operator.snapshot(1)) for operator in self.operators], parallelism)

    def play(self, steps: Sequence[Any]) -> None:
        """Take all steps, and end."""
        for step in steps:
            match step:
                case ("watermark", number, by):
                    self.watermark(number, by)
                case ("restore", parallelism):
                    self.restore(parallelism)
                case (side, rows):
                    self.rows(side, rows)
        self.end()


def shown(row: dict[str, Any]) -> str:
    """A row as text, for counting."""
    return repr([(name, 0.0 if value == 0 else value) for name, value in sorted(row.items())])


def answer(query: str, sides: Sequence[Sequence[Row]]) -> Counter[str]:
    """What DuckDB finds in the tables l and r, whose rows have their place in `n`."""
    with duckdb.connect() as database:
        for name, schema, rows in zip("lr", SCHEMAS, sides, strict=True):
            records = [dict(zip(schema.names, row[:3], strict=True)) for row in rows]
            numbers = pa.array(range(len(rows)), pa.int64())
            database.register(name, pa.Table.from_pylist(records, schema).append_column("n", numbers))
        return Counter(map(shown, database.sql(query).to_arrow_table().to_pylist()))
