"""The workers of the current gang by slot: their connections, counters and last heartbeats."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import count

from headgate.common.ports import Link
from headgate.runtime.protocol import messages as m


@dataclass(slots=True)
class Member:
    """A worker process as the job master knows it; `number` is its connection's id, from `Members.came`."""

    register: m.Register
    link: Link
    number: int
    counters: dict[tuple[int, int], m.Counters] = field(default_factory=dict)  # last running totals by task
    standstills: list[m.Standstill] = field(default_factory=list)  # calls of user code that have not returned
    beat: m.Heartbeat | None = None  # the last heartbeat
    ended: str = ""  # how its control connection ended, once it has

    def begin_attempt(self) -> None:
        self.counters, self.standstills = {}, []

    def add_counters(self, counters: Sequence[m.Counters]) -> None:
        """Take totals of subtasks, unless newer ones of them have come already: the heartbeat and a subtask's
        end are sent by two threads.
        """
        for entry in counters:
            task = entry.vertex, entry.subtask
            before = self.counters.get(task)
            if before is None or entry.lived_ms >= before.lived_ms:
                self.counters[task] = entry


class Members:
    """The worker processes of the current gang, by slot; made and used by its job master, in its loop. A
    process that connects waits (:meth:`came`) until it is admitted as a member or its connection is closed.
    """

    def __init__(self) -> None:
        self.gang = self.sampling = 0  # numbers: of the gang, and of the sampling of stacks that is wanted
        self.log_levels: dict[str, str] | None = None  # logger -> level; None: the program's own
        self.tracing = (0, 0)  # number of the tracing that is wanted, and one record in how many
        self.lost: dict[int, Member] = {}  # workers whose connection was closed, for the report of their end
        self._members: dict[int, Member] = {}
        self._waiting: dict[int, tuple[m.Register, Link]] = {}
        self._ids = count(1)

    def renew(self, gang: int) -> None:
        self.close()
        self.gang, self._members, self.lost = gang, {}, {}

    def close(self) -> None:
        for member in self._members.values():
            member.link.close()

    def came(self, register: m.Register, link: Link) -> int:
        """Keep a process that asks to register over `link`; return a new id for its connection. It is no
        member until :meth:`admit` is called with that id, and :meth:`close_link` refuses it.
        """
        number = next(self._ids)
        self._waiting[number] = register, link
        return number

    def admit(self, number: int) -> Member:
        """Make the worker with this connection id, from :meth:`came`, the member of its slot; return it.
        KeyError: the id is unknown, was admitted or closed.
        """
        register, link = self._waiting.pop(number)
        member = self._members[register.slot] = Member(register, link, number)
        return member

    def close_link(self, number: int) -> None:
        """Close the connection with this id from :meth:`came`; ignore an unknown id. Its worker, if admitted,
        is a member no more, and kept in `lost` for the report of its end.
        """
        if number in self._waiting:
            self._waiting.pop(number)[1].close()
            return
        for slot, member in list(self._members.items()):
            if member.number == number:
                member.link.close()
                self.lost[slot] = self._members.pop(slot)

    def get(self, slot: int) -> Member | None:
        return self._members.get(slot)

    def slot_of(self, link: Link) -> int | None:
        """Return the slot of the member that is connected by `link`; None if no member is."""
        return next((slot for slot, member in self._members.items() if member.link is link), None)

    def members(self) -> list[Member]:
        return [self._members[slot] for slot in sorted(self._members)]

    def counters(self) -> list[m.Counters]:
        """Return each subtask's last reported running totals (records in and out, busy time, ...)."""
        return [counters for member in self.members() for counters in member.counters.values()]

    def broadcast(self, message: m.ToWorker) -> None:
        for member in self.members():
            member.link.send(message)
