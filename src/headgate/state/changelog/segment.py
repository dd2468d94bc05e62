"""Pending snapshots of a backend with a changelog: a segment of changes, or all state as a new base.

A segment is a blob: a section for each state and kind of timers with the changed entries that exist at the
snapshot point, and next to it a section, marked as removed, with the keys of those that do not.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice, repeat
from typing import Any, Final

from headgate.common.errors import InternalError, StorageError
from headgate.core.timers import TimerQueue
from headgate.serde.resolve import serializer_for
from headgate.state.backend import Columns, EntryFilter, NewWriter, PendingSnapshot, StateFiles, StateTable
from headgate.state.changelog.change_tracking import Changes
from headgate.state.changelog.segment_chain import Stored
from headgate.state.heap.handles import MISSING
from headgate.state.heap.snapshot import SLICE_ENTRIES, PendingHeapSnapshot, StateView
from headgate.state.snapshots import KeyedStateHandle
from headgate.state.state_names import removed
from headgate.state.targets import Target

_FLAGS: Final = serializer_for(bool)
REMOVED_STATE: Final = Target({"kind": "removed", "of": [_FLAGS.describe()]}, _FLAGS)
"""Describes the sections of a state's removed entries, in which only keys count."""


@dataclass(slots=True)
class EntriesView(StateView):
    """A section of a changelog segment: a state's changed entries or timers, or the keys of removed ones."""

    keys: list[Hashable] = field(default_factory=list)
    values: list[Any] = field(default_factory=list)

    def slices(self) -> Iterator[Columns]:
        for start in range(0, len(self.keys), SLICE_ENTRIES):
            stop = start + SLICE_ENTRIES
            yield self.keys[start:stop], self.values[start:stop]

    def release(self) -> None:
        self.keys, self.values = [], []


@dataclass(slots=True)
class DeltaView(StateView):
    """A section of a changelog segment from tracked values: changed entries, or the keys of removed ones.

    `delta` has the new value of each changed key, `default` where the entry is removed; it is changed no
    more.
    """

    delta: Mapping[Hashable, Any] = field(default_factory=dict)
    default: Any = None
    removed: bool = False  # whether the keys without an entry are meant

    def slices(self) -> Iterator[Columns]:
        items = iter(self.delta.items())
        while part := list(islice(items, SLICE_ENTRIES)):
            mine = [item for item in part if (item[1] is self.default) is self.removed]
            if mine:
                yield [key for key, _ in mine], [self.removed or value for _, value in mine]

    def release(self) -> None:
        self.delta = {}


@dataclass(frozen=True, slots=True)
class ChangedSections:
    """Makes a segment's sections out of tracked changes, at the snapshot point. `defaults`: by state, the
    value that stands for a removed entry where changes have values; `targets`: also of the kinds of timers.
    """

    tables: Mapping[str, StateTable]
    defaults: Mapping[str, Any]
    timers: Mapping[str, TimerQueue[Hashable]]
    targets: Mapping[str, Target]

    def of(self, changes: Changes) -> list[StateView]:
        """Return two sections for each state and kind of timers in `changes`: changed entries that are there
        (mutable values copied), and those that are not. Dicts of changes are not copied, so leave them as is.
        """
        sections: list[StateView] = []
        for name, changed in changes.items():
            if name in self.timers:
                sections += self._timer_sections(name, changed)
            elif isinstance(changed, dict):
                target, default = self.targets[name], self.defaults[name]
                sections.append(DeltaView(name, *target, delta=changed, default=default))
                gone = DeltaView(removed(name), *REMOVED_STATE, delta=changed, default=default, removed=True)
                sections.append(gone)
            else:
                sections += self._value_sections(name, list(changed))
        return sections

    def _value_sections(self, name: str, changed: list[Hashable]) -> Iterator[StateView]:
        target = self.targets[name]
        found = list(map(self.tables[name].entries.get, changed, repeat(MISSING)))
        entries = [each for each in zip(changed, found, strict=True) if each[1] is not MISSING]
        copy = target.serializer.copy
        yield EntriesView(
            name, *target, keys=[key for key, _ in entries], values=[copy(value) for _, value in entries]
        )
        missing = [key for key, value in zip(changed, found, strict=True) if value is MISSING]
        yield EntriesView(removed(name), *REMOVED_STATE, keys=missing, values=[True] * len(missing))

    def _timer_sections(self, name: str, changed: Iterable[Any]) -> Iterator[StateView]:
        target, holds = self.targets[name], self.timers[name].holds
        there, missing = EntriesView(name, *target), EntriesView(removed(name), *target)
        for timestamp, key in changed:
            section = there if holds(timestamp, key) else missing
            section.keys.append(key)
            section.values.append(timestamp)
        yield from (there, missing)


