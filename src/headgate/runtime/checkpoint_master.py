"""Carries out what the checkpoint coordinator decides: triggers, metadata, log, commits, notices.

The coordinator is pure; this is its shell in the job master. Blocking work (storage, committers)
runs in the background, one thing after the other, and reports back to the job master's loop.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol

from headgate.checkpoint.history_file import HistoryFile
from headgate.checkpoint.service import CheckpointService, may_be_published
from headgate.checkpoint.store.log import CommitPermit
from headgate.common.errors import FencedError, StorageError
from headgate.common.format_config import fingerprint
from headgate.common.ids import AttemptId, CheckpointId, JobId
from headgate.common.ports import Randomness
from headgate.core.alignment.settings import AlignmentSettings
from headgate.core.checkpoint import effects as e
from headgate.core.checkpoint.coordinator import CheckpointCoordinator
from headgate.core.checkpoint.failures import CheckpointFailureReason
from headgate.core.checkpoint.pending import AckResult
from headgate.core.checkpoint.requests import CheckpointSettings
from headgate.graph.physical import PhysicalPlan, Vertex
from headgate.runtime.checkpoint_history import CheckpointHistory
from headgate.runtime.committers import Committers
from headgate.runtime.control import messages as m
from headgate.runtime.master_ports import MasterPorts
from headgate.state.snapshots import CheckpointMetadata, OperatorSubtaskState, SubtaskSnapshot


class CheckpointHost(Protocol):
    """What the checkpoint master asks of the job master."""

    def broadcast(self, message: Any) -> None:
        """Send to every worker of the attempt."""
        ...

    def snapshot_enumerators(self) -> dict[str, Any]:
        """The enumerators' states at this instant."""
        ...

    def enumerators_complete(self, checkpoint: int) -> None:
        """Tell the enumerators."""
        ...

    def checkpoint_done(self, checkpoint: int, kind: e.RequestKind, took_ms: int) -> None:
        """A checkpoint is complete and committed."""
        ...

    def attempt_failed(self, error: Exception) -> None:
        """The attempt cannot go on."""
        ...

    def recovery_failed(self, error: Exception) -> None:
        """Storage or a committer failed between two attempts."""
        ...

    def fenced(self, error: FencedError) -> None:
        """Another job master has taken over."""
        ...


def make_coordinator(
    settings: CheckpointSettings, service: CheckpointService | None, randomness: Randomness
) -> CheckpointCoordinator[SubtaskSnapshot]:
    """The pure machine, which goes on behind what the log holds."""
    first = CheckpointId(1) if service is None else service.next_checkpoint_id()
    known = [] if service is None else [CheckpointId(entry.checkpoint) for entry in service.completed()]
    return CheckpointCoordinator(settings, first, known, randomness.uniform)


