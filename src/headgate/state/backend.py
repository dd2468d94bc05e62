"""What a backend of keyed state offers to the operator that owns it, and what stored state is written with.

One backend serves one operator subtask: its declared states and its timers, for a range of key groups. The
operator's loop calls all methods, except those of a pending snapshot.
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
"""Some keys of one state, and a value for each."""

Items = Iterator[tuple[Hashable, Any]]
"""A walk over keys and their values."""


class StateHandle(Protocol):
    """A live state, bound to one key at a time; what the user's attribute holds."""

    @property
    def immutable(self) -> bool:
        """Whether the handle keeps its key's value outside the table between `bind` and `store`, as values
        of its type cannot be changed in place.
        """

    def bind(self, key: Hashable) -> None:
        """Make `key` the current key."""

    def store(self) -> None:
        """Put what was changed since :meth:`bind` into the table."""


# -- files


class BlobReader(Protocol):
    """The bytes of one stored blob, readable in parts."""

    size: int

    def read(self, offset: int, length: int) -> bytes:
        """Return `length` bytes from `offset`; fewer only where the blob ends."""


class StateFiles(Protocol):
    """Where the asynchronous part of a snapshot puts its bytes. The storage may raise StorageError."""

    def write(self, uid: str, parts: Iterable[Part]) -> StoredHandle:
        """Store bytes durably; `parts` are taken once and in order."""

    def write_sections(
        self, uid: str, sections: Sequence[Iterable[Part]], *, inline: bool
    ) -> list[StoredHandle]:
        """Store several things durably in one file, each with a handle of its own.

        `sections`: the bytes of each, in parts; taken once and in order.
        `inline`: whether all of it may be kept in the metadata when it is little.
        """

    def share(self, handle: StoredHandle, root: str | None) -> bool:
        """Refer to what an earlier checkpoint stored; False when that may be removed while this one stays.

        `root`: the storage that it was restored from; None: this attempt wrote it.
        """


class StoredFiles(Protocol):
    """The files that stored state is in."""

    def read(self, handle: StoredHandle) -> bytes:
        """Return all bytes of a handle, verified."""

    def verify(self, handle: StoredHandle) -> None:
        """Compare the bytes with their checksum."""

    def verified(self, handle: StoredHandle) -> BlobReader:
        """Verify all bytes, then give them in parts."""

    def ranges(self, handle: StoredHandle) -> BlobReader:
        """Return a reader that fetches bytes when asked for them and does not verify them: for what has
        checksums of its own.
        """

    def native(self, keyed: KeyedStateHandle) -> NativeState:
        """Return the native files, and the blob next to them."""

    def where(self, handle: StoredHandle) -> str:
        """Return the file's name for errors."""


class NativeState(BlobReader, Protocol):
    """What one earlier subtask stored as its backend's own files, next to the blob that this is."""

    native: NativeFiles
    root: str

    def fetch(self, name: str, target: Path) -> None:
        """Copy a native file to the local disk.

        Raises:
            StorageError: it is missing or damaged, or the local disk does not take it.
        """


# -- what is stored


class Entries(NamedTuple):
    """Keys of one state in one key group, and a value for each.

    `size` is about how many bytes they take, or took, where they are stored; 0: not known.
    """

    group: int
    keys: list[Hashable]
    values: list[Any]
    size: int = 0


class NewSection(NamedTuple):
    """One state, or one kind of timers, to be written; `encode` makes a batch of some of its values."""

    name: str
    schema: Description
    encode: Callable[[list[Any]], bytes]


class StateWriter(Protocol):
    """Writes the keyed state of one subtask in one stored form: its sections, one after the other, then the
    end.

    Either :meth:`finish` or :meth:`abandon` ends it. Only one thread uses it. Errors of values are
    UsageErrors that name the state, those of disks StorageErrors.
    """

    def add(self, section: NewSection, entries: Iterable[Entries]) -> None:
        """Write a section. Its entries ascend by key group and are consumed before this returns."""

    def finish(self) -> KeyedStateHandle:
        """Make everything durable."""

    def abandon(self) -> None:
        """Give up what was written so far, and the space that it takes; safe at any time."""


NewWriter = Callable[[tuple[int, int], int], StateWriter]
"""Makes a writer for a range of key groups, and the number of all key groups."""


EntryFilter = Callable[[str, list[Hashable], list[Any]], Columns]
"""Returns the entries to be written out of some entries of the named state, of which it changes none in
place. Batches of entries come state by state, in the order of the declarations."""


class PendingSnapshot(Protocol):
    """State as it was at the snapshot point, not yet bytes. One background thread uses it.

    A value that is not of its state's declared type is a UsageError; what a disk refuses a StorageError.
    """

    keep: EntryFilter | None
    """Decides which entries are written, unless the state is stored as the backend's own files; None: all."""

    def store(self, uid: str, files: StateFiles) -> KeyedStateHandle:
        """Store the state as this backend does; then the snapshot is released."""

    def store_with(self, new_writer: NewWriter) -> KeyedStateHandle:
        """Store the complete state in the form of the writer; then the snapshot is released."""

    def release(self) -> None:
        """Release the state; safe at any time, more than once, and instead of storing it."""