@dataclass(slots=True)
class PendingBase:
    """A snapshot of all state, written by the backend inside: the changelog's new base, without segments.

    No entry is left out of it, whatever `keep` decides: a later segment may hold only one half of an entry,
    the value or its last-access time, and they belong together.
    """

    pending: PendingSnapshot
    checkpoint: int
    stored: Callable[[int, Stored], None]  # called once it is durable
    keep: EntryFilter | None = None

    def store(self, uid: str, files: StateFiles) -> KeyedStateHandle:
        handle = self.pending.store(uid, files)
        self.stored(self.checkpoint, Stored(handle, self.checkpoint, self.checkpoint))
        return handle

    def store_with(self, new_writer: NewWriter) -> KeyedStateHandle:
        # it does not become the log's base
        return self.pending.store_with(new_writer)

    def release(self) -> None:
        self.pending.release()


@dataclass(slots=True)
class PendingSegment:
    """A snapshot of the entries changed since the stored state it follows: a new segment of the changelog.

    No entry is left out of it, whatever `keep` decides: it would come back from the base, as it was there.
    """

    sections: Sequence[StateView]
    groups: tuple[int, int]
    max_parallelism: int
    follows: Stored  # the base and the segments before
    checkpoint: int
    stored: Callable[[int, Stored], None]  # called once it is durable
    instead: PendingBase | None = None  # stored where what it follows belongs to others, who may delete it
    keep: EntryFilter | None = None

    def store_with(self, new_writer: NewWriter) -> KeyedStateHandle:
        raise InternalError(
            f"the snapshot for checkpoint {self.checkpoint} holds changes only and was asked for all state; "
            "store it, or take one with no checkpoint to follow; please report this"
        )

    def store(self, uid: str, files: StateFiles) -> KeyedStateHandle:
        """Store the changes as a new segment, and report the stored state so extended; release the snapshot.
        Without changes no segment is stored. If `files` may not share what the segment follows, `instead` is
        stored: all state, as the new base. StorageError: a disk failed, or there is no `instead`.
        """
        try:
            follows = self.follows
            if not all(files.share(handle, follows.root) for handle in follows.handle.handles()):
                return self._store_base(uid, files)
            held = [section for section in self.sections if any(True for _ in section.slices())]
            if held:
                segment = PendingHeapSnapshot(held, self.groups, self.max_parallelism).store(uid, files)
                stored = follows.with_segment(segment.handle, self.checkpoint)
            else:
                stored = follows.unchanged(self.checkpoint)
            self.stored(self.checkpoint, stored)
            return stored.handle
        finally:
            self.release()

    def _store_base(self, uid: str, files: StateFiles) -> KeyedStateHandle:
        if self.instead is None:
            raise StorageError(
                f"operator {uid!r}: checkpoint {self.checkpoint} follows {self.follows.reaches}, whose "
                "files it may not refer to; this should not be, please report it"
            )
        return self.instead.store(uid, files)

    def release(self) -> None:
        for section in self.sections:
            section.release()
        self.sections = []
        if self.instead is not None:
            self.instead.release()
