"""Compares two replays of the same key, to find functions that do not do the same twice."""

from __future__ import annotations

import re
from itertools import zip_longest
from typing import Final

from headgate.offline.replay.replay_report import ReplayReport, Step

SHOWN_MAX: Final = 5

_ADDRESS: Final = re.compile(r" at 0x[0-9a-f]+")


def unlike(first: ReplayReport, second: ReplayReport) -> list[str]:
    """Return what differs between two reports on the same records, in words, the earliest first; else [].

    Addresses of objects, which Python writes for classes without a text of their own, do not count.
    """
    found = []
    for mine, other in zip_longest(first.steps, second.steps):
        if mine is None or other is None:
            found.append(f"{len(first.steps)} steps, and {len(second.steps)} the second time")
            break
        if len(found) < SHOWN_MAX:
            found += _of_step(mine, other)
    return found


def _of_step(mine: Step, other: Step) -> list[str]:
    found = []
    for name in Step.__struct_fields__:
        before, after = _text(mine, name), _text(other, name)
        if before != after:
            found.append(
                f"step {mine.number} ({mine.kind} {mine.what}): {name.replace('_', ' ')} {before}, and "
                f"{after} the second time"
            )
    return found


def _text(step: Step, name: str) -> str:
    value = getattr(step, name)
    if name == "changes":
        value = {change.state: change.after for change in value}
    return _ADDRESS.sub("", str(value))
