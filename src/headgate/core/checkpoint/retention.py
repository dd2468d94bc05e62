"""Which completed checkpoints are kept: the newest N, once the newest is committed, and one being read.

At the end of the job all are kept, or none, as the settings say. `publishing` asks after each commit.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, TypeAlias

from headgate.common.errors import ConfigError, InternalError
from headgate.common.ids import CheckpointId
from headgate.core.execution import JobEnd

Discards: TypeAlias = frozenset[JobEnd]
"""The ends of a job at which its checkpoints are deleted; newer checkpoints displace older ones always."""

NEVER_RETAIN: Final[Discards] = frozenset(JobEnd)
RETAIN_ON_FAILURE: Final[Discards] = NEVER_RETAIN - {JobEnd.FAILED}
RETAIN_ON_CANCELLATION: Final[Discards] = frozenset({JobEnd.FINISHED})
RETAIN_ALWAYS: Final[Discards] = frozenset()


class Retention:
    """A job's stored checkpoints, and which of them to delete; ConfigError unless `num_retained` is above 0.

    A savepoint that stopped the job (in `unowned`, too) is among them, because the log names it, but the user
    owns it: it takes no checkpoint's place, and only its log entry is ever deleted.

    Example:
        >>> kept = Retention(2, map(CheckpointId, (1, 2)))
        >>> kept.add(CheckpointId(5)); kept.take_surplus(), kept.latest
        ((1,), 5)
    """

    __slots__ = ("_completed", "_held", "num_retained")

    def __init__(
        self,
        num_retained: int,
        completed: Iterable[CheckpointId] = (),
        unowned: Iterable[CheckpointId] = (),
    ) -> None:
        if num_retained < 1:
            raise ConfigError(f"execution.checkpointing.num-retained is {num_retained}; expected at least 1")
        self.num_retained = num_retained
        self._completed: dict[CheckpointId, bool] = {}
        self._held: CheckpointId | None = None
        foreign = frozenset(unowned)
        for checkpoint in completed:
            self.add(checkpoint, owned=checkpoint not in foreign)

    @property
    def completed(self) -> tuple[CheckpointId, ...]:
        """All completed checkpoints that were not deleted yet, oldest first."""
        return tuple(self._completed)

    @property
    def latest(self) -> CheckpointId | None:
        """The newest completed checkpoint; None if there is none."""
        return next(reversed(self._completed), None)

    def __contains__(self, checkpoint: CheckpointId) -> bool:
        return checkpoint in self._completed

    def add(self, checkpoint: CheckpointId, *, owned: bool = True) -> None:
        """Add a completed checkpoint (a savepoint is not `owned`); InternalError unless it is the newest."""
        if self.latest is not None and checkpoint <= self.latest:
            raise InternalError(
                f"checkpoint {checkpoint} completed after checkpoint {self.latest}; ids must grow"
            )
        self._completed[checkpoint] = owned

    def hold(self, checkpoint: CheckpointId | None) -> None:
        """Exempt `checkpoint`, which is being read, and later ones from `take_surplus`; None ends that."""
        self._held = checkpoint

    def take_surplus(self) -> tuple[CheckpointId, ...]:
        """Remove and return, oldest first, all older than the newest `num_retained` and than a held one."""
        owned = [checkpoint for checkpoint, mine in self._completed.items() if mine]
        if len(owned) < self.num_retained:
            return ()
        first_kept = owned[-self.num_retained]
        if self._held is not None:
            first_kept = min(first_kept, self._held)
        surplus = tuple(each for each in self._completed if each < first_kept)
        for checkpoint in surplus:
            del self._completed[checkpoint]
        return surplus

    def end(self, end: JobEnd, discards: Discards) -> tuple[CheckpointId, ...]:
        """Remove and return the ids to delete, oldest first, if `discards` has this `end`; never savepoints.

        The log outlives a job master, so a suspended job keeps everything for the next one.

        Example:
            >>> kept = Retention(1, map(CheckpointId, (4, 5)), unowned=[CheckpointId(5)])
            >>> kept.end(JobEnd.SUSPENDED, NEVER_RETAIN), kept.end(JobEnd.FINISHED, NEVER_RETAIN)
            ((), (4,))
        """
        if end is JobEnd.SUSPENDED or end not in discards:
            return ()
        discarded = tuple(checkpoint for checkpoint, mine in self._completed.items() if mine)
        for checkpoint in discarded:
            del self._completed[checkpoint]
        return discarded
