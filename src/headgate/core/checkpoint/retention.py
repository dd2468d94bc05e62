"""Which completed checkpoints are kept: the newest N, once the newest is committed, and one being read."""

from __future__ import annotations

from collections.abc import Iterable

from headgate.common.errors import ConfigError, InternalError
from headgate.common.ids import CheckpointId


class Retention:
    """The completed checkpoints that storage holds, oldest first.

    Args:
        num_retained: how many to keep, at least 1.
        completed: those found in the log, in its order.

    Raises:
        ConfigError: `num_retained` is below 1.

    Example:
        >>> kept = Retention(2, map(CheckpointId, (1, 2)))
        >>> kept.add(CheckpointId(5)); kept.take_surplus(), kept.latest
        ((1,), 5)
    """

    __slots__ = ("_completed", "_held", "num_retained")

    def __init__(self, num_retained: int, completed: Iterable[CheckpointId] = ()) -> None:
        if num_retained < 1:
            raise ConfigError(f"execution.checkpointing.num-retained is {num_retained}; expected at least 1")
        self.num_retained = num_retained
        self._completed: list[CheckpointId] = []
        self._held: CheckpointId | None = None
        for checkpoint in completed:
            self.add(checkpoint)

    @property
    def completed(self) -> tuple[CheckpointId, ...]:
        """Everything not yet retired, oldest first."""
        return tuple(self._completed)

    @property
    def latest(self) -> CheckpointId | None:
        """The newest completed checkpoint."""
        return self._completed[-1] if self._completed else None

    def __contains__(self, checkpoint: object) -> bool:
        return checkpoint in self._completed

    def add(self, checkpoint: CheckpointId) -> None:
        """A checkpoint completed.

        The older ones stay until :meth:`take_surplus`, so a crash in between never leaves fewer.

        Raises:
            InternalError: the id is not above every earlier one.
        """
        if self._completed and checkpoint <= self._completed[-1]:
            raise InternalError(
                f"checkpoint {checkpoint} completed after checkpoint {self._completed[-1]}; ids must grow"
            )
        self._completed.append(checkpoint)

    def hold(self, checkpoint: CheckpointId | None) -> None:
        """`checkpoint` is being read: it and all later ones stay, until this is called with None."""
        self._held = checkpoint

    def take_surplus(self) -> tuple[CheckpointId, ...]:
        """Forget and return the checkpoints beyond the retained number, oldest first."""
        beyond = self._completed[: -self.num_retained]
        surplus = tuple(each for each in beyond if self._held is None or each < self._held)
        del self._completed[: len(surplus)]
        return surplus
