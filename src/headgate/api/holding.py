"""A quarantine that also holds later records of a key: what a program says of it."""

from __future__ import annotations

from dataclasses import dataclass

from headgate.api.site import user_site
from headgate.common.errors import PlanError


@dataclass(frozen=True, slots=True)
class Holding:
    """What ``hg.quarantine(hold=..., release=...)`` returns, for `on_error` of a keyed function.

    Attributes:
        hold: the most records that are held of one key, the one that failed included.
        release: the program's release; another name releases what is held.
    """

    hold: int
    release: str


def holding(hold: int, release: str) -> Holding:
    """Return what is held and until when. PlanError: `hold` is no number from 1, or `release` is no name."""
    where = f"hg.quarantine() ({user_site()})"
    if type(hold) is not int or hold < 1:
        raise PlanError(
            f"{where} got hold={hold!r:.80}; expected the most records to hold of one key, at least 1"
        )
    if type(release) is not str or not release:
        raise PlanError(
            f"{where} got release={release!r:.80}; expected a name, such as a version of the program"
        )
    return Holding(hold, release)
