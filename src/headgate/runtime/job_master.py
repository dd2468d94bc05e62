"""The job master: owns one job from submission to its end; lives in the driver.

A passive machine: whoever owns the thread delivers worker messages, gang news and the passing of
time, and waits until `next_wakeup` otherwise. The table of states is `core.execution`; when to
restart is `core.failover`; what a checkpoint needs is `core.checkpoint`. This file connects them.

Recovery, in order: suspend checkpoints; stop what still runs (the living gang is told to drop its
subtasks, a broken one is cancelled); wait until storage and committers are quiet, the gang is idle
or gone, and the restart strategy's pause is over; commit the restore point once more; deploy.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from headgate.checkpoint.service import CheckpointService
from headgate.checkpoint.store.log import CommitPermit
from headgate.common.errors import (
    FencedError,
    HeadgateError,
    JobFailedError,
    OperatingError,
    restart_may_help,
)
from headgate.common.ids import JobId
from headgate.common.ports import Link
from headgate.core.checkpoint.effects import RequestKind
from headgate.core.execution import JobEvent, JobState, job_machine
from headgate.core.failover import restart_strategy
from headgate.graph.physical import PhysicalPlan
from headgate.runtime.checkpoint_master import CheckpointMaster, make_coordinator
from headgate.runtime.control import messages as m
from headgate.runtime.deployment import Deployment, readers_of
from headgate.runtime.enumerators import Enumerators
from headgate.runtime.gang_keeper import GangKeeper
from headgate.runtime.job_settings import JobSettings
from headgate.runtime.master_ports import MasterPorts, RestorePoint
from headgate.runtime.program import Program
from headgate.runtime.queries.asking import StateQueries
from headgate.runtime.queries.live_state import Then
from headgate.runtime.worker import rebuild_error
from headgate.state.snapshots import CheckpointMetadata

CAUSE_WAIT_MS = 500
"""How long a lost connection between workers waits for the failure that caused it."""

FINISH_MS = 10_000
"""How long workers may take to leave at the end before the gang is cancelled."""


class JobMaster:
    """One job.

    Attributes:
        state: where the job is in its life.
        error: why it failed, once it has.
        attempt: the present deployment, from 1.
        restarts: deployments after the first.
    """

    def __init__(
        self,
        job: JobId,
        name: str,
        plan: PhysicalPlan,
        program: Program,
        settings: JobSettings,
        ports: MasterPorts,
        service: CheckpointService | None,
        permit: CommitPermit | None,
        initial: RestorePoint | None,
        marker: str | None = None,
    ) -> None:
        self.job, self.name, self.plan, self.settings, self.ports = job, name, plan, settings, ports
        self.error: HeadgateError | None = None
        self.attempt = self.restarts = 0
        self._life = job_machine(job)
        self._program, self._marker = program.to_bytes(), marker
        self._initial = self._point = initial
        self._gang = GangKeeper(ports.gang, ports.clock, plan.slots, settings.heartbeat_timeout_ms)
        self._roster = self._gang.roster
        self._strategy = restart_strategy(settings.restart, ports.randomness.uniform)
        self._enumerators = Enumerators.none()
        self._restart_at = 0
        self._recommitting = False
        self._queries = StateQueries(plan)
        self._suspicion: tuple[HeadgateError, int] | None = None
        coordinator = make_coordinator(settings.checkpoints, service, ports.randomness)
        self.checkpoints = CheckpointMaster(
            job, name, plan, coordinator, service, permit, self, ports, settings.alignment
        )

    @property
    def state(self) -> JobState:
        """Where the job is in its life."""
        return self._life.state

    # -- what the owner tells --------------------------------------------------------------------

    def submit(self) -> None:
        """Begin."""
        self._life.move(JobEvent.SUBMIT)

        def begin() -> None:
            if self.state is JobState.STARTING:  # not cancelled meanwhile
                self._start_gang()

        self._recover_from(self._initial, begin)

    def cancel(self) -> None:
        """The user wants the job to end now; nothing uncommitted is committed."""
        if self.state.terminal or self.state is JobState.FINISHING:
            return
        self._life.move(JobEvent.CANCEL)
        self._end_attempt()
        self._leave()

    def message(self, link: Link, message: Any) -> None:
        """A worker said something."""
        if isinstance(message, m.Register):
            self._registered(message, link)
            return
        slot = self._roster.slot_of(link)
        if slot is None:
            return
        if isinstance(message, m.Heartbeat):
            self._heartbeat(slot, link, message)
        elif isinstance(message, m.Idle):
            self._idle(slot, message)
        elif message.attempt == self.attempt and not self.state.ending:
            self._obey(slot, message)

    def link_lost(self, link: Link, reason: str) -> None:
        """The connection to a worker broke: its process is gone or as good as gone."""
        slot = self._roster.slot_of(link)
        if slot is not None:
            self._worker_lost(slot, f"its control connection ended ({reason})")

    def gang_exited(self, gang: int, error: str | None) -> None:
        """All workers of a gang are gone; `error` says why if it was not in order."""
        if not self._gang.exited(gang):
            return
        if self.state.ending:
            self._life.move(JobEvent.GONE)
            self._close()
        elif self.state is not JobState.RECOVERING:
            self.attempt_failed(OperatingError(f"the gang of workers ended: {error or 'all workers left'}"))
        self._try_restart()

    def tick(self) -> None:
        """Time passed."""
        now = self.ports.clock.monotonic_ms()
        report = self._gang.check()
        for slot, still_ms in report.stuck:
            self.ports.listener.note(
                f"the loop of slot {slot} has not turned for {still_ms / 1000:.0f} s; "
                "a call of user code does not return"
            )
            self.checkpoints.history.stuck(slot, still_ms)
        for slot in report.lapsed:
            self._worker_lost(slot, f"no heartbeat came for {self.settings.heartbeat_timeout_ms} ms")
        if self._suspicion is not None and now >= self._suspicion[1]:
            self.attempt_failed(self._suspicion[0])
        self.checkpoints.tick()
        if self.state is JobState.RECOVERING:
            if self._gang.overdue and not self._gang.redeployable:
                self._force_gang_out()
            self._try_restart()
        elif self.state.ending and self._gang.overdue:
            self._force_gang_out()

    def next_wakeup(self) -> int | None:
        """When to call :meth:`tick` at the latest (monotonic ms)."""
        due = (self._gang.next_check(), self.checkpoints.coordinator.next_wakeup())
        times = [*due, None if self._suspicion is None else self._suspicion[1]]
        if self.state is JobState.RECOVERING:
            # What is past waits for news, not for time; to wake up for it would be to wake up all the time.
            times.append(self._restart_at if self._restart_at >= self.ports.clock.monotonic_ms() else None)
            times.append(None if self._gang.redeployable else self._gang.deadline())
        elif self.state.ending:
            times.append(self._gang.deadline())
        return min((time for time in times if time is not None), default=None)

    @property
    def restored_totals(self) -> Mapping[str, tuple[int, int]]:
        """Records in and out of each chain up to where the present attempt began."""
        return {} if self._point is None else self._point.checkpoint.totals

    def counters(self) -> list[m.Counters]:
        """Last running totals of all subtasks."""
        return [counters for member in self._roster.members() for counters in member.counters.values()]

    def query(self, uid: str, state: str, key: Any, then: Then) -> None:
        """Look up what keyed state holds now, between two records; not only what the last checkpoint has.

        Args:
            uid: of the operator.
            state: name of one of its keyed states.
            key: of the stream.
            then: called in the job master's loop, once, with the value and None, or with None and why not:
                a UsageError where there is no such operator or state, a NoEntryError where nothing is stored
                under the key, an OperatingError where the job does not run or stopped meanwhile.
        """
        try:
            if self.state is not JobState.RUNNING:
                raise OperatingError(
                    f"the job is {self.state.value}, and live state can be asked for only while it is running"
                    "; ask again later"
                )
            slot, message = self._queries.ask(self.attempt, uid, state, key, then)
        except HeadgateError as error:
            then(None, error)
            return
        member = self._roster.get(slot)
        if member is not None:  # else the attempt is about to end, and the query with it
            member.link.send(message)

    # -- workers ---------------------------------------------------------------------------------

    def _start_gang(self) -> None:
        self.ports.listener.gang_submitted(self._gang.start(), self.plan.slots)

    def _registered(self, register: m.Register, link: Link) -> None:
        if not self._gang.add(register, link):
            link.close()
            return
        self.ports.listener.worker_registered(register.slot, register.pid, register.host)
        if self.state is JobState.STARTING and self._gang.complete:
            self._life.move(JobEvent.COMPLETE)
            self._deploy()

    def _heartbeat(self, slot: int, link: Link, beat: m.Heartbeat) -> None:
        member = self._roster.get(slot)
        if self._gang.beat(slot, link, beat) and member is not None and beat.attempt == self.attempt:
            member.note_counters(beat.counters)
            self.ports.listener.progress(self.counters())

    def _worker_lost(self, slot: int, reason: str) -> None:
        self._gang.lose(slot)
        if self.state.ending:
            return
        self.attempt_failed(OperatingError(f"the worker of slot {slot} was lost: {reason}"))
        # What is left of the gang cannot be used without the lost one.
        if self._gang.alive:
            self._force_gang_out()

    def _force_gang_out(self) -> None:
        if self._gang.force_out():
            self.gang_exited(self._roster.gang, "it did not end in time and was fenced")

    def _obey(self, slot: int, message: Any) -> None:
        if isinstance(message, m.TaskFailed):
            self._task_failed(message)
        elif isinstance(message, m.Deployed):
            self._deployed(slot)
        elif isinstance(message, m.StateAnswer):
            self._queries.answered(message)
        elif self.state not in (JobState.DEPLOYING, JobState.RUNNING):
            return
        elif isinstance(message, m.RequestSplits):
            # Workers do not wait for each other: one may read, or be done, before the last is deployed.
            self._assign_splits(slot, message)
        elif isinstance(message, m.Recovered):
            self.checkpoints.recovered(message.vertex, message.subtask)
        elif isinstance(message, m.DataEnded):
            self._data_ended(slot, message)
        elif isinstance(message, m.Acknowledge):
            self.checkpoints.acknowledged(message)
        elif isinstance(message, m.Decline):
            self.checkpoints.declined(message)

    def _assign_splits(self, slot: int, request: m.RequestSplits) -> None:
        member = self._roster.get(slot)
        assert member is not None
        try:
            splits = self._enumerators.next_splits(request.vertex, request.subtask)
        except Exception as error:
            self.attempt_failed(error)
            return
        member.link.send(m.AssignSplits(self.attempt, request.vertex, request.subtask, splits))

    def _task_failed(self, failure: m.TaskFailed) -> None:
        error = rebuild_error(failure.kind, failure.arguments)
        if failure.lost_peer is None:
            self.attempt_failed(error)
        elif self.state is not JobState.RECOVERING and self._suspicion is None:
            # A consequence, most likely: the peer, or its end, will soon tell the cause.
            self._suspicion = error, self.ports.clock.monotonic_ms() + CAUSE_WAIT_MS

    # -- an attempt ------------------------------------------------------------------------------

    def _deploy(self) -> None:
        self.attempt += 1
        point = self._point
        enumerators = {} if point is None else point.checkpoint.enumerators
        try:
            self._enumerators = Enumerators.of(self.plan, enumerators, self.job, self.attempt)
        except Exception as error:
            self.attempt_failed(error)
            return
        self.ports.listener.deploying(self.attempt, None if point is None else point.checkpoint.checkpoint)
        deployment = Deployment(
            attempt=self.attempt,
            generation=self.checkpoints.generation,
            program=self._program,
            peers={each.register.slot: each.register.data_address for each in self._roster.members()},
            storage=self.settings.storage,
            marker=self._marker,
        )
        messages = deployment.messages(self.plan, point)
        if point is not None and point.checkpoint.job == self.job:
            self.checkpoints.restoring(point.checkpoint.checkpoint, readers_of(messages.values()))
        for member in self._roster.members():
            member.begin_attempt()
            member.link.send(messages[member.register.slot])

    def _deployed(self, slot: int) -> None:
        member = self._roster.get(slot)
        assert member is not None
        member.deployed = True
        members = self._roster.members()
        if self.state is JobState.DEPLOYING and all(member.deployed for member in members):
            self._life.move(JobEvent.COMPLETE)
            tasks = [(v.id, s) for v in self.plan.vertices for s in range(v.parallelism)]
            self.checkpoints.start(self.attempt, tasks, self.restored_totals)
            self.ports.listener.running(self.attempt)
            self._check_data_ended()

    def _data_ended(self, slot: int, message: m.DataEnded) -> None:
        member = self._roster.get(slot)
        assert member is not None
        member.ended.add((message.vertex, message.subtask))
        member.note_counters([message.counters])
        self.ports.listener.progress(self.counters())
        self._check_data_ended()

    def _check_data_ended(self) -> None:
        ended = sum(len(member.ended) for member in self._roster.members())
        if self.state is JobState.RUNNING and ended == sum(v.parallelism for v in self.plan.vertices):
            self.checkpoints.request(RequestKind.FINAL)

    # -- failure and recovery --------------------------------------------------------------------

    def attempt_failed(self, error: Exception) -> None:
        """The attempt cannot go on; restart if that may help and the strategy allows."""
        if self.state.terminal or self.state.ending:
            return
        self._suspicion = None
        cause = _as_ours(error)
        if not restart_may_help(cause):
            self._give_up(cause)
        elif self.state is JobState.RECOVERING:
            self.ports.listener.note(f"also: {cause}")
        else:
            now = self.ports.clock.monotonic_ms()
            decision = self._strategy.on_failure(now)
            if decision.can_restart:
                self._begin_recovery(cause, now, decision.delay_ms)
            else:
                self._give_up(cause)

    def _begin_recovery(self, cause: HeadgateError, now: int, delay_ms: int) -> None:
        self._life.move(JobEvent.FAIL)
        self._restart_at = now + delay_ms
        self.ports.listener.failed(self.attempt, cause, delay_ms)
        self._end_attempt()
        self._gang.expect(self.settings.redeploy_timeout_ms)
        self._gang.broadcast(m.Stop(self.attempt))
        if self._roster.broken and self._gang.alive:
            self._force_gang_out()

    def recovery_failed(self, error: Exception) -> None:
        """The restore point could not be found or committed: a further failure, tried again after a pause."""
        self._recommitting = False
        if self.state is not JobState.RECOVERING:
            self.attempt_failed(error)
            return
        cause, now = _as_ours(error), self.ports.clock.monotonic_ms()
        decision = self._strategy.on_failure(now)
        if not decision.can_restart or not restart_may_help(cause):
            self._give_up(cause)
            return
        self.ports.listener.note(f"recovery failed and is tried again in {decision.delay_ms} ms: {error}")
        self._restart_at = now + decision.delay_ms

    def _give_up(self, cause: HeadgateError) -> None:
        self.error = cause
        self._life.move(JobEvent.GIVE_UP)
        self.ports.listener.failed(self.attempt, cause, None)
        self._end_attempt()
        self._leave()

    def _end_attempt(self) -> None:
        self.checkpoints.suspend()
        self._queries.end(self.attempt)
        for error in self._enumerators.close():
            self.ports.listener.note(f"closing a source failed: {error}")
        self._enumerators = Enumerators.none()

    def _idle(self, slot: int, message: m.Idle) -> None:
        member = self._roster.get(slot)
        if member is None or message.attempt != self.attempt:
            return
        member.idle = True
        if message.stray_threads and self.state is JobState.RECOVERING:
            names = ", ".join(message.stray_threads)
            self.ports.listener.note(
                f"slot {slot} keeps threads of user code ({names}); starting new workers"
            )
            self._force_gang_out()
        self._try_restart()

    def _try_restart(self) -> None:
        """Restart as soon as nothing of the failed attempt is left and the pause is over."""
        if self.state is not JobState.RECOVERING or self._recommitting or not self.checkpoints.quiet:
            return
        if self.ports.clock.monotonic_ms() < self._restart_at:
            return
        if self._gang.redeployable:
            self._recover(JobEvent.REDEPLOY, self._deploy)
        elif not self._gang.alive:
            self._recover(JobEvent.SUBMIT, self._start_gang)

    def _recover(self, event: JobEvent, then: Callable[[], None]) -> None:
        def go_on() -> None:
            self._recommitting = False
            if self.state is not JobState.RECOVERING:
                return
            if event is JobEvent.REDEPLOY and not self._gang.whole:
                self._try_restart()
                return
            self.restarts += 1
            self._life.move(event)
            then()

        def found(latest: CheckpointMetadata | None) -> None:
            point = self._initial if latest is None else RestorePoint(latest, self.settings.storage)
            self._recover_from(point, go_on)

        self._recommitting = True
        self.checkpoints.find_latest(found)

    def _recover_from(self, point: RestorePoint | None, then: Callable[[], None]) -> None:
        self._point = point
        self.checkpoints.recommit(None if point is None else point.checkpoint, then)

    # -- the end ---------------------------------------------------------------------------------

    def _leave(self) -> None:
        """Workers go; the job ends when the gang is gone."""
        if not self._gang.alive:
            self._life.move(JobEvent.GONE)
            self._close()
            return
        self._gang.expect(FINISH_MS)
        if self._gang.whole:
            self._gang.broadcast(m.Finish(self.attempt))
        else:
            self._force_gang_out()

    def _close(self) -> None:
        self.checkpoints.perform(self.checkpoints.coordinator.shutdown())
        self.checkpoints.close()
        self.ports.listener.ended(self.state.value)

    # -- what the checkpoint master asks for -----------------------------------------------------

    def broadcast(self, message: Any) -> None:
        """Send to every worker of the attempt."""
        self._gang.broadcast(message)

    def snapshot_enumerators(self) -> dict[str, Any]:
        """The enumerators' states at this instant."""
        return self._enumerators.snapshot()

    def enumerators_complete(self, checkpoint: int) -> None:
        """Tell the enumerators."""
        try:
            self._enumerators.checkpoint_complete(checkpoint)
        except Exception as error:
            self.attempt_failed(error)

    def checkpoint_done(self, checkpoint: int, kind: RequestKind, took_ms: int) -> None:
        """A checkpoint is complete and committed; the final one ends the job."""
        self.ports.listener.checkpoint_completed(checkpoint, took_ms)
        if kind is RequestKind.FINAL and self.state is JobState.RUNNING:
            self._life.move(JobEvent.ENDED)
            self._end_attempt()
            self._leave()

    def fenced(self, error: FencedError) -> None:
        """Another job master has taken over: stop without touching anything."""
        if not self.state.terminal and not self.state.ending:
            self._give_up(error)


def _as_ours(error: Exception) -> HeadgateError:
    return error if isinstance(error, HeadgateError) else JobFailedError(f"{type(error).__name__}: {error}")
