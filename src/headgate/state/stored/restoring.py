"""A restore: what earlier subtasks stored, in whatever form, fills the tables and timers of a live backend.

All stored descriptions, of bases and segments alike, are judged before anything is filled in: what they say
may reconfigure a serializer, and nothing may have been written by then.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping
from contextlib import ExitStack
from types import TracebackType

import msgspec

from headgate.common.errors import InternalError, StorageError
from headgate.common.plain_data import Description
from headgate.core.timers import TimerQueue
from headgate.serde.evolution.older_shapes import Reader
from headgate.state.backend import EarlierState, NativeState, StateSelection, StateTable, Stored
from headgate.state.changelog.sections import changed_name
from headgate.state.stored.blob_format import BytesBlob, Header, Section
from headgate.state.stored.value_readers import readers_of
from headgate.state.stored.blob import StoredBlob
from headgate.state.stored.contract import Chunk, OpenSection, SectionCodec, StoredForm
from headgate.state.stored.families import Families
from headgate.state.stored.tables import Tables
from headgate.state.targets import Target


class Restore:
    """The restore of one backend; closed at the end of its block.

    Args:
        stored: of all subtasks whose key groups overlap; further ones do no harm.
        takes_native: whether the backend takes over native files itself, before :meth:`fill`.

    Attributes:
        native: those that it takes over, each with the names of the states that are wanted; None: all.
    """

    def __init__(
        self,
        stored: Iterable[Stored],
        targets: Mapping[str, Target],
        groups: tuple[int, int],
        max_parallelism: int,
        *,
        takes_native: bool = False,
    ) -> None:
        self._targets, self._groups, self._max_parallelism = targets, groups, max_parallelism
        self._takes_native, self._stack = takes_native, ExitStack()
        self.native: list[tuple[NativeState, Collection[str] | None]] = []
        try:
            states = [_earlier(each) for each in stored]
            bases = [self._base(state) for state in states]
            self._bases = [
                self._judged(form, state.claims) for form, state in zip(bases, states, strict=True)
            ]
            self._segments = [
                self._segment(place, state) for state in states for place in range(len(state.log))
            ]
            _check_cover((form.header for form in bases), groups)
        except BaseException:
            self._stack.close()
            raise

    def __enter__(self) -> Restore:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def _base(self, state: EarlierState) -> StoredForm:
        if state.tables is not None:
            return Tables(*state.tables, self._max_parallelism)
        assert state.base is not None
        if not isinstance(state.base, NativeState):
            return StoredBlob(state.base)
        if self._takes_native:
            blob = StoredBlob(state.base)
            self.native.append((state.base, _names(blob.header, state.claims)))
            return blob
        return Families(state.base, self._max_parallelism, self._stack)

    def _judged(self, form: StoredForm, claims: StateSelection | None) -> list[OpenSection]:
        names = _names(form.header, claims)
        there = [
            section
            for section in form.header.sections
            if changed_name(section.name) is None and (names is None or section.name in names)
        ]
        described = msgspec.structs.replace(form.header, sections=there)
        readers = readers_of(described, self._targets, self._max_parallelism)
        return form.sections(_Judged(readers, self._targets), names)

    def _segment(self, place: int, state: EarlierState) -> tuple[str, list[OpenSection]]:
        where = f"segment {place + 1} of {len(state.log)} of the changelog"
        try:
            return where, self._judged(StoredBlob(state.log[place]), state.claims)
        except StorageError as error:
            raise StorageError(f"{where}: {error}") from error

    def fill(self, tables: Mapping[str, StateTable], timers: Mapping[str, TimerQueue[Hashable]]) -> None:
        """Put what the bases hold into the empty tables and queues, then change it segment by segment."""
        for sections in self._bases:
            for chunk in self._chunks(sections):
                if chunk.state in timers:
                    timers[chunk.state].restore(zip(chunk.values, chunk.keys, strict=True))
                else:
                    tables[chunk.state].load(chunk.keys, chunk.values)
        for where, sections in self._segments:
            try:
                for chunk in self._chunks(sections):
                    _change(chunk, tables, timers)
            except StorageError as error:
                raise StorageError(f"{where}: {error}") from error

    def _chunks(self, sections: Iterable[OpenSection]) -> Iterator[Chunk]:
        groups = range(self._groups[0], self._groups[1] + 1)
        for section in sections:
            for found in section.entries(groups):
                yield Chunk(section.state, section.codec, section.removed, *found[1:])


class _Judged:
    """Values as the program declares them, once all descriptions were found to fit."""

    advice, converts = "", True

    def __init__(self, readers: Mapping[str, Reader], targets: Mapping[str, Target]) -> None:
        self._readers, self._targets = readers, targets

    def codec(self, section: Section) -> SectionCodec | None:
        """See :class:`state.stored.contract.ValueCodec`."""
        target = self._targets.get(section.name)
        if target is None or not section.chunks:
            return None
        return SectionCodec(self._readers.get(section.name, target.serializer.decode_many), target)

    def targets(self, stored: Mapping[str, Description]) -> Mapping[str, Target]:
        """See :class:`state.stored.contract.ValueCodec`."""
        return self._targets


def _earlier(stored: Stored) -> EarlierState:
    if isinstance(stored, EarlierState):
        return stored
    return EarlierState(BytesBlob(stored) if isinstance(stored, bytes) else stored)


def _names(header: Header, claims: StateSelection | None) -> Collection[str] | None:
    """The states of a blob that are wanted; None: all."""
    if claims is None:
        return None
    return {changed_name(s.name) or s.name for s in header.sections if claims.claims(s.name)}


def _check_cover(headers: Iterable[Header], groups: tuple[int, int]) -> None:
    first, last = groups
    expected, found = first, False
    for low, high in sorted((header.first_group, header.last_group) for header in headers):
        found = True
        if high < first or low > last:
            continue
        if low < expected and expected != first:
            raise InternalError(f"key group {low} is in two blobs of one checkpoint; please report this")
        if low > expected:
            raise _uncovered(expected, low - 1)
        expected = high + 1
    if found and expected <= last:
        raise _uncovered(expected, last)


def _uncovered(first: int, last: int) -> InternalError:
    return InternalError(f"key groups {first} to {last} are in no blob of the checkpoint; please report this")


def _change(
    chunk: Chunk, tables: Mapping[str, StateTable], timers: Mapping[str, TimerQueue[Hashable]]
) -> None:
    if chunk.state in timers:
        queue = timers[chunk.state]
        change = queue.delete if chunk.removed else queue.register
        for timestamp, key in zip(chunk.values, chunk.keys, strict=True):
            change(timestamp, key)
    elif chunk.state in tables:  # else nothing of it is left, and the program declares it no more
        table = tables[chunk.state]
        if chunk.removed:
            for key in chunk.keys:
                table.remove(key)
        else:
            for key, value in zip(chunk.keys, chunk.values, strict=True):
                table.put(key, value)
