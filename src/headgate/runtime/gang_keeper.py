"""The gang as the job master sees it: who is in it, who is silent, and how it is made to go.

It does what it is told, when it is told; whether a job restarts is not decided here.
"""

from __future__ import annotations

from typing import Any

from headgate.common.ports import Clock, Gang, Link
from headgate.core.liveness import HeartbeatMonitor, LivenessReport
from headgate.runtime.control import messages as m
from headgate.runtime.roster import Roster

GANG_EXIT_MS = 15_000
"""How long a cancelled gang may take to be reported gone before it is taken for fenced."""


class GangKeeper:
    """One gang at a time.

    Args:
        gang: starts and ends workers.
        clock: time.
        slots: workers per gang.
        heartbeat_timeout_ms: after which a silent worker is reported.

    Attributes:
        alive: whether the present gang has not been reported gone.
        roster: its members.
    """

    def __init__(self, gang: Gang, clock: Clock, slots: int, heartbeat_timeout_ms: int) -> None:
        self.alive = False
        self.roster = Roster()
        self._gang, self._clock, self._slots = gang, clock, slots
        self._monitor: HeartbeatMonitor[int] = HeartbeatMonitor(
            heartbeat_timeout_ms, stuck_ms=heartbeat_timeout_ms
        )
        self._cancelled = False
        self._deadline_ms = 0

    @property
    def complete(self) -> bool:
        """Whether every slot has its worker."""
        return len(self.roster.members()) == self._slots

    @property
    def whole(self) -> bool:
        """Whether the gang can be used: all there, nobody lost."""
        return self.alive and not self.roster.broken and self.complete

    @property
    def redeployable(self) -> bool:
        """Whether it is whole and has dropped everything of the last attempt."""
        return self.whole and all(member.idle for member in self.roster.members())

    def start(self) -> int:
        """Ask for a new gang; gives its number."""
        self.roster.renew(self.roster.gang + 1)
        self.alive, self._cancelled = True, False
        self._gang.submit(self.roster.gang, self._slots)
        return self.roster.gang

    def resize(self, slots: int) -> None:
        """The next gang has `slots` workers; a present one of another size cannot be used again."""
        if slots != self._slots:
            self._slots, self.roster.broken = slots, True

    def add(self, register: m.Register, link: Link) -> bool:
        """A worker registered; False when it has no place here."""
        if not self.roster.add(register, link):
            return False
        self._monitor.watch(register.slot, self._clock.monotonic_ms())
        return True

    def beat(self, slot: int, link: Link, beat: m.Heartbeat) -> bool:
        """A heartbeat came and is answered; False when the worker was given up already."""
        if not self._monitor.beat(slot, beat.progress, self._clock.monotonic_ms()):
            return False
        link.send(m.HeartbeatSeen(beat.sent_ms))
        return True

    def check(self) -> LivenessReport[int]:
        """Who lapsed, and whose loop stands still, since the last look."""
        return self._monitor.check(self._clock.monotonic_ms())

    def lose(self, slot: int) -> None:
        """A worker is gone for good."""
        self._monitor.forget(slot)
        self.roster.lose(slot)

    def exited(self, gang: int) -> bool:
        """All workers are reported gone; False when that is old news."""
        if gang != self.roster.gang or not self.alive:
            return False
        self.alive, self.roster.broken = False, True
        self._forget_all()
        return True

    def expect(self, within_ms: int) -> None:
        """The gang was asked for something; :attr:`overdue` tells when it took too long.

        A cancelled gang can be asked for nothing more: the time it was given stays.
        """
        if not self._cancelled:
            self._deadline_ms = self._clock.monotonic_ms() + within_ms

    @property
    def overdue(self) -> bool:
        """Whether the living gang did not do in time what it was asked for."""
        return self.alive and self._clock.monotonic_ms() >= self._deadline_ms

    def force_out(self) -> bool:
        """Cancel the gang, once; True when that was done long ago, in vain, and it must count as fenced."""
        if self._cancelled:
            return self.overdue
        self.expect(GANG_EXIT_MS)
        self.roster.broken = self._cancelled = True
        self._forget_all()
        for member in self.roster.members():
            member.link.close()
        self._gang.cancel(self.roster.gang)
        return False

    def broadcast(self, message: Any) -> None:
        """Send to every worker."""
        self.roster.broadcast(message)

    def next_check(self) -> int | None:
        """When :meth:`check` can next have news (monotonic ms)."""
        return self._monitor.next_wakeup()

    def deadline(self) -> int | None:
        """When :attr:`overdue` becomes true (monotonic ms)."""
        return self._deadline_ms if self.alive else None

    def _forget_all(self) -> None:
        for member in self.roster.members():
            self._monitor.forget(member.register.slot)
