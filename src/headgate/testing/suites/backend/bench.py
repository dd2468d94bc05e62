"""Makes state backends for the conformance suite, with a storage in memory for their checkpoints."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import Final

from headgate.api.declared.keyed_states import StateDescriptor
from headgate.common.ids import AttemptId, Fence, Generation, JobId, SubtaskId, SubtaskIndex, VertexId
from headgate.common.keys.keygroups import key_group, key_group_range
from headgate.runtime.worker.operators.keyed_state import PendingKeyedState, earlier_state
from headgate.runtime.worker.snapshot.snapshot_writer import BarrierMetrics, SnapshotWriter, TakenSnapshot
from headgate.state.backend import KeyedBackend, PendingSnapshot
from headgate.state.snapshots import FileRange, KeyedStateHandle
from headgate.testing.manual_clock import ManualClock
from headgate.testing.simulation.virtual_disk import SimDisk, SimFiles, Verdict
from headgate.testing.suites.backend.states import GROUPS, STATES

ALL: Final = (0, GROUPS - 1)

NewBackend = Callable[[Mapping[str, StateDescriptor], tuple[int, int], int], KeyedBackend]


class Bench:
    """Makes backends under test; takes, stores and restores their checkpoints with production's code."""

    def __init__(self, new_backend: NewBackend) -> None:
        self._new_backend = new_backend
        self._open: list[KeyedBackend] = []
        stored = SimFiles()
        self.files = stored.files  # of the checkpoint storage, by name; they may be changed and removed
        self.storage_works = True  # whether the storage takes files
        self._disk = SimDisk(stored, self._gate)
        fence = Fence(JobId("job"), Generation(1), AttemptId(1))
        self._writer = SnapshotWriter(self._disk, 0, fence)

    def backend(
        self,
        states: Mapping[str, StateDescriptor] = STATES,
        groups: tuple[int, int] = ALL,
        stored: Iterable[KeyedStateHandle] | None = None,
        max_parallelism: int = GROUPS,
    ) -> KeyedBackend:
        """Return a new backend for key groups `groups` (first, last), which `close` closes; restored from
        `stored`, handles of this bench's storage, unless that is None.
        """
        made = self._new_backend(states, groups, max_parallelism)
        self._open.append(made)
        if stored is not None:
            self.restore(made, stored)
        return made

    def restore(self, backend: KeyedBackend, stored: Iterable[KeyedStateHandle]) -> None:
        backend.restore([earlier_state(self._disk, handle) for handle in stored])

    def subtasks(
        self,
        parallelism: int,
        stored: Iterable[KeyedStateHandle] = (),
        states: Mapping[str, StateDescriptor] = STATES,
    ) -> list[KeyedBackend]:
        """Return an operator's backends, one per subtask, each restored from its share of the handles."""
        made = []
        for index in range(parallelism):
            first, last = key_group_range(GROUPS, parallelism, index)
            mine = [one for one in stored if one.first_group <= last and first <= one.last_group]
            made.append(self.backend(states, (first, last), mine))
        return made

    def store(
        self, backend: KeyedBackend, checkpoint: int = 1, completed: int = 0, subtask: int = 0
    ) -> KeyedStateHandle:
        """Take and write checkpoint id `checkpoint` of subtask number `subtask`, and return its handle. It
        may share files of the completed checkpoint `completed` (0: of none). May raise StorageError.
        """
        return self.finish(backend, backend.snapshot_sync(checkpoint, completed), checkpoint, subtask)

    def finish(
        self, backend: KeyedBackend, pending: PendingSnapshot, checkpoint: int = 1, subtask: int = 0
    ) -> KeyedStateHandle:
        """Write the asynchronous part of a subtask's checkpoint and return its handle, or StorageError."""
        taken = TakenSnapshot(
            SubtaskId(VertexId(0), SubtaskIndex(subtask)),
            checkpoint,
            [PendingKeyedState("operator", pending, 0)],
            0.0,
            (0, 0),
            {},
            False,
            BarrierMetrics(0.0, 0.0, False),
        )
        keyed = self._writer.finish(taken, ManualClock()).operators[0].keyed
        assert keyed is not None
        return keyed

    def store_all(self, backends: Iterable[KeyedBackend], checkpoint: int = 1) -> list[KeyedStateHandle]:
        return [self.store(one, checkpoint, subtask=index) for index, one in enumerate(backends)]

    def keep_only(self, stored: Iterable[KeyedStateHandle]) -> None:
        """Remove all stored files that no given handle refers to, as retention of checkpoints does."""
        kept = {handle.file for one in stored for handle in one.handles() if isinstance(handle, FileRange)}
        for name in self.files.keys() - kept:
            del self.files[name]

    def abort(self, checkpoint: int, stored: KeyedStateHandle) -> None:
        """Remove the files that `stored` refers to and that `checkpoint`, now aborted, has written itself."""
        self._writer.discard(checkpoint, stored.handles())

    def close(self) -> None:
        for backend in self._open:
            backend.close()
        self._open.clear()

    def _gate(self, operation: str, _name: str) -> Verdict:
        return "fails" if operation == "create" and not self.storage_works else "works"


def owner_of(subtasks: Iterable[KeyedBackend], key: Hashable) -> KeyedBackend:
    group = key_group(key, GROUPS)
    return next(one for one in subtasks if one.groups[0] <= group <= one.groups[1])
