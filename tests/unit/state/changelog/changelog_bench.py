"""What tests of the changelog share: a job's subtasks, a storage, and checkpoints that complete or not."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from latest_checkpoint import load_latest

from headgate.api.declared.keyed_states import (
    ListState,
    MapState,
    ReducingState,
    ValueState,
    declared_state,
    list_state,
    map_state,
    reducing_state,
    value_state,
)
from headgate.checkpoint.opening import load_metadata, referenced_ranges, verify_files
from headgate.checkpoint.service import CheckpointService
from headgate.common.format_config import fingerprint
from headgate.common.ids import (
    AttemptId,
    CheckpointId,
    Fence,
    Generation,
    JobId,
    SubtaskId,
    SubtaskIndex,
    VertexId,
)
from headgate.common.keys.keygroups import key_group, key_group_range
from headgate.restore.assignment import share_operator
from headgate.runtime.job.operator_context import OperatorContext
from headgate.runtime.worker.operators.keyed_state import PendingKeyedState, open_backend
from headgate.runtime.worker.snapshot.snapshot_writer import BarrierMetrics, SnapshotWriter, TakenSnapshot
from headgate.state.backends import ChangelogBackends, HeapBackends, RocksBackends
from headgate.state.snapshots import (
    CheckpointMetadata,
    KeyedStateHandle,
    OperatorSubtaskState,
    SubtaskSnapshot,
)
from headgate.testing.manual_clock import ManualClock
from headgate.testing.simulation.virtual_disk import SimDisk, SimFiles

GROUPS = 8
INTERVAL_MS = 1_000
INLINE_MAX = 400
"""Segments of a few entries travel in the metadata, larger ones are files."""

Contents = dict[str, Any]


class States:
    count: ValueState[int] = value_state(default=0)
    bag: ValueState[list[int]] = value_state(default_factory=list)
    log: ListState[list[int]] = list_state()
    totals: MapState[str, list[int]] = map_state()
    most: ReducingState[int] = reducing_state(max)


@dataclass
class Drawn:
    """A checkpoint under way."""

    checkpoint: int
    snapshots: list[TakenSnapshot]
    expected: Contents
    finished: list[SubtaskSnapshot] = field(default_factory=list)


class ChangelogBench:
    """One operator of a job, and the job master's part.

    Args:
        root: for local files.
        retained: checkpoints that are kept.
        states: what the operator declares.
    """

    def __init__(self, root: Path, retained: int = 1, states: Any = States) -> None:
        self.root, self.states, self._retained = root, states, retained
        self.disk, self.clock, self.job = SimDisk(SimFiles()), ManualClock(), "job"
        self.service = CheckpointService(self.disk, JobId(self.job))
        self._permit = self.service.claim()
        self.subtasks: list[Any] = []
        self.expected: dict[int, Contents] = {}

    def start(
        self,
        parallelism: int = 1,
        inner: str = "heap",
        changelog: bool = True,
        restored: Sequence[OperatorSubtaskState] = (),
        checkpoint: int = 0,
    ) -> None:
        """A new attempt; what ran before is gone."""
        self.close()
        self.subtasks = self._opened(parallelism, inner, changelog, restored, checkpoint)

    def _opened(
        self,
        parallelism: int,
        inner: str,
        changelog: bool,
        restored: Sequence[OperatorSubtaskState],
        checkpoint: int,
    ) -> list[Any]:
        subtasks = []
        local = str(self.root / "local")
        backends: Any = HeapBackends()
        if inner != "heap":
            backends = RocksBackends(8 << 20, local, inner == "incremental")
        if changelog:
            backends = ChangelogBackends(backends, INTERVAL_MS, self.clock, checkpoint)
        shares = share_operator(restored, parallelism, GROUPS) if restored else [[]] * parallelism
        for index in range(parallelism):
            context = OperatorContext(
                "op", "op", index, parallelism, 1, self.job, GROUPS, self.clock, shares[index], self.disk
            )
            context.backends = backends
            groups = key_group_range(GROUPS, parallelism, index)
            subtasks.append(open_backend(context, declared_state(self.states()), groups, lambda: 0))
        return subtasks

    def restart(self, parallelism: int = 1, inner: str = "heap", changelog: bool = True) -> Contents:
        """Go on from the newest completed checkpoint; gives what was in the state then."""
        metadata = load_latest(self.service)
        assert metadata is not None
        found = metadata.operators["op"]
        self.start(parallelism, inner, changelog, found, metadata.checkpoint)
        return copy.deepcopy(self.expected[metadata.checkpoint])

    def of(self, key: Any) -> Any:
        """The subtask of a key, with the key bound."""
        group = key_group(key, GROUPS)
        subtask = next(each for each in self.subtasks if each.groups[0] <= group <= each.groups[1])
        subtask.bind(key)
        return subtask

    def stored(self, parallelism: int = 1) -> Contents:
        """What a restore of the newest completed checkpoint gives."""
        metadata = load_latest(self.service)
        assert metadata is not None
        restored = self._opened(parallelism, "heap", False, metadata.operators["op"], metadata.checkpoint)
        return self.contents(restored)

    def contents(self, subtasks: Sequence[Any] | None = None) -> Contents:
        """All state and timers, of the running attempt if nothing else is said."""
        found: Contents = {"event": set()}
        for subtask in self.subtasks if subtasks is None else subtasks:
            for name in declared_state(self.states()):
                found.setdefault(name, {}).update(copy.deepcopy(dict(subtask.scan(name))))
            found["event"] |= set(subtask.event_timers.snapshot())
        return found

    @property
    def completed(self) -> int:
        """The newest completed checkpoint."""
        return max((entry.checkpoint for entry in self.service.completed()), default=0)

    def draw(self, checkpoint: int, completed: int | None = None) -> Drawn:
        """The synchronous part of all subtasks."""
        known = self.completed if completed is None else completed
        snapshots = []
        for index, subtask in enumerate(self.subtasks):
            pending = subtask.snapshot_sync(checkpoint, known)
            state = PendingKeyedState("op", pending, 0)
            at = SubtaskId(VertexId(0), SubtaskIndex(index))
            metrics = BarrierMetrics(0.0, 0.0, False)
            snapshots.append(TakenSnapshot(at, checkpoint, [state], 0.0, (0, 0), {}, False, metrics))
        return Drawn(checkpoint, snapshots, self.contents())

    def finish(self, drawn: Drawn) -> list[SubtaskSnapshot]:
        """The asynchronous part."""
        if not drawn.finished:
            fence = Fence(JobId(self.job), Generation(1), AttemptId(1))
            writer = SnapshotWriter(self.disk, INLINE_MAX, fence)
            drawn.finished = [writer.finish(each, ManualClock()) for each in drawn.snapshots]
        return drawn.finished

    def complete(self, drawn: Drawn) -> list[KeyedStateHandle]:
        """All have acknowledged: it is logged, older ones are retired. Gives what the subtasks stored."""
        finished = self.finish(drawn)
        states = [state for snapshot in finished for state in snapshot.operators]
        metadata = CheckpointMetadata(
            job=JobId(self.job),
            job_name="job",
            checkpoint=drawn.checkpoint,
            generation=self._permit.generation,
            attempt=1,
            trigger_ms=0,
            max_parallelism=GROUPS,
            format_fingerprint=fingerprint(),
            parallelism={"op": len(states)},
            operators={"op": states},
            enumerators={},
            state_types={},
        )
        self.service.store(self._permit, metadata)
        self.expected[drawn.checkpoint] = drawn.expected
        old = [entry.checkpoint for entry in self.service.completed()][: -self._retained]
        if old:
            self.service.retire(self._permit, [CheckpointId(each) for each in old])
        return [state.keyed for state in states if state.keyed is not None]

    def checkpoint(self, number: int) -> KeyedStateHandle:
        """A checkpoint from beginning to end; gives what the first subtask stored."""
        return self.complete(self.draw(number))[0]

    def abort(self, drawn: Drawn) -> None:
        """It will not complete."""
        self.service.discard(self.finish(drawn))

    def check_storage(self) -> None:
        """Nothing is missing or damaged, and with nothing under way nothing is left over."""
        needed: set[str] = set()
        for entry in self.service.completed():
            metadata = load_metadata(self.service.disk, entry.metadata)
            verify_files(self.service.disk, metadata)
            needed |= {entry.metadata, *(item.file for item in referenced_ranges(metadata))}
        assert {name for name in self.disk.list(self.job) if "/chk-" in name} == needed

    def close(self) -> None:
        """End the attempt."""
        for subtask in self.subtasks:
            subtask.close()
        self.subtasks = []


def put(bench: ChangelogBench, values: dict[Any, Any], state: str = "count") -> None:
    """Set values of a value state."""
    for key, value in values.items():
        subtask = bench.of(key)
        subtask.handles[state].value = value
        subtask.store()
