"""The job master: controls one job from submission to end, in the driver process.
It does the I/O around the job's state machine (`core/job`), which makes all decisions: actions of workers,
storage and users become events for it, and its effects are performed here, in order. Components of the job
master put their events into an outbox, which is emptied after every turn. See `docs/machines/job.md`.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import replace
from typing import Any

from headgate.checkpoint.service import CheckpointService
from headgate.checkpoint.store.store_contract import CommitPermit
from headgate.common.errors import FencedError
from headgate.common.ids import JobId
from headgate.common.ports import Link
from headgate.core.job import effects as e
from headgate.core.job import events as v
from headgate.graph.physical import PhysicalPlan
from headgate.restore.point import RestorePoint
from headgate.runtime.job.job_settings import JobSettings
from headgate.runtime.job.master_ports import MasterPorts
from headgate.runtime.job.replanning import PlannedJob, Replan
from headgate.runtime.job.shipped_program import Program
from headgate.runtime.master.attempt.attempts import Attempts
from headgate.runtime.master.attempt.members import Members
from headgate.runtime.master.attempt.outbox import Outbox, failure_of
from headgate.runtime.master.attempt.waiting_requests import ReplyTo
from headgate.runtime.master.checkpoints.checkpoint_master import CheckpointMaster
from headgate.runtime.master.checkpoints.running_savepoints import SavepointRequest
from headgate.runtime.master.job_view import JobView
from headgate.runtime.master.losses import Losses
from headgate.runtime.master.machine_settings import make_machine
from headgate.runtime.master.reports import Reports
from headgate.runtime.master.rescaling import Rescaling
from headgate.runtime.master.worker_messages import WorkerMessages
from headgate.runtime.protocol import messages as m


class JobMaster(JobView):
    """The job master of one job, made and used (until the job ends) by its driver, in the driver's loop (one
    thread). `service`: log of checkpoints, `permit`: right to write it (None: off); `initial`: snapshot to
    start from (None: no state); `marker`: token of a file in the storage that workers must see (None: no
    check); `replan`: plans another parallelism (None: no rescales). A `reply_to` is called once: (value,
    None) or (None, error).
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
        self._initial, self._turning = initial, False
        self._members, self._outbox = Members(), Outbox()
        planned, inner = PlannedJob.of(plan, program, ports.code), replace(ports, post=self._post)
        self._attempts = Attempts(
            job, planned, self._members, self._outbox, ports.listener, initial, settings, marker
        )
        self._losses = Losses(self._members, settings)
        self._machine = make_machine(job, planned, settings, ports, initial, self._losses)
        self.checkpoints = CheckpointMaster(
            job, name, plan, service, permit, self._attempts, self._members, self._outbox, inner, settings
        )
        self._reports = Reports(
            job, ports.listener, self._losses, self.checkpoints.history, settings, initial
        )
        self._rescaling = Rescaling(
            inner, self._attempts, self.checkpoints, self._losses, self._outbox, replan
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
        """Begin the job: commit its snapshot's output again, request workers, deploy the first attempt."""
        self.happened(v.Submit(self._initial))

    def cancel(self, handed_over: bool = False) -> None:
        """End the job now and begin no further commit; `handed_over`: another driver goes on (with HA)."""
        self.happened(v.Cancel(handed_over))

    def fenced(self, error: FencedError) -> None:
        """Stop, as another job master has taken over the job: commit no more, and keep its checkpoints."""
        self.checkpoints.history.fenced()
        self.happened(v.Fenced(failure_of(error)))

    def take_checkpoint(self, reply_to: ReplyTo[str]) -> None:
        """Take a checkpoint; `reply_to` gets its URI once its output is committed, or the error: ConfigError
        if the job has no checkpoint storage, OperatingError if it was not taken, failed, or the job ended.
        """
        self.checkpoints.requests.checkpoint(reply_to)
        self._settle()

    def take_savepoint(self, request: SavepointRequest, reply_to: ReplyTo[str]) -> None:
        """Take a savepoint, or stop with one; `reply_to` gets its URI once complete, or the error:
        ConfigError for a bad format or target, OperatingError if it was not taken, failed, or the job ended.
        """
        self.checkpoints.requests.savepoint(request, reply_to)
        self._settle()

    def rescale(self, parallelism: int, from_last: bool, reply_to: ReplyTo[int]) -> None:
        """Run all operators at `parallelism`; an operator for which the program sets less keeps that.
        With `from_last` the last completed checkpoint is used where no new one can be taken. The reply is the
        parallelism once all subtasks run, or the error: then the job runs as before, or has ended.
        """
        self._rescaling.ask(parallelism, from_last, reply_to)
        self._settle()

    def query(self, uid: str, state: str, key: Hashable, reply_to: ReplyTo[Any]) -> None:
        """Read the value under `key` in keyed state `state` of operator `uid`, between two records.
        The reply is the value or: UsageError, unknown operator or state or wrong type of key; NoEntryError,
        nothing is stored; OperatingError, the job does not run, or too many queries wait.
        """
        self._attempts.ask(self.state, uid, state, key, reply_to)

    def message(self, link: Link, message: m.FromWorker) -> None:
        """Process a message over control connection `link`; only `Register` counts from non-members."""
        self._messages.message(link, message)
        self._settle()

    def link_lost(self, link: Link, reason: str) -> None:
        """Process the loss of connection `link`; if it is a gang member's, its process counts as ended."""
        self._messages.link_lost(link, reason)
        self._settle()

    def gang_exited(self, gang: int, error: str | None) -> None:
        """Process that all workers of gang number `gang` exited; `error`: why, None if they left as asked."""
        self.happened(v.GangExited(gang, error))

    def tick(self) -> None:
        """Do all that is due by now: restarts, timeouts, checkpoints. Called in each turn of the loop."""
        self._settle()
        self._perform_all(self._machine.tick(self.ports.clock.monotonic_ms()))
        self.checkpoints.tick()
        self._settle()

    def next_wakeup(self) -> int | None:
        times = (self._machine.next_wakeup(), self.checkpoints.next_wakeup())
        return min((time for time in times if time is not None), default=None)

    # -- the machine ---------------------------------------------------------------------------------

    def happened(self, event: v.Event) -> None:
        self._outbox.put(event)
        self._settle()

    def _post(self, callback: Callable[[], None]) -> None:
        def turn() -> None:
            callback()
            self._settle()

        self.ports.post(turn)

    def _settle(self) -> None:
        if not self._turning:
            self._perform_all(self._effects())

    def _effects(self) -> Iterator[e.Effect]:
        while (event := self.checkpoints.settle() or self._outbox.take()) is not None:
            yield from self._machine.handle(event, self.ports.clock.monotonic_ms())

    def _perform_all(self, effects: Iterable[e.Effect]) -> None:
        self._turning = True
        try:
            for effect in effects:
                self._perform(effect)
        finally:
            self._turning = False

    def _perform(self, effect: e.Effect) -> None:
        match effect:
            case e.SubmitGang(gang, slots):
                self._losses.clear()
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
            case e.BeginAttempt(attempt):
                self.checkpoints.restoring(self._attempts.begin(attempt, self.checkpoints.generation))
            case e.EndAttempt():
                self._attempts.end()
            case e.Report(fact):
                self._reports.report(fact)
            case e.Answer():
                self._rescaling.answer(effect, self.state)
            case e.MakePlan() | e.CountSlots() | e.TakeCheckpoint() | e.CheckFit() | e.AdoptPlan():
                self._rescaling.perform(effect)
            case _:
                self._perform_on_checkpoints(effect)

    def _perform_on_checkpoints(self, effect: e.Effect) -> None:
        match effect:
            case e.StartCheckpoints(attempt):
                self.checkpoints.start(attempt)
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
                self._losses.clear()
                self.checkpoints.end(how)
