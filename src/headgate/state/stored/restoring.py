"""Fills the tables and timers of a live backend with the state that earlier subtasks stored, in any form.

All stored descriptions, of bases and segments alike, are judged before anything is filled in: they may
reconfigure a serializer, and nothing may have been written by then.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import NamedTuple

import msgspec

from headgate.common.errors import InternalError, StorageError
from headgate.common.plain_data import Description
from headgate.core.timers import TimerQueue
from headgate.serde.evolution.older_shapes import Reader
from headgate.state.backend import EarlierState, NativeState, StateTable, Stored
from headgate.state.state_names import Claims, changed_name
from headgate.state.stored.blob import StoredBlob
from headgate.state.stored.blob_format import BytesBlob, Header, Section
from headgate.state.stored.contract import Chunk, OpenSection, SectionCodec, ValueCodec
from headgate.state.stored.subtask_state import StoredState, chunks_of, located, open_state
from headgate.state.stored.value_readers import readers_of
from headgate.state.targets import Target


class Restore(NamedTuple):
    """The opened stored states of one backend's restore, after all their types were found to fit.

    `native`: RocksDB's files for the backend to take over before :meth:`fill`, and the wanted states' names;
    None: all. `bases`, `logs`: sections of each earlier subtask's base, and of its segments, oldest first.
    """

    native: list[tuple[NativeState, Collection[str] | None]]
    bases: list[list[OpenSection]]
    logs: list[list[list[OpenSection]]]
    groups: range

    def fill(self, tables: Mapping[str, StateTable], timers: Mapping[str, TimerQueue[Hashable]]) -> None:
        """Load the bases' entries into the empty tables and timer queues, then apply each segment's changes.
        Key groups other than the backend's are left out. StorageError: stored bytes are damaged.
        """
        for base in self.bases:
            for chunk in chunks_of(base, self.groups):
                if chunk.state in timers:
                    timers[chunk.state].restore(zip(chunk.values, chunk.keys, strict=True))
                elif chunk.state in tables:
                    tables[chunk.state].load(chunk.keys, chunk.values)
                else:  # the name of a segment's section, which is not judged as a state's own
                    raise StorageError(f"stored state has changes of {chunk.state!r} where only state may be")
        for log in self.logs:
            for place, segment in enumerate(log, 1):
                for chunk in chunks_of(segment, self.groups, place, len(log)):
                    _change(chunk, tables, timers)


@contextmanager
def open_restore(
    stored: Iterable[Stored],
    targets: Mapping[str, Target],
    groups: tuple[int, int],
    max_parallelism: int,
    *,
    takes_native: bool = False,
) -> Iterator[Restore]:
    """Open all that earlier subtasks stored, while the block lasts, for a subtask of key `groups` (first,
    last). All types are judged first, of other groups too, and may reconfigure serializers. `takes_native`:
    whether the backend takes RocksDB's files over itself; else they are read as entries. UsageError: a type
    misfits, or a state with entries is not declared; InternalError: a key group is missing.
    """
    with ExitStack() as stack:
        opened: list[tuple[StoredState, Claims | None]] = []
        for each in stored:
            if isinstance(each, EarlierState):
                state = stack.enter_context(
                    open_state(
                        each.files, each.handle, max_parallelism, verified=True, takes_native=takes_native
                    )
                )
                opened.append((state, each.claims))
            else:
                blob = StoredBlob(BytesBlob(each) if isinstance(each, bytes) else each)
                opened.append((StoredState([blob], ()), None))

        def judged(state: StoredState, place: int, claims: Claims | None) -> list[OpenSection]:
            form = state.forms[place]
            with located(place, len(state.forms) - 1):
                return form.sections(*_judged(form.header, claims, targets, max_parallelism))

        bases = [judged(state, 0, claims) for state, claims in opened]
        logs = [
            [judged(state, place, claims) for place in range(1, len(state.forms))] for state, claims in opened
        ]
        _check_cover((state.forms[0].header for state, _ in opened), groups)
        native = [
            (state.native, _names(state.forms[0].header, claims))
            for state, claims in opened
            if state.native is not None
        ]
        yield Restore(native, bases, logs, range(groups[0], groups[1] + 1))


def _judged(
    header: Header, claims: Claims | None, targets: Mapping[str, Target], max_parallelism: int
) -> tuple[ValueCodec, Collection[str] | None]:
    names = _names(header, claims)
    there = [
        section
        for section in header.sections
        if changed_name(section.name) is None and (names is None or section.name in names)
    ]
    readers = readers_of(msgspec.structs.replace(header, sections=there), targets, max_parallelism)
    return _Judged(readers, targets), names


class _Judged:
    """The `ValueCodec` of a restore: values as the program declares them."""

    advice, converts = "", True

    def __init__(self, readers: Mapping[str, Reader], targets: Mapping[str, Target]) -> None:
        self._readers, self._targets = readers, targets

    def codec(self, section: Section) -> SectionCodec | None:
        target = self._targets.get(section.name)
        if target is None or not section.chunks:
            return None
        return SectionCodec(self._readers.get(section.name, target.serializer.decode_many), target)

    def targets(self, stored: Mapping[str, Description]) -> Mapping[str, Target]:
        return self._targets


def _names(header: Header, claims: Claims | None) -> Collection[str] | None:
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
