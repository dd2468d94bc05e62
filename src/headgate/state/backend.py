"""What a backend of keyed state offers to the operator that owns it; implementations store.

One backend serves one operator subtask: its declared states and its timers, for a range of key
groups. All methods are called by the operator's loop, except those of a pending snapshot.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, runtime_checkable

from headgate.common.plain_data import Description
from headgate.core.timers import TimerQueue
from headgate.state.snapshots import Inline, KeyedStateHandle, NativeFiles
from headgate.state.snapshots import StateHandle as StoredHandle

if TYPE_CHECKING:
    from headgate.state.targets import Target

Part = bytes | memoryview


class StateHandle(Protocol):
    """A live state, bound to one key at a time; what the user's attribute holds.

    Attributes:
        immutable: whether the handle keeps its key's value outside the table between `bind` and
            `store`, as values of its type cannot be changed in place.
    """

    @property
    def immutable(self) -> bool:
        """See the class."""
        ...

    def bind(self, key: Hashable) -> None:
        """Make `key` the current key."""
        ...

    def store(self) -> None:
        """Put what was changed since :meth:`bind` into the table."""
        ...


class BlobReader(Protocol):
    """The bytes of one stored blob, readable in parts."""

    size: int

    def read(self, offset: int, length: int) -> bytes:
        """`length` bytes from `offset`; fewer only where the blob ends."""
        ...


class StateFiles(Protocol):
    """Where the asynchronous part of a snapshot puts its bytes."""

    def write(self, uid: str, parts: Iterable[Part]) -> StoredHandle:
        """Store bytes durably.

        `parts`: the bytes in order; asked for once.

        Raises:
            StorageError: the storage refused.
        """
        ...

    def write_sections(
        self, uid: str, sections: Sequence[Iterable[Part]], *, inline: bool
    ) -> list[StoredHandle]:
        """Store several things durably in one file, each with a handle of its own.

        `sections`: the bytes of each, in parts; asked for once and in order.
        `inline`: whether all of it may be kept in the metadata when it is little.

        Raises:
            StorageError: the storage refused.
        """
        ...

    def share(self, handle: StoredHandle, root: str | None) -> bool:
        """Refer to what an earlier checkpoint stored; False when that may go while this one stays.

        `root`: the storage that it was restored from; None: it was written by this attempt.
        """
        ...


class StoredFiles(Protocol):
    """Where stored state lies."""

    def read(self, handle: StoredHandle) -> bytes:
        """All bytes, verified."""
        ...

    def verify(self, handle: StoredHandle) -> None:
        """Compare the bytes with their checksum."""
        ...

    def verified(self, handle: StoredHandle) -> BlobReader:
        """The bytes, verified as a whole, then read in parts."""
        ...

    def ranges(self, handle: StoredHandle) -> BlobReader:
        """The bytes, read where they are asked for and not verified: for what has checksums of its own."""
        ...

    def native(self, keyed: KeyedStateHandle) -> NativeState:
        """Native files, and the blob beside them."""
        ...

    def where(self, handle: StoredHandle) -> str:
        """What errors call the file."""
        ...


class Entries(NamedTuple):
    """Keys of one state in one key group, and a value for each.

    Attributes:
        size: about how many bytes they take, or took, where they are stored; 0: nobody asks.
    """

    group: int
    keys: list[Hashable]
    values: list[Any]
    size: int = 0


Columns = tuple[list[Hashable], list[Any]]
"""Some keys of one state, and a value for each."""

Items = Iterator[tuple[Hashable, Any]]
"""A walk over keys and their values."""


class EntryFilter(Protocol):
    """Leaves entries out of a snapshot that is written whole."""

    def __call__(self, name: str, keys: list[Hashable], values: list[Any]) -> Columns:
        """The entries of a state that are to be written, out of some of them; it changes none in place.

        Portions come state by state, in the order of the declarations.
        """
        ...


class PendingSnapshot(Protocol):
    """State as it was at the cut, not yet bytes. Used by one thread beside the loop.

    Attributes:
        keep: decides which entries are written, unless the state is stored as the backend's own files;
            None: all.
    """

    keep: EntryFilter | None

    def write(self) -> Iterable[bytes]:
        """The whole state as one blob, in parts to be laid end to end; then the snapshot is released.

        Raises:
            UsageError: a value is not of its state's declared type.
            StorageError: what is kept on the local disk cannot be read or written.
        """
        ...

    def store(self, uid: str, files: StateFiles) -> KeyedStateHandle:
        """Store the state as this backend does; then the snapshot is released.

        Raises:
            UsageError: a value is not of its state's declared type.
            StorageError: a disk refused.
        """
        ...

    def release(self) -> None:
        """Let go of the state; safe at any time, more than once, and instead of :meth:`write`."""
        ...


@runtime_checkable
class NativeState(BlobReader, Protocol):
    """What one earlier subtask stored as its backend's own files, beside the blob that this is."""

    native: NativeFiles
    root: str

    def fetch(self, name: str, target: Path) -> None:
        """Copy a native file to the local disk.

        Raises:
            StorageError: it is missing or damaged, or the local disk does not take it.
        """
        ...


class StateSelection(Protocol):
    """Decides which stored states a restore takes.

    Attributes:
        skipped: names of the states that were left out so far.
    """

    skipped: set[str]

    def claims(self, name: str) -> bool:
        """Whether a stored state, or a section of removed entries, is to be restored; notes it where not."""
        ...


