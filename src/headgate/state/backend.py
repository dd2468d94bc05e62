"""The contract of keyed state backends, each owned by one operator subtask, and of writers of stored state.

One backend serves one operator subtask: its declared states and its timers, for a range of key groups. The
operator's loop calls its methods, a background thread those of its pending snapshots.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from headgate.common.plain_data import Description
from headgate.core.timers import TimerQueue
from headgate.state.snapshots import KeyedStateHandle, NativeFiles
from headgate.state.snapshots import StateHandle as StoredHandle
from headgate.state.state_names import Claims

if TYPE_CHECKING:
    from headgate.state.targets import Target

Part = bytes | memoryview

Columns = tuple[list[Hashable], list[Any]]
"""Some keys of one state, and the value of each, in the same order."""

Items = Iterator[tuple[Hashable, Any]]
"""An iterator over keys and their values."""


class StateHandle(Protocol):
    """A live state as the user function has it, such as `self.count`; it is bound to one key at a time."""

    @property
    def immutable(self) -> bool:
        """Whether values cannot change in place, so that :meth:`store` has to write the current one.
        False for lists, maps and states with a time to live, which change in the table at once.
        """

    def bind(self, key: Hashable) -> None:
        """Make `key` the current key, whose value the user function reads and writes from now on."""

    def store(self) -> None:
        """Write the current key's value to the table if the handle is `immutable`; else do nothing."""


# -- files


class BlobReader(Protocol):
    """The bytes of one stored blob (a file, or a part of one), which a restore reads piece by piece."""

    size: int  # in bytes

    def read(self, offset: int, length: int) -> bytes:
        """Return `length` bytes from `offset`, fewer only where the blob ends; StorageError: not readable."""


class StateFiles(Protocol):
    """Stores the bytes of one subtask's snapshot in a checkpoint or savepoint; failures are StorageErrors."""

    def write(self, uid: str, parts: Iterable[Part]) -> StoredHandle:
        """Store `parts` durably, end to end, for operator `uid`; return a handle, which may itself hold few
        bytes. `parts` are taken once, in order, and need not be in memory together.
        """

    def write_sections(
        self, uid: str, sections: Sequence[Iterable[Part]], *, inline: bool
    ) -> list[StoredHandle]:
        """Store several sections of bytes of operator `uid` durably in one file; return a handle for each.
        `sections`: the bytes of each section, in parts that are taken once and in order. `inline`: whether
        they may be kept in the checkpoint's metadata, in their handles, if all together are few bytes.
        """

    def share(self, handle: StoredHandle, root: str | None) -> bool:
        """Note that this snapshot refers to bytes stored by an earlier one; return whether it may. If not (in
        a savepoint; files of another job or storage, whose owner may delete them), the caller stores them
        anew. `root`: URI of the storage they were restored from; None: this attempt wrote them.
        """


class StoredFiles(Protocol):
    """The files of a stored snapshot, from which a restore or an offline command reads state."""

    def read(self, handle: StoredHandle) -> bytes:
        """Return all bytes that a handle refers to; a StorageError if they do not match their checksum."""

    def verify(self, handle: StoredHandle) -> None:
        """Compare the bytes of a handle with their checksum; a mismatch is a StorageError."""

    def verified(self, handle: StoredHandle) -> BlobReader:
        """Verify all bytes of a handle, as :meth:`verify` does, and return a reader of them."""

    def ranges(self, handle: StoredHandle) -> BlobReader:
        """Return a reader that fetches bytes when asked for them and does not verify them: for files that
        have checksums of their own inside.
        """

    def native(self, keyed: KeyedStateHandle) -> NativeState:
        """Return a reader of the RocksDB files and the blob of `keyed`, whose `native` must not be None."""

    def where(self, handle: StoredHandle) -> str:
        """Return how error messages name the file, or the metadata, that holds a handle's bytes."""


class NativeState(BlobReader, Protocol):
    """The RocksDB files that one earlier subtask stored, and a reader of the blob stored beside them."""

    native: NativeFiles  # the handles of the files, by name
    root: str  # URI of the storage that they are in

    def fetch(self, name: str, target: Path) -> None:
        """Put RocksDB file `name`, verified, at the local path `target`, as a copy or as a hard link. So the
        caller must not change it in place. StorageError: it is missing or damaged, or the disk fails.
        """


