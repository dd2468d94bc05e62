"""The election of a job's leader: whether this driver has won, whether it still leads, and who leads instead.

`ha/files` and `ha/zookeeper` hold elections. How long their answers may be believed is decided by
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
    """What one look at an election found.

    Attributes:
        won_ms: when the request that won was sent, by the monotonic clock; None when another leads.
        run: how often the job had been brought to its end before; known to the winner only.
        leader: who leads, in words, as far as that is known.
        ended: the leader that was there at an earlier look has since brought the job to its end.
    """

    won_ms: int | None
    leader: str = "another driver"
    ended: bool = False
    run: int = 0


class OustedError(StorageError):
    """Somebody else leads, or nobody does: this driver certainly does not."""


class Election(Protocol):
    """One driver's part in the election of a job's leader. One thread at a time."""

    @property
    def lease_ms(self) -> int:
        """How long after a proof nobody else can win."""

    @property
    def margin_ms(self) -> int:
        """How much of the lease is left for what was begun in it."""

    @property
    def regains(self) -> bool:
        """Whether a driver whose lease is over may win again while nobody else has: :meth:`regain`."""

    def campaign(self) -> Candidacy:
        """Try to win, or see who has."""

    def regain(self) -> Candidacy:
        """The lease is over, and nobody else is known to lead: try to win again, without a pause."""

    def renew(self) -> None:
        """Prove that this driver leads."""

    def end(self) -> None:
        """Record that the job is over, while this driver leads it: no other one goes on with this run.

        May be repeated. Before it has returned, what the next driver would begin with must stay.
        """

    def resign(self) -> None:
        """Make room at once."""


def this_driver() -> str:
    """Host and process, for people."""
    return f"process {os.getpid()} on {socket.gethostname()}"
