"""Every backend of keyed state keeps the contract of the conformance suite.

A further one is a line of `BACKENDS`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from headgate.api.declared.keyed_states import StateDescriptor
from headgate.state.backend import KeyedBackend
from headgate.state.changelog.backend import ChangelogBackend
from headgate.state.heap.backend import HeapKeyedBackend
from headgate.state.rocksdb.backend import RocksKeyedBackend
from headgate.state.rocksdb.rocksdb_memory import LIMIT_MIN, RocksMemory
from headgate.testing.suites import StateBackendSuite
from headgate.testing.suites.backend.model import ModelTests

MEMORY = RocksMemory(LIMIT_MIN)
NUMBERS = count()

Make = Callable[[Mapping[str, StateDescriptor], tuple[int, int], int, Path], KeyedBackend]


def heap(states: Any, groups: tuple[int, int], max_parallelism: int, folder: Path) -> KeyedBackend:
    """In Python's memory."""
    return HeapKeyedBackend(states, *groups, max_parallelism)


def rocksdb(
    states: Any, groups: tuple[int, int], max_parallelism: int, folder: Path, **more: Any
) -> KeyedBackend:
    """With a cache so small that it overflows all the time."""
    directory = folder / str(next(NUMBERS))
    return RocksKeyedBackend(
        states, *groups, max_parallelism, directory=directory, memory=MEMORY, cache_entries=3, **more
    )


def incremental(states: Any, groups: tuple[int, int], max_parallelism: int, folder: Path) -> KeyedBackend:
    """With checkpoints that refer to earlier ones."""
    return rocksdb(states, groups, max_parallelism, folder, incremental=True)


def timers_on_disk(states: Any, groups: tuple[int, int], max_parallelism: int, folder: Path) -> KeyedBackend:
    """With its timers in RocksDB as well."""
    return rocksdb(states, groups, max_parallelism, folder, incremental=True, timers_on_disk=True)


def changelog_over(inner: Callable[..., Any]) -> Make:
    """With a log of changes around another backend."""

    def make(states: Any, groups: tuple[int, int], max_parallelism: int, folder: Path) -> KeyedBackend:
        return ChangelogBackend(inner(states, groups, max_parallelism, folder), states, 600_000, lambda: 0)

    return make


BACKENDS: dict[str, Make] = {
    "heap": heap,
    "rocksdb": rocksdb,
    "rocksdb-incremental": incremental,
    "rocksdb-timers": timers_on_disk,
    "changelog-heap": changelog_over(heap),
    "changelog-rocksdb": changelog_over(rocksdb),
}
TIERS = {"heap": (), "rocksdb": (pytest.mark.ci,), "changelog-rocksdb": (pytest.mark.ci,)}
"""Of the quick tier and the long one; each of the others opens hundreds of databases."""


class TestBackends(StateBackendSuite):
    """Each of them."""

    @pytest.fixture(
        autouse=True,
        params=[pytest.param(name, marks=TIERS.get(name, (pytest.mark.proof,))) for name in BACKENDS],
    )
    def make(self, request: pytest.FixtureRequest) -> None:
        """One backend."""
        self.made = BACKENDS[request.param]

    def new_backend(
        self, descriptors: Mapping[str, StateDescriptor], groups: tuple[int, int], max_parallelism: int
    ) -> KeyedBackend:
        return self.made(descriptors, groups, max_parallelism, self.folder)


class TestChangesOfBackend(ModelTests):
    """A random program whose restarts also change the backend; blobs are the same for all."""

    seeds, steps = 1, 50

    def new_backend(
        self, descriptors: Mapping[str, StateDescriptor], groups: tuple[int, int], max_parallelism: int
    ) -> KeyedBackend:
        made = (heap, rocksdb)[next(NUMBERS) % 2]
        return made(descriptors, groups, max_parallelism, self.folder)
