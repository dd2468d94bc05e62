"""Whatever a call has done to keyed state is undone, on any backend and with any state."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import headgate as hg
from headgate.api.declared.keyed_states import declared_state
from headgate.runtime.job.operator_context import OperatorContext
from headgate.runtime.worker.operators.keyed_state import open_backend, split_handles
from headgate.state.backends import ChangelogBackends, HeapBackends, RocksBackends
from headgate.state.undo.journal import Journal
from headgate.testing.manual_clock import ManualClock

KEYS, VALUES = st.sampled_from(["a", "b"]), st.integers(0, 3)
TTL = hg.StateTtl("1h")


class Plain(hg.KeyedProcessFunction[str, Any, Any]):
    """Every kind of state."""

    number: hg.ValueState[int] = hg.value_state(default=0)
    numbers: hg.ValueState[list[int]] = hg.value_state(default_factory=list)
    listed: hg.ListState[int] = hg.list_state()
    mapped: hg.MapState[int, list[int]] = hg.map_state()
    most: hg.ReducingState[int] = hg.reducing_state(max)

    def process(self, record: Any, ctx: Any) -> None:
        """Not called here."""


class Expiring(hg.KeyedProcessFunction[str, Any, Any]):
    """The same, with a time to live."""

    number: hg.ValueState[int] = hg.value_state(default=0, ttl=TTL)
    numbers: hg.ValueState[list[int]] = hg.value_state(default_factory=list, ttl=TTL)
    listed: hg.ListState[int] = hg.list_state(ttl=TTL)
    mapped: hg.MapState[int, list[int]] = hg.map_state(ttl=TTL)
    most: hg.ReducingState[int] = hg.reducing_state(max, ttl=TTL)

    def process(self, record: Any, ctx: Any) -> None:
        """Not called here."""


Function = Plain | Expiring


def _append(f: Function, n: int) -> None:
    f.numbers.value.append(n)


def _set(f: Function, n: int) -> None:
    f.number.value = n


def _replace(f: Function, n: int) -> None:
    f.numbers.value = [n]


def _nest(f: Function, n: int) -> None:
    found = f.mapped.get(n)
    if found is not None:
        found.append(n)


CALLS: dict[str, Callable[[Function, int], object]] = {
    "set": _set,
    "clear": lambda f, _: f.number.clear(),
    "append": _append,
    "replace": _replace,
    "forget": lambda f, _: f.numbers.clear(),
    "add": lambda f, n: f.listed.add(n),
    "update": lambda f, n: f.listed.update([n] * n),
    "put": lambda f, n: f.mapped.put(n, [n]),
    "nest": _nest,
    "remove": lambda f, n: f.mapped.remove(n),
    "empty": lambda f, _: f.mapped.clear(),
    "reduce": lambda f, n: f.most.add(n),
    "read": lambda f, n: (f.listed.get(), list(f.mapped.items()), f.most.get(), f.number.value),
}
STEP = st.lists(st.tuples(st.sampled_from(sorted(CALLS)), VALUES), min_size=1, max_size=5)
BACKENDS: dict[str, Callable[[str], Any]] = {
    "heap": lambda folder: HeapBackends(),
    "rocksdb": lambda folder: RocksBackends(8 << 20, folder),
    "changelog": lambda folder: ChangelogBackends(HeapBackends(), 60_000, ManualClock(), 0),
}


class Rig:
    """A function with state whose calls may fail."""

    def __init__(self, function: Function, backends: Any) -> None:
        self.function, self.journal = function, Journal()
        where = OperatorContext("op", "the op", 0, 1, 1, "job", 128, ManualClock(), backends=backends)
        self.backend = open_backend(where, declared_state(function), (0, 127), lambda: 0, self.journal)
        self._eager, self._bound = split_handles(self.backend)
        vars(function).update(self.backend.handles)

    def call(self, key: str, steps: list[tuple[str, int]], *, fails: bool) -> None:
        """One record's, as the operator makes it."""
        self.journal.begin()
        for bound in self._bound:
            bound.bind(key)
        for eager in self._eager:
            eager.load(key)
        for name, value in steps:
            CALLS[name](self.function, value)
        if fails:
            self.journal.undo()
        else:
            for eager in self._eager:
                eager.store()

    def content(self) -> dict[tuple[str, str], Any]:
        """What is stored under each key."""
        names = declared_state(self.function)
        return {(name, key): self.backend.peek(name, key) for name in names for key in ("a", "b")}


@pytest.mark.parametrize("kind", [Plain, Expiring])
@pytest.mark.parametrize("backend", BACKENDS)
@settings(max_examples=60)
@given(calls=st.lists(st.tuples(KEYS, STEP, st.booleans()), max_size=6), last=st.tuples(KEYS, STEP))
def test_a_call_that_fails_leaves_all_as_it_was(
    backend: str, kind: type[Function], calls: list[Any], last: tuple[str, Any]
) -> None:
    """And calls after one that failed find what calls before it have left."""
    with TemporaryDirectory() as folder:
        rig, model = Rig(kind(), BACKENDS[backend](folder)), Rig(kind(), HeapBackends())
        for key, steps, fails in calls:
            rig.call(key, steps, fails=fails)
            if not fails:
                model.call(key, steps, fails=False)
        assert rig.content() == model.content()
        rig.call(*last, fails=True)
        assert rig.content() == model.content()
        rig.backend.close()


def test_what_succeeded_stays(tmp_path: Path) -> None:
    """Of a journal that is begun anew nothing is undone."""
    rig = Rig(Plain(), RocksBackends(8 << 20, str(tmp_path)))
    rig.call("a", [("add", 1)], fails=False)
    rig.journal.begin()
    rig.journal.undo()
    assert rig.content() != Rig(Plain(), HeapBackends()).content()
    rig.backend.close()
