"""Deploys a job's attempts, one after the other: sends plan and state to workers, and holds enumerators.
When to deploy, and what to do after a failure, is decided by the job's state machine.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any

from headgate.common.errors import HeadgateError, OperatingError
from headgate.common.ids import JobId
from headgate.core.execution import JobState
from headgate.graph.physical import PhysicalPlan
from headgate.restore.point import RestorePoint
from headgate.runtime.job.job_settings import JobSettings
from headgate.runtime.job.listener import JobListener
from headgate.runtime.job.replanning import PlannedJob
from headgate.runtime.master.attempt.deployment import Deployment, Readers, readers_of
from headgate.runtime.master.attempt.enumerators import Enumerators
from headgate.runtime.master.attempt.live_queries import StateQueries
from headgate.runtime.master.attempt.members import Members
from headgate.runtime.master.attempt.outbox import Outbox
from headgate.runtime.master.attempt.waiting_requests import ReplyTo
from headgate.runtime.protocol import messages as m


class Attempts:
    """The deployments (attempts) of one job, one after the other; used by its job master's loop.
    `point` is the snapshot to restore, `marker` the token of a file that workers must see in the storage.
    """

    def __init__(
        self,
        job: JobId,
        planned: PlannedJob,
        members: Members,
        outbox: Outbox,
        listener: JobListener,
        point: RestorePoint | None,
        settings: JobSettings,
        marker: str | None,
    ) -> None:
        self.number, self.planned, self.point = 0, planned, point  # the point: of this attempt or the next
        self.queries = StateQueries(planned.plan)
        self._job, self._members, self._outbox, self._listener = job, members, outbox, listener
        self._settings, self._marker = settings, marker
        self.sources = Enumerators({})

    @property
    def plan(self) -> PhysicalPlan:
        return self.planned.plan

    @property
    def tasks(self) -> list[tuple[int, int]]:
        """All subtasks of the plan: (id of the vertex, which is a chain of operators; subtask index)."""
        return [(v.id, s) for v in self.plan.vertices for s in range(v.parallelism)]

    @property
    def restored_totals(self) -> Mapping[str, tuple[int, int]]:
        return {} if self.point is None else self.point.checkpoint.totals

    def replan(self, planned: PlannedJob) -> None:
        """Run plan `planned`, at another parallelism, from the next attempt on; reset workers' counters."""
        self.planned, self.queries = planned, StateQueries(planned.plan)
        for member in self._members.members():
            member.counters = {}

    def begin(self, number: int, generation: int) -> Readers | None:
        """Create attempt `number`'s enumerators and send its deployment; `generation`: number of this driver.
        An error fails the attempt, by an event. Return the restored checkpoint's id and the subtasks that
        read its in-flight records; None: error, no snapshot, or another job's that is not claimed.
        """
        self.number, point = number, self.point
        checkpoint = None if point is None else point.checkpoint
        try:
            restored = {} if checkpoint is None else checkpoint.enumerators
            self.sources = Enumerators.of(self.plan, restored, self._job, number)
            self._listener.deploying(number, None if checkpoint is None else checkpoint.checkpoint)
            messages = self._messages(generation)
        except Exception as error:
            self._outbox.attempt_failed(number, error)
            return None
        for member in self._members.members():
            member.begin_attempt()
            member.link.send(messages[member.register.slot])
        if point is None or (point.checkpoint.job != self._job and not point.claimed):
            return None
        return point.checkpoint.checkpoint, readers_of(messages.values())

    def _messages(self, generation: int) -> dict[int, m.Deploy]:
        deployment = Deployment(
            attempt=self.number,
            generation=generation,
            program=self.planned.shipped,
            peers={each.register.slot: each.register.data_address for each in self._members.members()},
            storage=self._settings.storage,
            marker=self._marker,
            ignore_unclaimed=self._settings.worker.ignore_unclaimed,
        )
        return deployment.messages(self.plan, self.point)

    def assign_splits(self, slot: int, request: m.RequestSplits) -> None:
        """Send the reader that asks, in `slot`'s worker, its next splits (none now: []; None: no more ever).
        A source's error, as of user code, fails the attempt.
        """
        member = self._members.get(slot)
        assert member is not None
        try:
            splits = self.sources.next_splits(request.vertex, request.subtask)
            member.link.send(m.AssignSplits(self.number, request.vertex, request.subtask, splits))
        except Exception as error:
            self._outbox.attempt_failed(request.attempt, error)

    def ask(self, phase: JobState, uid: str, state: str, key: Hashable, reply_to: ReplyTo[Any]) -> None:
        """Send a query for the value under `key` in state `state` of operator `uid` to the key's worker.
        `reply_to` is called once, with value or error; OperatingError unless `phase`, the job's, is RUNNING.
        """
        try:
            if phase is not JobState.RUNNING:
                raise OperatingError(
                    f"the job is {phase.value}, and live state can be asked for only while it is running"
                    "; ask again later"
                )
            slot, message = self.queries.ask(self.number, uid, state, key, reply_to)
        except HeadgateError as error:
            reply_to(None, error)
            return
        member = self._members.get(slot)
        if member is not None:  # else the attempt is about to end, and the question with it
            member.link.send(message)

    def end(self) -> None:
        """Close the enumerators of the attempt, which has ended; answer pending queries with an error."""
        self.queries.end(self.number)
        enumerators, self.sources = self.sources, Enumerators({})
        for error in enumerators.close():
            self._listener.note(f"closing a source failed: {error}")
