"""A time to live in incremental snapshots of RocksDB: carried in its files, dropped when switched off."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from native_bench import STATES, NativeBench, keyed, put, read

from headgate.api.declared.state_ttl import StateTtl, TtlCleanup
from headgate.runtime.worker.operators.keyed_state import earlier_state
from headgate.state.ttl.backend import TtlKeyedBackend
from headgate.state.ttl.declared import with_stamps

LIVING = {"v": replace(STATES["v"], ttl=StateTtl(10, cleanup=TtlCleanup(incremental=0)))}


class Clock:
    """Ms, moved by hand."""

    now = 0

    def __call__(self) -> int:
        return self.now


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[NativeBench]:
    """A storage and backends that are closed at the end."""
    made = NativeBench(tmp_path)
    yield made
    made.close()


def with_ttl(bench: NativeBench, clock: Clock, *stored: Any) -> Any:
    """A backend whose state has a time to live, and the one below it."""
    below = bench.backend(states=with_stamps(LIVING))
    made = TtlKeyedBackend(below, LIVING, clock, clock)
    if stored:
        made.restore([earlier_state(bench.disk, handle) for handle in stored])
    return made


def test_times_are_in_the_files(bench: NativeBench) -> None:
    """An incremental checkpoint carries the stamps; what is over is in it, and over after the restore."""
    clock = Clock()
    old = with_ttl(bench, clock)
    put(old, {"ada": "a"})
    clock.now = 5
    put(old, {"bob": "b"})
    clock.now = 11
    drawn = bench.snapshot(old, 1)
    new = with_ttl(bench, clock, keyed(drawn))
    assert sorted(new.scan("v")) == [("ada", "a"), ("bob", "b")]
    assert read(new, ["ada", "bob"]) == {"ada": "", "bob": "b"}


@pytest.mark.parametrize("heap", [False, True])
def test_switched_off_the_files_of_the_times_are_dropped(bench: NativeBench, heap: bool) -> None:
    """Whoever restores them: the values are there for ever, and the next checkpoint has no times."""
    clock = Clock()
    old = with_ttl(bench, clock)
    put(old, {"ada": "a"})
    drawn = bench.snapshot(old, 1)
    if heap:
        assert read(bench.heap([keyed(drawn)]), ["ada"]) == {"ada": "a"}
        return
    off = bench.backend(stored=[keyed(drawn)])
    assert read(off, ["ada"]) == {"ada": "a"}
    clock.now = 1_000
    on = with_ttl(bench, clock, keyed(bench.snapshot(off, 2)))
    assert list(on.scan("v#ttl")) == []
    assert read(on, ["ada"]) == {"ada": "a"}


@pytest.mark.ci
def test_switched_off_at_another_parallelism(bench: NativeBench) -> None:
    """Where files are copied into each other, the times stay behind as well."""
    clock = Clock()
    old = with_ttl(bench, clock)
    values = {number: f"v{number}" for number in range(100)}
    put(old, values)
    drawn = bench.snapshot(old, 1)
    halves = bench.subtasks(2, [keyed(drawn)])
    stored = [keyed(bench.draw(half, 2, subtask=index)()) for index, half in enumerate(halves)]
    whole = bench.backend(stored=stored)
    assert read(whole, values) == values
