"""What is the RocksDB backend's own: its cache, its use by the loop, its memory, and the common blob.

What all backends have in common is tested by `test_suites_backends.py`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import count, pairwise
from pathlib import Path
from typing import Any

import pytest

from headgate.api.declared.keyed_states import (
    ListState,
    MapState,
    ValueState,
    declared_state,
    list_state,
    map_state,
    value_state,
)
from headgate.common.errors import ConfigError
from headgate.state.heap.backend import HeapKeyedBackend
from headgate.state.rocksdb.backend import RocksKeyedBackend
from headgate.state.rocksdb.rocksdb_memory import LIMIT_MIN, RocksMemory
from headgate.testing.suites.value_checks import snapshot_blob

GROUPS = 16
MEMORY = RocksMemory(LIMIT_MIN)
Backend = HeapKeyedBackend | RocksKeyedBackend


@dataclass
class Basket:
    items: list[str] = field(default_factory=list)


class Everything:
    """One state of every kind."""

    count: ValueState[int] = value_state(default=0)
    basket: ValueState[Basket] = value_state(default_factory=Basket)
    seen: ListState[str] = list_state()
    totals: MapState[str, int] = map_state()


STATES = declared_state(Everything())


class Workbench:
    """Makes backends in directories of their own, and closes them."""

    def __init__(self, root: Path) -> None:
        self.root, self._numbers, self._open = root, count(), ExitStack()

    def rocks(
        self, first: int = 0, last: int = GROUPS - 1, *, cache: int = 3, states: Any = STATES
    ) -> RocksKeyedBackend:
        """An empty backend with a cache so small that it overflows all the time."""
        directory = self.root / f"attempt-{next(self._numbers)}"
        made = RocksKeyedBackend(
            states, first, last, GROUPS, directory=directory, memory=MEMORY, cache_entries=cache
        )
        self._open.callback(made.close)
        return made

    def close(self) -> None:
        """Close everything."""
        self._open.close()


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Workbench]:
    """A workbench in a directory that goes away."""
    made = Workbench(tmp_path)
    yield made
    made.close()


def blob_of(made: Backend) -> bytes:
    """The bytes of a snapshot."""
    return snapshot_blob(made.snapshot_sync())


def change(made: Backend, key: Any, action: str, number: int) -> None:
    """One action of a program on one key."""
    made.bind(key)
    handles: Any = made.handles
    if action == "count":
        handles["count"].value += number
    elif action == "basket":
        handles["basket"].value.items.append(str(number))
    elif action == "add":
        handles["seen"].add(str(number))
    elif action == "put":
        handles["totals"].put(str(number), number)
    else:
        made.event_timers.register(number, key)
        made.processing_timers.register(-number, key)
    made.store()


def count_of(made: Backend, key: Any) -> int:
    """What a program reads of a key."""
    made.bind(key)
    handle: Any = made.handles["count"]
    return int(handle.value)


def test_both_backends_write_the_same_blob_for_one_key(bench: Workbench) -> None:
    """The blob is canonical: byte for byte that of the heap backend."""
    heap, rocks = HeapKeyedBackend(STATES, 0, GROUPS - 1, GROUPS), bench.rocks()
    for made in (heap, rocks):
        for action in ("count", "basket", "add", "put", "timer"):
            change(made, "a", action, 4)
    assert blob_of(rocks) == blob_of(heap)
    assert rocks.state_types() == heap.state_types()


def test_the_generated_loop_s_use_of_a_table(bench: Workbench) -> None:
    """Get, set and pop by key are all that the loop uses of an eager handle."""
    made = bench.rocks(cache=2)
    handle: Any = made.handles["count"]
    assert handle.immutable
    for key in "abcabcab":
        before = handle.value = handle.table.get(key, handle.default)
        handle.value += 1
        if handle.value is not before:
            handle.table[key] = handle.value
    assert [handle.table.get(key, 0) for key in "abcd"] == [3, 3, 2, 0]
    handle.table.pop("a", None)
    handle.table.pop("d", None)
    made.prefetch("abcde")
    assert [handle.table.get(key, 0) for key in "abcd"] == [0, 3, 2, 0]


@pytest.mark.parametrize("cache", [4, 100])
def test_prefetch_reads_what_is_stored_and_keeps_what_was_changed(bench: Workbench, cache: int) -> None:
    """Reading ahead never puts an old value over a new one, with room for all keys and without."""
    made = bench.rocks(cache=cache)
    for number, key in enumerate("abcdef", 1):
        change(made, key, "count", number)
    made.snapshot_sync().release()
    made.prefetch("ab")
    change(made, "a", "count", 10)
    made.prefetch("abcdefghij")
    made.prefetch([])
    assert [count_of(made, key) for key in "abcdefg"] == [11, 2, 3, 4, 5, 6, 0]


def test_memory_is_one_bound_for_all(tmp_path: Path) -> None:
    """Write buffers and blocks of all backends are charged to one cache; a tiny one is refused."""
    memory = RocksMemory(LIMIT_MIN)
    made = [
        RocksKeyedBackend(
            STATES, 0, 15, GROUPS, directory=tmp_path / str(number), memory=memory, cache_entries=100
        )
        for number in range(3)
    ]
    used = [memory._cache.get_usage()]
    for each in made:
        seen: Any = each.handles["seen"]
        for key in range(1000):
            seen.bind(key)
            seen.update(["x" * 1000])
        used.append(memory._cache.get_usage())
    assert [after - before > 800_000 for before, after in pairwise(used)] == [True, True, True]
    for each in made:
        each.snapshot_sync().release()
        each.close()
    assert memory._cache.get_usage() <= memory.limit_bytes * 1.25
    with pytest.raises(ConfigError, match="expected at least 8388608"):
        RocksMemory(1000)
