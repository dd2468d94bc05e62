"""A snapshot of in-memory state: layered tables fixed at the snapshot point and encoded in the background.

The writing thread competes with the loop for the interpreter, so nothing here is done for a complete
table by one call: entries are taken in slices, and encoded key group by key group.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any, Final

import numpy as np

from headgate.common.errors import InternalError, UsageError
from headgate.common.keys.keygroups import key_groups_of_keys, shortened
from headgate.common.layered import Layers, slices_of
from headgate.common.plain_data import Description
from headgate.core.timers import TimersAtCut
from headgate.serde.serializer import TypeSerializer
from headgate.state.backend import (
    Columns,
    Entries,
    EntryFilter,
    NewSection,
    NewWriter,
    StateFiles,
    StateWriter,
)
from headgate.state.snapshots import KeyedStateHandle
from headgate.state.stored.blob import BlobWriter
from headgate.state.stored.contract import written

SLICE_ENTRIES: Final = 32_768
"""Entries that the writing thread takes at once: one or two milliseconds. After each slice it waits for its
turn, so smaller slices make writing take longer.
"""


def _nothing() -> None:
    pass


@dataclass(slots=True)
class StateView:
    """One state's entries at the snapshot point, for the background thread that encodes and stores them.

    The backend makes it. The entries are in `layers`, above which the table keeps later changes until `thaw`
    is called. Views of timers, and of a changelog's sections, have the same methods.
    """

    name: str
    schema: Description
    serializer: TypeSerializer[Any]
    layers: Layers = ()
    thaw: Callable[[], None] = _nothing

    def slices(self) -> Iterator[Columns]:
        """Return the keys and values, in slices of `SLICE_ENTRIES`; nothing after :meth:`release`."""
        return slices_of(self.layers, SLICE_ENTRIES)

    def taken(self) -> None:
        """Release the entries early if values are immutable, once all :meth:`slices` were taken; else they
        stay until :meth:`release`, as mutable values are encoded later.
        """
        if self.serializer.immutable:
            self.release()

    def ordered(self, keys: list[Hashable], values: list[Any]) -> Columns:
        """Return a key group's entries in the order in which they are to be stored: unchanged."""
        return keys, values

    def release(self) -> None:
        self.layers = ()
        self.thaw()


@dataclass(slots=True)
class TimersView:
    """One kind of timers at the snapshot point, for the thread that writes them; values are timestamps."""

    name: str
    schema: Description
    serializer: TypeSerializer[Any]
    timers: TimersAtCut[Hashable]

    def slices(self) -> Iterator[Columns]:
        for timestamps, keys in self.timers.slices(SLICE_ENTRIES):
            yield keys, timestamps

    def taken(self) -> None:
        self.release()

    def ordered(self, keys: list[Hashable], values: list[Any]) -> Columns:
        # in firing order
        order = np.argsort(np.array(values, np.int64), kind="stable").tolist()
        return [keys[place] for place in order], [values[place] for place in order]

    def release(self) -> None:
        self.timers.release()


class PendingHeapSnapshot:
    """A subtask's in-memory state at the snapshot point, to be encoded and stored in another thread.

    The loop goes on meanwhile. Until a view is encoded or released, its table keeps later changes in a layer
    of their own. `views` are in the order of the sections to be written.
    """

    def __init__(
        self, views: Sequence[StateView | TimersView], groups: tuple[int, int], max_parallelism: int
    ) -> None:
        self._views = list(views)
        self._groups, self._max_parallelism = groups, max_parallelism
        self.keep: EntryFilter | None = None

    def store(self, uid: str, files: StateFiles) -> KeyedStateHandle:
        write = partial(files.write, uid)
        return self.store_with(lambda groups, max_parallelism: BlobWriter(groups, max_parallelism, write))

    def store_with(self, new_writer: NewWriter) -> KeyedStateHandle:
        try:
            return written(new_writer(self._groups, self._max_parallelism), self.write_to)
        finally:
            self.release()

    def release(self) -> None:
        for view in self._views:
            view.release()
        self._views = []

    def write_to(self, writer: StateWriter) -> None:
        """Add each state and kind of timers to `writer` as a section, of the entries that `keep` lets pass,
        and release it. `writer` is not finished. UsageError, with the state's name: a value has a wrong type;
        InternalError: a key is of another subtask's key groups.
        """
        for view in self._views:
            encode = _encoder(view.name, view.serializer)
            writer.add(
                NewSection(view.name, view.schema, encode), kept(self.keep, view.name, self._by_group(view))
            )
            view.release()  # the table has its layers back before the bytes go to the storage

    def _by_group(self, view: StateView | TimersView) -> Iterator[Entries]:
        held: dict[int, Columns] = {}
        for keys, values in view.slices():
            self._spread(view.name, keys, values, held)
        view.taken()
        for group in sorted(held):
            yield Entries(group, *view.ordered(*held.pop(group)))

    def _spread(self, name: str, keys: list[Hashable], values: list[Any], held: dict[int, Columns]) -> None:
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


def kept(keep: EntryFilter | None, name: str, entries: Iterable[Entries]) -> Iterable[Entries]:
    """Return batches of the `entries` of state `name` that the filter `keep` lets pass; None: all."""
    if keep is None:
        return entries
    return (Entries(each.group, *keep(name, each.keys, each.values)) for each in entries)


def _encoder(name: str, serializer: TypeSerializer[Any]) -> Callable[[list[Any]], bytes]:
    def encode(values: list[Any]) -> bytes:
        try:
            return serializer.encode_checked(values)
        except UsageError as error:
            raise UsageError(f"state {name!r} cannot be stored: {error}") from None

    return encode
