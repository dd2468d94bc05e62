"""What one earlier subtask stored: everything at some time, and what changed since; read in one of two ways.

:meth:`StoredState.chunks` gives entries as they lie: later ones replace earlier ones of the same key.
:meth:`StoredState.by_group` merges them, one key group at a time.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import ExitStack
from itertools import chain
from pathlib import Path
from types import TracebackType
from typing import Any

from headgate.state.backend import BlobReader
from headgate.state.canonical.table_layout import TIMER_SECTIONS
from headgate.state.snapshots import KeyedStateHandle, StateHandle
from headgate.state.stored.blob import StoredBlob
from headgate.state.stored.contract import Chunk, Found, OpenSection, StoredFiles, StoredForm, ValueCodec
from headgate.state.stored.families import Families
from headgate.state.stored.tables import Tables


class StoredState:
    """The keyed state of one earlier subtask; closed at the end of its block.

    Args:
        files: where it lies.
        keyed: refers to it.
        max_parallelism: number of key groups that it must have been stored with; None: any.
        whole: whether files are also compared with the checksums of the metadata, for who reads all of them;
            else only what is read is verified, by the checksums inside.

    Raises:
        StorageError: something is missing or damaged.
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
            return Tables(files, keyed)
        if keyed.native is None:
            return StoredBlob(reader(keyed.handle))
        folder = self._stack.enter_context(tempfile.TemporaryDirectory(prefix="headgate-stored-"))
        return Families(files.native(keyed), keyed, max_parallelism, Path(folder), self._stack)

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

        Args:
            values: how values pass.
            names: the wanted states and kinds of timers; None: all.
            groups: the wanted key groups; None: all.

        Raises:
            StorageError: something is missing or damaged.
            UsageError: values cannot pass; names the state.
        """
        wanted = self._groups if groups is None else groups
        for form in self._forms:
            for section in form.sections(values, names):
                for found in section.entries(wanted):
                    yield Chunk(section.state, section.codec, section.removed, *found[1:])

    def by_group(self, values: ValueCodec, names: Sequence[str], groups: Sequence[int]) -> dict[str, Merged]:
        """States by name, and kinds of timers by theirs, merged; one that is not stored is empty.

        Args:
            values: how values pass.
            names: of states and kinds of timers.
            groups: the wanted key groups, ascending.

        Raises:
            StorageError: something is missing or damaged.
            UsageError: values cannot pass; names the state.
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
    """All entries of a subtask as they lie, every byte verified; see :meth:`StoredState.chunks`.

    Args:
        files: where they are.
        keyed: refers to them.
        values: how values pass.
        max_parallelism: number of key groups that they were stored with.

    Raises:
        StorageError: something is missing or damaged.
        UsageError: values cannot pass; names the state.
    """
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

    def take(self, group: int) -> tuple[list[Any], list[Any]]:
        """Keys and values of a key group; ask in ascending order."""
        keys, values = self._base.take(group)
        if not self._log:
            return keys, values
        held = {self._name(*entry): entry for entry in zip(keys, values, strict=True)}
        for removed, put in self._log:
            gone, times = removed.take(group)
            for name in zip(gone, times, strict=True) if self._timers else gone:
                held.pop(name, None)
            for entry in zip(*put.take(group), strict=True):
                held[self._name(*entry)] = entry
        return [key for key, _ in held.values()], [value for _, value in held.values()]

    def _name(self, key: Any, value: Any) -> Any:
        return (key, value) if self._timers else key


class _Grouped:
    """Entries that ascend by key group, taken one key group after the other."""

    def __init__(self, found: Iterator[Found]) -> None:
        self._found = found
        self._next = next(found, None)

    def take(self, group: int) -> tuple[list[Any], list[Any]]:
        """Keys and values of a key group; those of lower ones are skipped."""
        keys, values = list[Any](), list[Any]()
        while self._next is not None and self._next.group <= group:
            if self._next.group == group:
                keys += self._next.keys
                values += self._next.values
            self._next = next(self._found, None)
        return keys, values