# -- what is stored


class Entries(NamedTuple):
    """A batch of entries of one state in one key group: keys, and the value of each, in the same order. The
    values of timers are their timestamps in ms. `size`: about how many stored bytes; 0: not known.
    """

    group: int
    keys: list[Hashable]
    values: list[Any]
    size: int = 0


class NewSection(NamedTuple):
    """One state, or one kind of timers, that a StateWriter is to write.

    Attributes:
        schema: kind and description of the serializers.
        encode: encodes a batch of values as bytes that the described serializers decode.
    """

    name: str
    schema: Description
    encode: Callable[[list[Any]], bytes]


class StateWriter(Protocol):
    """Writes the keyed state of one subtask in one stored form (such as a blob), section by section. Either
    :meth:`finish` or :meth:`abandon` ends it. Only one thread uses it. Errors of values are UsageErrors that
    name the state, those of disks StorageErrors.
    """

    def add(self, section: NewSection, entries: Iterable[Entries]) -> None:
        """Write a section: one state, or one kind of timers. The caller gives `entries` ascending by key
        group (not checked); they are consumed at return.
        """

    def finish(self) -> KeyedStateHandle:
        """Store all added sections durably, and return the handle for the checkpoint's metadata."""

    def abandon(self) -> None:
        """Drop the sections not stored yet, and free their memory and local disk; safe at any time."""


NewWriter = Callable[[tuple[int, int], int], StateWriter]
"""Makes a writer, given the first and last key group of the subtask and the number of all key groups."""


EntryFilter = Callable[[str, list[Hashable], list[Any]], Columns]
"""Chooses the entries to be written out of a batch of the named state, so that expired ones are left out. It
changes none in place. Batches come state by state, in the order of the declarations.
"""


class PendingSnapshot(Protocol):
    """A subtask's keyed state as it was at the snapshot point (the barrier), to be stored in the background.
    One background thread uses it. UsageError: a value is of a wrong type; StorageError: a disk fails.
    """

    keep: EntryFilter | None
    """Chooses the entries to be written; None: all. No effect on RocksDB's own files and on a changelog."""

    def store(self, uid: str, files: StateFiles) -> KeyedStateHandle:
        """Store the state of operator `uid` in this backend's own form, by `files`; return the handle for the
        checkpoint's metadata. The snapshot is released in any case, so this may be called once.
        """

    def store_with(self, new_writer: NewWriter) -> KeyedStateHandle:
        """Store all state by a writer of `new_writer`, such as one of another format; return the writer's
        handle. The snapshot is released in any case. InternalError: it holds changes only, not all state.
        """

    def release(self) -> None:
        """Release memory and local files of the snapshot, stored or not; safe at any time and repeatedly."""


@dataclass(frozen=True)
class EarlierState:
    """The keyed state that one subtask stored in a checkpoint, from which a backend restores. `root` is the
    storage that it is in; None: all of it is in the metadata. `claims` decides which states are restored;
    None: all, and one with entries that the program does not declare is a UsageError.
    """

    files: StoredFiles
    handle: KeyedStateHandle
    root: str | None = None
    claims: Claims | None = None


Stored = EarlierState | BlobReader | bytes
"""An input of a restore: the stored state of one earlier subtask, or a blob of state as it is."""


# -- a backend


class StoredValue(NamedTuple):
    """The encoded value of a state under one key, as a query of live state gets it; `schema` describes it."""

    schema: Description
    data: bytes


class MigrationProgress(NamedTuple):
    """Progress of rewriting a state's restored values, between records, to the type that is declared now.
    `done` entries of `about` (an estimate, at least `done`) were looked at, `per_second` since the restore;
    `rewritten` of them were of an older type.
    """

    state: str
    done: int
    about: int
    rewritten: int
    per_second: float


