"""The job master: owns one job from submission to its end; lives in the driver.

It is the shell of the job's machine (`core/job`), which decides everything about the job's life: what
workers, storage and users do is given to it as events, and its effects are carried out here, in order. What
goes out to workers is put together by `attempts.py`, what a checkpoint needs is `checkpoint_master.py`'s;
both put what they find out into an outbox, which is emptied after every turn.
`docs/machines/job.md` has the whole.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import replace
from typing import Any

from headgate.checkpoint.service import CheckpointService
from headgate.checkpoint.store.log import CommitPermit
from headgate.common.errors import FencedError
from headgate.common.ids import JobId
from headgate.common.ports import Link
from headgate.core.job import effects as e
from headgate.core.job import events as v
from headgate.core.job.state import Storage
from headgate.graph.physical import PhysicalPlan
from headgate.restore.point import RestorePoint
from headgate.runtime.job.job_settings import JobSettings
from headgate.runtime.job.master_ports import MasterPorts
from headgate.runtime.job.planned_job import PlannedJob, Replan
from headgate.runtime.job.shipped_program import Program
from headgate.runtime.master.attempt.attempts import Attempts
from headgate.runtime.master.attempt.members import Members
from headgate.runtime.master.attempt.outbox import Outbox, failure_of
from headgate.runtime.master.attempt.waiting_askers import Then
from headgate.runtime.master.checkpoints.checkpoint_master import CheckpointMaster
from headgate.runtime.master.checkpoints.storing import make_coordinator
from headgate.runtime.master.job_view import JobView
from headgate.runtime.master.losses import Losses
from headgate.runtime.master.machine_settings import make_machine
from headgate.runtime.master.reports import Reports
from headgate.runtime.master.rescaling import Rescaling
from headgate.runtime.master.worker_messages import WorkerMessages
from headgate.runtime.protocol import messages as m


class JobMaster(JobView):
    """One job."""

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
        self._initial = initial
        self._members, self._outbox = Members(), Outbox()
        planned = PlannedJob.of(plan, program, ports.code)
        self._attempts = Attempts(
            job, planned, self._members, initial, settings.storage, marker, settings.worker.ignore_unclaimed
        )
        self._losses = Losses(self._members, settings)
        self._machine = make_machine(job, planned, settings, ports, initial, self._losses)
        self._turning, self._storage = False, Storage.QUIET
        coordinator = make_coordinator(settings.checkpoints, service, ports.randomness)
        inner = replace(ports, post=self._post)
        self.checkpoints = CheckpointMaster(
            job,
            name,
            plan,
            coordinator,
            service,
            permit,
            self._attempts,
            self._members,
            self._outbox,
            inner,
            settings,
        )
        self._reports = Reports(ports.listener, self._losses, self.checkpoints.history, settings)
        self._rescaling = Rescaling(
            inner, self._attempts, self.checkpoints, self._outbox, replan, has_storage=service is not None
        )
        self._messages = WorkerMessages(
            self._machine,
            self._members,
            self._attempts,
            self.checkpoints,
            self._reports,
            self._outbox,
            ports.listener,
        )

    # -- what happens --------------------------------------------------------------------------------

    def submit(self) -> None:
        """Begin."""
        self.happened(v.Submit(self._initial))

    def cancel(self, handed_over: bool = False) -> None:
        """The user wants the job to end now; nothing uncommitted is committed.

        With `handed_over` only this driver ends, where another one can go on with the job.
        """
        self.happened(v.Cancel(handed_over))

    def fenced(self, error: FencedError) -> None:
        """Another job master has taken over: stop without touching anything."""
        self.happened(v.Fenced(failure_of(error)))

    def rescale(self, parallelism: int, from_last: bool, then: Then[int]) -> None:
        """Go on at another parallelism.

        Args:
            parallelism: of every operator; one that the program gives fewer subtasks keeps them.
            from_last: whether the last completed checkpoint will do where no new one can be taken.
            then: gets the parallelism once all subtasks run, or why the job was left, or put back, as it was.
        """
        self._rescaling.ask(parallelism, from_last, then)
        self._settle()

    def query(self, uid: str, state: str, key: Hashable, then: Then[Any]) -> None:
        """Look up what keyed state holds now, between two records; not only what the last checkpoint has.

        Args:
            uid: of the operator.
            state: name of one of its keyed states.
            key: of the stream.
            then: called in the job master's loop, once, with the value and None, or with None and why not:
                a UsageError where there is no such operator or state, a NoEntryError where nothing is stored
                under the key, an OperatingError where the job does not run or stopped meanwhile.
        """
        self._attempts.ask(self.state, uid, state, key, then)

    def message(self, link: Link, message: m.FromWorker) -> None:
        """A worker sent a message."""
        self._messages.message(link, message)
        self._settle()

    def link_lost(self, link: Link, reason: str) -> None:
        """The connection to a worker broke: its process is gone or as good as gone."""
        slot = self._members.slot_of(link)
        if slot is not None:
            self._losses.suspect(slot, f"its control connection ended ({reason})")
            self.happened(v.LinkLost(self._members.gang, slot))
            if not self._machine.suspects:
                self._losses.forget()

    def gang_exited(self, gang: int, error: str | None) -> None:
        """All workers of a gang are gone; `error` says why if it was not in order."""
        if gang == self._members.gang and not self.state.terminal:
            self._losses.collect(None if self.state.ending else error)
        self.happened(v.GangExited(gang, error))
        if gang == self._members.gang:
            self._losses.forget()

    def tick(self) -> None:
        """Time passed."""
        self._settle()
        self._turn(self._machine.tick(self.ports.clock.monotonic_ms()))
        self.checkpoints.tick()
        self._settle()

    def next_wakeup(self) -> int | None:
        """When to call :meth:`tick` at the latest (monotonic ms)."""
        times = (self._machine.next_wakeup(), self.checkpoints.next_wakeup())
        return min((time for time in times if time is not None), default=None)

    # -- the machine ---------------------------------------------------------------------------------

    def happened(self, event: v.Event) -> None:
        """Give an event to the machine, after those that wait, and carry out what follows."""
        self._outbox.put(event)
        self._settle()

    def _post(self, callback: Callable[[], None]) -> None:
        """Have a callback run in the loop, and what it finds out given to the machine."""

        def turn() -> None:
            callback()
            self._settle()

        self.ports.post(turn)

    def _settle(self) -> None:
        """Give every event that waits to the machine; where that is being done already, these come after."""
        if self._turning:
            return
        self._turning = True
        try:
            while (event := self._next()) is not None:
                for effect in self._machine.handle(event, self.ports.clock.monotonic_ms()):
                    self._perform(effect)
        finally:
            self._turning = False

    def _turn(self, effects: list[e.Effect]) -> None:
        self._turning = True
        try:
            for effect in effects:
                self._perform(effect)
        finally:
            self._turning = False

    def _next(self) -> v.Event | None:
        self.checkpoints.settle()
        storage = self.checkpoints.storage
        if storage is not self._storage:
            self._storage = storage
            return v.StorageChanged(storage)
        return self._outbox.take()

    def _perform(self, effect: e.Effect) -> None:
        match effect:
            case e.SubmitGang(gang, slots):
                self._losses.forget()
                self._members.renew(gang)
                self.ports.gang.submit(gang, slots)
                self.ports.listener.gang_submitted(gang, slots)
            case e.CancelGang(gang):
                self._members.close()
                self.ports.gang.cancel(gang)
            case e.AdmitWorker(_, slot, link):
                register = self._members.admit(link).register
                self.ports.listener.worker_registered(slot, register.pid, register.host)
            case e.CloseLink(link):
                self._members.close_link(link)
            case e.AnswerBeat(_, slot):
                self._messages.answer_beat(slot)
            case e.Stop(_, attempt):
                self._members.broadcast(m.Stop(attempt))
            case e.LetLeave(_, attempt):
                self._members.broadcast(m.Finish(attempt))
            case e.Report(fact):
                self._reports.report(fact)
            case e.Answer():
                why = None if effect.failure is None else self._losses.error(effect.failure)
                self._rescaling.answer(effect, why, self.state)
            case e.MakePlan() | e.CountSlots() | e.TakeCheckpoint() | e.CheckFit() | e.AdoptPlan():
                self._rescaling.perform(effect)
            case _:
                self._of_the_attempt(effect)

    def _of_the_attempt(self, effect: e.Effect) -> None:
        match effect:
            case e.BeginAttempt():
                self._begin(effect)
            case e.EndAttempt():
                for error in self._attempts.end():
                    self.ports.listener.note(f"closing a source failed: {error}")
            case e.StartCheckpoints(attempt):
                self.checkpoints.start(attempt, self._attempts.tasks, self.restored_totals)
                self.ports.listener.running(attempt)
            case e.SuspendCheckpoints():
                self.checkpoints.suspend()
            case e.RequestFinal():
                self.checkpoints.request_final()
            case e.FindPoint():
                self.checkpoints.points.find()
            case e.CommitPoint(point):
                self._attempts.point = point  # type: ignore[assignment]
                self.checkpoints.points.commit(self._attempts.point)
            case e.InterruptCommits():
                self.checkpoints.interrupt_commits()
            case e.EndCheckpoints(how):
                self.checkpoints.end(how)

    def _begin(self, effect: e.BeginAttempt) -> None:
        point = self._attempts.point
        try:
            self._attempts.begin(effect.attempt)
            self.ports.listener.deploying(
                effect.attempt, None if point is None else point.checkpoint.checkpoint
            )
            messages = self._attempts.messages(self.checkpoints.generation)
        except Exception as error:
            self._outbox.attempt_failed(effect.attempt, error)
            return
        readers = self._attempts.readers(messages)
        if readers is not None:
            self.checkpoints.restoring(*readers)
        self._attempts.send(messages)
