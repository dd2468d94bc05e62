"""Any sequence of uses, on any backend, gives what a plain model of entries with times gives."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ttl_samples import HEAP, ROCKS, Workbench, blob_of, states, workbench

from headgate.api.declared.state_ttl import StateTtl, TtlCleanup, TtlTime, TtlUpdate, TtlVisibility

DURATION = 10
ABSENT = object()


@dataclass
class Entry:
    """Something stored, what it is called within its key, and when it was written."""

    name: Any
    held: Any
    since: int


@dataclass
class Model:
    """Entries per key, in order; nothing is removed but by reads, writes and snapshots."""

    ttl: StateTtl
    entries: dict[Any, list[Entry]] = field(default_factory=dict)
    now: int = 0

    def of(self, key: Any) -> list[Entry]:
        return self.entries.setdefault(key, [])

    def over(self, entry: Entry) -> bool:
        return entry.since + DURATION <= self.now

    def put(self, key: Any, name: Any, held: Any) -> None:
        for entry in self.of(key):
            if entry.name == name and not self.over(entry):
                entry.held, entry.since = held, self.now
                return
        self.remove(key, name)
        self.add(key, name, held)

    def add(self, key: Any, name: Any, held: Any) -> None:
        self.of(key).append(Entry(name, held, self.now))

    def remove(self, key: Any, name: Any) -> None:
        self.entries[key] = [entry for entry in self.of(key) if entry.name != name]

    def live(self, key: Any, name: Any) -> Any:
        """What is there for a write that builds on it."""
        found = [entry.held for entry in self.of(key) if entry.name == name and not self.over(entry)]
        return found[0] if found else ABSENT

    def read(self, key: Any, name: Any = ABSENT) -> list[Entry]:
        """A read of the entries of that name, or of all, with its effects."""
        touched = [entry for entry in self.of(key) if name is ABSENT or entry.name == name]
        given = [entry for entry in touched if self.shows(entry)]
        self.entries[key] = [e for e in self.of(key) if e not in touched or not self.over(e)]
        if self.ttl.update == "on-read-and-write":
            for entry in touched:
                if not self.over(entry):
                    entry.since = self.now
        return given

    def shows(self, entry: Entry) -> bool:
        return not self.over(entry) or self.ttl.visibility == "return-expired-if-not-cleaned-up"

    def cut(self) -> None:
        """A snapshot was written and restored."""
        if self.ttl.cleanup.full_snapshot:
            for key, entries in self.entries.items():
                self.entries[key] = [entry for entry in entries if not self.over(entry)]


def value_step(model: Model, key: Any, op: int, number: int, handle: Any) -> tuple[Any, Any]:
    """One use of value state on both sides."""
    if op == 0:
        model.put(key, "", number) if number else model.remove(key, "")
        handle.value = number
    elif op == 1:
        model.remove(key, "")
        handle.clear()
    else:
        given = model.read(key)
        return [entry.held for entry in given] or [0], [handle.value]
    return None, None


def fold_step(model: Model, key: Any, op: int, number: int, handle: Any) -> tuple[Any, Any]:
    """One use of reducing state on both sides."""
    if op == 0:
        before = model.live(key, "")
        model.remove(key, "")
        model.add(key, "", number if before is ABSENT else before + number)
        handle.add(number)
    elif op == 1:
        model.remove(key, "")
        handle.clear()
    else:
        return [entry.held for entry in model.read(key)] or [None], [handle.get()]
    return None, None


def mean_step(model: Model, key: Any, op: int, number: int, handle: Any) -> tuple[Any, Any]:
    """One use of aggregating state on both sides."""
    if op == 0:
        before = model.live(key, "")
        model.remove(key, "")
        model.add(key, "", (number,) if before is ABSENT else (*before, number))
        handle.add(number)
    elif op == 1:
        model.remove(key, "")
        handle.clear()
    else:
        means = [sum(entry.held) / len(entry.held) for entry in model.read(key)]
        return means or [None], [handle.get()]
    return None, None


def list_step(model: Model, key: Any, op: int, number: int, handle: Any) -> tuple[Any, Any]:
    """One use of list state on both sides."""
    if op == 0:
        model.add(key, object(), number)
        handle.add(number)
    elif op == 1:
        model.entries[key] = []
        for element in range(number):
            model.add(key, object(), element)
        handle.update(range(number))
    elif op == 2:
        for element in (number, number):
            model.add(key, object(), element)
        handle.extend([number, number])
    else:
        return [entry.held for entry in model.read(key)], handle.get()
    return None, None


def map_step(model: Model, key: Any, op: int, number: int, handle: Any) -> tuple[Any, Any]:
    """One use of map state on both sides."""
    name = f"n{number % 3}"
    if op == 0:
        model.put(key, name, number)
        handle.put(name, number)
    elif op == 1:
        model.remove(key, name)
        handle.remove(name)
    elif op == 2:
        return [entry.held for entry in model.read(key, name)], [
            held for held in [handle.get(name, ABSENT)] if held is not ABSENT
        ]
    elif op == 3:
        shown = [entry for entry in model.of(key) if model.shows(entry)]
        counted = (len(shown), len(handle))
        return (counted[0], bool(model.read(key, name))), (counted[1], name in handle)
    else:
        return [(entry.name, entry.held) for entry in model.read(key)], list(handle.items())
    return None, None


STEPS = {
    "count": value_step, "sum": fold_step, "mean": mean_step, "log": list_step, "totals": map_step,
}  # fmt: skip

USES = st.lists(
    st.one_of(
        st.tuples(st.just("tick"), st.integers(1, DURATION + 1), st.just(0), st.just(0)),
        st.tuples(st.just("restore"), st.just(0), st.just(0), st.just(0)),
        st.tuples(st.just("use"), st.integers(0, 4), st.sampled_from(["ada", "bob", 3]), st.integers(0, 5)),
    ),
    min_size=8,
    max_size=40,
)


@st.composite
def configurations(draw: Any) -> StateTtl:
    """Every combination of what can be chosen; where reads may give what is over, nothing sweeps."""
    visibility = draw(st.sampled_from(list(TtlVisibility)))
    sweeping = visibility == TtlVisibility.NEVER_RETURN_EXPIRED
    return StateTtl(
        DURATION,
        update=draw(st.sampled_from(list(TtlUpdate))),
        visibility=visibility,
        time=draw(st.sampled_from(list(TtlTime))),
        cleanup=TtlCleanup(
            full_snapshot=draw(st.booleans()), incremental=draw(st.sampled_from([0, 1, 3])) if sweeping else 0
        ),
    )


def play(bench: Workbench, kind: str, stores: Iterator[str], ttl: StateTtl, uses: list[Any]) -> None:
    """Do the same to the model and to a backend, and compare every answer."""
    model, descriptors = Model(ttl), states(ttl, kind)
    backend = bench.make(next(stores), descriptors)
    for what, op, key, number in uses:
        if what == "tick":
            model.now = bench.clock.now = bench.clock.now + op
        elif what == "restore":
            model.cut()
            backend = bench.make(next(stores), descriptors, blob_of(backend))
        else:
            handle = backend.handles[kind]
            handle.bind(key)
            expected, got = STEPS[kind](model, key, op, number, handle)
            assert expected == got
    for key in ("ada", "bob", 3):
        shown = [entry for entry in model.of(key) if model.shows(entry)]
        assert backend.handles[kind].holds(key) == bool(shown)


@pytest.mark.parametrize("kind", STEPS)
@settings(max_examples=20)
@given(ttl=configurations(), uses=USES)
def test_the_heap_agrees_with_the_model(kind: str, ttl: StateTtl, uses: list[Any]) -> None:
    """Reads, writes, removals, time and restores in any order; each answer is the model's."""
    with workbench() as bench:
        play(bench, kind, iter(lambda: HEAP, None), ttl, uses)