@dataclass(frozen=True)
class EarlierState:
    """What one earlier subtask stored, for a restore.

    `root` is the storage that it is in; None: all of it is in the metadata. `claims` decides which states are
    restored; None: all.
    """

    files: StoredFiles
    handle: KeyedStateHandle
    root: str | None = None
    claims: Claims | None = None


Stored = EarlierState | BlobReader | bytes
"""What a backend restores from; a blob may be given as it is."""


# -- a backend


class StoredValue(NamedTuple):
    """What a state holds under one key, as bytes of its own: a batch of one, described by `schema`."""

    schema: Description
    data: bytes


class MigrationProgress(NamedTuple):
    """How far the rewriting of a state's values to its declared type is.

    `done` entries of `about` (an estimate, at least `done`) were looked at, `per_second` since the restore;
    `rewritten` of them were of an older type.
    """

    state: str
    done: int
    about: int
    rewritten: int
    per_second: float


class KeyedBackend(Protocol):
    """Keyed state and timers of one operator subtask."""

    event_timers: TimerQueue[Hashable]
    processing_timers: TimerQueue[Hashable]

    @property
    def groups(self) -> tuple[int, int]:
        """First and last key group (inclusive)."""

    @property
    def handles(self) -> Mapping[str, Any]:
        """One live handle for each declared state, by name."""

    @property
    def targets(self) -> Mapping[str, Target]:
        """Description and serializer, by state and kind of timers; a restore may reconfigure them."""

    def bind(self, key: Hashable) -> None:
        """Make `key` the current key of every handle."""

    def store(self) -> None:
        """Store what was changed for the current key."""

    def prefetch(self, keys: Iterable[Hashable]) -> None:
        """Read what the next records need with one access; `keys` are theirs, also more than once."""

    def keys(self, name: str) -> Iterable[Hashable]:
        """Return the keys that have an entry in a state now, in no particular order; it may change meanwhile.

        Call it between records, with everything stored.
        """

    def scan(self, name: str) -> Items:
        """Return a walk over the keys and values of one state, continued at will between records.

        What changes meanwhile may be seen or not, and values are not to be changed.
        """

    def peek(self, name: str, key: Hashable) -> StoredValue | None:
        """Return the value of one state under a key now, without the effects of a read; None: nothing.

        Call it between records, with everything stored; bind a key anew before its use.

        Raises:
            UsageError: the value is not of its state's declared type.
            StorageError: what is kept on the local disk cannot be read.
        """

    def state_types(self) -> dict[str, Description]:
        """Return a dict: state name -> kind and description of its serializers, for the metadata."""

    def snapshot_sync(self, checkpoint: int = 0, completed: int | None = 0) -> PendingSnapshot:
        """Fix the state at this moment; changes made afterwards do not reach the snapshot.

        `completed`: newest complete checkpoint, whose files the snapshot may refer to; 0: the snapshot must
        be complete by itself; None: it is a savepoint's, complete by itself, and no later snapshot may refer
        to its files or take it for an earlier one.
        """

    def settle(self) -> None:
        """Do a part of what released snapshots, or a restore, left to be done: about a millisecond of work.

        Call it often, between records; where nothing is left it costs next to nothing.
        """

    def migration_progress(self) -> list[MigrationProgress]:
        """Return the states of which :meth:`settle` still rewrites values that an earlier program stored."""

    def restore(self, stored: Iterable[Stored]) -> None:
        """Fill the empty backend with its own key groups out of what any number of subtasks stored.

        Every stored form of any backend may be among it.
        """

    def close(self) -> None:
        """Release what the backend holds outside Python; more than once does no harm."""


class StateTable(Protocol):
    """Where a backend keeps one state: key -> value, in Python or in an object that looks like it."""

    @property
    def entries(self) -> Any:
        """Has of a dict `get`, `pop` and item assignment; may be another object after a batch."""

    def own(self, key: Hashable) -> Any:
        """Return the value of `key` for changing in place, or MISSING."""

    def put(self, key: Hashable, value: Any) -> None:
        """Set the value of `key`."""

    def remove(self, key: Hashable) -> None:
        """Remove the entry of `key`, if there is one."""

    def load(self, keys: Sequence[Hashable], values: Sequence[Any]) -> None:
        """Put restored entries, before there was any snapshot."""


class TableBackend(KeyedBackend, Protocol):
    """A backend that keeps the states itself, so that another one can be built around it.

    Its timer queues may be replaced by others for as long as they are empty.
    """

    max_parallelism: int

    @property
    def tables(self) -> Mapping[str, StateTable]:
        """The table of each declared state."""
