"""The store of completed checkpoints in ZooKeeper: small handles there, everything else on the disk.

::

    <root>/generation              number and token of the last claim
    <root>/owner/<token>           exists as long as that claim is the last one
    <root>/checkpoints/<19 digits> one entry for each completed checkpoint, by its id
    <root>/checkpoints/<19 digits>/<lock>   ephemeral, of a process that may still need it
    <root>/checkpoint-id-counter   below it every id may have been used

A claim is one transaction: it replaces the owner's node if the generation is still the one that was read.
Every other change is one transaction as well, and its first part sets the owner's node at its known
version. So a replaced job master changes nothing, whatever it believes of its session; and a change whose
outcome is unknown is resolved for good by one more write, after which it cannot happen any more.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Final, NamedTuple, TypeVar

import msgspec

from headgate.checkpoint.storage.storage_contract import UnsureWriteError
from headgate.checkpoint.store.entries import Completed, decode_entry, encode_entry
from headgate.checkpoint.store.store_contract import CLAIMED, IDS_AHEAD, CommitPermit
from headgate.common.decoders import UNDECODABLE, msgpack_decoder
from headgate.common.errors import FencedError, InternalError, StorageError
from headgate.common.ids import CheckpointId, Generation
from headgate.ha.zookeeper.znodes import Change, Create, Delete, RejectedError, SetData, ZNodes

T = TypeVar("T")

ATTEMPTS_MAX: Final = 64  # rounds of one change against others that happen at the same time
BATCH: Final = 64  # handles that one transaction locks or removes; a transaction must stay below a megabyte
MASTER_LOCK: Final = "generation-"  # begins the locks of job masters; those of replaced ones protect nothing
READER_LOCK: Final = "reader-"  # begins the locks of readers, which keep a handle from being trimmed


class _Claimant(msgspec.Struct, frozen=True):
    """The content of the node `generation`: number and token of the last claim."""

    generation: int
    token: str


class _Owned(NamedTuple):
    """This process's claim: its permit, the owner's node and the node's last known version."""

    permit: CommitPermit
    node: str
    version: int


class _Unsure(NamedTuple):
    """An entry whose write got no answer, so that it may exist or not."""

    checkpoint: int
    data: bytes


_encoder: Final = msgspec.msgpack.Encoder()
_claimants: Final = msgpack_decoder(_Claimant)