class KeyedBackend(Protocol):
    """The live keyed state and timers of one operator subtask: in memory, in RocksDB, or with a changelog."""

    event_timers: TimerQueue[Hashable]
    processing_timers: TimerQueue[Hashable]

    @property
    def groups(self) -> tuple[int, int]:
        """First and last key group (inclusive) that the subtask is responsible for."""

    @property
    def handles(self) -> Mapping[str, Any]:
        """The live handle of each declared state, by name, which the user function has as its attribute."""

    @property
    def targets(self) -> Mapping[str, Target]:
        """Stored type and serializer of each state and kind of timers, by name; a restore may change them."""

    def bind(self, key: Hashable) -> None:
        """Make `key` the current key of every handle, before a record or timer of that key is processed.

        Call :meth:`store` after the record or timer, or changes under `key` may be lost.
        """

    def store(self) -> None:
        """Store the changes made under the current key; to be called after its record or timer."""

    def prefetch(self, keys: Iterable[Hashable]) -> None:
        """Announce the keys of the next batch of records, repeats allowed; the backend may read their state
        ahead. It is a hint only, given between records.
        """

    def keys(self, name: str) -> Iterable[Hashable]:
        """Return the keys that have an entry in the state `name`, in no particular order. Call it between
        records, with everything stored; the state may change while the keys are read.
        """

    def scan(self, name: str) -> Items:
        """Return an iterator over keys and values of the state `name`; records may be processed meanwhile.
        Entries that change meanwhile may be seen or not, and values are not to be changed.
        """

    def peek(self, name: str, key: Hashable) -> StoredValue | None:
        """Return the encoded value of the state `name` under `key`, for a query; None: there is none. It has
        no effect of a read (such as a longer time to live). Call it between records, with everything stored;
        bind a key anew before its use.

        Raises:
            UsageError: the value is not of its state's declared type.
            StorageError: what is kept on the local disk cannot be read.
        """

    def state_types(self) -> dict[str, Description]:
        """Return a dict: state name -> kind and description of its serializers, for the metadata."""

    def snapshot_sync(self, checkpoint: int = 0, completed: int | None = 0) -> PendingSnapshot:
        """Take a snapshot at the barrier of `checkpoint`, after :meth:`store`; no later change reaches it.

        `completed`: newest complete checkpoint, whose files the snapshot may refer to; 0: the snapshot must
        be complete by itself; None: it is a savepoint's, complete by itself, and no later snapshot may refer
        to its files or take it for an earlier one.
        """

    def settle(self) -> None:
        """Do about a millisecond of the work that released snapshots, or a restore, left to be done.

        Call it often, between records; where no work is left it costs next to nothing.
        """

    def migration_progress(self) -> list[MigrationProgress]:
        """Return the progress of each state whose values of an older type :meth:`settle` still rewrites."""

    def measured(self) -> Mapping[str, int]:
        """Return the backend's metrics by name of the series (`metrics.metric_table`); between records."""

    def restore(self, stored: Iterable[Stored]) -> None:
        """Fill the empty backend with the entries of its key groups that any number of subtasks stored. Any
        stored form is read. UsageError: a type misfits; StorageError: damaged; InternalError: not empty.
        """

    def close(self) -> None:
        """Release files and memory that the backend holds outside Python; more than once does no harm."""


class StateTable(Protocol):
    """The table in which a backend keeps one state: key -> value, in a dict or an object like one."""

    @property
    def entries(self) -> Any:
        """The entries, with a dict's `get`, `pop` and item assignment; fetch it anew for each batch."""

    def own(self, key: Hashable) -> Any:
        """Return the value of `key`, or MISSING if there is none. The caller may change the value in place
        until the table is used for another key; the value may count as changed by this.
        """

    def put(self, key: Hashable, value: Any) -> None:
        """Set the value of `key`, replacing one that it has; the table may keep this very object."""

    def remove(self, key: Hashable) -> None:
        """Remove the entry of `key`, if there is one."""

    def load(self, keys: Sequence[Hashable], values: Sequence[Any]) -> None:
        """Add the keys and values of a restore; call it before the first snapshot."""


class TableBackend(KeyedBackend, Protocol):
    """A backend with tables of its own, around which another one (with a changelog) can be built. Its timer
    queues may be replaced by others for as long as they are empty.
    """

    max_parallelism: int

    @property
    def tables(self) -> Mapping[str, StateTable]:
        """The table of each declared state, by the state's name."""
