"""The deployments of one job, one after the other: what is sent out, who runs, who is through.

It decides nothing: when to deploy, and what follows from a failure, is the job master's business.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any

from headgate.common.errors import HeadgateError, OperatingError
from headgate.common.ids import JobId
from headgate.core.execution import JobState
from headgate.graph.physical import PhysicalPlan
from headgate.restore.point import RestorePoint
from headgate.runtime.job.planned_job import PlannedJob
from headgate.runtime.master.attempt.deployment import Deployment, readers_of
from headgate.runtime.master.attempt.enumerators import Enumerators
from headgate.runtime.master.attempt.live_queries import StateQueries
from headgate.runtime.master.attempt.members import Member, Members
from headgate.runtime.master.attempt.waiting_askers import Then
from headgate.runtime.protocol import messages as m


class Attempts:
    """Used by the job master's loop.

    Attributes:
        planned: what runs; may be replaced between two attempts.
        point: where the present attempt began, or the next one begins.
    """

    def __init__(
        self,
        job: JobId,
        planned: PlannedJob,
        members: Members,
        point: RestorePoint | None,
        storage: str | None,
        marker: str | None,
        ignore_unclaimed: bool = False,
    ) -> None:
        self._ignore_unclaimed = ignore_unclaimed
        self.number, self.planned, self.point = 0, planned, point
        self.queries = StateQueries(planned.plan)
        self._job, self._members, self._storage, self._marker = job, members, storage, marker
        self.sources = Enumerators.none()

    @property
    def plan(self) -> PhysicalPlan:
        """What runs."""
        return self.planned.plan

    @property
    def tasks(self) -> list[tuple[int, int]]:
        """(vertex, subtask) of all subtasks."""
        return [(v.id, s) for v in self.plan.vertices for s in range(v.parallelism)]

    @property
    def restored_totals(self) -> Mapping[str, tuple[int, int]]:
        """Records in and out of each chain up to where the present attempt began."""
        return {} if self.point is None else self.point.checkpoint.totals

    def replan(self, planned: PlannedJob) -> None:
        """The next attempt runs another plan."""
        self.planned, self.queries = planned, StateQueries(planned.plan)
        for member in self._members.members():
            member.counters = {}

    def begin(self, number: int) -> None:
        """A new attempt: its enumerators are made."""
        self.number = number
        restored = {} if self.point is None else self.point.checkpoint.enumerators
        self.sources = Enumerators.of(self.plan, restored, self._job, self.number)

    def messages(self, generation: int) -> dict[int, m.Deploy]:
        """Slot -> what its worker is to build."""
        deployment = Deployment(
            attempt=self.number,
            generation=generation,
            program=self.planned.shipped,
            peers={each.register.slot: each.register.data_address for each in self._members.members()},
            storage=self._storage,
            marker=self._marker,
            ignore_unclaimed=self._ignore_unclaimed,
        )
        return deployment.messages(self.plan, self.point)

    def readers(self, messages: Mapping[int, m.Deploy]) -> tuple[int, set[tuple[int, int]]] | None:
        """The checkpoint that is restored, if it is the job's to delete, and who reads what was in flight."""
        point = self.point
        if point is None or (point.checkpoint.job != self._job and not point.claimed):
            return None
        return point.checkpoint.checkpoint, readers_of(messages.values())

    def send(self, messages: Mapping[int, m.Deploy]) -> None:
        """Deploy."""
        for member in self._members.members():
            member.begin_attempt()
            member.link.send(messages[member.register.slot])

    def data_ended(self, slot: int, message: m.DataEnded) -> None:
        """A subtask has processed all its input."""
        self._member(slot).note_counters([message.counters])

    def assign_splits(self, slot: int, request: m.RequestSplits) -> None:
        """A reader has none left."""
        splits = self.sources.next_splits(request.vertex, request.subtask)
        message = m.AssignSplits(self.number, request.vertex, request.subtask, splits)
        self._member(slot).link.send(message)

    def ask(self, phase: JobState, uid: str, state: str, key: Hashable, then: Then[Any]) -> None:
        """Have the key's subtask report what its state holds; `then` is called once."""
        try:
            if phase is not JobState.RUNNING:
                raise OperatingError(
                    f"the job is {phase.value}, and live state can be asked for only while it is running"
                    "; ask again later"
                )
            slot, message = self.queries.ask(self.number, uid, state, key, then)
        except HeadgateError as error:
            then(None, error)
            return
        member = self._members.get(slot)
        if member is not None:  # else the attempt is about to end, and the question with it
            member.link.send(message)

    def end(self) -> list[Exception]:
        """The attempt is over; gives what went wrong in closing its enumerators."""
        self.queries.end(self.number)
        enumerators, self.sources = self.sources, Enumerators.none()
        return enumerators.close()

    def _member(self, slot: int) -> Member:
        member = self._members.get(slot)
        assert member is not None
        return member
