"""The log of completed checkpoints: which checkpoints are complete, and which job master may add one.

Entry k is the file ``log/<k in 19 digits>``, created if absent, and is either a claim of a
generation or a completed checkpoint of one. Only the last claimant appends: a job master that finds its next
place taken was replaced. That is the only lock there is, and it needs no clock.

Trimming deletes entries from the front. A replaced job master may then find a free place in the trimmed part;
therefore every creation is followed by a look at the end of the log, and every entry names its predecessor by
digest, so that readers never count an entry in a trimmed place.

An entry whose writing got no answer may appear much later. Before anything relies on its absence, the
claimant puts a claim of the same generation and token in its place: then it cannot appear any more.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from headgate.checkpoint.storage.storage_contract import UnsureWriteError
from headgate.checkpoint.store.entries import Claim, Completed, Entry, decode_entry, digest, encode_entry
from headgate.checkpoint.store.store_contract import CLAIMED, CommitPermit
from headgate.common.errors import DamagedFileError, FencedError, StorageError
from headgate.common.ids import CheckpointId, Generation
from headgate.common.ports import Disk

ATTEMPTS_MAX: Final = 64  # rounds of a claim or a read against others that write at the same time


@dataclass(frozen=True, slots=True)
class _Place:
    """A log entry with its index in the log and the bytes of its file."""

    index: int
    data: bytes
    entry: Entry

    @property
    def digest(self) -> str:
        return digest(self.data)


class CompletedCheckpointLog:
    """Keeps the log of a job's completed checkpoints as files in `folder`, a name on `disk`.
    It implements `store_contract.CompletedCheckpointStore`, which says what its methods promise. Anybody may
    read; methods that take a permit raise FencedError unless this object's own last claim gave it. `token`
    makes random bytes. One thread at a time. `completed` raises DamagedFileError if an entry is damaged.
    """

    def __init__(self, disk: Disk, folder: str, token: Callable[[int], bytes] = secrets.token_bytes) -> None:
        self._disk, self._folder, self._random = disk, folder, token
        self._token = ""
        self._permit: CommitPermit | None = None
        self._end: _Place | None = None
        self._unsure: _Place | None = None

    def claim(self) -> CommitPermit:
        self._permit = self._unsure = None
        for _ in range(ATTEMPTS_MAX):
            self._token = self._random(16).hex()  # anew: an entry that an earlier attempt left must not count
            run = self._read_run()
            last = run[-1] if run else None
            generation = last.entry.generation + 1 if last else 1
            place = self._next(last, Claim(generation, last.digest if last else "", self._token))
            if self._create(place) and self._is_last(place):
                self._end = place
                self._permit = CommitPermit(Generation(generation), CLAIMED)
                return self._permit
        raise StorageError(
            f"{self._disk.describe(self._folder)} could not be claimed in {ATTEMPTS_MAX} attempts because "
            "others claim it all the time; stop the other job masters of this job"
        )

    def append(self, permit: CommitPermit, checkpoint: CheckpointId, metadata: str, sha256: str) -> None:
        self._settle(permit)
        end = self._require(permit)
        place = self._next(end, Completed(permit.generation, end.digest, checkpoint, metadata, sha256))
        try:
            created = self._create(place)
            # Not the last: claimed by another in the same moment (then the entry counts), or created in
            # a trimmed place (then no reader counts it). Either way: stop, and delete nothing.
            created = created and self._is_last(place, end)
        except UnsureWriteError:
            self._unsure = place
            raise
        except (StorageError, OSError) as error:
            if self._may_exist(place):
                self._unsure = place
                raise UnsureWriteError(f"{error}; the log entry may exist") from error
            raise
        if not created:
            raise self._fenced(permit)
        self._end = place

    def check(self, permit: CommitPermit) -> None:
        self._settle(permit)
        end = self._require(permit)
        if not self._is_last(end, end):
            raise self._fenced(permit)

    def completed(self) -> list[Completed]:
        if self._permit is not None:
            self._settle(self._permit)
        entries = [place.entry for place in self._read_run() if isinstance(place.entry, Completed)]
        # Once each and by id: see `forget`, which may have been interrupted.
        return [entry for _, entry in sorted({entry.checkpoint: entry for entry in entries}.items())]

    def latest(self) -> Completed | None:
        completed = self.completed()
        return completed[-1] if completed else None

    def trim(self, permit: CommitPermit, oldest: CheckpointId) -> None:
        self.check(permit)
        run = self._read_run()
        kept = [p.index for p in run if isinstance(p.entry, Completed) and p.entry.checkpoint == oldest]
        if kept:
            self._delete_before(kept[0])

    def generation(self) -> int:
        run = self._read_run()
        return run[-1].entry.generation if run else 0

    def forget(self, permit: CommitPermit, checkpoint: int) -> None:
        """Remove one completed checkpoint from the log, wherever its entry is; call it right after a claim.
        The other entries are written anew after the claim before the old ones are deleted, so readers always
        see all of them. Nothing happens if the log has no entry of `checkpoint`; its files stay in any case.
        FencedError if another job master has claimed the job since `permit` was given.
        """
        self.check(permit)
        logged = self.completed()
        if all(entry.checkpoint != checkpoint for entry in logged):
            return
        end = self._require(permit)
        others = [entry for entry in logged if entry.checkpoint != checkpoint]
        for entry in others:
            self.append(permit, CheckpointId(entry.checkpoint), entry.metadata, entry.sha256)
        self._delete_before(end.index + 1 if others else end.index)

    def first_checkpoint_id(self, at_least: CheckpointId) -> CheckpointId:
        newest = max((entry.checkpoint for entry in self.completed()), default=0)
        return CheckpointId(max(at_least, newest + 1))

    def reserve_ids(self, permit: CommitPermit, end: CheckpointId) -> None:
        self._require(permit)

    def close(self, permit: CommitPermit, *, terminal: bool) -> None:
        self.check(permit)
        if terminal:
            self._end = last = self._closing_claim(permit)
            self._delete_before(last.index)
        self._permit = self._end = self._unsure = None

    def _closing_claim(self, permit: CommitPermit) -> _Place:
        end = self._require(permit)
        if end.entry.generation > permit.generation:
            return end  # of a first try that came no further
        last = self._next(end, Claim(permit.generation + 1, end.digest, self._random(16).hex()))
        if not (self._create(last) and self._is_last(last)):
            raise self._fenced(permit)
        return last

    def _delete_before(self, first: int) -> None:
        # From the front, so that a crash on the way leaves an unbroken log; stale entries are deleted, too.
        for index in self._indices():
            if index < first:
                self._disk.delete(self._name(index))

    def _settle(self, permit: CommitPermit) -> None:
        """Find out whether an entry whose write got no answer exists; if not, it cannot appear later.
        Called before whatever relies on the end of the log. Nothing happens if no write is in doubt.
        """
        place = self._unsure
        if place is None or permit is not self._permit:
            return
        end = self._require(permit)
        self._is_last(place, end)  # in another place than the log's nothing is settled
        # The same bytes at every try, so that what an earlier one left is known as our own.
        barrier = self._next(end, Claim(permit.generation, end.digest, self._token))
        found = self._bytes(place.index)
        if found is None:
            if self._create(barrier):
                self._end, self._unsure = barrier, None
                return
            found = self._bytes(place.index)
        for mine in (place, barrier):
            if found == mine.data:
                # The same bytes again: what was visible becomes durable, before anything builds on it.
                self._disk.create(self._name(mine.index), [mine.data])
                self._end = mine
        self._unsure = None  # of another: the next look at the end says so

    def _bytes(self, index: int) -> bytes | None:
        try:
            return self._disk.read(self._name(index))
        except FileNotFoundError:
            return None

    def _require(self, permit: CommitPermit) -> _Place:
        if permit is not self._permit or self._end is None:
            raise FencedError(
                f"generation {permit.generation} does not hold the log {self._disk.describe(self._folder)}; "
                "a newer claim was made"
            )
        return self._end

    def _fenced(self, permit: CommitPermit) -> FencedError:
        self._permit = None
        return FencedError(
            f"another job master has claimed {self._disk.describe(self._folder)} since generation "
            f"{permit.generation}; this one must stop"
        )

    def _may_exist(self, place: _Place) -> bool:
        try:
            return self._bytes(place.index) == place.data
        except (StorageError, OSError):
            return True

    def _create(self, place: _Place) -> bool:
        return self._disk.create_if_absent(self._name(place.index), place.data)

    def _is_last(self, place: _Place, before: _Place | None = None) -> bool:
        """Return whether no entry follows `place`, the last one of this job master that it knows of.
        `before` is an earlier entry, which is removed only after another claim. A StorageError says that it
        is missing without such a claim: this is not the log's place.
        """
        indices = self._indices()
        last = indices[-1] if indices else -1
        if before is not None and before.index not in indices and last <= place.index:
            raise StorageError(
                f"{self._disk.describe(self._name(before.index))} was there and is not; is the disk away?"
            )
        return last == place.index

    @staticmethod
    def _next(last: _Place | None, entry: Entry) -> _Place:
        return _Place(last.index + 1 if last else 0, encode_entry(entry), entry)

    def _read_run(self) -> list[_Place]:
        """Return the valid entries in order: the longest run of linked entries that ends at the last one.
        StorageError if others change the log during every attempt; DamagedFileError: an entry is damaged.
        """
        for _ in range(ATTEMPTS_MAX):
            indices = self._indices()
            if not indices:
                return []
            last = self._read(indices[-1])
            if last is None:
                continue  # trimmed by others between the two looks
            run = [last]
            for index in reversed(indices[:-1]):
                place = self._read(index) if index == run[-1].index - 1 else None
                if place is None or place.digest != run[-1].entry.previous:
                    break
                run.append(place)
            return run[::-1]
        raise StorageError(
            f"{self._disk.describe(self._folder)} changed during each of {ATTEMPTS_MAX} attempts to read it"
        )

    def _read(self, index: int) -> _Place | None:
        name = self._name(index)
        try:
            data = self._disk.read(name)
        except FileNotFoundError:
            return None
        return _Place(index, data, decode_entry(data, self._disk.describe(name)))

    def _indices(self) -> list[int]:
        names = (name.rpartition("/")[2] for name in self._disk.list(self._folder))
        return sorted(int(name) for name in names if len(name) == 19 and name.isascii() and name.isdigit())

    def _name(self, index: int) -> str:
        return f"{self._folder}/{index:019d}"


def readable_entries(disk: Disk, folder: str) -> list[Completed]:
    """Return the completed checkpoints in the log in `folder`, which may have damaged entries, oldest first.
    Damaged entries are left out. For advice only, such as which older checkpoint to restore: a damaged entry
    may have named another one, and what is before it may not belong to the log.
    """
    found: dict[int, Completed] = {}
    log, after = CompletedCheckpointLog(disk, folder), None
    for index in reversed(log._indices()):
        try:
            place = log._read(index)
        except DamagedFileError:
            after = None
            continue
        if place is None or (after is not None and place.digest != after.previous):
            break
        after = place.entry
        if isinstance(after, Completed):
            found.setdefault(after.checkpoint, after)
    return [found[checkpoint] for checkpoint in sorted(found)]
