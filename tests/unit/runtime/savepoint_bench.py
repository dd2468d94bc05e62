"""One operator of a job whose subtasks draw savepoints into real folders, and restore from them."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from operator_samples import ManualClock

import headgate as hg
from headgate.api.declared.keyed_states import declared_state
from headgate.checkpoint.metadata.metadata_bytes import encode_metadata
from headgate.checkpoint.opening import open_checkpoint
from headgate.checkpoint.storage.local import LocalDisk
from headgate.common.format_config import fingerprint
from headgate.common.ids import AttemptId, Fence, Generation, JobId, SubtaskId, SubtaskIndex, VertexId
from headgate.common.keys.keygroups import key_group, key_group_range
from headgate.core.alignment.barriers import SavepointOrder
from headgate.restore.assignment import share_operator
from headgate.runtime.job.operator_context import OperatorContext
from headgate.runtime.worker.operators.keyed_state import PendingKeyedState, open_backend
from headgate.runtime.worker.snapshot.snapshot_writer import BarrierMetrics, SnapshotWriter, TakenSnapshot
from headgate.state.backends import ChangelogBackends, HeapBackends, RocksBackends
from headgate.state.snapshots import CheckpointMetadata, OperatorSubtaskState, SubtaskSnapshot

GROUPS = 16
BACKENDS = ("heap", "rocksdb", "incremental", "changelog-heap", "changelog-incremental")
Contents = dict[str, Any]


class States:
    """One of each shape."""

    count: hg.ValueState[int] = hg.value_state(default=0)
    seen: hg.ListState[str] = hg.list_state()
    sizes: hg.MapState[str, int] = hg.map_state()
    most: hg.ReducingState[int] = hg.reducing_state(max)
    short: hg.ValueState[int | None] = hg.value_state(default=None, ttl=hg.StateTtl("1h"))


def backends_of(kind: str, root: Path, clock: Any, restored: int = 0) -> Any:
    """By a name of :data:`BACKENDS`."""
    inner: Any = HeapBackends()
    if "heap" not in kind:
        inner = RocksBackends(8 << 20, str(root / "local"), "incremental" in kind)
    return ChangelogBackends(inner, 600_000, clock, restored) if "changelog" in kind else inner


class SavepointBench:
    """The subtasks of one operator.

    Args:
        root: for everything.
        kind: of the backend, one of :data:`BACKENDS`.
        parallelism: number of subtasks.
        savepoint: where to begin; None: with nothing.
        states: what the operator declares.
        ignore: whether unclaimed state is skipped.
    """

    def __init__(
        self,
        root: Path,
        kind: str = "heap",
        parallelism: int = 2,
        savepoint: str | None = None,
        states: Any = States,
        *,
        ignore: bool = False,
    ) -> None:
        self.root, self.states, self.clock = root, states, ManualClock(1_000)
        self.disk = LocalDisk(root / "checkpoints")
        self.writer = SnapshotWriter(self.disk, 0, Fence(JobId("job"), Generation(1), AttemptId(1)))
        disk, restored, checkpoint = self.disk, list[OperatorSubtaskState](), 0
        if savepoint is not None:
            opened, metadata = open_checkpoint(savepoint)
            disk, restored, checkpoint = opened, metadata.operators["op"], metadata.checkpoint  # type: ignore[assignment]
        shares = share_operator(restored, parallelism, GROUPS) if restored else [[]] * parallelism
        backends = backends_of(kind, root, self.clock, checkpoint)
        self.subtasks: list[Any] = []
        for index in range(parallelism):
            context = OperatorContext(
                "op", "op", index, parallelism, 1, "job", GROUPS, self.clock, shares[index], disk
            )
            context.backends, context.ignore_unclaimed = backends, ignore
            groups = key_group_range(GROUPS, parallelism, index)
            self.subtasks.append(open_backend(context, declared_state(states()), groups, lambda: 0))

    def close(self) -> None:
        """Give back what the backends hold."""
        for subtask in self.subtasks:
            subtask.close()

    def of(self, key: Any) -> Any:
        """The subtask of a key, with the key bound."""
        group = key_group(key, GROUPS)
        subtask = next(each for each in self.subtasks if each.groups[0] <= group <= each.groups[1])
        subtask.bind(key)
        return subtask

    def fill(self, keys: Iterable[int]) -> None:
        """Something under each key, and timers of both kinds."""
        for key in keys:
            subtask = self.of(key)
            handles = subtask.handles
            handles["count"].value = key
            handles["seen"].add(f"a{key}")
            handles["seen"].add("b")
            handles["sizes"].put("x", key)
            handles["most"].add(key)
            handles["short"].value = -key
            subtask.store()
            subtask.event_timers.register(10 * key, key)
            subtask.processing_timers.register(10**12 + key, key)

    def contents(self) -> Contents:
        """All state and timers."""
        found: Contents = {"event": set(), "processing": set()}
        for subtask in self.subtasks:
            for name in declared_state(self.states()):
                found.setdefault(name, {}).update(copy.deepcopy(dict(subtask.scan(name))))
            found["event"] |= set(subtask.event_timers.snapshot())
            found["processing"] |= set(subtask.processing_timers.snapshot())
        return found

    def draw(self, checkpoint: int, order: SavepointOrder | None, completed: int = 0) -> list[TakenSnapshot]:
        """The synchronous part of all subtasks."""
        drawn = []
        for index, subtask in enumerate(self.subtasks):
            pending = subtask.snapshot_sync(checkpoint, completed if order is None else None)
            state = PendingKeyedState("op", pending, 0)
            at = SubtaskId(VertexId(0), SubtaskIndex(index))
            metrics = BarrierMetrics(0.0, 0.0, False)
            drawn.append(
                TakenSnapshot(at, checkpoint, [state], 0.0, (0, 0), {}, False, metrics, savepoint=order)
            )
        return drawn

    def finish(self, drawn: Sequence[TakenSnapshot]) -> list[SubtaskSnapshot]:
        """The asynchronous part."""
        return [self.writer.finish(each, self.clock) for each in drawn]

    def checkpoint(self, number: int, completed: int = 0) -> list[Any]:
        """A checkpoint; gives what the subtasks stored."""
        return [one.operators[0].keyed for one in self.finish(self.draw(number, None, completed))]

    def savepoint(self, form: str = "canonical", number: int = 7, folder: str = "savepoint-1") -> Path:
        """A whole savepoint; gives its folder."""
        path = self.root / folder
        order = SavepointOrder(path.as_uri(), form)
        states = [one.operators[0] for one in self.finish(self.draw(number, order))]
        data = encode_metadata(metadata_of(states, form, number))
        LocalDisk(path).create_if_absent("_metadata", data)
        return path


def metadata_of(states: list[OperatorSubtaskState], form: str, number: int) -> CheckpointMetadata:
    """Of a savepoint of one operator."""
    return CheckpointMetadata(
        job="job",
        job_name="job",
        checkpoint=number,
        generation=1,
        attempt=1,
        trigger_ms=0,
        max_parallelism=GROUPS,
        format_fingerprint=fingerprint(),
        parallelism={"op": len(states)},
        operators={"op": states},
        enumerators={},
        state_types={},
        kind="savepoint",
        format=form,
    )
