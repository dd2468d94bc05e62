"""Known mistakes to plant into the product: the simulator is worth what it finds of these."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import Any
from unittest.mock import patch
from weakref import WeakKeyDictionary

from msgspec import structs

from headgate.api.sink import SinkWriterContext
from headgate.api.source import Split
from headgate.checkpoint.service import CheckpointService
from headgate.checkpoint.store.entries import Completed
from headgate.checkpoint.store.log import CompletedCheckpointLog
from headgate.common.ids import CheckpointId
from headgate.common.layered import LayeredTable
from headgate.core.alignment.barriers import Barrier
from headgate.core.alignment.factory import AlignedBarrierHandler
from headgate.core.alignment.handler_contract import TriggerSnapshot
from headgate.core.checkpoint.coordinator import CheckpointCoordinator
from headgate.core.execution import JobState
from headgate.graph.physical import PhysicalPlan
from headgate.ha.leading import Leadership
from headgate.restore import assignment, latest
from headgate.runtime.driver.metrics.over_attempts import OverAttempts
from headgate.runtime.master.attempt import deployment
from headgate.runtime.master.attempt.members import Member
from headgate.runtime.master.checkpoints import checkpoint_master
from headgate.runtime.master.checkpoints.committers import Committers
from headgate.runtime.master.checkpoints.restore_points import RestorePoints
from headgate.runtime.master.job_master import JobMaster
from headgate.runtime.protocol import messages as m
from headgate.runtime.worker.operators.columns import session_grouping
from headgate.runtime.worker.operators.columns.restored_windows import RestoredWindows
from headgate.runtime.worker.operators.columns.windows_operator import WindowsOperator
from headgate.runtime.worker.operators.stateless import SinkOperator
from headgate.runtime.worker.snapshot.snapshot_taker import SnapshotTaker
from headgate.runtime.worker.task.gate_task import GateTask
from headgate.runtime.worker.task.source_task import SourceTask
from headgate.runtime.worker.task.time_shares import TimeShares
from sim.store import STORES, EventReader, Store, StoreCommitter, StoreWriter
from sim.workload import STORE


def _trigger_on_first_barrier(
    self: AlignedBarrierHandler, _channel: int, barrier: Barrier, age_ms: float, _now_ms: float
) -> list[Any]:
    if barrier.checkpoint <= self.current:
        return []
    self._current = barrier.checkpoint
    return [TriggerSnapshot(barrier, age_ms, 0.0)]


_sink_snapshot = SinkOperator.snapshot
_message = JobMaster.message
_acknowledge = CheckpointCoordinator.acknowledge
_start = CheckpointCoordinator.start
_open_logged = latest.open_logged
_publish = Store.publish
_store_checkpoint = checkpoint_master.store_checkpoint
_snapshot = EventReader.snapshot
_init_writer = StoreWriter.__init__
_prepare = StoreWriter.prepare_commit
_assigned = SourceTask.splits_assigned
_take_inputs = GateTask._take_inputs


def _one_record_late(self: EventReader) -> list[Split]:
    return [Split(split.id, split.position + 1) for split in _snapshot(self)]


def _publish_at_once(self: StoreWriter) -> list[Any]:
    parts = _prepare(self)
    for part in parts:
        STORES[STORE].published[part] = STORES[STORE].prepared.pop(part)
    return parts


def _assign_then_draw(self: SourceTask, splits: Sequence[Any] | None) -> None:
    # A trigger that came before the splits is answered with their positions.
    draws, self._learned_its_input = self._learned_its_input, lambda: None  # type: ignore[method-assign]
    _assigned(self, splits)  # type: ignore[arg-type]
    self._learned_its_input = draws  # type: ignore[method-assign]
    draws()


def _only_note(self: RestorePoints, error: Exception) -> None:
    self._ports.listener.note(f"also: {error}")


def _forget_unconfirmed(self: SinkOperator, checkpoint: int) -> Any:
    self._unconfirmed.clear()
    return _sink_snapshot(self, checkpoint)


def _obey_any_attempt(self: JobMaster, link: Any, message: Any) -> None:
    if isinstance(message, m.Acknowledge) and self.state is JobState.RUNNING:
        self.checkpoints.acknowledged(message)
    else:
        _message(self, link, message)


def _acknowledge_any(self: CheckpointCoordinator[Any], attempt: Any, checkpoint: Any, *rest: Any) -> Any:
    pending = self._ledger.pending.get(checkpoint)
    return _acknowledge(self, attempt if pending is None else pending.attempt, checkpoint, *rest)


def _start_with_used_ids(self: CheckpointCoordinator[Any], *rest: Any) -> None:
    # Without attempts in messages nothing speaks against giving ids of aborted checkpoints out again.
    self._ledger.next_id = CheckpointId((self.latest or 0) + 1)
    _start(self, *rest)


def _open_second_latest(disk: Any, logged: list[Any], *rest: Any) -> Any:
    return _open_logged(disk, logged[:-1] or logged, *rest)


def _recommit_nothing(self: Committers, restored: Any) -> None:
    if not self._begun:
        self._begin(restored)
    for committer in self._by_uid.values():
        committer.abandon([])


def _publish_again(self: Store, part: str) -> None:
    if part in self.published:
        self.published[f"{part}, once more"] = self.published[part]
        return
    _publish(self, part)


def _commit_then_store(kind: Any, metadata: Any, folder: Any, committers: Committers, *rest: Any) -> None:
    if folder is None:
        committers.commit(metadata.operators)
    _store_checkpoint(kind, metadata, folder, committers, *rest)


def _freeze_nothing(self: LayeredTable) -> Any:
    return (self._base,), next(self._tickets)


def _append_anyway(
    self: CompletedCheckpointLog, permit: Any, checkpoint: Any, metadata: str, sha256: str
) -> None:
    last = self._read_run()[-1]
    self._end = self._next(last, Completed(permit.generation, last.digest, checkpoint, metadata, sha256))
    self._create(self._end)


def _leads_always(_self: Any, *_rest: Any) -> None:
    """Nobody asks who leads."""


def _name_without_generation(self: StoreWriter, name: str, context: SinkWriterContext) -> None:
    _init_writer(self, name, replace(context, generation=1))


def _everything_is_over(_self: StoreCommitter, _part: str) -> bool:
    return True


Patch = tuple[Any, str, Callable[..., Any]]
"""Class or module, name, and the wrong version."""


@dataclass(frozen=True)
class Bug:
    """A known mistake.

    Attributes:
        patches: what makes it.
        mix: the mix of faults that finds it best.
        first: the first seed of that mix that shows it, as measured; a search begins there.
        mode: how topologies take checkpoints that show it; None: as seeds draw.
    """

    patches: tuple[Patch, ...]
    mix: str = "default"
    first: int = 0
    mode: str | None = None


def _forget_idle(self: TimeShares) -> None:
    if self._state != _BLOCKED:
        self._since, self._state = self._clock.precise_ms(), _READY


def _begin_twice(self: OverAttempts, plan: PhysicalPlan | None = None) -> None:
    now = dict(self._now)
    _begin(self, plan)
    self._now = now


def _take_any(self: Member, counters: Sequence[m.Counters]) -> None:
    self.counters.update({(entry.vertex, entry.subtask): entry for entry in counters})


_READY, _BLOCKED = 0, 2  # as in `time_shares`
_begin = OverAttempts.begin

METRIC_BUGS: dict[str, Bug] = {
    "idle time ends unseen when input arrives": Bug(((TimeShares, "arrived", _forget_idle),)),
    "counts of an attempt are added twice": Bug(((OverAttempts, "begin", _begin_twice),)),
    "older counts take the place of newer ones": Bug(((Member, "add_counters", _take_any),), "messages", 3),
}
"""The same for metrics."""

BUGS: dict[str, Bug] = {
    "no barrier alignment": Bug(((AlignedBarrierHandler, "barrier", _trigger_on_first_barrier),)),
    "records of an aborted transaction are dropped": Bug(
        ((SinkOperator, "snapshot", _forget_unconfirmed),), "storage", first=1
    ),
    "sink commits at the snapshot": Bug(
        ((StoreWriter, "prepare_commit", _publish_at_once),), "coordinator", first=1
    ),
    "source position off by one": Bug(((EventReader, "snapshot", _one_record_late),)),
    "acknowledgements of an old attempt are accepted": Bug(
        (
            (JobMaster, "message", _obey_any_attempt),
            (CheckpointCoordinator, "acknowledge", _acknowledge_any),
            (CheckpointCoordinator, "start", _start_with_used_ids),
        ),
        "messages",
        first=90,
    ),
    "the second-latest checkpoint is restored": Bug(
        ((latest, "open_logged", _open_second_latest),), "messages", first=1
    ),
    "prepared transactions are forgotten at a restore": Bug(((Committers, "recommit", _recommit_nothing),)),
    "a repeated commit commits again": Bug(((Store, "publish", _publish_again),), first=1),
    "commit before the log holds it": Bug(((checkpoint_master, "store_checkpoint", _commit_then_store),)),
    "snapshots alias live state": Bug(((LayeredTable, "freeze", _freeze_nothing),)),
    "no fencing of leaders": Bug(
        (
            (CompletedCheckpointLog, "append", _append_anyway),
            (CompletedCheckpointLog, "check", _leads_always),
            (Leadership, "require", _leads_always),
        ),
        "coordinator",
        first=11,
    ),
    "splits counted twice in a cut": Bug(
        ((SourceTask, "splits_assigned", _assign_then_draw),), "messages", first=36
    ),
    "recovery ends with a failed commit": Bug(((RestorePoints, "failed", _only_note),), "storage", first=13),
    "every driver names parts alike": Bug(
        ((StoreWriter, "__init__", _name_without_generation),), "coordinator", first=1
    ),
    "who was replaced clears up after its successor": Bug(
        (
            (StoreCommitter, "_is_over", _everything_is_over),
            (CheckpointService, "check", _leads_always),
            (Leadership, "require", _leads_always),
        ),
        "coordinator",
        first=152,
    ),
}
"""What -> how."""


def _restore_nothing(_plan: Any, _checkpoint: Any) -> list[Any]:
    return []


def _drop_captured(self: GateTask) -> None:
    self._gate.take_captured()


def _forget_half_read(self: GateTask, capture: Any) -> None:
    reading, self._reading = self._reading, None
    _take_inputs(self, capture)
    self._reading = reading


def _forget_outputs(_self: SnapshotTaker, _overtaken: Any) -> None:
    """What the barrier overtook on the sender's side is stored nowhere."""


