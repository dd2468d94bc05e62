"""Opens the keyed state that one subtask stored, in whatever form: a base, and changes after it.

:func:`open_state` is the one place that picks the form. An opened state is read in one of two ways:
:meth:`StoredState.chunks` gives entries as they lie, later ones of a key after earlier ones;
:meth:`StoredState.by_group` merges them, one key group at a time.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from itertools import chain
from typing import Any, NamedTuple

from headgate.common.errors import DamagedFileError, StorageError
from headgate.state.backend import Columns, Entries, NativeState, StoredFiles
from headgate.state.canonical.table_layout import TIMER_SECTIONS
from headgate.state.snapshots import KeyedStateHandle
from headgate.state.stored.blob import StoredBlob
from headgate.state.stored.contract import Chunk, OpenSection, StoredForm, ValueCodec
from headgate.state.stored.families import Families
from headgate.state.stored.tables import Tables


@contextmanager
def open_state(
    files: StoredFiles,
    keyed: KeyedStateHandle,
    max_parallelism: int | None = None,
    *,
    verified: bool = False,
    takes_native: bool = False,
) -> Iterator[StoredState]:
    """Open the keyed state that one earlier subtask stored, for as long as the block lasts.

    `max_parallelism`: number of key groups that RocksDB's files must have been stored with; None: any.
    `verified`: whether files are also compared with the checksums of the metadata, for a caller that reads
    all of them; else only what is read is verified, by the checksums inside.
    `takes_native`: whether the caller takes over a backend's own files; else they are read here.
    """
    reader = files.verified if verified else files.ranges
    native: NativeState | None = None
    with ExitStack() as stack:
        base: StoredForm
        if keyed.tables is not None:
            base = Tables(files, keyed, max_parallelism)
        elif keyed.native is None:
            base = StoredBlob(reader(keyed.handle))
        elif takes_native:
            native = files.native(keyed)
            base = StoredBlob(native)
        else:
            base = Families(files.native(keyed), max_parallelism, stack, keyed.size)
        forms = [base]
        for place, segment in enumerate(keyed.log, 1):
            with located(place, len(keyed.log)):
                forms.append(StoredBlob(reader(segment)))
        yield StoredState(forms, range(keyed.first_group, keyed.last_group + 1), native)


class StoredState(NamedTuple):
    """The open keyed state that one earlier subtask stored; :func:`open_state` opens and closes it. `forms`:
    the base, then the segments of a changelog after it, oldest first; `groups`: the subtask's key groups;
    `native`: RocksDB's files that the caller takes over, the base being only the blob beside them.
    """

    forms: Sequence[StoredForm]
    groups: Collection[int]
    native: NativeState | None = None

    def chunks(
        self, values: ValueCodec, names: Collection[str] | None = None, groups: Collection[int] | None = None
    ) -> Iterator[Chunk]:
        """Yield batches of stored entries as they lie: the base's, then the changes of each segment, oldest
        first. `values` decodes them; `names`: states and kinds of timers, None: all; `groups`: key groups,
        None: all. StorageError: stored bytes are damaged; UsageError: values of a state cannot be decoded.
        """
        forms = self._sections(values, names)
        for place, sections in enumerate(forms):
            yield from chunks_of(sections, self.groups if groups is None else groups, place, len(forms) - 1)

    def _sections(self, values: ValueCodec, names: Collection[str] | None) -> list[list[OpenSection]]:
        found = []
        for place, form in enumerate(self.forms):
            with located(place, len(self.forms) - 1):
                found.append(form.sections(values, names))
        return found

    def by_group(self, values: ValueCodec, names: Sequence[str], groups: Sequence[int]) -> dict[str, Merged]:
        """Return name -> merged entries of each state or kind of timers in `names`; of one not stored, none.
        `groups`: the key groups, ascending, that can then be taken from each :class:`Merged`.
        """
        forms = self._sections(values, names)

        def entries(form: list[OpenSection], name: str, removed: bool) -> _Grouped:
            mine = [each.entries(groups) for each in form if (each.state, each.removed) == (name, removed)]
            return _Grouped(chain.from_iterable(mine))

        return {
            name: Merged(
                entries(forms[0], name, False),
                [(entries(segment, name, True), entries(segment, name, False)) for segment in forms[1:]],
                name in TIMER_SECTIONS,
            )
            for name in names
        }


def stored_chunks(
    files: StoredFiles, keyed: KeyedStateHandle, values: ValueCodec, max_parallelism: int
) -> Iterator[Chunk]:
    """Yield all entries that one subtask stored in batches, then the changes to them; every byte is verified.
    `max_parallelism`: number of key groups that RocksDB's files must have been stored with. StorageError:
    damaged; UsageError: `values` cannot decode a state.
    """
    with open_state(files, keyed, max_parallelism, verified=True) as stored:
        yield from stored.chunks(values)


def chunks_of(
    sections: Iterable[OpenSection], groups: Collection[int], place: int = 0, segments: int = 0
) -> Iterator[Chunk]:
    """Yield batches of the entries that sections of one stored form have in key `groups`.

    For errors: `place` is the number of the segment, 0 for the base; `segments`: how many there are.
    """
    with located(place, segments):
        for section in sections:
            for found in section.entries(groups):
                yield Chunk(section.state, section.codec, section.removed, *found[1:])


@contextmanager
def located(place: int, segments: int) -> Iterator[None]:
    """Add to a StorageError of the block that it is in segment `place` of `segments`; 0: the base, as is."""
    try:
        yield
    except StorageError as error:
        if not place:
            raise
        kind = DamagedFileError if isinstance(error, DamagedFileError) else StorageError
        raise kind(f"segment {place} of {segments} of the changelog: {error}") from error


class Merged:
    """Entries of one state, or one kind of timers, of one subtask: base and changes merged by key group."""

    def __init__(self, base: _Grouped, log: Sequence[tuple[_Grouped, _Grouped]], timers: bool) -> None:
        self._base, self._log, self._timers = base, log, timers

    def take(self, group: int) -> Entries:
        """Return the merged entries of a key group, or none; ask for each group once, in ascending order. Of
        timers a key may have several entries, with different timestamps.
        """
        base = self._base.take(group)
        if not self._log:
            return base
        parts = [Part(False, base.keys, base.values)]
        for removed, put in self._log:
            parts.append(Part(True, *removed.take(group)[1:3]))
            parts.append(Part(False, *put.take(group)[1:3]))
        return Entries(group, *merged(parts, self._timers))


class Part(NamedTuple):
    """A batch of entries that a base or a segment has, or of entries that a segment removes.

    Removed timers come with their timestamps as values, other removed entries without values.
    """

    removed: bool
    keys: list[Hashable]
    values: list[Any]


def merged(parts: Iterable[Part], timers: bool) -> Columns:
    """Return the keys and values left when `parts`, puts and removals, are applied, oldest first. `timers`:
    whether a key may have several entries, which differ in their values.
    """
    held: dict[Hashable, tuple[Hashable, Any]] = {}
    for removed, keys, values in parts:
        names: Iterable[Hashable] = zip(keys, values, strict=True) if timers else keys
        if removed:
            for name in names:
                held.pop(name, None)
        else:
            held.update(zip(names, zip(keys, values, strict=True), strict=True))
    return [key for key, _ in held.values()], [value for _, value in held.values()]


class _Grouped:
    """Gives the entries of an iterator, which ascend by key group, one key group at a time."""

    def __init__(self, found: Iterator[Entries]) -> None:
        self._found = found
        self._next = next(found, None)

    def take(self, group: int) -> Entries:
        taken = Entries(group, [], [])
        while self._next is not None and self._next.group <= group:
            if self._next.group == group:
                taken.keys.extend(self._next.keys)
                taken.values.extend(self._next.values)
            self._next = next(self._found, None)
        return taken
