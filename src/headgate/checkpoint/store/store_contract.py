"""What a store of completed checkpoints promises, wherever it keeps them, and the permit to add to it.

Metadata is on the disk before its entry is in a store. The entry is the moment of completion, and the
store refuses it to all but the last claimant: that fences a job master that was replaced and still runs.
`store/log.py` keeps the entries in files, `ha/zookeeper` in ZooKeeper.
"""

from __future__ import annotations

from typing import Final, Protocol

from headgate.checkpoint.store.entries import Completed
from headgate.common.errors import InternalError
from headgate.common.ids import CheckpointId, Generation

IDS_AHEAD: Final = 64  # a store reserves for its claimant at once: it hears of completed checkpoints only


class _Claimed:
    """The type whose only instance proves that a claim succeeded."""


CLAIMED: Final = _Claimed()


class CommitPermit:
    """The right of a generation's job master to complete checkpoints; only a successful claim makes one."""

    __slots__ = ("generation",)

    def __init__(self, generation: Generation, witness: _Claimed) -> None:
        if witness is not CLAIMED:
            raise InternalError("a commit permit comes from CompletedCheckpointStore.claim() only")
        self.generation = generation

    def __repr__(self) -> str:
        return f"CommitPermit(generation={self.generation})"


class CompletedCheckpointStore(Protocol):
    """Stores which checkpoints of a job are complete; only its last claimant adds. One thread at a time."""

    def generation(self) -> int:
        """Return the generation of the last claim by any job master; 0 if the job was never claimed here."""

    def claim(self) -> CommitPermit:
        """Take the job over: end older permits, return one of a new generation; StorageError if it fails."""

    def append(self, permit: CommitPermit, checkpoint: CheckpointId, metadata: str, sha256: str) -> None:
        """Complete a checkpoint by its entry; its file `metadata` (digest `sha256`) must be durable already.

        Raises:
            FencedError: another job master has claimed the job; the entry may exist all the same.
            UnsureWriteError: the entry may exist or not; the next call finds out.
            StorageError: it was not written.
        """

    def check(self, permit: CommitPermit) -> None:
        """Raise FencedError if another job master has claimed the job since `permit` was given."""

    def completed(self) -> list[Completed]:
        """Return the completed checkpoints that were not trimmed, oldest first, read afresh."""

    def latest(self) -> Completed | None:
        """Return the newest completed checkpoint, read afresh; None if there is none."""

    def trim(self, permit: CommitPermit, oldest: CheckpointId) -> None:
        """Delete all entries before checkpoint `oldest`'s, none if it has none; FencedError as `check`."""

    def first_checkpoint_id(self, at_least: CheckpointId) -> CheckpointId:
        """Return the first id for the last claimant: at least `at_least`, above all known to the store.

        Call after :meth:`claim`. From it on :data:`IDS_AHEAD` ids are reserved; the claimant reserves more.
        """

    def reserve_ids(self, permit: CommitPermit, end: CheckpointId) -> None:
        """Mark ids below `end` as used for later claimants (not where folders show them), or FencedError."""

    def close(self, permit: CommitPermit, *, terminal: bool) -> None:
        """Give store and permit up; `terminal` removes every completed checkpoint, as the job ended for good.

        Without `terminal` all entries stay for the next job master. Files of checkpoints stay in either case.
        FencedError: another job master has claimed the job, and nothing was changed since.
        """