class ZooKeeperCheckpointStore:
    """One job's store of completed checkpoints below the ZooKeeper node `root`; not thread-safe.

    It implements `CompletedCheckpointStore`. Every change by a permit that is not the last one given raises
    FencedError; a ZooKeeper that does not answer in time raises StorageError, and UnsureWriteError where the
    change may have happened.
    """

    def __init__(self, nodes: ZNodes, root: str, token: Callable[[int], bytes] = secrets.token_bytes) -> None:
        self._nodes, self._root, self._token = nodes, root, token
        self._generation, self._ids = f"{root}/generation", f"{root}/checkpoint-id-counter"
        self._owned: _Owned | None = None
        self._unsure: _Unsure | None = None
        self._newest = self._counter = 0

    def generation(self) -> int:
        node = self._nodes.read(self._generation)
        return 0 if node is None else self._claimant(node.data).generation

    def claim(self) -> CommitPermit:
        self._owned = self._unsure = None
        for folder in ("owner", "checkpoints"):
            self._nodes.ensure(f"{self._root}/{folder}")
        for _ in range(ATTEMPTS_MAX):
            owned = self._try_to_claim()
            if owned is not None:
                self._owned = owned
                with suppress(FencedError):  # replaced already: any use of the permit will fail
                    self._read_what_is_there(owned.permit)
                return owned.permit
        raise StorageError(
            f"{self._where()} could not be claimed in {ATTEMPTS_MAX} attempts because others claim it all "
            "the time; stop the other job masters of this job"
        )

    def check(self, permit: CommitPermit) -> None:
        self._resolve(permit)
        # A read could come from a server that lags; a write cannot.
        self._change(permit, [])

    def first_checkpoint_id(self, at_least: CheckpointId) -> CheckpointId:
        if self._owned is None:
            raise FencedError(f"{self._where()} gives ids to its last claimant only; claim it first")
        permit = self._owned.permit
        self._resolve(permit)
        first = max(at_least, self._newest + 1, self._counter)
        self._change(permit, self._counting_to(first + IDS_AHEAD))
        self._counter = first + IDS_AHEAD
        return CheckpointId(first)

    def reserve_ids(self, permit: CommitPermit, end: CheckpointId) -> None:
        self._resolve(permit)
        self._require(permit)
        if end > self._counter:
            self._change(permit, self._counting_to(end))
            self._counter = end

    def close(self, permit: CommitPermit, *, terminal: bool) -> None:
        """Give up the store: release all locks; `terminal` also removes all entries, as the job has ended.

        Generation and counter stay in any case: neither may begin anew under a name that was used.
        """
        self._resolve(permit)
        owned = self._require(permit)
        if terminal:
            self._remove(permit, self._handles())
            folders = [owned.node, f"{self._root}/owner", f"{self._root}/checkpoints"]
            self._change(permit, [Delete(folder) for folder in folders])
        else:
            locks = [f"{self._handle(i)}/{self._lock(permit)}" for i in self._handles()]
            for batch in _batches([path for path in locks if self._nodes.read(path) is not None]):
                self._change(permit, [Delete(path) for path in batch])
        self._owned = self._unsure = None

    def append(self, permit: CommitPermit, checkpoint: CheckpointId, metadata: str, sha256: str) -> None:
        self._resolve(permit)
        self._require(permit)
        if checkpoint <= self._newest:
            raise InternalError(
                f"checkpoint {checkpoint} comes to {self._where()} after checkpoint {self._newest}; ids "
                "must increase"
            )
        data = encode_entry(Completed(permit.generation, "", checkpoint, metadata, sha256))
        handle = self._handle(checkpoint)
        counter = checkpoint + IDS_AHEAD if checkpoint >= self._counter else self._counter
        lock = Create(f"{handle}/{self._lock(permit)}", ephemeral=True)
        changes: list[Change] = [Create(handle, data), lock]
        if counter != self._counter:
            changes += self._counting_to(counter)
        try:
            self._change(permit, changes)
        except UnsureWriteError as error:
            self._unsure = _Unsure(checkpoint, data)
            if not self._resolved_at_once(permit, error):
                raise StorageError(f"{error}; it did not happen") from error
        self._newest, self._counter = checkpoint, counter

    def completed(self) -> list[Completed]:
        if self._owned is not None:
            with suppress(FencedError):  # a replaced job master may still read
                self._resolve(self._owned.permit)
        for _ in range(ATTEMPTS_MAX):
            entries = [self._read(checkpoint) for checkpoint in self._handles()]
            found = [entry for entry in entries if entry is not None]
            if len(found) == len(entries):  # else trimmed by others between the two looks
                return found
        raise StorageError(f"{self._where()} changed during each of {ATTEMPTS_MAX} attempts to read it")

    def latest(self) -> Completed | None:
        completed = self.completed()
        return completed[-1] if completed else None

    def trim(self, permit: CommitPermit, oldest: CheckpointId) -> None:
        self.check(permit)
        handles = self._handles()
        if oldest in handles:
            self._remove(permit, [checkpoint for checkpoint in handles if checkpoint < oldest])

    @contextmanager
    def reading(self, checkpoint: CheckpointId) -> Iterator[None]:
        """Keep the entry of a completed checkpoint from being trimmed while the block reads its files, as
        long as the ZooKeeper session lasts. StorageError if the entry is gone. For readers in any process,
        without a claim.
        """
        lock = f"{self._handle(checkpoint)}/{READER_LOCK}{self._token(8).hex()}"
        try:
            self._nodes.change([Create(lock, ephemeral=True)])
        except RejectedError as error:
            raise StorageError(
                f"checkpoint {checkpoint} is not in {self._where()} any more; read its entries again"
            ) from error
        try:
            yield
        finally:
            with suppress(StorageError):
                self._nodes.change([Delete(lock)])

    def _try_to_claim(self) -> _Owned | None:
        node, token = self._nodes.read(self._generation), self._token(16).hex()
        generation, changes = 1, list[Change]()
        if node is not None:
            last = self._claimant(node.data)
            generation, former = last.generation + 1, f"{self._root}/owner/{last.token}"
            changes = [] if self._nodes.read(former) is None else [Delete(former)]
        data, owner = _encoder.encode(_Claimant(generation, token)), f"{self._root}/owner/{token}"
        first: Change = (
            Create(self._generation, data) if node is None else SetData(self._generation, data, node.version)
        )
        try:
            self._nodes.change([first, *changes, Create(owner)])
        except RejectedError:
            return None
        except UnsureWriteError:
            # If it happens later after all, no process has that owner's token, and the next claim ends it.
            if self._nodes.read(owner) is None:
                return None
        return _Owned(CommitPermit(Generation(generation), CLAIMED), owner, 0)

    def _read_what_is_there(self, permit: CommitPermit) -> None:
        """Read the newest id and the counter, and lock all entries: no other process can change them now."""
        handles = self._handles()
        for batch in _batches(handles):
            locks = [f"{self._handle(checkpoint)}/{self._lock(permit)}" for checkpoint in batch]
            self._change(permit, [Create(lock, ephemeral=True) for lock in locks])
        self._newest = max(handles, default=0)
        counter = self._nodes.read(self._ids)
        if counter is not None and not counter.data.isdigit():
            raise StorageError(
                f"{self._nodes.describe(self._ids)} holds {counter.data[:40]!r}; expected a number: delete "
                "the node, ids then go on after the last completed checkpoint"
            )
        self._counter = 0 if counter is None else int(counter.data)

    def _change(self, permit: CommitPermit, changes: Sequence[Change]) -> None:
        """Carry out changes in one transaction; FencedError: this process is replaced; or StorageError."""
        for _ in range(ATTEMPTS_MAX):
            owned = self._require(permit)
            try:
                self._nodes.change([SetData(owned.node, b"", owned.version), *changes])
            except RejectedError as error:
                if error.index != 0:
                    raise
                # Another version: a change of our own whose outcome was unknown has happened since.
                self._owned = owned._replace(version=self._version(permit))
            else:
                self._owned = owned._replace(version=owned.version + 1)
                return
        raise StorageError(f"{self._where()} was not changed in {ATTEMPTS_MAX} attempts; try again")

    def _resolve(self, permit: CommitPermit) -> None:
        """Settle for good whether an entry whose write got no answer exists, if there is one.
        UnsureWriteError if that is still unknown, FencedError if another job master has claimed the job
        meanwhile.
        """
        unsure = self._unsure
        if unsure is None or self._owned is None or permit is not self._owned.permit:
            return
        for _ in range(ATTEMPTS_MAX):
            # The version first: had the entry come after a look at it, the version would be another one.
            version = self._version(permit)
            self._owned = self._owned._replace(version=version)
            node = self._nodes.read(self._handle(unsure.checkpoint))
            if node is not None and node.data == unsure.data:
                self._newest = unsure.checkpoint
                self._owned = self._owned._replace(version=self._version(permit))
                break
            try:
                self._nodes.change([SetData(self._owned.node, b"", version)])
            except RejectedError:
                continue
            self._owned = self._owned._replace(version=version + 1)
            break
        else:
            raise UnsureWriteError(
                f"whether checkpoint {unsure.checkpoint} is in {self._where()} did not show in "
                f"{ATTEMPTS_MAX} attempts"
            )
        self._unsure = None

    def _resolved_at_once(self, permit: CommitPermit, cause: UnsureWriteError) -> bool:
        unsure = self._unsure
        try:
            self._resolve(permit)
        except FencedError:
            raise
        except StorageError as error:
            raise UnsureWriteError(f"{cause}; the entry may exist: {error}") from error
        return unsure is not None and self._newest == unsure.checkpoint

    def _remove(self, permit: CommitPermit, checkpoints: Sequence[int]) -> None:
        for batch in _batches(checkpoints):
            for _ in range(ATTEMPTS_MAX):
                try:
                    self._change(permit, [change for i in batch for change in self._removal(i)])
                    break
                except RejectedError:  # a lock came or went meanwhile
                    continue
            else:
                raise StorageError(f"locks in {self._where()} change all the time; nothing was removed")

    def _removal(self, checkpoint: int) -> list[Change]:
        handle = self._handle(checkpoint)
        locks = self._nodes.children(handle)
        readers = [lock for lock in locks if not lock.startswith(MASTER_LOCK)]
        if readers:
            raise StorageError(
                f"checkpoint {checkpoint} in {self._where()} is still read from ({', '.join(readers)}); it "
                "is removed when the reader is through"
            )
        last = [] if self._nodes.read(handle) is None else [Delete(handle)]
        return [*(Delete(f"{handle}/{lock}") for lock in locks), *last]

    def _counting_to(self, value: int) -> list[Change]:
        data = str(value).encode()
        if self._counter == 0 and self._nodes.read(self._ids) is None:
            return [Create(self._ids, data)]
        return [SetData(self._ids, data)]

    def _version(self, permit: CommitPermit) -> int:
        owned = self._require(permit)
        node = self._nodes.read(owned.node)
        if node is None:
            self._owned = None
            raise FencedError(
                f"another job master has claimed {self._where()} since generation {permit.generation}; this "
                "one must stop"
            )
        return node.version

    def _require(self, permit: CommitPermit) -> _Owned:
        if self._owned is None or permit is not self._owned.permit:
            raise FencedError(
                f"generation {permit.generation} does not hold {self._where()}; a newer claim was made"
            )
        return self._owned

    def _handles(self) -> list[int]:
        names = self._nodes.children(f"{self._root}/checkpoints")
        strange = [name for name in names if not (len(name) == 19 and name.isascii() and name.isdigit())]
        if strange:
            raise StorageError(
                f"{self._where()}/checkpoints has the child {strange[0]!r}; expected ids of 19 digits: "
                "remove what does not belong there"
            )
        return sorted(int(name) for name in names)

    def _read(self, checkpoint: int) -> Completed | None:
        node = self._nodes.read(self._handle(checkpoint))
        if node is None:
            return None
        where = self._nodes.describe(self._handle(checkpoint))
        entry = decode_entry(node.data, where)
        if not isinstance(entry, Completed) or entry.checkpoint != checkpoint:
            raise StorageError(f"{where} holds the entry of another place; give the checkpoint by its path")
        return entry

    def _claimant(self, data: bytes) -> _Claimant:
        try:
            return _claimants.decode(data)
        except UNDECODABLE as error:
            raise StorageError(
                f"{self._nodes.describe(self._generation)} is damaged: {error}; stop all job masters of this "
                "job and delete the node"
            ) from error

    def _handle(self, checkpoint: int) -> str:
        return f"{self._root}/checkpoints/{checkpoint:019d}"

    @staticmethod
    def _lock(permit: CommitPermit) -> str:
        return f"{MASTER_LOCK}{permit.generation}"

    def _where(self) -> str:
        return self._nodes.describe(self._root)


def _batches(items: Sequence[T]) -> Iterator[Sequence[T]]:
    return (items[start : start + BATCH] for start in range(0, len(items), BATCH))
