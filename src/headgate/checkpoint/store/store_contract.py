"""What a store of completed checkpoints promises, wherever it keeps them, and the permit to add to it.

Metadata is on the disk before its entry is in a store. The entry is the moment of completion, and the
store refuses it to everyone but the last claimant: that is the fence for a job master that was thought
dead. Files: `store/log.py`; ZooKeeper: `store/zookeeper.py`.
"""

from __future__ import annotations

from typing import Final, Protocol

from headgate.checkpoint.store.entries import Completed
from headgate.common.errors import InternalError
from headgate.common.ids import CheckpointId, Generation

IDS_AHEAD: Final = 64
"""Ids that a store keeps for its claimant at once: it hears of completed checkpoints only."""


class _Claimed:
    """Its only instance proves that a claim succeeded."""


CLAIMED: Final = _Claimed()
"""Shown by a store that makes a permit, to say that a claim succeeded."""


class CommitPermit:
    """The right to complete checkpoints; only a successful claim makes one.

    Attributes:
        generation: of the job master that holds it.
    """

    __slots__ = ("generation",)

    def __init__(self, generation: Generation, witness: _Claimed) -> None:
        if witness is not CLAIMED:
            raise InternalError("a commit permit comes from CompletedCheckpointStore.claim() only")
        self.generation = generation

    def __repr__(self) -> str:
        return f"CommitPermit(generation={self.generation})"


class CompletedCheckpointStore(Protocol):
    """The completed checkpoints of one job. One thread at a time."""

    def generation(self) -> int:
        """Of the last claim, by whomever; 0 where the job was never claimed here."""
        ...

    def claim(self) -> CommitPermit:
        """Take the job over: every older permit is worthless from here on."""
        ...

    def append(self, permit: CommitPermit, checkpoint: CheckpointId, metadata: str, sha256: str) -> None:
        """Say that a checkpoint is complete; its metadata must be durable already.

        Raises:
            FencedError: another job master has claimed the job; the entry may be there all the same.
            UnsureWriteError: the entry may be there or not; the next call finds out.
            StorageError: it was not written.
        """
        ...

    def check(self, permit: CommitPermit) -> None:
        """Make sure that nobody has claimed the job since.

        Raises:
            FencedError: somebody has.
        """
        ...

    def completed(self) -> list[Completed]:
        """The completed checkpoints that were not trimmed, oldest first, read afresh."""
        ...

    def latest(self) -> Completed | None:
        """The newest completed checkpoint, read afresh."""
        ...

    def trim(self, permit: CommitPermit, oldest: CheckpointId) -> None:
        """Delete all entries before the one that completed `oldest`; none when there is no such one."""
        ...

    def first_checkpoint_id(self, at_least: CheckpointId) -> CheckpointId:
        """Where the ids of the last claimant begin: `at_least` or above, and above all known to be used.

        Ask after :meth:`claim`. :data:`IDS_AHEAD` ids are the claimant's; what it uses beyond, it reserves.
        """
        ...

    def reserve_ids(self, permit: CommitPermit, end: CheckpointId) -> None:
        """From here on ids below `end` count as used: no later claimant is given one of them."""
        ...

    def close(self, permit: CommitPermit, *, terminal: bool) -> None:
        """Give the store up.

        Args:
            permit: of the last claim; it is worthless afterwards.
            terminal: the job has ended for good, and every entry goes, so that another run under this name
                begins anew. Otherwise all stay for the next job master. Files of checkpoints are not
                touched by either.

        Raises:
            FencedError: another job master has claimed the job; nothing was changed.
        """
        ...
