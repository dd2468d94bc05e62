"""One driver's right to lead a job: how long it holds, and whether a commit may begin now.

No I/O: `ha/leading.py` runs the election, proves the right again and again, and reads the clock. All times
are milliseconds of its monotonic clock. The table and its reasons: docs/machines/leadership.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Final

from headgate.common.errors import ConfigError
from headgate.core.machine import Machine


class LeadershipState(Enum):
    """Where a driver stands in the election of a job's leader."""

    CANDIDATE = "candidate"  # it has not won yet
    LEADER = "leader"
    SUSPENDED = "suspended"  # it leads, but a proof failed or the connection broke: no commit begins
    LAPSED = "lapsed"  # its lease has ended, and it may still win again
    LOST = "lost"  # for good: another driver leads or may, or this one resigned


class LeadershipEvent(Enum):
    """An event that changes a driver's right to lead."""

    GRANTED = "granted"  # it won the election
    RENEWED = "renewed"  # it proved that it leads
    SUSPENDED = "suspended"  # a proof failed, or the connection broke
    LAPSED = "lapsed"  # its lease has ended, and it may win again
    EXPIRED = "expired"  # another driver leads, or may
    RESIGNED = "resigned"  # it gave up


_S, _E = LeadershipState, LeadershipEvent

LEADERSHIP_MOVES: Final[Mapping[tuple[LeadershipState, LeadershipEvent], LeadershipState]] = {
    (_S.CANDIDATE, _E.GRANTED): _S.LEADER,
    (_S.CANDIDATE, _E.RESIGNED): _S.LOST,
    (_S.LEADER, _E.RENEWED): _S.LEADER,
    (_S.LEADER, _E.SUSPENDED): _S.SUSPENDED,
    (_S.LEADER, _E.LAPSED): _S.LAPSED,
    (_S.LEADER, _E.EXPIRED): _S.LOST,
    (_S.LEADER, _E.RESIGNED): _S.LOST,
    (_S.SUSPENDED, _E.RENEWED): _S.LEADER,
    (_S.SUSPENDED, _E.LAPSED): _S.LAPSED,
    (_S.SUSPENDED, _E.EXPIRED): _S.LOST,
    (_S.SUSPENDED, _E.RESIGNED): _S.LOST,
    (_S.LAPSED, _E.GRANTED): _S.LEADER,
    (_S.LAPSED, _E.EXPIRED): _S.LOST,
    (_S.LAPSED, _E.RESIGNED): _S.LOST,
}


class LeadershipTerm:
    """A driver's term as a job's leader, from candidacy on; commits stop `margin_ms` before its lease ends.

    With `regains` a driver whose lease has ended may lead again, by a new grant, as long as it has not heard
    of another leader; otherwise the term ends with the lease. ConfigError unless 0 <= margin_ms < lease_ms.

    Example:
        >>> term = LeadershipTerm("streaks", lease_ms=9_000, margin_ms=3_000)
        >>> term.granted(sent_ms=1_000, now_ms=1_200)
        True
        >>> term.may_commit(6_999), term.may_commit(7_000)
        (True, False)
        >>> term.renewed(sent_ms=7_100, now_ms=7_300); term.may_commit(7_300)
        True
        >>> term.tick(16_100), term.state.value, term.tick(16_101)
        (True, 'lost', False)
        >>> again = LeadershipTerm("streaks", lease_ms=9_000, margin_ms=3_000, regains=True)
        >>> again.granted(0, 0), again.tick(9_000), again.state.value, again.may_commit(9_000)
        (True, False, 'lapsed', False)
        >>> again.granted(sent_ms=9_100, now_ms=9_200), again.may_commit(9_200)
        (True, True)
    """

    def __init__(self, name: str, lease_ms: int, margin_ms: int, regains: bool = False) -> None:
        if not 0 <= margin_ms < lease_ms:
            raise ConfigError(
                f"the lease of job {name!r} is {lease_ms} ms, of which {margin_ms} ms are margin; expected a "
                "margin below the lease"
            )
        self._machine = Machine(f"leadership of job {name!r}", LeadershipState.CANDIDATE, LEADERSHIP_MOVES)
        self._lease_ms, self._margin_ms, self._regains = lease_ms, margin_ms, regains
        self._deadline_ms = 0

    @property
    def state(self) -> LeadershipState:
        return self._machine.state

    @property
    def history(self) -> tuple[str, ...]:
        return self._machine.history

    def granted(self, sent_ms: int, now_ms: int) -> bool:
        """Begin the lease at `sent_ms`, when the request that won was sent, and return True. Return False if
        the answer took longer than the lease, or if this driver leads already or has lost for good.
        """
        if now_ms >= sent_ms + self._lease_ms or not self._machine.can(_E.GRANTED):
            return False
        self._machine.move(_E.GRANTED, f"at {now_ms}")
        self._deadline_ms = sent_ms + self._lease_ms
        return True

    def renewed(self, sent_ms: int, now_ms: int) -> None:
        """Extend a lease that still runs by a proof requested at `sent_ms`, and end a suspension."""
        if self.tick(now_ms) or not self._machine.can(_E.RENEWED):
            return  # also when it has lapsed: a standby may have looked before the proof was there
        if self._machine.state is not LeadershipState.LEADER:
            self._machine.move(_E.RENEWED, f"at {now_ms}")
        self._deadline_ms = max(self._deadline_ms, sent_ms + self._lease_ms)

    def suspended(self, now_ms: int, why: str = "") -> None:
        """Allow no commit until the next renewal, because a proof failed or the connection broke; ignored
        unless the driver leads. `why` is a text for the history.
        """
        if not self.tick(now_ms) and self._machine.state is LeadershipState.LEADER:
            self._machine.move(_E.SUSPENDED, why or f"at {now_ms}")

    def expired(self, why: str = "") -> bool:
        """End the term for good: another driver leads or may. Return False if it was not begun or is over."""
        if not self._machine.can(_E.EXPIRED):
            return False
        self._machine.move(_E.EXPIRED, why)
        return True

    def resigned(self) -> None:
        """End the term for good, because the driver gives up; nothing if it has ended."""
        if self._machine.can(_E.RESIGNED):
            self._machine.move(_E.RESIGNED)

    def tick(self, now_ms: int) -> bool:
        """Note that the lease is over, if it is at `now_ms`; return True if that ends the term for good."""
        if not self._timed or now_ms < self._deadline_ms:
            return False
        if self._regains:
            self._machine.move(_E.LAPSED, f"by time at {now_ms}")
            return False
        return self.expired(f"by time at {now_ms}")

    def may_commit(self, now_ms: int) -> bool:
        """Return whether a commit may begin now: this driver leads, and no other can for `margin_ms`."""
        leads = self._machine.state is LeadershipState.LEADER
        return leads and now_ms + self._margin_ms < self._deadline_ms

    def next_wakeup(self) -> int | None:
        """Return the end of the lease (ms), when :meth:`tick` is due; None: no lease runs."""
        return self._deadline_ms if self._timed else None

    @property
    def _timed(self) -> bool:
        return self._machine.can(_E.LAPSED)
