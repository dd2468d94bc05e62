"""A running job at another parallelism: refuse first, then a checkpoint, then the same program in a new gang.

The machine and its duties are in `docs/machines/job.md`. Nothing is touched before it is known that the
plan exists, fits its key groups and the checkpoint, and that there are slots for it. What goes wrong later
leads back to the old parallelism.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, Protocol, runtime_checkable

from headgate.common.errors import ConfigError, HeadgateError, OperatingError, UsageError
from headgate.common.options import CHECKPOINTING_INTERVAL
from headgate.common.ports import Gang
from headgate.core.checkpoint.failures import CheckpointFailureReason
from headgate.core.execution import JobState
from headgate.runtime.attempts import Attempts, PlannedJob, Replan
from headgate.runtime.checkpoint_master import CheckpointMaster
from headgate.runtime.master_ports import MasterPorts
from headgate.runtime.restore import check_compatible
from headgate.runtime.tickets import Then


@runtime_checkable
class KnowsSlots(Protocol):
    """A gang that can tell beforehand whether there are slots for another number of workers."""

    def refusal(self, slots: int) -> str | None:
        """Why `slots` workers cannot be had in place of the present ones, or None; may block."""
        ...


class RescalingHost(Protocol):
    """What is asked of the job master."""

    @property
    def state(self) -> JobState:
        """Where the job is in its life."""
        ...

    def begin_rescaling(self, planned: PlannedJob) -> None:
        """End what runs, and have the next attempt run `planned`."""
        ...

    def adopt(self, planned: PlannedJob) -> None:
        """Have the next attempt run `planned`."""
        ...

    def attempt_failed(self, error: Exception) -> None:
        """The attempt cannot go on."""
        ...


@dataclass(slots=True)
class _Wish:
    """What is under way: `before` is None until the old plan was given up."""

    parallelism: int
    from_last: bool
    then: Then
    planned: PlannedJob
    before: PlannedJob | None = None
    deadline_ms: int | None = None


class Rescaling:
    """One change of parallelism at a time; used by the job master's loop.

    Args:
        host: the job master.
        attempts: its deployments.
        checkpoints: its checkpoints.
        ports: its doors.
        replan: makes the plan at another parallelism; None where the program's graph is not at hand.
        has_storage: whether the job takes checkpoints.
        start_ms: how long a gang of another size may take until all its subtasks run.

    Attributes:
        abandoned: the last attempt that was given up for the old plan; None before there was one.
    """

    def __init__(
        self,
        host: RescalingHost,
        attempts: Attempts,
        checkpoints: CheckpointMaster,
        ports: MasterPorts,
        replan: Replan | None,
        has_storage: bool,
        start_ms: int,
    ) -> None:
        self._host, self._attempts, self._checkpoints, self._ports = host, attempts, checkpoints, ports
        self._replan, self._has_storage, self._start_ms = replan, has_storage, start_ms
        self._wish: _Wish | None = None
        self.abandoned: int | None = None

    @property
    def adopted(self) -> bool:
        """Whether the old plan was given up and the new one does not run yet."""
        return self._wish is not None and self._wish.before is not None

    # -- what somebody asks for ------------------------------------------------------------------

    def request(self, parallelism: int, from_last: bool, then: Then) -> None:
        """Go on at another parallelism.

        Args:
            parallelism: of every operator; one that the program gives fewer subtasks keeps them.
            from_last: whether the last completed checkpoint will do where no new one can be taken.
            then: gets the parallelism once all subtasks run, or why the job was left, or put back, as it was.
        """
        try:
            planned = self._demand(parallelism, from_last)
        except HeadgateError as error:
            then(None, error)
            return
        if _widths(planned) == _widths(self._attempts.planned):
            then(parallelism, None)
            return
        self._wish = _Wish(parallelism, from_last, then, planned)
        self._ports.background.submit(lambda: _refusal(self._ports.gang, planned.plan.slots), self._look)

    def _demand(self, parallelism: int, from_last: bool) -> PlannedJob:
        # A program that is not checked may say anything, and what else is raised here ends the job.
        if type(parallelism) is not int:
            raise UsageError(f"parallelism is {parallelism!r}; expected a whole number")
        if self._wish is not None:
            raise OperatingError(
                f"the job is being rescaled to parallelism {self._wish.parallelism} already; wait for that"
            )
        if not self._has_storage:
            raise ConfigError(
                f"the job takes no checkpoints to go on from; set {CHECKPOINTING_INTERVAL.key}, or stop it "
                "with a savepoint and start it from there"
            )
        if self._replan is None:
            raise UsageError("this job was started without its program's graph, so it has no other plan")
        self._demand_state(from_last)
        if parallelism < 1:
            raise UsageError(f"parallelism is {parallelism}; expected at least 1")
        return self._replan(parallelism)

    def _demand_state(self, from_last: bool) -> None:
        state = self._host.state
        if state is JobState.RUNNING or (from_last and state in _FROM_LAST):
            return
        reason = CheckpointFailureReason.NOT_ALL_REQUIRED_TASKS_RUNNING
        hint = "; ask for the last checkpoint to be taken" if state in _FROM_LAST else ""
        raise OperatingError(
            f"the job is {state.value}, so no checkpoint can be taken to go on from ({reason.name}){hint}"
        )

    # -- step by step ----------------------------------------------------------------------------

    def _look(self, refusal: str | None, error: BaseException | None) -> None:
        self._ports.post(lambda: self._looked(refusal, error))

    def _looked(self, refusal: str | None, error: BaseException | None) -> None:
        wish = self._wish
        if wish is None:
            return
        if refusal is not None or error is not None:
            said = refusal or f"it cannot be told whether there are slots: {error}"
            self._answer(None, UsageError(f"the job was not rescaled: {said}"))
        elif self._host.state is JobState.RUNNING:
            # Behind everything else that the coordinator has to do now.
            self._checkpoints.requests.checkpoint(
                lambda _, failure: self._ports.post(lambda: self._checkpointed(failure))
            )
        else:
            self._checkpointed(OperatingError(f"the job is {self._host.state.value}"))

    def _checkpointed(self, failure: HeadgateError | None) -> None:
        wish, latest = self._wish, self._checkpoints.latest
        if wish is None:
            return
        if failure is not None and not wish.from_last:
            self._answer(None, OperatingError(f"the job was not rescaled: {failure}"))
            return
        try:
            if latest is not None:
                check_compatible(wish.planned.plan, latest.checkpoint)
        except UsageError as error:
            self._answer(None, error)
            return
        self._adopt(wish)

    def _adopt(self, wish: _Wish) -> None:
        state = self._host.state
        if state is not JobState.RUNNING and state not in _FROM_LAST:
            self._answer(None, OperatingError(f"the job was not rescaled: it is {state.value}"))
            return
        if self._checkpoints.coordinator.stopping:
            # The attempt must not end under a stop: who asked for that wants no other parallelism any more.
            said = "the job was not rescaled: it is being stopped with a savepoint"
            self._answer(None, OperatingError(said))
            return
        wish.before = self._attempts.planned
        self._ports.listener.note(
            f"rescaling from {wish.before.plan.slots} to {wish.planned.plan.slots} workers"
        )
        self._host.begin_rescaling(wish.planned)

    # -- what the job master tells ---------------------------------------------------------------

    def starting(self) -> None:
        """A gang was asked for, or subtasks were sent out."""
        if self.adopted and self._wish is not None and self._wish.deadline_ms is None:
            self._wish.deadline_ms = self._ports.clock.monotonic_ms() + self._start_ms

    def running(self) -> None:
        """All subtasks run."""
        if self.adopted and self._wish is not None:
            self._answer(self._wish.parallelism, None)

    def put_back(self, cause: HeadgateError) -> None:
        """The new plan did not come to run: the next attempt runs the old one."""
        wish = self._wish
        assert wish is not None
        assert wish.before is not None
        self.abandoned = self._attempts.number
        slots = wish.before.plan.slots
        said = f"rescaling to parallelism {wish.parallelism} failed, back to {slots} workers: {cause}"
        self._ports.listener.note(said)
        self._host.adopt(wish.before)
        self._answer(None, OperatingError(said))

    def over(self, error: HeadgateError) -> None:
        """The job ends."""
        if self._wish is not None:
            self._answer(None, error)

    def tick(self) -> None:
        """Time passed."""
        due = self.next_wakeup()
        if due is not None and self._ports.clock.monotonic_ms() >= due:
            assert self._wish is not None
            slots = self._wish.planned.plan.slots
            self._host.attempt_failed(
                OperatingError(f"{slots} workers were not running within {self._start_ms / 1000:g} s")
            )

    def next_wakeup(self) -> int | None:
        """When :meth:`tick` has something to do (monotonic ms)."""
        return None if self._wish is None else self._wish.deadline_ms

    def _answer(self, answer: Any, error: HeadgateError | None) -> None:
        wish, self._wish = self._wish, None
        if wish is not None:
            wish.then(answer, error)


_FROM_LAST: Final = (JobState.STARTING, JobState.DEPLOYING, JobState.RECOVERING)
"""Where nothing runs that a checkpoint could be taken of, but the last one is a place to go on from."""


def _widths(planned: PlannedJob) -> list[tuple[int, list[str | None]]]:
    return [(each.parallelism, [node.uid for node in each.chain]) for each in planned.plan.vertices]


def _refusal(gang: Gang, slots: int) -> str | None:
    return gang.refusal(slots) if isinstance(gang, KnowsSlots) else None
