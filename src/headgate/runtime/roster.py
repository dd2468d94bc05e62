"""Who is in the gang: one worker per slot, its link, what it said of itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from headgate.common.ports import Link
from headgate.runtime.control import messages as m


@dataclass(slots=True)
class Member:
    """A worker that registered.

    Attributes:
        register: what it said of itself.
        link: the way to it.
        deployed: whether its subtasks of the present attempt run.
        idle: whether it confirmed that nothing of the last attempt runs any more.
        ended: its subtasks that have processed all input.
        counters: (vertex, subtask) -> last running totals.
        standstills: calls of user code that had not returned at its last heartbeat.
        rss_bytes: memory that it used then; 0: not known.
    """

    register: m.Register
    link: Link
    deployed: bool = False
    idle: bool = True
    ended: set[tuple[int, int]] = field(default_factory=set)
    counters: dict[tuple[int, int], m.Counters] = field(default_factory=dict)
    standstills: list[m.Standstill] = field(default_factory=list)
    rss_bytes: int = 0

    def begin_attempt(self) -> None:
        """A deployment is on its way to this worker."""
        self.deployed = self.idle = False
        self.ended, self.counters, self.standstills = set(), {}, []

    def note_counters(self, counters: Sequence[m.Counters]) -> None:
        """New running totals of some of its subtasks."""
        self.counters.update({(entry.vertex, entry.subtask): entry for entry in counters})


class Roster:
    """The members of one gang, by slot.

    Attributes:
        gang: its number; 0 before the first.
        broken: whether a member was lost, so that the gang cannot be used again.
    """

    def __init__(self) -> None:
        self.gang = 0
        self.broken = False
        self._members: dict[int, Member] = {}

    def renew(self, gang: int) -> None:
        """Forget the old gang; its links are closed, which ends what is left of its workers."""
        for member in self._members.values():
            member.link.close()
        self.gang, self.broken, self._members = gang, False, {}

    def add(self, register: m.Register, link: Link) -> bool:
        """A worker registered; False when it belongs to another gang or its slot is taken."""
        if register.gang != self.gang or self.broken or register.slot in self._members:
            return False
        self._members[register.slot] = Member(register, link)
        return True

    def get(self, slot: int) -> Member | None:
        """The worker of a slot."""
        return self._members.get(slot)

    def slot_of(self, link: Link) -> int | None:
        """Whose link this is."""
        for slot, member in self._members.items():
            if member.link is link:
                return slot
        return None

    def members(self) -> list[Member]:
        """All, by slot."""
        return [self._members[slot] for slot in sorted(self._members)]

    def lose(self, slot: int) -> None:
        """A worker is gone for good."""
        member = self._members.pop(slot, None)
        self.broken = True
        if member is not None:
            member.link.close()

    def broadcast(self, message: Any) -> None:
        """Send to every member."""
        for member in self.members():
            member.link.send(message)