@pytest.mark.proof
@pytest.mark.parametrize("kind", STEPS)
@settings(max_examples=300)
@given(ttl=configurations(), uses=USES)
def test_the_heap_agrees_with_the_model_at_length(kind: str, ttl: StateTtl, uses: list[Any]) -> None:
    """The same with more sequences."""
    with workbench() as bench:
        play(bench, kind, iter(lambda: HEAP, None), ttl, uses)


@pytest.mark.ci
@pytest.mark.parametrize("kind", STEPS)
@settings(max_examples=4)
@given(ttl=configurations(), uses=USES)
def test_both_backends_in_turn_agree_with_the_model_a_few_times(
    kind: str, ttl: StateTtl, uses: list[Any]
) -> None:
    """The same, each restore on the other backend."""
    with workbench() as bench:
        play(bench, kind, itertools.cycle((ROCKS, HEAP)), ttl, uses)


@pytest.mark.proof
@pytest.mark.parametrize("kind", STEPS)
@settings(max_examples=40)
@given(ttl=configurations(), uses=USES)
def test_both_backends_in_turn_agree_with_the_model(kind: str, ttl: StateTtl, uses: list[Any]) -> None:
    """The same where every restore goes from RocksDB to the heap or back."""
    with workbench() as bench:
        play(bench, kind, itertools.cycle((ROCKS, HEAP)), ttl, uses)