class CheckpointMaster:
    """The checkpoints of one job, in the driver.

    Attributes:
        coordinator: the pure machine.
        latest: the newest completed checkpoint, whole; None before the first.
        history: what happened to each checkpoint, for diagnosis.
    """

    def __init__(
        self,
        job: JobId,
        job_name: str,
        plan: PhysicalPlan,
        coordinator: CheckpointCoordinator[SubtaskSnapshot],
        service: CheckpointService | None,
        permit: CommitPermit | None,
        host: CheckpointHost,
        ports: MasterPorts,
        alignment: AlignmentSettings,
    ) -> None:
        self.coordinator = coordinator
        self._alignment = alignment
        self.latest: CheckpointMetadata | None = None
        self._job, self._name, self._plan = job, job_name, plan
        self._service, self._permit = service, permit
        self._host, self._clock, self._background = host, ports.clock, ports.background
        self._probe, self._post, self._listener = ports.probe, ports.post, ports.listener
        self._committers = Committers(plan)
        file = None if service is None else HistoryFile(service.disk, job, job_name, _logged_in(service))
        self.history = CheckpointHistory(plan, file, ports.clock, ports.background)
        self._begun: dict[int, tuple[int, int, dict[str, Any]]] = {}
        self._storing: CheckpointMetadata | None = None
        self._busy = self._attempt = 0
        self._readers: set[tuple[int, int]] = set()
        self._totals: Mapping[str, tuple[int, int]] = {}

    @property
    def generation(self) -> int:
        """Of this job master; 1 where no log says otherwise."""
        return 1 if self._permit is None else self._permit.generation

    @property
    def quiet(self) -> bool:
        """Whether nothing is being stored or committed: a restore point may be chosen."""
        return self._busy == 0 and self.coordinator.storing is None

    # -- what the job master tells ---------------------------------------------------------------

    def start(
        self, attempt: int, tasks: Sequence[tuple[int, int]], totals: Mapping[str, tuple[int, int]]
    ) -> None:
        """All tasks of an attempt run; `totals` are the records up to where it began."""
        self._begun.clear()
        self._totals = totals
        self._attempt = attempt
        self.history.deployed(tasks)
        self.coordinator.start(AttemptId(attempt), tasks, self._clock.monotonic_ms())

    def restoring(self, checkpoint: int, readers: Iterable[tuple[int, int]]) -> None:
        """Subtasks `readers` read records in flight of `checkpoint`, which therefore stays."""
        self._readers = set(readers)
        self.coordinator.hold(CheckpointId(checkpoint) if self._readers else None)

    def recovered(self, vertex: int, subtask: int) -> None:
        """A subtask has read all that was in flight."""
        self._readers.discard((vertex, subtask))
        if not self._readers:
            self.coordinator.hold(None)

    def suspend(self) -> None:
        """The attempt is ending."""
        self.perform(self.coordinator.suspend())

    def tick(self) -> None:
        """Time passed."""
        self.perform(self.coordinator.tick(self._clock.monotonic_ms()))
        self.history.write_if_due()

    def request(self, kind: e.RequestKind) -> None:
        """Ask for a checkpoint."""
        self.perform(self.coordinator.request(kind, self._clock.monotonic_ms()))

    def acknowledged(self, message: m.Acknowledge) -> None:
        """A subtask's part is durable."""
        now = self._clock.monotonic_ms()
        attempt, checkpoint = AttemptId(message.attempt), CheckpointId(message.checkpoint)
        result, effects = self.coordinator.acknowledge(attempt, checkpoint, message.snapshot, now)
        if result is AckResult.SUCCESS:
            self.history.acknowledged(checkpoint, message.snapshot)
        self.perform(effects)

    def declined(self, message: m.Decline) -> None:
        """A subtask cannot contribute."""
        reason = CheckpointFailureReason[message.reason]
        if reason is CheckpointFailureReason.CHANNEL_STATE_SHARED_STREAM_EXCEPTION:
            self._align_from_now_on(message.detail)
        self.perform(
            self.coordinator.decline(
                AttemptId(message.attempt),
                CheckpointId(message.checkpoint),
                (message.vertex, message.subtask),
                reason,
                self._clock.monotonic_ms(),
                message.detail,
            )
        )

    def _align_from_now_on(self, why: str) -> None:
        """Records are of a kind that no checkpoint can take along: barriers stay behind them."""
        if self._alignment.unaligned:
            self._alignment = AlignmentSettings(exactly_once=True)
            self._listener.note(f"checkpoints are aligned from now on, although unaligned ones are on: {why}")

    def find_latest(self, then: Callable[[CheckpointMetadata | None], None]) -> None:
        """The newest completed checkpoint as the log has it, read afresh.

        A store whose outcome was unsure is settled by that: the log says whether it counts.
        """
        service = self._service

        def work() -> CheckpointMetadata | None:
            return self.latest if service is None else service.load_latest()

        self._run(work, then, self._host.recovery_failed)

    def recommit(self, checkpoint: CheckpointMetadata | None, then: Callable[[], None]) -> None:
        """Before a restore: commit what `checkpoint` holds once more and clean up the rest."""
        operators = {} if checkpoint is None else checkpoint.operators

        def work() -> None:
            self._committers.commit(operators)
            self._committers.abandon(operators)
            if self._service is not None and self._permit is not None:
                self._service.sweep_orphans(self._permit)

        self._run(work, lambda _: then(), self._host.recovery_failed)

    def close(self) -> None:
        """Write the history, and release the committers' connections once they are through."""
        self.history.write()
        self._background.submit(self._committers.close, lambda _, __: None)

    # -- effects ---------------------------------------------------------------------------------

    def perform(self, effects: Sequence[e.Effect[SubtaskSnapshot]]) -> None:
        """Carry out effects in order."""
        for effect in effects:
            if isinstance(effect, e.TriggerCheckpoint):
                self.history.triggered(effect)
                self._trigger(effect)
            elif isinstance(effect, e.Finalize):
                self._finalize(effect)
            elif isinstance(effect, e.Commit):
                self._commit(effect.checkpoint)
            elif isinstance(effect, e.NotifyComplete):
                self._complete(effect)
            elif isinstance(effect, e.NotifyAbort):
                self.history.failed(effect.checkpoint, effect.reason, effect.detail)
                self._host.broadcast(m.CheckpointAborted(self._attempt, effect.checkpoint))
            elif isinstance(effect, e.FailJob):
                self._host.attempt_failed(_checkpoints_failed(effect))
            elif isinstance(effect, (e.Discard, e.Retire)):
                self._clean(effect)

    def _trigger(self, effect: e.TriggerCheckpoint) -> None:
        try:
            enumerators = self._host.snapshot_enumerators()
        except Exception as error:
            reason = CheckpointFailureReason.TRIGGER_CHECKPOINT_FAILURE
            now = self._clock.monotonic_ms()
            self.perform(self.coordinator.abort(effect.checkpoint, reason, now, repr(error)))
            return
        trigger_ms = self._clock.now_ms()
        self._begun[effect.checkpoint] = (trigger_ms, self._clock.monotonic_ms(), enumerators)
        completed = self.coordinator.latest or 0
        barrier = self._alignment.barrier(effect.checkpoint, trigger_ms, completed=completed)
        trigger = m.Trigger(
            effect.attempt,
            effect.checkpoint,
            trigger_ms,
            barrier.alignment.value,
            barrier.timeout_ms,
            barrier.savepoint,
            barrier.completed,
        )
        self._host.broadcast(trigger)

    def _finalize(self, effect: e.Finalize[SubtaskSnapshot]) -> None:
        trigger_ms, _, enumerators = self._begun[effect.checkpoint]
        metadata = self._metadata(effect, trigger_ms, enumerators)
        self._storing = metadata
        checkpoint = effect.checkpoint
        service, permit = self._service, self._permit

        def work() -> None:
            if service is not None and permit is not None:
                service.store(permit, metadata)

        def done(_: Any, error: BaseException | None) -> None:
            self._post(lambda: self._stored(checkpoint, error))

        self._busy += 1
        self._background.submit(work, done)

    def _stored(self, checkpoint: CheckpointId, error: BaseException | None) -> None:
        self._busy -= 1
        now = self._clock.monotonic_ms()
        metadata, self._storing = self._storing, None
        if error is None:
            self.latest = metadata
            self.history.stored(checkpoint)
            self.perform(self.coordinator.stored(checkpoint, now))
            return
        self.history.failed(checkpoint, CheckpointFailureReason.FINALIZE_CHECKPOINT_FAILURE, str(error))
        published = may_be_published(error)
        self.perform(self.coordinator.store_failed(checkpoint, str(error), published, now))
        if isinstance(error, FencedError):
            self._fenced(error)

    def _commit(self, checkpoint: CheckpointId) -> None:
        metadata = self.latest
        assert metadata is not None
        assert metadata.checkpoint == checkpoint

        def work() -> None:
            self._committers.commit(metadata.operators)
            self._probe.reached("sinks.committed")

        self._run(
            work,
            lambda _: self.perform(self.coordinator.committed(checkpoint, self._clock.monotonic_ms())),
        )

    def _complete(self, effect: e.NotifyComplete) -> None:
        self.history.committed(effect.checkpoint)
        began = self._begun.pop(effect.checkpoint, (0, self._clock.monotonic_ms(), {}))[1]
        self._host.broadcast(m.CheckpointComplete(self._attempt, effect.checkpoint))
        self._host.enumerators_complete(effect.checkpoint)
        self._host.checkpoint_done(effect.checkpoint, effect.kind, self._clock.monotonic_ms() - began)

    def _clean(self, effect: e.Discard[SubtaskSnapshot] | e.Retire) -> None:
        service, permit = self._service, self._permit
        if service is None or permit is None:
            return

        def work() -> None:
            if isinstance(effect, e.Retire):
                service.retire(permit, effect.checkpoints)
            else:
                service.discard(effect.snapshots)

        # What could not be deleted is found by the next sweep; it is no reason to stop a job.
        self._background.submit(work, lambda _, __: None)

    def _fenced(self, error: FencedError) -> None:
        self.history.fenced()
        self._host.fenced(error)

    def _run(
        self,
        work: Callable[[], Any],
        then: Callable[[Any], None],
        failed: Callable[[Exception], None] | None = None,
    ) -> None:
        """Background work; its failure fails the attempt unless `failed` takes it."""
        otherwise = self._host.attempt_failed if failed is None else failed

        def done(result: Any, error: BaseException | None) -> None:
            self._post(lambda: finished(result, error))

        def finished(result: Any, error: BaseException | None) -> None:
            self._busy -= 1
            if error is None:
                then(result)
            elif isinstance(error, FencedError):
                self._fenced(error)
            else:
                otherwise(error if isinstance(error, Exception) else RuntimeError(repr(error)))

        self._busy += 1
        self._background.submit(work, done)

    def _metadata(
        self, effect: e.Finalize[SubtaskSnapshot], trigger_ms: int, enumerators: dict[str, Any]
    ) -> CheckpointMetadata:
        operators, parallelism = self._operators(effect.snapshots)
        return CheckpointMetadata(
            job=self._job,
            job_name=self._name,
            checkpoint=effect.checkpoint,
            generation=self.generation,
            attempt=effect.attempt,
            trigger_ms=trigger_ms,
            max_parallelism=self._plan.max_parallelism,
            format_fingerprint=fingerprint(),
            parallelism=parallelism,
            operators=operators,
            enumerators=enumerators,
            state_types={
                uid: types for snapshot in effect.snapshots for uid, types in snapshot.state_types.items()
            },
            totals=add_totals(self._plan, self._totals, effect.snapshots),
            in_flight=[stream for snapshot in effect.snapshots for stream in snapshot.in_flight],
            finished=self._finished(effect.snapshots),
        )

    def _finished(self, snapshots: Sequence[SubtaskSnapshot]) -> dict[str, list[int]]:
        """Operator uid -> its subtasks that had processed all input."""
        finished: dict[str, list[int]] = {}
        for snapshot in snapshots:
            if snapshot.finished:
                for node in self._plan.vertices[snapshot.vertex].chain:
                    finished.setdefault(node.uid or f"node-{node.id}", []).append(snapshot.subtask)
        return finished

    def _operators(
        self, snapshots: Sequence[SubtaskSnapshot]
    ) -> tuple[dict[str, list[OperatorSubtaskState]], dict[str, int]]:
        """Operator uid -> states of its subtasks in order; a subtask with nothing to say has an empty one."""
        said = {
            (snapshot.vertex, snapshot.subtask, state.uid): state
            for snapshot in snapshots
            for state in snapshot.operators
        }
        operators: dict[str, list[OperatorSubtaskState]] = {}
        parallelism: dict[str, int] = {}
        for vertex in self._plan.vertices:
            for node in vertex.chain:
                uid = node.uid or f"node-{node.id}"
                states = [said.get((vertex.id, s, uid)) for s in range(vertex.parallelism)]
                parallelism[uid] = vertex.parallelism
                if any(state is not None for state in states):
                    operators[uid] = [state or OperatorSubtaskState(uid) for state in states]
        return operators, parallelism


def add_totals(
    plan: PhysicalPlan, base: Mapping[str, tuple[int, int]], counted: Iterable[Any]
) -> dict[str, tuple[int, int]]:
    """Records in and out of each chain: those before this attempt and those that it counted."""
    totals = dict(base)
    for entry in counted:
        name = chain_name(plan.vertices[entry.vertex])
        before = totals.get(name, (0, 0))
        totals[name] = (before[0] + entry.records_in, before[1] + entry.records_out)
    return totals


def chain_name(vertex: Vertex) -> str:
    """The uids of a chain's operators, joined; stable as long as the chain is."""
    return " -> ".join(node.uid or f"node-{node.id}" for node in vertex.chain)


def _logged_in(service: CheckpointService) -> Callable[[], list[int]]:
    return lambda: [entry.checkpoint for entry in service.completed()]


def _checkpoints_failed(effect: e.FailJob) -> Exception:
    which = "a checkpoint" if effect.checkpoint is None else f"checkpoint {effect.checkpoint}"
    detail = f": {effect.detail}" if effect.detail else ""
    return StorageError(
        f"{which} failed ({effect.reason.name}{detail}), which is more than "
        "execution.checkpointing.tolerable-failed-checkpoints allows"
    )
