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
    rss_bytes: int = 0  # resident memory at its last heartbeat; 0: not known
    beat: m.Heartbeat | None = None  # the last heartbeat
    ended: str = ""  # how its control connection ended, once it has

    def begin_attempt(self) -> None:
        """Forget counters and stalled calls of user code, as a new deployment is sent to this worker."""
        self.counters, self.standstills = {}, []

    def add_counters(self, counters: Sequence[m.Counters]) -> None:
        """Replace the running totals (records, busy time, ...) of the subtasks that `counters` has."""
        self.counters.update({(entry.vertex, entry.subtask): entry for entry in counters})


class Members:
    """The worker processes of the current gang, by slot; used by the job master's loop."""

    def __init__(self) -> None:
        self.gang = 0  # its number; 0 before the first
        self.lost: dict[int, Member] = {}  # workers whose connection was closed, for the report of their end
        self._members: dict[int, Member] = {}
        self._waiting: dict[int, tuple[m.Register, Link]] = {}
        self._ids = count(1)

    def renew(self, gang: int) -> None:
        """Close the old gang's connections, which ends its workers, and begin gang number `gang`, empty."""
        self.close()
        self.gang, self._members, self.lost = gang, {}, {}

    def close(self) -> None:
        """Close the connections to all workers, which ends them; members stay known until the next gang."""
        for member in self._members.values():
            member.link.close()

    def came(self, register: m.Register, link: Link) -> int:
        """Keep a worker that asks to register; return its connection's id, for `admit` or `close_link`."""
        number = next(self._ids)
        self._waiting[number] = register, link
        return number

    def admit(self, number: int) -> Member:
        """Make the worker with this connection id, from :meth:`came`, the member of its slot; return it."""
        register, link = self._waiting.pop(number)
        member = self._members[register.slot] = Member(register, link, number)
        return member

    def close_link(self, number: int) -> None:
        """Close the connection with this id, if known; its worker, if admitted, moves to `lost`."""
        if number in self._waiting:
            self._waiting.pop(number)[1].close()
            return
        for slot, member in list(self._members.items()):
            if member.number == number:
                member.link.close()
                self.lost[slot] = self._members.pop(slot)

    def get(self, slot: int) -> Member | None:
        """Return the worker of a slot; None: none has registered, or it is lost."""
        return self._members.get(slot)

    def slot_of(self, link: Link) -> int | None:
        """Return the slot of the member that is connected by `link`; None if no member is."""
        return next((slot for slot, member in self._members.items() if member.link is link), None)

    def members(self) -> list[Member]:
        """Return all registered workers that are not lost, ordered by slot."""
        return [self._members[slot] for slot in sorted(self._members)]

    def counters(self) -> list[m.Counters]:
        """Return each subtask's last reported running totals (records in and out, busy time, ...)."""
        return [counters for member in self.members() for counters in member.counters.values()]

    def broadcast(self, message: m.ToWorker) -> None:
        """Send a message to every registered worker of the gang that is not lost."""
        for member in self.members():
            member.link.send(message)
