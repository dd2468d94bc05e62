"""What must hold for the simulated jobs, whose answers are known: sink, log, and state at every cut."""

from __future__ import annotations

from collections import Counter
from typing import Any

from typing_extensions import override

from headgate.api.declared.keyed_states import declared_state
from headgate.api.declared.operator_state import declared_operator_state
from headgate.checkpoint.data_files import read_handle
from headgate.common.ports import Disk
from headgate.common.time import WATERMARK_MIN
from headgate.runtime.job.listener import JobListener
from headgate.runtime.job.operator_context import OperatorContext
from headgate.runtime.worker.operators.keyed_state import open_backend
from headgate.state.operator_state import OperatorStateBackend
from headgate.state.snapshots import CheckpointMetadata
from headgate.testing.manual_clock import ManualClock
from headgate.testing.simulation.drivers import DriverProcess, JobScene
from headgate.testing.simulation.invariants import Checks, Violation
from headgate.testing.simulation.virtual_disk import URI, SimDisk
from sim.metric_checks import MetricChecks
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
        events = {uid: len(source.events) for uid, (source, _) in workload.sources.items()}
        self.metrics = MetricChecks(events)
        self.store = STORES[STORE] = Store(on_publish=self._publishing, on_abandon=self._abandoning)
        self._world: JobScene | None = None
        self._logged: set[str] = set()

    @override
    def begins(self, world: JobScene) -> None:
        super().begins(world)
        self._world = world

    @override
    def listener(self, scene: JobScene, driver: DriverProcess) -> JobListener:
        return self.metrics.listener(scene, driver, super().listener(scene, driver))

    @override
    def checkpoint(self, world: JobScene, checkpoint: int) -> None:
        super().checkpoint(world, checkpoint)
        point = world.master.checkpoints.points.latest
        latest = None if point is None else point.checkpoint
        if latest is None or latest.checkpoint != checkpoint:
            raise Violation(
                f"checkpoint {checkpoint} completed, but the latest is {latest and latest.checkpoint}"
            )
        if self.leads(world.driver):  # else it may be retired by now
            assert point is not None
            self._demand_exact_cut(SimDisk.at(point.storage or URI, world.files), latest)

    @override
    def savepoint(self, world: JobScene, uri: str) -> None:
        super().savepoint(world, uri)
        self._demand_exact_cut(SimDisk.at(uri, world.files), self.stored.savepoint(uri))

    @override
    def ended(self, world: JobScene) -> None:
        super().ended(world)
        self.metrics.ended(world)
        got, expected = Counter(self.store.records()), self._workload.expected
        if got != expected:
            raise Violation(
                f"the sink holds {sum(got.values())} records, expected {sum(expected.values())}; "
                f"missing {_some(expected - got)}; too many {_some(got - expected)}"
            )
        # What workers of a replaced driver prepared last is found by nobody until the next recovery.
        left = sorted(self.store.prepared.keys() - self.store.held)
        if left and len(world.drivers) == 1:
            raise Violation(f"prepared output was left behind: {left}")

    def _publishing(self, part: str) -> None:
        """Sinks commit only what the log of completed checkpoints holds."""
        assert self._world is not None
        self._world.driver.reached("sink.publishing")
        if part in self._logged:
            return
        for job in self.stored.jobs():
            for entry in self.stored.completed(job):
                for states in self.stored.metadata(entry).operators.values():
                    self._logged.update(part for state in states for part in state.committables)
        if part not in self._logged:
            raise Violation(f"part {part} becomes visible although no completed checkpoint holds it")

    def _abandoning(self) -> None:
        assert self._world is not None
        self._world.driver.reached("sink.abandoning")

    def _demand_exact_cut(self, disk: SimDisk, cut: CheckpointMetadata) -> None:
        """State and output of a checkpoint are those of exactly the records before its positions."""
        read = Counter(commit.author for commit in read_at(self._workload, cut))
        counted = keyed_values(disk, cut, "streaks", Streaks(), "count")
        if counted != read:
            raise Violation(
                f"checkpoint {cut.checkpoint} of attempt {cut.attempt}: the records before its positions "
                f"give {_some(read - counted)} more and {_some(counted - read)} fewer than its state"
            )


def keyed_values(disk: Disk, cut: CheckpointMetadata, uid: str, function: Any, state: str) -> Counter[Any]:
    """Key -> value of one keyed state of a checkpoint, read by the code of a restore, whatever wrote it.

    Raises:
        StorageError: something is missing or damaged.
        UsageError: stored and declared state do not fit.
    """
    values: Counter[Any] = Counter()
    subtasks = cut.operators.get(uid, [])
    for index, subtask in enumerate(subtasks):
        if subtask.keyed is None:
            continue
        context = OperatorContext(
            uid, uid, index, len(subtasks), cut.attempt, cut.job, cut.max_parallelism, ManualClock()
        )
        context.restored, context.disk = [subtask], disk
        groups = (subtask.keyed.first_group, subtask.keyed.last_group)
        backend = open_backend(context, declared_state(function), groups, _no_event_time)
        values.update(dict(backend.scan(state)))
    return values


def _no_event_time() -> int:
    return WATERMARK_MIN


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
