"""The workers of the present gang by slot: their links, and what they reported of themselves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import count

from headgate.common.ports import Link
from headgate.runtime.protocol import messages as m


@dataclass(slots=True)
class Member:
    """A worker that registered."""

    register: m.Register
    link: Link
    number: int
    counters: dict[tuple[int, int], m.Counters] = field(default_factory=dict)  # last running totals by task
    standstills: list[m.Standstill] = field(default_factory=list)  # user code that had not returned lately
    rss_bytes: int = 0  # memory that it used at its last heartbeat; 0: not known
    beat: m.Heartbeat | None = None  # the last
    ended: str = ""  # how its control connection ended, once it has

    def begin_attempt(self) -> None:
        """A deployment is on its way to this worker."""
        self.counters, self.standstills = {}, []

    def add_counters(self, counters: Sequence[m.Counters]) -> None:
        """New running totals of some of its subtasks."""
        self.counters.update({(entry.vertex, entry.subtask): entry for entry in counters})


class Members:
    """The workers of one gang, by slot."""

    def __init__(self) -> None:
        self.gang = 0  # its number; 0 before the first
        self.lost: dict[int, Member] = {}  # whose link was closed, for the report of their end
        self._members: dict[int, Member] = {}
        self._waiting: dict[int, tuple[m.Register, Link]] = {}
        self._ids = count(1)

    def renew(self, gang: int) -> None:
        """Forget the old gang; its links are closed, which ends its workers that still run."""
        self.close()
        self.gang, self._members, self.lost = gang, {}, {}

    def close(self) -> None:
        """Close all links; who the workers were is known until there is another gang."""
        for member in self._members.values():
            member.link.close()

    def came(self, register: m.Register, link: Link) -> int:
        """Register a worker and return the id of its link, by which it is admitted or closed."""
        number = next(self._ids)
        self._waiting[number] = register, link
        return number

    def admit(self, number: int) -> Member:
        """Admit the worker with this link as the one of its slot."""
        register, link = self._waiting.pop(number)
        member = self._members[register.slot] = Member(register, link, number)
        return member

    def close_link(self, number: int) -> None:
        """This link has no place here, or not any more."""
        if number in self._waiting:
            self._waiting.pop(number)[1].close()
            return
        for slot, member in list(self._members.items()):
            if member.number == number:
                member.link.close()
                self.lost[slot] = self._members.pop(slot)

    def get(self, slot: int) -> Member | None:
        """Return the worker of a slot."""
        return self._members.get(slot)

    def slot_of(self, link: Link) -> int | None:
        """Return the slot of the worker with this link."""
        return next((slot for slot, member in self._members.items() if member.link is link), None)

    def members(self) -> list[Member]:
        """Return the workers, by slot."""
        return [self._members[slot] for slot in sorted(self._members)]

    def counters(self) -> list[m.Counters]:
        """Return the last running totals of all subtasks."""
        return [counters for member in self.members() for counters in member.counters.values()]

    def broadcast(self, message: m.ToWorker) -> None:
        """Send to every member."""
        for member in self.members():
            member.link.send(message)
