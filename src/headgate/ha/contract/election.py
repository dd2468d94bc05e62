"""The election of a job's leader: whether this driver has won, whether it still leads, and who leads instead.

`ha/files` and `ha/zookeeper` have implementations. How long their answers may be believed is decided by
`core.leadership`, and when to ask by `ha.leading`. An election blocks for its disk or server only.
"""

from __future__ import annotations

import os
import socket
from dataclasses import dataclass
from typing import Protocol

from headgate.common.errors import StorageError


@dataclass(frozen=True, slots=True)
class Candidacy:
    """What one look at an election found."""

    won_ms: int | None  # when the request that won was sent, by the monotonic clock; None when another leads
    leader: str = "another driver"  # who leads, in words, as far as that is known
    ended: bool = False  # the leader that an earlier look saw has since brought the job to its end
    run: int = 0  # how often the job had been brought to its end before; known to the winner only


class LostLeadershipError(StorageError):
    """This driver certainly does not lead."""


class Election(Protocol):
    """One driver's part in the election of a job's leader. One thread at a time."""

    @property
    def lease_ms(self) -> int:
        """How long after a proof no other driver can win."""

    @property
    def margin_ms(self) -> int:
        """How much of the lease is left for what was begun in it."""

    @property
    def regains(self) -> bool:
        """Whether a driver whose lease has expired may win again while no other one has: :meth:`regain`."""

    def campaign(self) -> Candidacy:
        """Try to win, or see who has."""

    def regain(self) -> Candidacy:
        """Try to win again at once, after the lease has expired; LostLeadershipError where another won."""

    def renew(self) -> None:
        """Prove that this driver leads, or raise LostLeadershipError."""

    def end(self) -> None:
        """Record that the job has ended, while this driver leads it: no other one goes on with this run.

        May be repeated. Before it has returned, what the next driver would begin with must stay. Raises
        LostLeadershipError, or another StorageError where it may have been recorded or not.
        """

    def resign(self) -> None:
        """Let another driver lead at once."""


def this_driver() -> str:
    """Host and process, for people."""
    return f"process {os.getpid()} on {socket.gethostname()}"