@dataclass(frozen=True)
class EarlierState:
    """What one earlier subtask stored.

    Attributes:
        base: everything at some time: a blob, or a backend's own files beside one; None: tables.
        log: what changed since, oldest first; each a blob.
        tables: where the tables are, and what refers to them.
        handle: what it was stored as, for a backend whose log goes on from there; None: unknown.
        root: the storage that it is in.
        claims: the states that are to be restored; None: all.
    """

    base: BlobReader | None
    log: Sequence[BlobReader] = ()
    tables: tuple[StoredFiles, KeyedStateHandle] | None = None
    handle: KeyedStateHandle | None = None
    root: str | None = None
    claims: StateSelection | None = None


Stored = EarlierState | BlobReader | bytes


def store_blob(
    uid: str, files: StateFiles, groups: tuple[int, int], parts: Iterable[Part]
) -> KeyedStateHandle:
    """Store state that is one blob and nothing else."""
    handle = files.write(uid, parts)
    return KeyedStateHandle(*groups, handle, size_of(handle))


def size_of(handle: StoredHandle) -> int:
    """How many bytes are stored."""
    return len(handle.data) if isinstance(handle, Inline) else handle.length


class StoredValue(NamedTuple):
    """What a state holds under one key, as bytes of its own: changes do not pass either way.

    Attributes:
        schema: kind and description of the state's serializers.
        data: the value, as a batch of one.
    """

    schema: Description
    data: bytes


class MigrationProgress(NamedTuple):
    """How far the rewriting of a state's values to its declared type is.

    Attributes:
        done: stored entries that were looked at.
        about: how many there are, as the backend estimates it; at least `done`.
        rewritten: those that were of an older type.
        per_second: entries looked at, since the restore.
    """

    state: str
    done: int
    about: int
    rewritten: int
    per_second: float


class KeyedBackend(Protocol):
    """Keyed state and timers of one operator subtask.

    Attributes:
        handles: one live handle per declared state, by name.
        targets: description and serializer, by state and kind of timers; a restore may reconfigure them.
    """

    @property
    def groups(self) -> tuple[int, int]:
        """See the class."""
        ...

    @property
    def handles(self) -> Mapping[str, Any]:
        """See the class."""
        ...

    @property
    def targets(self) -> Mapping[str, Target]:
        """See the class."""
        ...

    event_timers: TimerQueue[Hashable]
    processing_timers: TimerQueue[Hashable]

    def bind(self, key: Hashable) -> None:
        """Make `key` the current key of every handle."""
        ...

    def store(self) -> None:
        """Store what was changed for the current key."""
        ...

    def prefetch(self, keys: Iterable[Hashable]) -> None:
        """Make ready what the next records need, with one access for all; changes nothing that is stored.

        Args:
            keys: of the records, also more than once.
        """
        ...

    def keys(self, name: str) -> Iterable[Hashable]:
        """The keys that have an entry in a state now, in no particular order; it may change meanwhile.

        Call it between records, with everything stored.
        """
        ...

    def scan(self, name: str) -> Items:
        """A walk over the keys and values of one state, taken up and put aside at will between records.

        What changes meanwhile may be seen or not, and values are not to be changed.
        """
        ...

    def peek(self, name: str, key: Hashable) -> StoredValue | None:
        """What one state holds under a key now, without the effects of a read; None: nothing.

        Call it between records, with everything stored; bind a key anew before its use.

        Raises:
            UsageError: the value is not of its state's declared type.
            StorageError: what is kept on the local disk cannot be read.
        """
        ...

    def state_types(self) -> dict[str, Description]:
        """State name -> kind and description of its serializers, for the checkpoint's metadata."""
        ...

    def snapshot_sync(self, checkpoint: int = 0, completed: int | None = 0) -> PendingSnapshot:
        """Fix the state at this moment; changes made afterwards do not reach the snapshot.

        `completed`: newest checkpoint that is complete, whose files the snapshot may refer to; 0: it
        must be whole by itself; None: it is a savepoint's, whole by itself, and no later
        snapshot may refer to its files or take it for an earlier one.
        """
        ...

    def settle(self) -> None:
        """Do a part of what snapshots that are released, or a restore, left to be done: about a millisecond.

        Call it often, between records; where nothing is left it costs next to nothing.
        """
        ...

    def migration_progress(self) -> list[MigrationProgress]:
        """The states of which :meth:`settle` still rewrites values that an earlier program stored."""
        ...

    def restore(self, stored: Iterable[Stored]) -> None:
        """Fill the empty backend with its own key groups out of what any number of subtasks stored.

        Blobs and the native files of any backend may be among it, with and without a log, and tables.
        """
        ...

    def close(self) -> None:
        """Release what the backend holds outside Python; more than once does no harm."""
        ...


class StateTable(Protocol):
    """Where a backend keeps one state: key -> value, in Python or behind a face like it.

    Attributes:
        entries: of a dict the methods `get` and `pop`, and item assignment; another object may take its
            place between two batches.
    """

    @property
    def entries(self) -> Any:
        """See the class."""
        ...

    def own(self, key: Hashable) -> Any:
        """The value of `key` for changing in place, or MISSING."""
        ...

    def put(self, key: Hashable, value: Any) -> None:
        """Set the value of `key`."""
        ...

    def remove(self, key: Hashable) -> None:
        """Remove the entry of `key`, if there is one."""
        ...

    def load(self, keys: Sequence[Hashable], values: Sequence[Any]) -> None:
        """Put restored entries, before there was any snapshot."""
        ...


class TableBackend(KeyedBackend, Protocol):
    """A backend that keeps the states itself, so that another one can be built around it.

    Its timer queues may be replaced by others for as long as they are empty.
    """

    max_parallelism: int

    @property
    def tables(self) -> Mapping[str, StateTable]:
        """See the class."""
        ...
