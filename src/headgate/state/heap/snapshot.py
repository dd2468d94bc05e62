"""A heap snapshot between the cut and its bytes: tables in layers, encoded beside the loop.

The writing thread competes with the loop for the interpreter, so nothing here is done for a whole
table by one call: entries are taken in slices, and encoded key group by key group.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

import numpy as np

from headgate.common.errors import InternalError, UsageError
from headgate.common.keys.keygroups import key_groups_of_keys, shortened
from headgate.common.layered import Layers, slices_of
from headgate.common.plain_data import Description
from headgate.core.timers import TimersAtCut
from headgate.serde.serializer import TypeSerializer
from headgate.state.backend import Columns, Entries, EntryFilter, StateFiles, store_blob
from headgate.state.stored.blob_format import KEY_SERIALIZER as KEY_SERIALIZER
from headgate.state.snapshots import KeyedStateHandle
from headgate.state.stored.blob_writer import BlobWriter

SLICE_ENTRIES: Final = 32_768
"""Entries in hand between two chances for the loop: one or two milliseconds. After each the writer waits for
its turn, so smaller slices make writing take longer."""


def _nothing() -> None:
    pass


@dataclass(slots=True)
class FrozenState:
    """One state at the cut, in the hands of the thread that writes it.

    Attributes:
        thaw: tells the table that it may change them.
    """

    name: str
    schema: Description
    serializer: TypeSerializer[Any]
    layers: Layers = ()
    thaw: Callable[[], None] = _nothing

    def slices(self) -> Iterator[Columns]:
        """Keys and values."""
        return slices_of(self.layers, SLICE_ENTRIES)

    def taken(self) -> None:
        """All slices are taken: where values cannot be changed in place, the table may go on."""
        if self.serializer.immutable:
            self.release()

    def ordered(self, keys: list[Hashable], values: list[Any]) -> Columns:
        """The entries of a key group, in the order in which they are stored."""
        return keys, values

    def release(self) -> None:
        """Let go of the entries; more than once does no harm."""
        self.layers = ()
        self.thaw()


@dataclass(slots=True)
class FrozenTimers:
    """One kind of timers at the cut; the values are their timestamps."""

    name: str
    schema: Description
    serializer: TypeSerializer[Any]
    timers: TimersAtCut[Hashable]

    def slices(self) -> Iterator[Columns]:
        """Keys and timestamps."""
        for timestamps, keys in self.timers.slices(SLICE_ENTRIES):
            yield keys, timestamps

    def taken(self) -> None:
        """All slices are taken: the queue may go on."""
        self.release()

    def ordered(self, keys: list[Hashable], values: list[Any]) -> Columns:
        """The timers of a key group, in firing order."""
        order = np.argsort(np.array(values, np.int64), kind="stable").tolist()
        return [keys[place] for place in order], [values[place] for place in order]

    def release(self) -> None:
        """Let go of the timers; more than once does no harm."""
        self.timers.release()


class PendingHeapSnapshot:
    """The state of one operator subtask at the cut.

    :meth:`write` runs in another thread while the loop goes on. Either it or :meth:`release` must
    be called, or the tables stay in layers.

    Args:
        parts: states and timers, in the order of the blob's sections.
        release: called at the end, and perhaps again.
    """

    def __init__(
        self,
        parts: Sequence[FrozenState | FrozenTimers],
        groups: tuple[int, int],
        max_parallelism: int,
        release: Callable[[], None] = _nothing,
    ) -> None:
        self._parts = list(parts)
        self._groups, self._max_parallelism = groups, max_parallelism
        self._release = release
        self.keep: EntryFilter | None = None

    def write(self) -> list[bytes]:
        """The blob, in parts to be laid end to end; then the snapshot is released."""
        body: list[bytes] = []
        blob = BlobWriter(self._groups, self._max_parallelism, body.extend)
        try:
            self.write_to(blob)
        finally:
            self.release()
        return [blob.head(), *body]

    def store(self, uid: str, files: StateFiles) -> KeyedStateHandle:
        """See :class:`~headgate.state.backend.PendingSnapshot`."""
        return store_blob(uid, files, self._groups, self.write())

    def release(self) -> None:
        """Let go of the state."""
        for part in self._parts:
            part.release()
        self._parts = []
        self._release()

    def write_to(self, blob: BlobWriter) -> None:
        """Add its sections to a blob."""
        for part in self._parts:
            try:
                blob.add(
                    part.name,
                    part.schema,
                    self._by_group(part),
                    part.serializer.encode_checked,
                    encode_keys=KEY_SERIALIZER.encode_checked,
                    keep=self.keep,
                )
            except UsageError as error:
                raise UsageError(f"state {part.name!r} cannot be stored: {error}") from None

    def _by_group(self, part: FrozenState | FrozenTimers) -> Iterator[Entries]:
        """Keys and values of each key group that has any, ascending; in given order within a group."""
        held: dict[int, Columns] = {}
        for keys, values in part.slices():
            self._spread(part.name, keys, values, held)
        part.taken()
        for group in sorted(held):
            yield Entries(group, *part.ordered(*held.pop(group)))

    def _spread(
        self,
        name: str,
        keys: list[Hashable],
        values: list[Any],
        held: dict[int, Columns],
    ) -> None:
        """Add entries to those of their key groups."""
        groups = key_groups_of_keys(keys, self._max_parallelism)
        first, last = self._groups
        if int(groups.min()) < first or int(groups.max()) > last:
            strange = next(k for k, g in zip(keys, groups.tolist(), strict=True) if not first <= g <= last)
            raise InternalError(
                f"state {name!r} holds key {shortened(strange)} outside its key groups {first} to {last}; "
                "please report this"
            )
        # 16 bits make the stable argsort a radix sort.
        order = np.argsort(groups.astype(np.uint16), kind="stable")
        ordered = groups[order]
        places = order.tolist()
        starts = np.flatnonzero(np.diff(ordered, prepend=-1)).tolist()
        for start, stop in pairwise([*starts, len(places)]):
            of_group = held.setdefault(int(ordered[start]), ([], []))
            for entries, column in zip(of_group, (keys, values), strict=True):
                entries.extend(map(column.__getitem__, places[start:stop]))
