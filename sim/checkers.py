"""What must hold for the simulated jobs, whose answers are known: sink, log, and state at every cut."""

from __future__ import annotations

from collections import Counter
from typing import Any

from typing_extensions import override

from headgate.api.operator_state import declared_operator_state
from headgate.api.state import declared_state
from headgate.checkpoint.data_files import read_handle
from headgate.checkpoint.history_file import history_name
from headgate.checkpoint.layout import job_folder, log_folder
from headgate.checkpoint.opening import load_metadata, verify_files
from headgate.checkpoint.store.log import CompletedCheckpointLog
from headgate.common.errors import StorageError
from headgate.common.ids import JobId
from headgate.state.heap.backend import HeapKeyedBackend
from headgate.state.operator_state import OperatorStateBackend
from headgate.state.snapshots import CheckpointMetadata
from headgate.testing.harness import entries_of
from headgate.testing.simulation.checks import Checks, Violation
from headgate.testing.simulation.disk import SimDisk
from headgate.testing.simulation.world import JOB_ID, World
from sim.store import STORES, Store
from sim.workload import STORE, Streaks, Workload, read_at


class ExactlyOnce(Checks):
    """Output equals the batch answer; nothing is visible that the log does not hold; cuts are exact.

    Args:
        workload: the job; its store is made anew.
    """

    def __init__(self, workload: Workload) -> None:
        super().__init__()
        self._workload = workload
        self.store = STORES[STORE] = Store(on_publish=self._publishing)
        self._world: World | None = None
        self._logged: set[str] = set()

    @override
    def begins(self, world: World) -> None:
        self._world = world

    @override
    def checkpoint(self, world: World, checkpoint: int) -> None:
        super().checkpoint(world, checkpoint)
        latest = world.master.checkpoints.latest
        if latest is None or latest.checkpoint != checkpoint:
            raise Violation(
                f"checkpoint {checkpoint} completed, but the latest is {latest and latest.checkpoint}"
            )
        self._demand_exact_cut(world, latest)

    @override
    def ended(self, world: World) -> None:
        super().ended(world)
        got, expected = Counter(self.store.records()), self._workload.expected
        if got != expected:
            raise Violation(
                f"the sink holds {sum(got.values())} records, expected {sum(expected.values())}; "
                f"missing {_some(expected - got)}; too many {_some(got - expected)}"
            )
        if self.store.prepared:
            raise Violation(f"prepared output was left behind: {sorted(self.store.prepared)}")
        self._demand_clean_storage(world)

    def _publishing(self, part: str) -> None:
        """Sinks commit only what the log of completed checkpoints holds."""
        assert self._world is not None
        self._world.faults.reached(self._world.driver, "sink.publishing")
        if part in self._logged:
            return
        disk = SimDisk(self._world.files)
        for entry in CompletedCheckpointLog(disk, log_folder(JobId(JOB_ID))).completed():
            metadata = load_metadata(disk, entry.metadata, entry.sha256)
            for states in metadata.operators.values():
                self._logged.update(part for state in states for part in state.committables)
        if part not in self._logged:
            raise Violation(f"part {part} becomes visible although no completed checkpoint holds it")

    def _demand_exact_cut(self, world: World, cut: CheckpointMetadata) -> None:
        """State and output of a checkpoint are those of exactly the records before its positions."""
        disk = SimDisk(world.files)
        try:
            verify_files(disk, cut)
        except StorageError as error:
            raise Violation(f"completed checkpoint {cut.checkpoint} cannot be read: {error}") from error
        read = Counter(commit.author for commit in read_at(self._workload, cut))
        counted = keyed_values(disk, cut, "streaks", Streaks(), "count")
        if counted != read:
            raise Violation(
                f"checkpoint {cut.checkpoint} of attempt {cut.attempt}: the records before its positions "
                f"give {_some(read - counted)} more and {_some(counted - read)} fewer than its state"
            )

    def _demand_clean_storage(self, world: World) -> None:
        """Only the log, the history, the retained checkpoints and the workers' marker are left."""
        disk = SimDisk(world.files)
        log = CompletedCheckpointLog(disk, log_folder(JobId(JOB_ID))).completed()
        folders = {entry.metadata.rpartition("/")[0] for entry in log}
        left = [
            name
            for name in disk.list(job_folder(JobId(JOB_ID)))
            if name.rpartition("/")[0] not in folders
            and "/log/" not in name
            and "/history/" not in name
            and name != history_name(JobId(JOB_ID))
        ]
        if left and not world.faults.done:
            raise Violation(f"files without an owner are left: {left}")


def keyed_values(disk: SimDisk, cut: CheckpointMetadata, uid: str, function: Any, state: str) -> Counter[Any]:
    """Key -> value of one keyed state of a checkpoint, read like a restore reads it."""
    values: Counter[Any] = Counter()
    for subtask in cut.operators.get(uid, []):
        if subtask.keyed is None:
            continue
        first, last = subtask.keyed.first_group, subtask.keyed.last_group
        backend = HeapKeyedBackend(declared_state(function), first, last, cut.max_parallelism)
        backend.restore([read_handle(disk, subtask.keyed.handle)])
        values.update(entries_of(backend, state))
    return values


def listed_values(
    disk: SimDisk, cut: CheckpointMetadata, uid: str, function: Any, state: str
) -> Counter[Any]:
    """The elements of a list of operator state of a checkpoint, in all subtasks."""
    values: Counter[Any] = Counter()
    for subtask in cut.operators.get(uid, []):
        backend = OperatorStateBackend(declared_operator_state(function))
        backend.restore((held, read_handle(disk, held.handle)) for held in subtask.operator_state)
        values.update(backend.handles[state].get())
    return values


def _some(records: Counter[Any]) -> str:
    shown = sorted(records.items(), key=repr)
    return f"{shown[:4]}{'...' if len(shown) > 4 else ''}"