IN_FLIGHT_BUGS: dict[str, Bug] = {
    "records in flight are not restored": Bug(((deployment, "assign_in_flight", _restore_nothing),), first=1),
    "records before late barriers are lost": Bug(((GateTask, "_pass_captured", _drop_captured),), first=9),
    "half-read batches are not captured": Bug(((GateTask, "_take_inputs", _forget_half_read),), first=14),
    "overtaken output is not captured": Bug(((SnapshotTaker, "_take_outputs", _forget_outputs),), first=1),
}
"""The same for barriers that overtake records."""


_share_operator = assignment.share_operator
_process_rows = WindowsOperator.process
_watermark = WindowsOperator.watermark
_runs = session_grouping._runs


def _share_at_the_least_watermark(old: Any, parallelism: int, *rest: Any) -> list[list[Any]]:
    shares = _share_operator(old, parallelism, *rest)
    if len(old) == parallelism:
        return shares
    return [[structs.replace(state, watermark=share[0].watermark) for state in share] for share in shares]


def _never_touching(key: Any, start: Any, end: Any) -> Any:
    return _runs(key, start, end - 1)


_load = RestoredWindows.load


def _load_no_rows(self: RestoredWindows, into: Any, keys: Any, values: Any) -> None:
    """Rows that waited for their window's end are in the checkpoint, and stay there."""
    if not self._numbered:  # as only rows of joins are
        _load(self, into, keys, values)


