"""What one earlier subtask stored: everything at some time, and what changed since; read in one of two ways.

:meth:`StoredState.chunks` gives entries as they lie: later ones replace earlier ones of the same key.
:meth:`StoredState.by_group` merges them, one key group at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from itertools import chain
from types import TracebackType
from typing import Any, NamedTuple

from headgate.state.backend import BlobReader, Columns, Entries, StoredFiles
from headgate.state.canonical.table_layout import TIMER_SECTIONS
from headgate.state.snapshots import KeyedStateHandle, StateHandle
from headgate.state.stored.blob import StoredBlob
from headgate.state.stored.contract import Chunk, OpenSection, StoredForm, ValueCodec
from headgate.state.stored.families import Families
from headgate.state.stored.tables import Tables


class StoredState:
    """The keyed state of one earlier subtask; closed at the end of its block.

    Args:
        max_parallelism: number of key groups that it must have been stored with; None: any.
        whole: whether files are also compared with the checksums of the metadata, for who reads all of them;
            else only what is read is verified, by the checksums inside.
    """

    def __init__(
        self,
        files: StoredFiles,
        keyed: KeyedStateHandle,
        max_parallelism: int | None = None,
        *,
        whole: bool = False,
    ) -> None:
        self._groups = range(keyed.first_group, keyed.last_group + 1)
        self._stack = ExitStack()
        reader = files.verified if whole else files.ranges
        try:
            self._forms = [self._base(files, keyed, max_parallelism, reader)]
            self._forms += [StoredBlob(reader(segment)) for segment in keyed.log]
        except BaseException:
            self.close()
            raise

    def _base(
        self,
        files: StoredFiles,
        keyed: KeyedStateHandle,
        max_parallelism: int | None,
        reader: Callable[[StateHandle], BlobReader],
    ) -> StoredForm:
        if keyed.tables is not None:
            return Tables(files, keyed, max_parallelism)
        if keyed.native is None:
            return StoredBlob(reader(keyed.handle))
        return Families(files.native(keyed), max_parallelism, self._stack, keyed.size)

    def __enter__(self) -> StoredState:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Give the local disk its space back."""
        self._stack.close()

    def chunks(
        self, values: ValueCodec, names: Collection[str] | None = None, groups: Collection[int] | None = None
    ) -> Iterator[Chunk]:
        """The entries as they lie; later ones replace earlier ones of the same key.

        `names`: the wanted states and kinds of timers; None: all.
        `groups`: the wanted key groups; None: all.
        """
        wanted = self._groups if groups is None else groups
        for form in self._forms:
            for section in form.sections(values, names):
                for found in section.entries(wanted):
                    yield Chunk(section.state, section.codec, section.removed, *found[1:])

    def by_group(self, values: ValueCodec, names: Sequence[str], groups: Sequence[int]) -> dict[str, Merged]:
        """States by name, and kinds of timers by theirs, merged; one that is not stored is empty.

        `names`: of states and kinds of timers.
        `groups`: the wanted key groups, ascending.
        """
        forms = [form.sections(values, names) for form in self._forms]

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
    """All entries of a subtask as they lie, every byte verified; see :meth:`StoredState.chunks`."""
    with StoredState(files, keyed, max_parallelism, whole=True) as stored:
        yield from stored.chunks(values)


class Merged:
    """One state, key group by key group.

    Args:
        base: its entries at some time.
        log: of each segment since, what was removed and what was put.
        timers: whether a key may have several entries, told apart by their values.
    """

    def __init__(self, base: _Grouped, log: Sequence[tuple[_Grouped, _Grouped]], timers: bool) -> None:
        self._base, self._log, self._timers = base, log, timers

    def take(self, group: int) -> Entries:
        """The entries of a key group; ask in ascending order."""
        base = self._base.take(group)
        if not self._log:
            return base
        parts = [Part(False, base.keys, base.values)]
        for removed, put in self._log:
            parts.append(Part(True, *removed.take(group)[1:3]))
            parts.append(Part(False, *put.take(group)[1:3]))
        return Entries(group, *merged(parts, self._timers))


class Part(NamedTuple):
    """Some entries as they lie one after the other, or those that were removed.

    Attributes:
        values: one for each key; of removed ones the timestamps where they are timers, else nothing.
    """

    removed: bool
    keys: list[Hashable]
    values: list[Any]


def merged(parts: Iterable[Part], timers: bool) -> Columns:
    """Keys and values that are left of a base and what changed after it; the only merge of the two.

    Args:
        parts: oldest first.
        timers: whether a key may have several entries, told apart by their values.
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
    """Entries that ascend by key group, taken one key group after the other."""

    def __init__(self, found: Iterator[Entries]) -> None:
        self._found = found
        self._next = next(found, None)

    def take(self, group: int) -> Entries:
        """The entries of a key group; those of lower ones are skipped."""
        taken = Entries(group, [], [])
        while self._next is not None and self._next.group <= group:
            if self._next.group == group:
                taken.keys.extend(self._next.keys)
                taken.values.extend(self._next.values)
            self._next = next(self._found, None)
        return taken
