"""The job master: owns one job from submission to its end; lives in the driver.

A passive machine: whoever owns the thread delivers worker messages, gang news and the passing of
time, and waits until `next_wakeup` otherwise. The table of states is `core.execution`; when to
restart is `core.failover`; what a checkpoint needs is `core.checkpoint`. This file connects them:
what is sent out is `attempts.py`'s, what happens between two attempts `recovery.py`'s, another
parallelism `rescaling.py`'s. `docs/machines/job.md` has the whole.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from headgate.api.executor import RepeatingFailure
from headgate.checkpoint.service import CheckpointService
from headgate.checkpoint.store.log import CommitPermit
from headgate.common.errors import (
    FencedError,
    HeadgateError,
    JobFailedError,
    OperatingError,
    restart_may_help,
)
from headgate.common.failure_options import SameFailureAction
from headgate.common.ids import JobId
from headgate.common.ports import Link
from headgate.core.checkpoint.effects import RequestKind
from headgate.core.checkpoint.properties import JobEnd
from headgate.core.execution import JobEvent, JobState, job_machine
from headgate.core.failover import restart_strategy
from headgate.core.same_failures import SameFailures
from headgate.graph.physical import PhysicalPlan
from headgate.runtime.attempts import Attempts, PlannedJob, Replan
from headgate.runtime.checkpoint_master import CheckpointMaster
from headgate.runtime.checkpoint_storing import make_coordinator
from headgate.runtime.control import messages as m
from headgate.runtime.deaths import Deaths, remains_left
from headgate.runtime.enumerators import Enumerators
from headgate.runtime.gang_keeper import GangKeeper
from headgate.runtime.job_settings import JobSettings
from headgate.runtime.master_ports import MasterPorts, RestorePoint
from headgate.runtime.program import Program
from headgate.runtime.recovery import Recovery
from headgate.runtime.rescaling import Rescaling
from headgate.runtime.same_failures import fingerprint_of, told
from headgate.runtime.tickets import Then
from headgate.runtime.worker_messages import WorkerMessages


class JobMaster:
    """One job.

    Attributes:
        state: where the job is in its life.
        error: why it failed, once it has.
        savepoint: URI of the one that it was stopped with, once it was.
        restarts: deployments after the first that followed a failure.
        last_failure: of the latest attempt that failed, in words.
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
        replan: Replan | None = None,
    ) -> None:
        self.job, self.name, self.settings, self.ports = job, name, settings, ports
        self.error: HeadgateError | None = None
        self.savepoint: str | None = None
        self.last_failure: str | None = None
        self._handed_over = False
        self.restarts, self._life = 0, job_machine(job)
        self._after_failure = False  # whether the next attempt follows a failure, or a wish
        self._gang = GangKeeper(ports.gang, ports.clock, plan.slots, settings.heartbeat_timeout_ms)
        self._roster = self._gang.roster
        planned = PlannedJob.of(plan, program, ports.code)
        self._attempts = Attempts(
            job, planned, self._roster, initial, settings.storage, marker, settings.worker.ignore_unclaimed
        )
        self._strategy = restart_strategy(settings.restart, ports.randomness.uniform)
        self._same = SameFailures(None if initial is None else initial.checkpoint.checkpoint)
        coordinator = make_coordinator(settings.checkpoints, service, ports.randomness)
        self.checkpoints = CheckpointMaster(
            job, name, plan, coordinator, service, permit, self, ports, settings
        )
        self._said = WorkerMessages(self, self._attempts, self.checkpoints, ports.clock, ports.listener)
        self._deaths = Deaths(ports.clock)
        self._recovery = Recovery(
            self, self._gang, self._attempts, self.checkpoints, ports, settings.redeploy_timeout_ms
        )
        self._rescaling = Rescaling(
            self,
            self._attempts,
            self.checkpoints,
            ports,
            replan,
            has_storage=service is not None,
            start_ms=settings.rescale_timeout_ms,
        )

    @property
    def state(self) -> JobState:
        """Where the job is in its life."""
        return self._life.state

    @property
    def goes_on(self) -> bool:
        """Whether a job that is over here goes on, or may go on, under another job master."""
        led = self.ports.require_leadership is not None
        given_up = self.state in (JobState.FAILING, JobState.FAILED)
        return self._handed_over or isinstance(self.error, FencedError) or (led and given_up)

    @property
    def attempt(self) -> int:
        """The present deployment, from 1."""
        return self._attempts.number

    @property
    def plan(self) -> PhysicalPlan:
        """What runs."""
        return self._attempts.plan

    # -- what the owner tells --------------------------------------------------------------------

    def submit(self) -> None:
        """Begin."""
        self._life.move(JobEvent.SUBMIT)

        def begin() -> None:
            if self.state is JobState.STARTING:  # not cancelled meanwhile
                self._start_gang()

        self._recovery.restore_from(self._attempts.point, begin)

    def cancel(self, handed_over: bool = False) -> None:
        """The user wants the job to end now; nothing uncommitted is committed.

        Args:
            handed_over: only this driver ends, where another one can go on with the job.
        """
        if self.state.terminal or self.state is JobState.FINISHING:
            return
        self._handed_over = handed_over and self.ports.require_leadership is not None
        leaving = self.state.ending
        self._life.move(JobEvent.CANCEL)
        if not leaving:  # else all is under way, and the workers' time to leave does not begin anew
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
        elif isinstance(message, m.Totals):
            self._count(slot, message.attempt, message.counters)
        elif isinstance(message, m.Printed):
            self.ports.listener.printed(message.lines, message.left_out)
        elif isinstance(message, m.Idle):
            self._idle(slot, message)
        elif message.attempt == self.attempt and not self.state.ending:
            self._said.obey(slot, message)

    def link_lost(self, link: Link, reason: str) -> None:
        """The connection to a worker broke: its process is gone or as good as gone."""
        slot = self._roster.slot_of(link)
        if slot is None:
            return
        member, told = self._roster.get(slot), f"its control connection ended ({reason})"
        expected = self._leaves_with_its_gang
        self._gang.lose(slot)
        if expected:
            remains_left(member)
            return
        self._deaths.suspect(slot, member, told)
        if self.state.between_attempts:
            self._died()
        else:
            self._said.forget_suspicion()  # of peers, whose connections ended with this one

    def gang_exited(self, gang: int, error: str | None) -> None:
        """All workers of a gang are gone; `error` says why if it was not in order."""
        members = self._roster.members()
        if not self._gang.exited(gang):
            return
        self._deaths.collect(members, None if self.state.ending else error)
        if self.state.ending:
            self._close_if_gone()
        elif not self.state.between_attempts:
            self.attempt_failed(self._deaths.gang_ended(error or "all workers left"))
        self._deaths.forget()
        self._recovery.try_restart()

    def tick(self) -> None:
        """Time passed."""
        report = self._gang.check()
        for slot, still_ms in report.stuck:
            self.ports.listener.note(self._told_stuck(slot, still_ms))
            self.checkpoints.history.stuck(slot, still_ms)
        for slot in report.lapsed:
            self._lapsed(slot)
        if self._deaths.overdue:
            self._died()
        self._said.tick()
        self.checkpoints.tick()
        self._rescaling.tick()
        if self.state.between_attempts:
            self._recovery.tick()
        elif self.state.ending:
            if self._gang.overdue:
                self._recovery.force_gang_out()
            self._close_if_gone()

    def next_wakeup(self) -> int | None:
        """When to call :meth:`tick` at the latest (monotonic ms)."""
        times = [self._gang.next_check(), self.checkpoints.next_wakeup(), self._rescaling.next_wakeup()]
        times += [self._said.next_wakeup(), self._deaths.next_wakeup()]
        if self.state.between_attempts:
            times += self._recovery.wakeups()
        elif self.state.ending:
            times.append(self._gang.deadline())
        return min((time for time in times if time is not None), default=None)

    @property
    def restored_totals(self) -> Mapping[str, tuple[int, int]]:
        """Records in and out of each chain up to where the present attempt began."""
        return self._attempts.restored_totals

    def counters(self) -> list[m.Counters]:
        """Last running totals of all subtasks."""
        return [counters for member in self._roster.members() for counters in member.counters.values()]

    def standstills(self) -> list[m.Standstill]:
        """Calls of user code that had not returned at the last heartbeats."""
        return [still for member in self._roster.members() for still in member.standstills]

    def _told_stuck(self, slot: int, still_ms: int) -> str:
        member, for_s = self._roster.get(slot), f"{still_ms / 1000:.0f} s"
        if member is None or not member.standstills:
            return f"the loop of worker {slot} has not turned for {for_s}; a call does not return"
        return "; ".join(
            f"{still.operator}, subtask {still.subtask}, has been busy for {for_s} without progress, in\n"
            f"{still.stack}"
            for still in member.standstills
        )

    # -- what somebody asks a running job for ----------------------------------------------------

    def rescale(self, parallelism: int, from_last: bool, then: Then) -> None:
        """Go on at another parallelism; see `rescaling.Rescaling.request`."""
        self._rescaling.request(parallelism, from_last, then)

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
            self._attempts.ask(uid, state, key, then)
        except HeadgateError as error:
            then(None, error)

    # -- workers ---------------------------------------------------------------------------------

    def _start_gang(self) -> None:
        self._rescaling.starting()
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
        if not self._gang.beat(slot, link, beat) or member is None:
            return
        if beat.attempt == self.attempt and not self._attempts.replanned:
            member.standstills, member.rss_bytes = beat.standstills, beat.rss_bytes
        self._count(slot, beat.attempt, beat.counters)

    def _count(self, slot: int, attempt: int, counters: Sequence[m.Counters]) -> None:
        member = self._roster.get(slot)
        if member is None or attempt != self.attempt or self._attempts.replanned:
            return  # the totals of an old plan's subtasks are not those of the new one's
        member.note_counters(counters)
        self.ports.listener.progress(self.counters())

    def _lapsed(self, slot: int) -> None:
        member, expected = self._roster.get(slot), self._leaves_with_its_gang
        self._gang.lose(slot)
        if not expected:
            self._lost(self._deaths.lapsed(slot, member, self.settings.heartbeat_timeout_ms))

    @property
    def _leaves_with_its_gang(self) -> bool:
        """Whether a worker that goes now does as the whole gang does, which was asked to, or is given up."""
        return self.state.ending or (self._roster.broken and self.state.between_attempts)

    def _died(self) -> None:
        if self.state.ending:
            self._deaths.forget()
        else:
            self._lost(self._deaths.told())

    def _lost(self, error: OperatingError) -> None:
        self.attempt_failed(error)
        # What is left of the gang cannot be used without the lost one.
        if self._gang.alive:
            self._recovery.force_gang_out()

    def _idle(self, slot: int, message: m.Idle) -> None:
        member = self._roster.get(slot)
        if member is None or message.attempt != self.attempt:
            return
        member.idle = True
        kept = [f"threads of user code ({', '.join(message.stray_threads)})"] if message.stray_threads else []
        if message.changed_limits:
            kept.append(f"limits that user code has set ({', '.join(message.changed_limits)})")
        if kept and self.state.between_attempts:
            self.ports.listener.note(f"slot {slot} keeps {' and '.join(kept)}; starting new workers")
            self._recovery.force_gang_out()
        self._recovery.try_restart()

    # -- an attempt ------------------------------------------------------------------------------

    def resume(self, event: JobEvent) -> None:
        """Everything is at rest: begin the next attempt, in the living gang or in a new one."""
        self.restarts += self._after_failure
        self._life.move(event)
        if event is JobEvent.REDEPLOY:
            self._deploy()
        else:
            self._start_gang()

    def _deploy(self) -> None:
        self._rescaling.starting()
        point = self._attempts.point
        try:
            self._attempts.begin()
            restored = None if point is None else point.checkpoint.checkpoint
            self.ports.listener.deploying(self.attempt, restored)
            messages = self._attempts.messages(self.checkpoints.generation)
        except Exception as error:
            self.attempt_failed(error)
            return
        readers = self._attempts.readers(messages)
        if readers is not None:
            self.checkpoints.restoring(*readers)
        self._attempts.send(messages)

    def deployed(self, slot: int) -> None:
        """A worker's subtasks run."""
        if self._attempts.deployed(slot) and self.state is JobState.DEPLOYING:
            self._life.move(JobEvent.COMPLETE)
            self.checkpoints.start(self.attempt, self._attempts.tasks, self.restored_totals)
            self.ports.listener.running(self.attempt)
            self._rescaling.running()
            self._check_data_ended()

    def data_ended(self, slot: int, message: m.DataEnded) -> None:
        """A subtask has processed all its input."""
        self._attempts.data_ended(slot, message)
        self.ports.listener.progress(self.counters())
        self._check_data_ended()

    def _check_data_ended(self) -> None:
        if self.state is JobState.RUNNING and self._attempts.all_data_ended:
            self.checkpoints.request_final()

    def _end_attempt(self) -> None:
        self._said.forget_suspicion()
        self.checkpoints.suspend()
        for error in self._attempts.end():
            self.ports.listener.note(f"closing a source failed: {error}")

    # -- failure ---------------------------------------------------------------------------------

    def attempt_failed(self, error: Exception) -> None:
        """The attempt cannot go on; restart if that may help and the strategy allows."""
        if self.state.terminal or self.state.ending:
            return
        cause = _as_ours(error)
        if self._rescaling.adopted and not self.state.between_attempts:
            # The old plan ran: that the new one does not is no failure of the job.
            self._rescaling.put_back(cause)
            self.ports.listener.reverted(self.attempt, cause)
            self._begin_recovery(cause, 0, after_failure=False)
        elif not restart_may_help(cause) and self._rescaling.abandoned != self.attempt:
            self._give_up(cause)
        elif self.state.between_attempts:
            self.ports.listener.note(f"also: {cause}")
        else:
            decision = self._strategy.on_failure(self.ports.clock.monotonic_ms())
            ends = self._is_the_same_and_ends(cause)
            if decision.can_restart and not ends:
                self.ports.listener.failed(self.attempt, cause, decision.delay_ms)
                self._begin_recovery(cause, decision.delay_ms, after_failure=True)
            else:
                self._give_up(cause)

    @property
    def repeating(self) -> RepeatingFailure | None:
        """The failure that keeps coming; None: none does."""
        same = self._same.repeating
        return None if same is None else told(same, self.settings.same_failure)

    def _is_the_same_and_ends(self, cause: HeadgateError) -> bool:
        """Count a failure, and report one that is always the same; True: that ends the job."""
        if not self._same.on_failure(fingerprint_of(cause)):
            return False
        repeating = self.repeating
        if repeating is not None:
            self.ports.listener.repeats(repeating)
        return self.settings.same_failure is SameFailureAction.FAIL

    def _begin_recovery(self, cause: HeadgateError, delay_ms: int, after_failure: bool) -> None:
        self._life.move(JobEvent.FAIL)
        self.last_failure, self._after_failure = str(cause), after_failure
        self._recovery.schedule(delay_ms)
        self._end_attempt()
        self._recovery.stop_subtasks()

    def recovery_failed(self, error: Exception) -> None:
        """The restore point could not be found or committed: a further failure, tried again after a pause."""
        self._recovery.failed()
        if not self.state.between_attempts:
            self.attempt_failed(error)
            return
        cause = _as_ours(error)
        if self._rescaling.adopted:
            self._rescaling.put_back(cause)
            self._life.move(JobEvent.FAIL)
        decision = self._strategy.on_failure(self.ports.clock.monotonic_ms())
        ends = self._is_the_same_and_ends(cause)
        if ends or not decision.can_restart or not restart_may_help(cause):
            self._give_up(cause)
            return
        self.ports.listener.note(f"recovery failed and is tried again in {decision.delay_ms} ms: {error}")
        self._after_failure = True
        self._recovery.schedule(decision.delay_ms)

    def fenced(self, error: FencedError) -> None:
        """Another job master has taken over: stop without touching anything."""
        if not self.state.terminal and not self.state.ending:
            self.checkpoints.interrupt_commits()
            self._give_up(error)

    # -- another parallelism ---------------------------------------------------------------------

    def begin_rescaling(self, planned: PlannedJob) -> None:
        """End what runs, and have the next attempt run `planned`."""
        if self.state is not JobState.RECOVERING:
            # From where not all subtasks run it is a restart like any other.
            self._life.move(JobEvent.RESCALE if self.state is JobState.RUNNING else JobEvent.FAIL)
            self._after_failure = False
            self._end_attempt()
        self._recovery.make_room(planned)
        self._recovery.adopt(planned)
        self._recovery.schedule(0)
        self._recovery.try_restart()

    def adopt(self, planned: PlannedJob) -> None:
        """Have the next attempt run `planned`."""
        self._recovery.adopt(planned)

    # -- the end ---------------------------------------------------------------------------------

    def _give_up(self, cause: HeadgateError) -> None:
        self.error = cause
        self.last_failure = str(cause)
        self._life.move(JobEvent.GIVE_UP)
        self.ports.listener.failed(self.attempt, cause, None)
        self._end_attempt()
        self._leave()

    def _leave(self) -> None:
        """Workers go; the job ends when the gang is gone."""
        self._rescaling.over(OperatingError(f"the job is {self.state.value}"))
        if self._gang.alive:
            self._recovery.dismiss_gang()
        else:
            self._close_if_gone()

    def _close_if_gone(self) -> None:
        """The job is over once its workers are gone, and it is known what became of the last store."""
        if self._gang.alive or self.checkpoints.coordinator.storing is not None or self.state.terminal:
            return
        self._life.move(JobEvent.GONE)
        self.checkpoints.end(JobEnd.SUSPENDED if self.goes_on else JobEnd(self.state.value))
        self.ports.listener.ended(self.state.value)

    # -- what the checkpoint master asks for -----------------------------------------------------

    def broadcast(self, message: Any) -> None:
        """Send to every worker of the attempt."""
        self._gang.broadcast(message)

    @property
    def sources(self) -> Enumerators:
        """The enumerators of the present attempt."""
        return self._attempts.sources

    def checkpoint_done(
        self, checkpoint: int, kind: RequestKind, took_ms: int, savepoint: str | None
    ) -> None:
        """A checkpoint is complete and committed; the last one ends the job."""
        self._same.on_checkpoint(checkpoint)
        self.ports.listener.checkpoint_completed(checkpoint, took_ms)
        if kind in (RequestKind.FINAL, RequestKind.STOP) and self.state is JobState.RUNNING:
            self.savepoint = savepoint
            self._life.move(JobEvent.ENDED)
            self._end_attempt()
            self._leave()


def _as_ours(error: Exception) -> HeadgateError:
    return error if isinstance(error, HeadgateError) else JobFailedError(f"{type(error).__name__}: {error}")