_HALVES: WeakKeyDictionary[WindowsOperator, Any] = WeakKeyDictionary()
"""What operators have not added yet of the batch that came last."""


def _add_the_rest(self: WindowsOperator) -> None:
    rest = _HALVES.pop(self, None)
    if rest is not None:
        _process_rows(self, rest)


def _add_half(self: WindowsOperator, batch: Any) -> None:
    _add_the_rest(self)
    half = len(batch) // 2
    if half:
        _process_rows(self, batch.slice(0, half))
    _HALVES[self] = batch.slice(half, len(batch))


def _watermark_of_whole_batches(self: WindowsOperator, timestamp: int) -> None:
    _add_the_rest(self)
    _watermark(self, timestamp)


TABLE_BUGS: dict[str, Bug] = {
    "all groups are restored at the least watermark": Bug(
        ((assignment, "share_operator", _share_at_the_least_watermark),), "rescales", 33, "unaligned"
    ),
    "sessions that touch are not merged": Bug(((session_grouping, "_runs", _never_touching),), first=5),
    "a join forgets the rows that are restored": Bug(((RestoredWindows, "load", _load_no_rows),), first=7),
    "windows are stored while a batch is half added": Bug(
        (
            (WindowsOperator, "process", _add_half),
            (WindowsOperator, "watermark", _watermark_of_whole_batches),
        ),
        first=1,
    ),
}
"""The same for windows of tables."""


@contextmanager
def planted(bug: str) -> Iterator[None]:
    """The product with one of `BUGS`, `METRIC_BUGS`, `IN_FLIGHT_BUGS` or `TABLE_BUGS` in it."""
    with ExitStack() as patched:
        for owner, name, wrong in (BUGS | METRIC_BUGS | IN_FLIGHT_BUGS | TABLE_BUGS)[bug].patches:
            patched.enter_context(patch.object(owner, name, wrong))
        yield
