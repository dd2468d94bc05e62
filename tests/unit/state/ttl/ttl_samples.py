"""What tests of the time to live share: states of every kind, a clock moved by hand, all backends."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from itertools import count as numbered
from pathlib import Path
from typing import Any

from headgate.api.declared.keyed_states import (
    AggregatingState,
    ListState,
    MapState,
    ReducingState,
    StateDescriptor,
    ValueState,
    aggregating_state,
    declared_state,
    list_state,
    map_state,
    reducing_state,
    value_state,
)
from headgate.api.declared.state_ttl import StateTtl
from headgate.state.backend import KeyedBackend, TableBackend
from headgate.state.changelog.backend import ChangelogBackend
from headgate.state.heap.backend import HeapKeyedBackend
from headgate.state.rocksdb.backend import RocksKeyedBackend
from headgate.state.rocksdb.rocksdb_memory import LIMIT_MIN, RocksMemory
from headgate.state.snapshots import Inline
from headgate.state.ttl.backend import TtlKeyedBackend
from headgate.state.ttl.declared import with_stamps
from headgate.testing.suites.backend.states import Mean, Spread

GROUPS = 16
HEAP, ROCKS = "hashmap", "rocksdb"
LOGGED_HEAP, LOGGED_ROCKS = "changelog of hashmap", "changelog of rocksdb"
KINDS = ("count", "log", "totals", "sum", "mean", "basket", "spread")
"""States of :class:`Everything`; the last two hold values that are changed in place."""

_MEMORY = RocksMemory(LIMIT_MIN)


class Everything:
    """One state of every kind."""

    count: ValueState[int] = value_state(default=0)
    log: ListState[int] = list_state()
    totals: MapState[str, int] = map_state()
    sum: ReducingState[int] = reducing_state(lambda left, right: left + right)
    mean: AggregatingState[int, float] = aggregating_state(Mean())
    basket: ValueState[list[int]] = value_state(default_factory=list)
    spread: AggregatingState[int, int] = aggregating_state(Spread())


class Clock:
    """Ms, moved by hand."""

    def __init__(self, now: int = 0) -> None:
        self.now = now

    def __call__(self) -> int:
        return self.now


def states(ttl: StateTtl | None, *names: str) -> dict[str, StateDescriptor]:
    """The states of these names, or all, with a time to live."""
    found = declared_state(Everything())
    return {name: replace(found[name], ttl=ttl) for name in names or KINDS}


class Workbench:
    """Makes backends of all kinds, and closes them."""

    def __init__(self, root: Path, clock: Clock) -> None:
        self.clock, self._root = clock, root
        self._numbers, self._open = numbered(), ExitStack()

    def make(
        self, store: str, descriptors: Mapping[str, StateDescriptor], *blobs: bytes, cache: int = 4
    ) -> Any:
        """A backend as an operator opens it, restored from `blobs`."""
        kept = with_stamps(descriptors)
        tables = self._tables(store, kept, cache)
        backend: KeyedBackend = tables
        if store in (LOGGED_HEAP, LOGGED_ROCKS):
            backend = ChangelogBackend(tables, kept, 600_000, lambda: 0)
        self._open.callback(backend.close)
        if any(descriptor.ttl for descriptor in descriptors.values()):
            backend = TtlKeyedBackend(backend, descriptors, self.clock, self.clock)
        if blobs:
            backend.restore(blobs)
        return backend

    def _tables(self, store: str, kept: Mapping[str, StateDescriptor], cache: int) -> TableBackend:
        if store in (HEAP, LOGGED_HEAP):
            return HeapKeyedBackend(kept, 0, GROUPS - 1, GROUPS)
        directory = self._root / f"attempt-{next(self._numbers)}"
        whole = store == LOGGED_ROCKS
        return RocksKeyedBackend(
            kept, 0, GROUPS - 1, GROUPS,
            directory=directory, memory=_MEMORY, cache_entries=cache, map_entries=not whole,
        )  # fmt: skip

    def close(self) -> None:
        """Close all that were made."""
        self._open.close()


@contextmanager
def workbench(now: int = 0) -> Iterator[Workbench]:
    """A workbench in a directory of its own, at a time."""
    with tempfile.TemporaryDirectory() as root:
        bench = Workbench(Path(root), Clock(now))
        try:
            yield bench
        finally:
            bench.close()


class Files:
    """Keeps what is stored in memory."""

    def write(self, uid: str, parts: Iterable[Any]) -> Inline:
        return Inline(b"".join(parts))

    def write_sections(self, uid: str, sections: Any, *, inline: bool) -> list[Any]:
        return [self.write(uid, parts) for parts in sections]

    def share(self, handle: Any, root: str | None) -> bool:
        return False


def blob_of(backend: Any) -> bytes:
    """What a checkpoint of the backend holds."""
    stored = backend.snapshot_sync(1).store("uid", Files()).handle
    assert isinstance(stored, Inline)
    return stored.data


def write(backend: Any, key: Any, number: int) -> None:
    """Put a number into every declared state of a key; into maps under its own name."""
    handles = backend.handles
    for name, handle in handles.items():
        handle.bind(key)
        if name == "count":
            handle.value = number
        elif name == "basket":
            handle.value = [number]
        elif name == "totals":
            handle.put(f"n{number}", number)
        else:
            handle.add(number)
        handle.store()


def read(backend: Any, key: Any) -> dict[str, Any]:
    """What reading every declared state of a key gives."""
    found: dict[str, Any] = {}
    for name, handle in backend.handles.items():
        handle.bind(key)
        if name in ("count", "basket"):
            found[name] = handle.value
        elif name == "totals":
            found[name] = dict(handle.items())
        else:
            found[name] = handle.get()
        handle.store()
    return found


EMPTY: dict[str, Any] = {
    "count": 0, "log": [], "totals": {}, "sum": None, "mean": None, "basket": [], "spread": None,
}  # fmt: skip
"""What reading gives for a key that holds nothing."""


def full(number: int) -> dict[str, Any]:
    """What reading gives after one :func:`write`."""
    return {
        "count": number, "log": [number], "totals": {f"n{number}": number}, "sum": number,
        "mean": float(number), "basket": [number], "spread": 0,
    }  # fmt: skip
