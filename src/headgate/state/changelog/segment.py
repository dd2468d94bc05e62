"""Snapshots of a backend with a changelog: of what changed, as one segment, or of everything.

A segment is a blob of the canonical form: a section for each state and kind of timers with the entries that
are there at the cut, and one beside it, marked as removed, with the keys of those that are not any more.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice, repeat
from typing import Any

from headgate.common.errors import InternalError, StorageError
from headgate.core.timers import TimerQueue
from headgate.state.backend import Columns, EntryFilter, PendingSnapshot, StateFiles, StateTable
from headgate.state.changelog.noting import Changes
from headgate.state.changelog.sections import REMOVED_STATE, removed
from headgate.state.changelog.segment_chain import Stored
from headgate.state.heap.live_tables import MISSING
from headgate.state.heap.snapshot import SLICE_ENTRIES, FrozenState, PendingHeapSnapshot
from headgate.state.snapshots import KeyedStateHandle
from headgate.state.targets import Target


@dataclass(slots=True)
class FrozenEntries(FrozenState):
    """Some entries of a state, or some timers, at the cut."""

    keys: list[Hashable] = field(default_factory=list)
    values: list[Any] = field(default_factory=list)

    def slices(self) -> Iterator[Columns]:
        """Keys and values."""
        for start in range(0, len(self.keys), SLICE_ENTRIES):
            stop = start + SLICE_ENTRIES
            yield self.keys[start:stop], self.values[start:stop]

    def release(self) -> None:
        """Let go of the entries; more than once does no harm."""
        self.keys, self.values = [], []


@dataclass(slots=True)
class FrozenDelta(FrozenState):
    """Those of a state's new values that are there, or the keys of those that are not.

    Attributes:
        delta: key -> new value; not changed any more.
        default: stands in it for no entry.
        gone: whether the keys without an entry are meant.
    """

    delta: Mapping[Hashable, Any] = field(default_factory=dict)
    default: Any = None
    gone: bool = False

    def slices(self) -> Iterator[Columns]:
        """Keys and values; of removed ones True."""
        items = iter(self.delta.items())
        while part := list(islice(items, SLICE_ENTRIES)):
            mine = [item for item in part if (item[1] is self.default) is self.gone]
            if mine:
                yield [key for key, _ in mine], [self.gone or value for _, value in mine]

    def release(self) -> None:
        """Let go of the entries; more than once does no harm."""
        self.delta = {}


class Freezer:
    """Draws the sections of segments.

    Args:
        defaults: of the states whose changes come with their values.
    """

    def __init__(
        self,
        tables: Mapping[str, StateTable],
        defaults: Mapping[str, Any],
        timers: Mapping[str, TimerQueue[Hashable]],
        targets: Mapping[str, Target],
    ) -> None:
        self._tables, self._defaults = tables, defaults
        self._timers, self._targets = timers, targets

    def frozen(self, changes: Changes) -> list[FrozenState]:
        """Sections with the values of this moment; what can be changed in place as copies."""
        sections: list[FrozenState] = []
        for name, touched in changes.items():
            if name in self._timers:
                sections += self._timer_sections(name, touched)
            elif isinstance(touched, dict):
                there = FrozenDelta(name, *self._targets[name], delta=touched, default=self._defaults[name])
                gone = FrozenDelta(removed(name), *REMOVED_STATE, delta=touched, default=self._defaults[name])
                gone.gone = True
                sections += there, gone
            else:
                sections += self._value_sections(name, list(touched))
        return sections

    def _value_sections(self, name: str, touched: list[Hashable]) -> Iterator[FrozenState]:
        target = self._targets[name]
        found = list(map(self._tables[name].entries.get, touched, repeat(MISSING)))
        entries = [each for each in zip(touched, found, strict=True) if each[1] is not MISSING]
        copy = target.serializer.copy
        yield FrozenEntries(
            name, *target, keys=[key for key, _ in entries], values=[copy(value) for _, value in entries]
        )
        gone = [key for key, value in zip(touched, found, strict=True) if value is MISSING]
        yield FrozenEntries(removed(name), *REMOVED_STATE, keys=gone, values=[True] * len(gone))

    def _timer_sections(self, name: str, touched: Iterable[Any]) -> Iterator[FrozenState]:
        target, holds = self._targets[name], self._timers[name].holds
        there, gone = FrozenEntries(name, *target), FrozenEntries(removed(name), *target)
        for timestamp, key in touched:
            section = there if holds(timestamp, key) else gone
            section.keys.append(key)
            section.values.append(timestamp)
        yield from (there, gone)


class PendingWhole:
    """A snapshot of everything by the backend itself: a new base, without segments.

    Nothing is left out of it, whatever `keep` says: a later segment may have one half of what was left out,
    a value or the time at which it was written, and they belong together.

    Args:
        stored: told once it is durable.
    """

    def __init__(
        self, pending: PendingSnapshot, checkpoint: int, stored: Callable[[int, Stored], None]
    ) -> None:
        self._pending, self._checkpoint, self._stored = pending, checkpoint, stored
        self.keep: EntryFilter | None = None

    def write(self) -> Iterable[bytes]:
        """See :class:`~headgate.state.backend.PendingSnapshot`."""
        return self._pending.write()

    def store(self, uid: str, files: StateFiles) -> KeyedStateHandle:
        """See :class:`~headgate.state.backend.PendingSnapshot`."""
        handle = self._pending.store(uid, files)
        self._stored(self._checkpoint, Stored(handle, self._checkpoint, self._checkpoint))
        return handle

    def release(self) -> None:
        """See :class:`~headgate.state.backend.PendingSnapshot`."""
        self._pending.release()


class PendingSegment:
    """A snapshot of what was touched since the stored state that it follows.

    Nothing is left out of it, whatever `keep` says: it would come back from the base, as it was there.

    Args:
        follows: the base and the segments before.
        stored: told once it is durable.
        whole: taken instead, where what it follows belongs to others, who may delete it.
    """

    def __init__(
        self,
        sections: Sequence[FrozenState],
        groups: tuple[int, int],
        max_parallelism: int,
        follows: Stored,
        checkpoint: int,
        stored: Callable[[int, Stored], None],
        whole: PendingWhole | None = None,
    ) -> None:
        self._sections, self._groups, self._max_parallelism = list(sections), groups, max_parallelism
        self._follows, self._checkpoint, self._stored = follows, checkpoint, stored
        self._whole = whole
        self.keep: EntryFilter | None = None

    def write(self) -> Iterable[bytes]:
        """Refused: it is not whole."""
        raise InternalError(
            f"the snapshot for checkpoint {self._checkpoint} holds changes only and was asked for all state; "
            "store it, or draw one with no checkpoint to follow; please report this"
        )

    def store(self, uid: str, files: StateFiles) -> KeyedStateHandle:
        """See :class:`~headgate.state.backend.PendingSnapshot`."""
        try:
            follows = self._follows
            if not all(files.share(handle, follows.root) for handle in follows.handle.handles()):
                return self._store_whole(uid, files)
            held = [section for section in self._sections if any(True for _ in section.slices())]
            if held:
                segment = PendingHeapSnapshot(held, self._groups, self._max_parallelism)
                stored = follows.with_segment(files.write(uid, segment.write()), self._checkpoint)
            else:
                stored = follows.unchanged(self._checkpoint)
            self._stored(self._checkpoint, stored)
            return stored.handle
        finally:
            self.release()

    def _store_whole(self, uid: str, files: StateFiles) -> KeyedStateHandle:
        if self._whole is None:
            raise StorageError(
                f"operator {uid!r}: checkpoint {self._checkpoint} follows {self._follows.reaches}, whose "
                "files it may not refer to; this should not be, please report it"
            )
        return self._whole.store(uid, files)

    def release(self) -> None:
        """See :class:`~headgate.state.backend.PendingSnapshot`."""
        for section in self._sections:
            section.release()
        self._sections = []
        if self._whole is not None:
            self._whole.release()
