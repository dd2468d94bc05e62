"""Subtasks of one operator of a table, through snapshots and changes of the parallelism and the backend."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from unittest import mock

import pyarrow as pa
from hypothesis import strategies as st
from operator_samples import Recorder, context, finished, opened

from headgate.checkpoint.storage.local import LocalDisk
from headgate.common.ids import AttemptId, Fence, Generation, JobId, SubtaskId, SubtaskIndex, VertexId
from headgate.common.keys.keygroups import key_group_range
from headgate.graph.logical import Node
from headgate.records.arrow_batch import ArrowBatch
from headgate.restore.assignment import share_operator
from headgate.runtime.worker.operators.columns.making import table_operator
from headgate.runtime.worker.operators.columns.panes import groups_of_rows
from headgate.runtime.worker.operators.columns.updating import logged_state
from headgate.runtime.worker.snapshot.snapshot_writer import BarrierMetrics, SnapshotWriter, TakenSnapshot
from headgate.state.backends import RocksBackends
from headgate.testing.manual_clock import ManualClock

GROUPS = 6


def on_disk(rows: st.SearchStrategy[Any]) -> st.SearchStrategy[list[Any]]:
    """Steps of a job with checkpoints on a disk; `rows` are those that give it rows. Most rounds change what
    is kept and then store it.
    """
    restores = st.tuples(st.just("restore"), st.integers(1, 3), st.sampled_from([True, True, False]))
    stored = st.just(("checkpoint",)) | restores
    round_of = st.tuples(rows, st.just(("mark",)), stored) | st.tuples(rows, stored) | st.tuples(stored)
    return st.lists(round_of, min_size=2, max_size=7).map(
        lambda rounds: [step for each in rounds for step in each]
    )


class Checkpoints:
    """Checkpoints on a disk, each of which may refer to files of the one before; subtasks have RocksDB. State
    of any size has a log, in files.
    """

    def __init__(self, folder: Path) -> None:
        self._disk, self._folder, self._clock = LocalDisk(folder / "storage"), folder, ManualClock()
        self._number = 0
        self.rocks = True

    def where(self) -> dict[str, Any]:
        """What a context has besides."""
        backends = RocksBackends(8 << 20, str(self._folder / "local"), incremental=True)
        return {"disk": self._disk, "backends": backends if self.rocks else None}

    def take(self, operators: list[Any]) -> list[Any]:
        """A checkpoint of all, which is complete then."""
        completed, self._number = self._number, self._number + 1
        with mock.patch.object(logged_state, "ROWS_MIN", 0):
            return self._taken(operators, completed)

    def _taken(self, operators: list[Any], completed: int) -> list[Any]:
        found = []
        for n, operator in enumerate(operators):
            operator.may_build_on(completed)
            drawn = TakenSnapshot(
                SubtaskId(VertexId(0), SubtaskIndex(n)),
                self._number,
                [operator.snapshot(self._number)],
                0.0,
                (0, 0),
                {},
                False,
                BarrierMetrics(0.0, 0.0, False),
            )
            fence = Fence(JobId("job"), Generation(1), AttemptId(1))
            found += SnapshotWriter(self._disk, 0, fence).finish(drawn, self._clock).operators
        return found


class Subtasks:
    """One at first; a snapshot of all brings them back, with any parallelism."""

    def __init__(self, uid: str, node: Node, keys: list[str], checkpoints: Checkpoints | None = None) -> None:
        self._uid, self._node, self._keys, self._checkpoints = uid, node, keys, checkpoints
        self.operators: list[Any] = []
        self._open([], 1)

    def _open(self, states: list[Any], parallelism: int) -> None:
        shares = share_operator(states, parallelism, GROUPS) if states else [[]] * parallelism
        more = {} if self._checkpoints is None else self._checkpoints.where()
        for operator in self.operators:
            operator.close()
        self.operators = [
            table_operator(
                context(
                    self._uid,
                    subtask=n,
                    parallelism=parallelism,
                    max_parallelism=GROUPS,
                    restored=shares[n],
                    **more,
                ),
                self._node,
            )
            for n in range(parallelism)
        ]
        self.out: list[Recorder] = [opened(each)[0] for each in self.operators]

    def deal(self, batch: Any) -> None:
        """Give each subtask the rows of its key groups."""
        assert isinstance(batch, ArrowBatch)
        groups = groups_of_rows(pa.table(batch.columns), self._keys, GROUPS)
        for n, operator in enumerate(self.operators):
            first, last = key_group_range(GROUPS, len(self.operators), n)
            mine = batch.columns.filter(pa.array((groups >= first) & (groups <= last)))
            if mine.num_rows:
                operator.process(ArrowBatch(mine))

    def checkpoint(self) -> list[Any]:
        """The states of all subtasks, which go on."""
        if self._checkpoints is None:
            return [finished(operator.snapshot(1)) for operator in self.operators]
        return self._checkpoints.take(self.operators)

    def restore(self, parallelism: int, *, rocks: bool = True) -> None:
        """Begin anew from a checkpoint, with RocksDB or on the heap."""
        states = self.checkpoint()
        if self._checkpoints is not None:
            self._checkpoints.rocks = rocks
        self._open(states, parallelism)
