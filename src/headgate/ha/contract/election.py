"""The election of a job's leader: whether this driver has won, whether it still leads, and who leads instead.

Implemented in `ha/files` and `ha/zookeeper`; `core.leadership` decides how long an answer may be believed.
"""

from __future__ import annotations

import os
import socket
from dataclasses import dataclass
from typing import Protocol

from headgate.common.errors import StorageError


@dataclass(frozen=True, slots=True)
class Candidacy:
    """The result of one campaign: won (then `won_ms` is set), another driver leads, or the job has ended."""

    won_ms: int | None  # when the request that won was sent, by the monotonic clock; None: not won
    leader: str = "another driver"  # who leads, in words, as far as that is known
    ended: bool = False  # the leader that an earlier look saw has since brought the job to its end
    run: int = 0  # how often the job had been brought to its end before; known to the winner only


class LostLeadershipError(StorageError):
    """Raised when this driver certainly does not lead the job: another one does, or may."""


class Election(Protocol):
    """One driver's part in the election of a job's leader. Not thread-safe: one thread at a time."""

    @property
    def lease_ms(self) -> int:
        """How long (ms) after a proof of this driver's leadership no other driver can win."""

    @property
    def margin_ms(self) -> int:
        """How long (ms) before the end of the lease no commit may begin any more."""

    @property
    def regains(self) -> bool:
        """Whether a driver whose lease has expired may win again while no other one has: :meth:`regain`."""

    def campaign(self) -> Candidacy:
        """Try once to win; return whether this driver has won, who leads, or that the job has ended."""

    def regain(self) -> Candidacy:
        """Try at once to win again after the lease has expired; LostLeadershipError if another driver won."""

    def renew(self) -> None:
        """Prove that this driver leads, for a new lease. LostLeadershipError if it does not lead; any other
        StorageError if that is unknown: the present lease goes on.
        """

    def end(self) -> None:
        """Record that the job has ended, while this driver leads it: no other driver goes on with this run.

        May be repeated. Before it has returned, what the next driver would begin with must stay. Raises
        LostLeadershipError, or another StorageError where it may have been recorded or not.
        """

    def resign(self) -> None:
        """Give up the leadership, so that another driver can lead at once; nothing if it did not lead."""


def this_driver() -> str:
    return f"process {os.getpid()} on {socket.gethostname()}"
