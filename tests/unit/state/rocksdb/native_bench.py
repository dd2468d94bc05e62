"""What tests of incremental snapshots share: backends, a storage, and checkpoints that complete or not."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from itertools import count
from pathlib import Path
from typing import Any

from headgate.api.declared.keyed_states import StateDescriptor
from headgate.checkpoint.storage.local import LocalDisk
from headgate.common.ids import AttemptId, Fence, Generation, JobId, SubtaskId, SubtaskIndex, VertexId
from headgate.common.keys.keygroups import key_group_range
from headgate.runtime.worker.operators.keyed_state import PendingKeyedState, earlier_state
from headgate.runtime.worker.snapshot.snapshot_writer import BarrierMetrics, SnapshotWriter, TakenSnapshot
from headgate.state.heap.backend import HeapKeyedBackend
from headgate.state.rocksdb.backend import RocksKeyedBackend
from headgate.state.rocksdb.rocksdb_memory import LIMIT_MIN, RocksMemory
from headgate.state.snapshots import FileRange, KeyedStateHandle, SubtaskSnapshot
from headgate.testing.manual_clock import ManualClock

GROUPS = 16
MEMORY = RocksMemory(LIMIT_MIN)
Backend = RocksKeyedBackend | HeapKeyedBackend
STATES = {"v": StateDescriptor("v", "value", (str,), lambda: "")}


class NativeBench:
    """A storage, and a job's subtasks that draw incremental snapshots into it."""

    def __init__(self, root: Path, job: str = "job") -> None:
        self.root, self.job = root, job
        self.disk = LocalDisk(root / "storage")
        self._numbers = count()
        self._open: list[Backend] = []

    def backend(
        self,
        groups: tuple[int, int] = (0, GROUPS - 1),
        stored: Iterable[KeyedStateHandle] = (),
        states: Mapping[str, StateDescriptor] = STATES,
        incremental: bool = True,
        **options: Any,
    ) -> RocksKeyedBackend:
        """A backend in RocksDB, restored."""
        made = RocksKeyedBackend(
            states,
            *groups,
            GROUPS,
            directory=self.root / f"attempt-{next(self._numbers)}",
            memory=MEMORY,
            incremental=incremental,
            **options,
        )
        self._open.append(made)
        made.restore([earlier_state(self.disk, handle) for handle in stored])
        return made

    def heap(
        self, stored: Iterable[KeyedStateHandle], states: Mapping[str, StateDescriptor] = STATES
    ) -> HeapKeyedBackend:
        """The other backend, restored from the same."""
        made = HeapKeyedBackend(states, 0, GROUPS - 1, GROUPS)
        made.restore([earlier_state(self.disk, handle) for handle in stored])
        return made

    def subtasks(
        self, parallelism: int, stored: Iterable[KeyedStateHandle], **options: Any
    ) -> list[RocksKeyedBackend]:
        """All subtasks, each with those handles that the job master would give it."""
        made = []
        for index in range(parallelism):
            first, last = key_group_range(GROUPS, parallelism, index)
            mine = [h for h in stored if h.first_group <= last and first <= h.last_group]
            made.append(self.backend((first, last), mine, **options))
        return made

    def draw(
        self, made: RocksKeyedBackend, checkpoint: int, completed: int = 0, subtask: int = 0
    ) -> Callable[[], SubtaskSnapshot]:
        """The synchronous part; what it gives is the asynchronous one."""
        pending = PendingKeyedState("op", made.snapshot_sync(checkpoint, completed), 0)
        drawn = TakenSnapshot(
            SubtaskId(VertexId(0), SubtaskIndex(subtask)),
            checkpoint,
            [pending],
            0.0,
            (0, 0),
            {},
            False,
            BarrierMetrics(0.0, 0.0, False),
        )
        return lambda: self.writer().finish(drawn, ManualClock())

    def writer(self) -> SnapshotWriter:
        """What puts snapshots into the storage."""
        return SnapshotWriter(self.disk, 20_480, Fence(JobId(self.job), Generation(1), AttemptId(1)))

    def snapshot(self, made: RocksKeyedBackend, checkpoint: int, completed: int = 0) -> SubtaskSnapshot:
        """Both parts of a checkpoint of one subtask."""
        return self.draw(made, checkpoint, completed)()

    def close(self) -> None:
        """Close everything."""
        for made in self._open:
            made.close()


def keyed(snapshot: SubtaskSnapshot) -> KeyedStateHandle:
    """What the subtask stored."""
    handle = snapshot.operators[0].keyed
    assert handle is not None
    return handle


def tables(snapshot: SubtaskSnapshot) -> dict[str, FileRange]:
    """RocksDB's tables in it."""
    native = keyed(snapshot).native
    assert native is not None
    return {n: h for n, h in native.files.items() if n.endswith(".sst") and isinstance(h, FileRange)}


def put(made: Backend, values: Mapping[Any, str], state: str = "v") -> None:
    """Set values of a value state."""
    for key, value in values.items():
        made.bind(key)
        handle: Any = made.handles[state]
        handle.value = value
        made.store()


def read(made: Backend, keys: Iterable[Any], state: str = "v") -> dict[Any, Any]:
    """Values of a value state."""
    found = {}
    for key in keys:
        made.bind(key)
        handle: Any = made.handles[state]
        found[key] = handle.value
    return found


def maps(key: Any = str, value: Any = int) -> dict[str, StateDescriptor]:
    """One declared map state."""
    return {"m": StateDescriptor("m", "map", (key, value), lambda: None)}


def bound(made: Any, key: Any) -> Any:
    """The handle, with `key` as the current key."""
    made.bind(key)
    return made.handles["m"]


def contents(made: Any) -> dict[Any, list[tuple[Any, Any]]]:
    """Every map, its entries in order."""
    return {key: list(entries.items()) for key, entries in made.scan("m")}
