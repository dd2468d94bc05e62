"""What tests of the time to live share: states of every kind, a clock moved by hand, both backends."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from itertools import count as numbered
from pathlib import Path
from typing import Any

from headgate.api.state import (
    AggregateFunction,
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
from headgate.api.state_ttl import StateTtl
from headgate.state.backend import KeyedBackend
from headgate.state.heap.backend import HeapKeyedBackend
from headgate.state.rocksdb.backend import RocksKeyedBackend
from headgate.state.rocksdb.memory import LIMIT_MIN, RocksMemory
from headgate.state.snapshots import Inline
from headgate.state.ttl.backend import TtlKeyedBackend
from headgate.state.ttl.declared import with_stamps

GROUPS = 16
HEAP, ROCKS = "hashmap", "rocksdb"
KINDS = ("count", "log", "totals", "sum", "mean", "basket", "spread")
"""States of :class:`Everything`; the last two hold values that are changed in place."""

_MEMORY = RocksMemory(LIMIT_MIN)


class Mean(AggregateFunction[int, tuple[int, int], float]):
    """The mean of what was added, in a pair that cannot be changed in place."""

    def create_accumulator(self) -> tuple[int, int]:
        return 0, 0

    def add(self, value: int, accumulator: tuple[int, int]) -> tuple[int, int]:
        return accumulator[0] + 1, accumulator[1] + value

    def get_result(self, accumulator: tuple[int, int]) -> float:
        return accumulator[1] / accumulator[0]


class Spread(AggregateFunction[int, list[int], int]):
    """Greatest minus least, in a list changed in place."""

    def create_accumulator(self) -> list[int]:
        return []

    def add(self, value: int, accumulator: list[int]) -> list[int]:
        accumulator[:] = [min([value, *accumulator]), max([value, *accumulator])]
        return accumulator

    def get_result(self, accumulator: list[int]) -> int:
        return accumulator[1] - accumulator[0]


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
    """Makes backends of both kinds, and closes them."""

    def __init__(self, root: Path, clock: Clock) -> None:
        self.clock, self._root = clock, root
        self._numbers, self._open = numbered(), ExitStack()

    def make(
        self, store: str, descriptors: Mapping[str, StateDescriptor], *blobs: bytes, cache: int = 4
    ) -> Any:
        """A backend as an operator opens it, restored from `blobs`."""
        kept = with_stamps(descriptors)
        backend: KeyedBackend
        if store == HEAP:
            backend = HeapKeyedBackend(kept, 0, GROUPS - 1, GROUPS)
        else:
            directory = self._root / f"attempt-{next(self._numbers)}"
            backend = RocksKeyedBackend(
                kept, 0, GROUPS - 1, GROUPS, directory=directory, memory=_MEMORY, cache_entries=cache
            )
        self._open.callback(backend.close)
        if any(descriptor.ttl for descriptor in descriptors.values()):
            backend = TtlKeyedBackend(backend, descriptors, self.clock, self.clock)
        if blobs:
            backend.restore(blobs)
        return backend

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
