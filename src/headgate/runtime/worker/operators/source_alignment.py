"""Holds back the sources of a worker that are too far ahead of slower ones in event time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from headgate.api.streams.event_time import WatermarkStrategy
from headgate.common.time import WATERMARK_MIN
from headgate.core.watermark_alignment import least_of


class Aligned(Protocol):
    """What assigns event time in a source subtask, as far as its alignment with others goes."""

    strategy: WatermarkStrategy

    @property
    def event_time(self) -> int | None:
        """The watermark reached (ms); None if nobody needs to wait for it, as it is idle or has no split."""


class SourceAlignment:
    """The source subtasks of one worker that have a limit to their drift, by groups; see `WatermarkStrategy`.

    Args:
        alone: whether the gang has no other worker. Otherwise subtasks that have begun wait until the other
            workers' event times are known.
    """

    def __init__(self, alone: bool) -> None:
        self._members: list[Aligned] = []
        self._elsewhere: Mapping[str, int] | None = {} if alone else None

    def join(self, member: Aligned) -> None:
        """Add a subtask; its strategy has a limit."""
        self._members.append(member)

    def event_times(self) -> dict[str, int]:
        """Return group -> least event time (ms) of this worker; may be called in the heartbeat's thread."""
        reached = [(member.strategy.drift_group, member.event_time) for member in self._members]
        return least_of({group: time} for group, time in reached if time is not None) or {}

    def others_reached(self, elsewhere: Mapping[str, int] | None) -> None:
        """Store group -> least event time (ms) of the other workers; None, for not known, changes nothing."""
        if elsewhere is not None:
            self._elsewhere = elsewhere

    def holds(self, member: Aligned) -> bool:
        """Return whether a subtask is to read nothing for now."""
        reached, limit = member.event_time, member.strategy.max_drift_ms
        if reached is None or reached == WATERMARK_MIN or limit is None:
            return False
        if self._elsewhere is None:
            return True
        group = member.strategy.drift_group
        others = [each.event_time for each in self._members if self._beside(each, member)]
        least = min(
            (time for time in (*others, self._elsewhere.get(group)) if time is not None), default=None
        )
        return least is not None and reached - least > limit

    def _beside(self, each: Aligned, member: Aligned) -> bool:
        return each is not member and each.strategy.drift_group == member.strategy.drift_group
