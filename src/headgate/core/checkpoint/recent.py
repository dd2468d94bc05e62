"""The ids of checkpoints that ended last: late words about them are normal, about others they are not."""

from __future__ import annotations

from typing import Final

from headgate.common.ids import CheckpointId

REMEMBERED_MAX: Final = 16
"""How many are remembered."""


class RecentCheckpoints:
    """A ring of the checkpoints that completed or were aborted last.

    Example:
        >>> recent = RecentCheckpoints(capacity=2)
        >>> for n in (1, 2, 3):
        ...     recent.add(CheckpointId(n), savepoint=n == 3)
        >>> [CheckpointId(n) in recent for n in (1, 2, 3)], recent.is_savepoint(CheckpointId(3))
        ([False, True, True], True)
    """

    __slots__ = ("_ids", "capacity")

    def __init__(self, capacity: int = REMEMBERED_MAX) -> None:
        self.capacity = capacity
        self._ids: dict[CheckpointId, bool] = {}

    def __contains__(self, checkpoint: CheckpointId) -> bool:
        return checkpoint in self._ids

    def add(self, checkpoint: CheckpointId, *, savepoint: bool) -> None:
        """It ended; the oldest is forgotten when there are too many."""
        self._ids[checkpoint] = savepoint
        if len(self._ids) > self.capacity:
            del self._ids[next(iter(self._ids))]

    def is_savepoint(self, checkpoint: CheckpointId) -> bool:
        """Whether a remembered one was a savepoint; False for one that is not remembered."""
        return self._ids.get(checkpoint, False)
