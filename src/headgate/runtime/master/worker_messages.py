"""Dispatches workers' messages: each becomes an event of the state machine or goes to another component."""

from __future__ import annotations

from collections.abc import Sequence

from headgate.common.errors import DamagedFileError
from headgate.common.ports import Link
from headgate.core.job import events as v
from headgate.core.job.machine import JobMachine
from headgate.runtime.job.listener import JobListener
from headgate.runtime.master.attempt.attempts import Attempts
from headgate.runtime.master.attempt.heartbeat_answers import answer_to
from headgate.runtime.master.attempt.members import Members
from headgate.runtime.master.attempt.outbox import Outbox, failure_of
from headgate.runtime.master.checkpoints.checkpoint_master import CheckpointMaster
from headgate.runtime.master.reports import Reports
from headgate.runtime.protocol import messages as m
from headgate.runtime.protocol.error_messages import rebuild_error


class WorkerMessages:
    """Dispatches workers' messages to the job master's components and, as events, to the state machine."""

    def __init__(
        self,
        machine: JobMachine,
        members: Members,
        attempts: Attempts,
        checkpoints: CheckpointMaster,
        reports: Reports,
        outbox: Outbox,
        listener: JobListener,
    ) -> None:
        self._machine, self._members, self._attempts = machine, members, attempts
        self._checkpoints, self._reports = checkpoints, reports
        self._outbox, self._listener = outbox, listener

    def message(self, link: Link, message: m.FromWorker) -> None:
        if isinstance(message, m.Register):
            self._outbox.put(v.Registered(message.gang, message.slot, self._members.came(message, link)))
            return
        slot = self._members.slot_of(link)
        member = None if slot is None else self._members.get(slot)
        if slot is None or member is None:
            return
        match message:
            case m.Heartbeat():
                member.beat = message
                self._outbox.put(v.Beat(self._members.gang, slot, message.progress))
            case m.Totals():
                self._count(slot, message.attempt, message.counters)
            case m.Printed():
                self._listener.printed(message.lines, message.left_out)
            case m.Traced():
                self._listener.traced(message.visits)
            case m.Logged():
                self._listener.logged(slot, message.lines, message.left_out)
            case m.Idle():
                self._outbox.put(v.Idle(message.attempt, slot, _leftover(message)))
            case m.Deployed():
                self._outbox.put(v.Deployed(message.attempt, slot))
            case m.TaskFailed():
                self._task_failed(message)
            case _ if self._machine.hears(message.attempt):
                self._of_a_subtask(slot, message)

    def link_lost(self, link: Link, reason: str) -> None:
        """Report by an event that a gang member's connection ended (`reason`); ignore any other's end."""
        slot = self._members.slot_of(link)
        member = None if slot is None else self._members.get(slot)
        if slot is not None and member is not None:
            member.ended = f"its control connection ended ({reason})"
            self._outbox.put(v.LinkLost(self._members.gang, slot))

    def answer_beat(self, slot: int) -> None:
        """Answer the last heartbeat of `slot`'s worker, which renews the worker's lease; ignored if none
        came. Counters, memory and blocked calls that it reports are stored if it is of the latest attempt.
        """
        member = self._members.get(slot)
        if member is None or member.beat is None:
            return
        beat = member.beat
        member.link.send(answer_to(beat, slot, self._members))
        if self._machine.counts(beat.attempt):
            member.standstills = beat.standstills
        self._count(slot, beat.attempt, beat.counters)

    def _count(self, slot: int, attempt: int, counters: Sequence[m.Counters]) -> None:
        member = self._members.get(slot)
        if member is not None and self._machine.counts(attempt):
            member.add_counters(counters)
            newest = self._members.counters()
            # Once for each round of heartbeats, as it looks at all subtasks.
            if slot == 0 and (unread := self._attempts.sources.unread(self._attempts.plan, newest)):
                self._listener.unread(unread)
            self._listener.progress(newest)

    def _task_failed(self, message: m.TaskFailed) -> None:
        if not self._machine.may_fail(message.attempt):
            return
        error, point = rebuild_error(message.kind, message.arguments), self._attempts.point
        if isinstance(error, DamagedFileError) and point is not None:
            self._checkpoints.points.explain(error, point, message.attempt)
        elif message.lost_peer is None:
            self._outbox.attempt_failed(message.attempt, error)
        else:
            self._outbox.put(v.PeerLost(message.attempt, failure_of(error)))

    def _of_a_subtask(self, slot: int, message: m.FromWorker) -> None:
        # Workers do not wait for each other: one may read, or be done, before the last one is deployed.
        match message:
            case m.RequestSplits():
                self._attempts.assign_splits(slot, message)
            case m.StateAnswer():
                self._attempts.queries.answered(message)
            case m.WriterMessage():
                self._listener.told(message.uid, message.subtask, message.data)
            case m.SlowRecords():
                self._reports.slow_records(message.name, message.pickled)
            case m.Recovered():
                self._checkpoints.recovered(message.vertex, message.subtask)
            case m.DataEnded():
                self._count(slot, message.attempt, [message.counters])
                self._outbox.put(v.DataEnded(message.attempt, (message.vertex, message.subtask)))
            case m.Acknowledge():
                self._checkpoints.acknowledged(message)
            case m.Decline():
                self._checkpoints.declined(message)


def _leftover(message: m.Idle) -> tuple[str, ...]:
    threads, limits = ", ".join(message.stray_threads), ", ".join(message.changed_limits)
    kept = (f"threads of user code ({threads})",) if threads else ()
    return (*kept, f"limits that user code has set ({limits})") if limits else kept
