"""Runs a replay: restores what a snapshot has, reads its input again, stops where the next one was taken."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, Final

import msgspec

from headgate.checkpoint.storage.uris import open_disk
from headgate.common.errors import InternalError, StorageError, UsageError, UserFunctionError
from headgate.common.ids import SubtaskId, SubtaskIndex
from headgate.common.ports import Disk, UserCode
from headgate.graph.logical import SourceNode
from headgate.offline.replay.column_tap import ColumnTap
from headgate.offline.replay.cutting import Cut, held_back, operator_state
from headgate.offline.replay.debugging import LEFT
from headgate.offline.replay.gang import Gang, ReplayClock
from headgate.offline.replay.keyed_part import KeyReader
from headgate.offline.replay.row_tap import NotedClock, RowTap
from headgate.offline.replay.splits import HeldReader, SourceEnds, SplitDealer, held
from headgate.offline.replay.tap import Tap
from headgate.restore.point import RestorePoint
from headgate.runtime.job.shipped_program import Program, WorkerSettings
from headgate.runtime.master.attempt.deployment import Deployment
from headgate.runtime.protocol import messages as m
from headgate.runtime.protocol.error_messages import rebuild_error
from headgate.runtime.worker.operators.keyed_operator import KeyedProcessOperator
from headgate.runtime.worker.task.gate_task import GateTask
from headgate.runtime.worker.task.source_task import SourceTask
from headgate.state.snapshots import CheckpointMetadata, OperatorSubtaskState

PATIENCE_MS: Final = 60_000
"""How long by its own clock a replay waits for input that does not come."""
READING_MS: Final = 600_000
"""The same, where something else goes on meanwhile, such as timers or watermarks of idle sources."""


class Replay:
    """One run of the operators of `cut` from `point` on, until `until` (None: as long as there is input).

    `before` is called before each step of the key. After :meth:`run`:

    Attributes:
        ended: how it ended, in words.
        failure: the text of the error that user code raised, if any.
        state: the operator's state at the snapshot `until`; None if it was not reached.
    """

    def __init__(
        self,
        cut: Cut,
        disk: Disk,
        begins: CheckpointMetadata,
        until: CheckpointMetadata | None,
        settings: WorkerSettings,
        reader: KeyReader,
        code: UserCode,
        disks: Callable[[str], Disk] = open_disk,
        *,
        endless: bool = False,
    ) -> None:
        self._endless = endless  # input may be over although its source has no end
        self.cut, self._disk, self._until = cut, disk, until
        self._point = RestorePoint(cut.of_snapshot(begins), disk.describe())
        self._settings, self._reader, self._code = replay_settings(settings), reader, code
        self.barriers_are_marks = settings.exactly_once and not settings.unaligned  # of the run
        self.clock = ReplayClock(begins.trigger_ms)
        self._gang = Gang(begins.job, cut.plan.slots, self.clock, self._received, code, disks)
        self._requests: list[m.RequestSplits] = []
        self._failed: m.TaskFailed | None = None
        self.dealers: dict[int, SplitDealer] = {}
        self._readers: list[HeldReader] = []
        self._clocks: list[tuple[KeyedProcessOperator, NotedClock]] = []
        self.state: OperatorSubtaskState | None = None
        self.ended = ""
        self.failure: str | None = None
        self.left = False

    def run(self, count: int | None, before: Callable[[str], None], began: Callable[[Tap], None]) -> Tap:
        """Run to the end, and return the tap with all steps; user code that raises ends it without an error.
        `began` gets the tap before the first step.

        Raises:
            UsageError: the program does not fit the snapshot.
            StorageError: the snapshot or the input cannot be read, or the input is not what it was.
        """
        try:
            self._deploy()
            tap = self._tap(count, before)
            began(tap)
            self._hold_readers()
            self._note_clocks()
            self._feed(tap)
            return tap
        finally:
            for dealer in self.dealers.values():
                dealer.close()
            self._gang.close()

    # -- to the point where input is read

    def _deploy(self) -> None:
        cut, job = self.cut, self._point.checkpoint.job
        peers = dict.fromkeys(range(cut.plan.slots), "memory")
        shipped = Deployment(1, 1, b"", peers, None, None, ignore_unclaimed=self._settings.ignore_unclaimed)
        for slot, message in shipped.messages(cut.plan, self._point).items():
            program = Program(job, cut.plan_of(slot), self._settings, cut.types)
            self._gang.handle(slot, self._of_key(slot, message, program.to_bytes(self._code)))
            self._check()
            if self.failure is not None:
                raise UsageError(self.failure)  # nothing is open that could take a step

    def _of_key(self, slot: int, message: m.Deploy, program: bytes) -> m.Deploy:
        # Other subtasks of the operator get neither state nor records.
        target, mine = self.cut.vertex.id, slot == self.cut.subtask
        restored = [
            (vertex, subtask, states if vertex != target else [self._alone(state) for state in states])
            for vertex, subtask, states in message.restored
            if vertex != target or mine
        ]
        in_flight = [share for share in message.in_flight if share[0] != target or mine]
        return m.Deploy(
            attempt=message.attempt,
            generation=message.generation,
            program=program,
            peers=message.peers,
            restored=restored,
            restored_checkpoint=message.restored_checkpoint,
            restored_storage=message.restored_storage,
            storage=None,
            marker=None,
            numbers=message.numbers,
            histograms=message.histograms,
            in_flight=in_flight,
            finished=message.finished,
        )

    def _alone(self, state: OperatorSubtaskState) -> OperatorSubtaskState:
        if state.keyed is None:
            return state
        alone = self._reader.alone(self._disk, state.keyed)
        return msgspec.structs.replace(state, keyed=alone)

    def _tap(self, count: int | None, before: Callable[[str], None]) -> Tap:
        task = self._task(self.cut.vertex.id, self.cut.subtask)
        assert isinstance(task, GateTask)
        late, ends_at = 0, None
        if self._until is not None:
            ended = operator_state(self.cut, self._until)
            late, ends_at = held_back(self.cut, self._until), None if ended is None else ended.watermark
        if isinstance(task.head, KeyedProcessOperator):
            return RowTap(task, self.cut.key, count, before, late, ends_at)
        selector = self.cut.selector
        return ColumnTap(task, self.cut.key, count, before, late, ends_at, selector=selector)

    def _task(self, vertex: int, subtask: int) -> Any:
        assembly = self._gang.workers[subtask]._assembly
        if assembly is None:
            raise InternalError("a worker of the replay has no subtasks; please report this")
        return assembly.tasks[SubtaskId(self.cut.plan.vertices[vertex].id, SubtaskIndex(subtask))]

    def _hold_readers(self) -> None:
        begins = self._point.checkpoint
        for vertex, node in self.cut.sources.items():
            uid, readers = node.uid or "", self.cut.plan.vertices[vertex].parallelism
            known = self._until is not None and uid != self.cut.given
            ends = SourceEnds(uid, self._until) if known and self._until is not None else None
            self._check_readers(node, ends, readers)
            dealer = self.dealers[vertex] = SplitDealer(
                node.source, begins.enumerators.get(uid), ends, readers
            )
            for subtask in range(readers):
                task = self._task(vertex, subtask)
                assert isinstance(task, SourceTask)
                self._readers.append(HeldReader(task.head, ends, subtask, dealer))

    def _check_readers(self, node: SourceNode, ends: SourceEnds | None, readers: int) -> None:
        if ends is not None and len(ends.positions) != readers:
            raise UsageError(
                f"source {node.uid!r} has {len(ends.positions)} readers in the snapshot of --to and "
                f"{readers} in the replay; replay with --to of a snapshot that the same program took"
            )

    def _note_clocks(self) -> None:
        for worker in self._gang.workers:
            assembly = worker._assembly
            for task in () if assembly is None else assembly.tasks.values():
                for operator in task.operators:
                    if isinstance(operator, KeyedProcessOperator) and task.id.vertex != self.cut.vertex.id:
                        self._clocks.append((operator, NotedClock(operator)))

    @property
    def by_clock(self) -> list[str]:
        """Names of operators upstream whose functions have read the wall clock, or have timers by it."""
        found = [
            operator.context.name
            for operator, clock in self._clocks
            if clock.read or len(operator._timers.processing)
        ]
        return sorted(set(found))

    # -- the input

    def _feed(self, tap: Tap) -> None:
        waited_since = read_at = self.clock.now
        batches = 0
        while not (tap.full or self.left or self.failure):
            worked, at_end = self._turn(), held(self._readers)
            if (read := sum(reader.batches for reader in self._readers)) != batches:
                batches, read_at = read, self.clock.now
            if worked:
                waited_since = self.clock.now
            elif at_end:
                if self._at_end(tap):
                    return
            elif (due := self._gang.next_wakeup()) is None or due > waited_since + PATIENCE_MS:
                self._no_more_input()
                return
            else:
                self.clock.advance_to(due)
            if not at_end and self.clock.now > read_at + READING_MS:
                self._no_more_input()
                return
            self._check()
        if tap.full:
            self.ended = f"stopped after {tap.records} records"

    def _no_more_input(self) -> None:
        if self._until is not None or not self._endless:
            raise StorageError(self._stuck())
        self.ended = "the input that there is ended"

    def _turn(self) -> bool:
        worked = self._gang.turn()
        asked, self._requests = self._requests, []
        for request in asked:
            given = self.dealers[request.vertex].asked(request.subtask)
            for subtask, splits in given.items():
                assigned = m.AssignSplits(request.attempt, request.vertex, subtask, splits)
                self._gang.handle(subtask, assigned)
        return worked or bool(asked)

    def _at_end(self, tap: Tap) -> bool:
        """Do the next of what comes after all input; return whether nothing is left to do."""
        if self._until is None:
            self.ended = "the input ended"
            return True
        if self.clock.now < self._until.trigger_ms:
            # Timers of processing time that were due between the two snapshots fire now.
            self.clock.advance_to(self._until.trigger_ms)
            return False
        if not self.ended:
            tap.end_at_barrier()
            # A barrier as the job's: it goes through all channels, so the state is what came before it.
            self.ended = "stopped where the snapshot was taken"
            for slot in range(self.cut.plan.slots):
                self._gang.handle(slot, m.Trigger(1, self._until.checkpoint, self._until.trigger_ms))
            return False
        if self.state is None:
            raise InternalError("the barrier of a replay did not reach the operator; please report this")
        return True

    def _stuck(self) -> str:
        waiting = "; ".join(reader.where for reader in self._readers if not reader.reached)
        return (
            "the input does not lead to where the snapshot of --to was taken: readers wait at "
            f"{waiting or 'their ends'}; put the input back as it was, or replay without --to"
        )

    # -- what workers report

    def _received(self, slot: int, message: Any) -> None:
        match message:
            case m.RequestSplits():
                self._requests.append(message)
            case m.TaskFailed():
                self._failed = self._failed or message
            case m.Acknowledge() if message.snapshot.vertex == self.cut.vertex.id:
                if slot == self.cut.subtask:
                    (self.state,) = message.snapshot.operators

    def _check(self) -> None:
        if self._failed is not None:
            error = rebuild_error(self._failed.kind, self._failed.arguments)
            if not isinstance(error, UserFunctionError):
                raise error
            self.ended, self.failure = "user code raised", str(error)
            if error.kind == LEFT:
                self.ended, self.failure = "the debugger was left", None
                self.left = True


def replay_settings(settings: WorkerSettings) -> WorkerSettings:
    """Return the settings of a job's workers for a replay: everything in memory, and nothing overtakes."""
    return dataclasses.replace(
        settings,
        state_backend="hashmap",
        incremental=False,
        changelog=False,
        local_backup=False,
        recover_from_local=False,
        exactly_once=True,
        unaligned=False,
        memory_state_max=None,
    )
