"""Reducing and aggregating state on the heap: what is folded, cut, restored and spread over subtasks."""

from __future__ import annotations

import operator
from collections import Counter
from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import headgate as hg
from headgate.api.declared.keyed_states import declared_state
from headgate.common.keys.keygroups import key_group, key_group_range
from headgate.state.heap.backend import HeapKeyedBackend
from headgate.state.heap.handles import (
    ImmutableAggregatingState,
    ImmutableReducingState,
    MutableAggregatingState,
    MutableReducingState,
)
from headgate.testing.suites.value_checks import snapshot_blob

GROUPS = 16


def joined(log: list[int], more: list[int]) -> list[int]:
    """Changes the first in place."""
    log += more
    return log


class Average(hg.AggregateFunction[int, tuple[int, int], float]):
    """An accumulator that cannot be changed in place."""

    def create_accumulator(self) -> tuple[int, int]:
        return 0, 0

    def add(self, value: int, accumulator: tuple[int, int]) -> tuple[int, int]:
        return accumulator[0] + 1, accumulator[1] + value

    def get_result(self, accumulator: tuple[int, int]) -> float:
        return accumulator[1] / accumulator[0]


class Tally(hg.AggregateFunction[int, dict[int, int], dict[int, int]]):
    """Changes its accumulator in place, and gives it away as the result."""

    def create_accumulator(self) -> dict[int, int]:
        return {}

    def add(self, value: int, accumulator: dict[int, int]) -> dict[int, int]:
        accumulator[value] = accumulator.get(value, 0) + 1
        return accumulator

    def get_result(self, accumulator: dict[int, int]) -> dict[int, int]:
        return accumulator


class Folds:
    """Both kinds, each with values that can be changed in place and with some that cannot."""

    total: hg.ReducingState[int] = hg.reducing_state(operator.add)
    log: hg.ReducingState[list[int]] = hg.reducing_state(joined)
    average: hg.AggregatingState[int, float] = hg.aggregating_state(Average())
    tally: hg.AggregatingState[int, dict[int, int]] = hg.aggregating_state(Tally())


NAMES = ["total", "log", "average", "tally"]


def backend(first: int = 0, last: int = GROUPS - 1, program: object = None) -> Any:
    """An empty backend of a program's states."""
    return HeapKeyedBackend(declared_state(program or Folds()), first, last, GROUPS)


def spread(blobs: list[bytes], parallelism: int) -> list[Any]:
    """Backends of all subtasks, restored from the blobs."""
    made = [backend(*key_group_range(GROUPS, parallelism, index)) for index in range(parallelism)]
    for one in made:
        one.restore(blobs)
    return made


def add(made: Any, key: Any, number: int) -> None:
    """Add a number to every state of a key, as one record would."""
    made.bind(key)
    for name in NAMES:
        made.handles[name].add([number] if name == "log" else number)
    made.store()


def got(made: Any, key: Any) -> list[Any]:
    """What every state of a key gives."""
    made.bind(key)
    return [deepcopy(made.handles[name].get()) for name in NAMES]


def expected(added: list[int]) -> list[Any]:
    """What every state must give after these numbers were added."""
    if not added:
        return [None] * 4
    return [sum(added), added, sum(added) / len(added), dict(Counter(added))]


def test_the_handle_fits_the_type_that_is_stored() -> None:
    """Values that cannot be changed in place are plain slots for the loop; others go through the guard."""
    handles = backend().handles
    assert [type(handles[name]) for name in NAMES] == [
        ImmutableReducingState,
        MutableReducingState,
        ImmutableAggregatingState,
        MutableAggregatingState,
    ]
    assert [handles[name].immutable for name in NAMES] == [True, False, True, False]


def test_add_get_and_clear() -> None:
    """Each key folds its own values; an empty one gives None and holds no entry, also after clear."""
    made = backend()
    for key, number in [("a", 2), ("b", 7), ("a", 4), ("a", 2)]:
        add(made, key, number)
    assert got(made, "a") == expected([2, 4, 2])
    assert got(made, "b") == expected([7])
    assert got(made, "c") == expected([])
    made.bind("a")
    for handle in made.handles.values():
        handle.clear()
        assert handle.get() is None
    made.store()
    assert got(made, "a") == expected([])
    assert [list(table.entries) for table in made._tables.values()] == [["b"]] * 4
    add(made, "a", 5)
    assert got(made, "a") == expected([5])


def test_falsy_results_are_no_empty_state() -> None:
    """Zero, false and the empty list are values that were added."""
    made = backend()
    made.bind("a")
    made.handles["total"].add(0)
    made.handles["log"].add([])
    made.store()
    restored = spread([snapshot_blob(made.snapshot_sync())], 1)[0]
    assert got(restored, "a") == [0, [], None, None]
    maximum = backend(program=AsMaximum())
    maximum.bind("a")
    for number in (0, -5):
        maximum.handles["total"].add(number)
    assert maximum.handles["total"].get() == 0


def change_by_adding(made: Any) -> None:
    """The functions change what is there."""
    add(made, "a", 2)


def change_what_is_got(made: Any) -> None:
    """The program changes what it was given, which is not promised to change the state."""
    made.bind("a")
    made.handles["log"].get().append(99)
    made.handles["tally"].get()[99] = 1


@pytest.mark.parametrize("change", [change_by_adding, change_what_is_got])
def test_changes_in_place_do_not_reach_a_snapshot_under_way(change: Any) -> None:
    """Accumulators, and results that are parts of them, are copied before they are changed."""
    made = backend()
    add(made, "a", 1)
    held = [made._tables[name].entries["a"] for name in ("log", "tally")]
    cut = made.snapshot_sync()
    change(made)
    add(made, "b", 3)
    assert held == [[1], {1: 1}]
    restored = spread([snapshot_blob(cut)], 1)[0]
    assert (got(restored, "a"), got(restored, "b")) == (expected([1]), expected([]))


def test_accumulators_are_copied_once_per_snapshot_and_not_without() -> None:
    """At the first addition after the cut; one that was made since then is not copied at all."""
    made = backend()

    def held() -> list[Any]:
        return [made._tables[name].entries.get(key) for name in ("log", "tally") for key in "ab"]

    def same(before: list[Any]) -> list[bool]:
        return [old is new for old, new in zip(before, held(), strict=True)]

    add(made, "a", 1)
    before, cut = held(), made.snapshot_sync()
    add(made, "a", 2)
    add(made, "b", 2)
    assert same(before) == [False] * 4
    before = held()
    add(made, "a", 3)
    add(made, "b", 3)
    assert same(before) == [True] * 4
    snapshot_blob(cut)
    add(made, "a", 4)
    assert same(before) == [True] * 4


numbers = st.integers(-5, 5)
keys = st.sampled_from(["a", 1, ("b", 2.5), b"c", 2**70])
steps = st.lists(
    st.one_of(
        st.tuples(st.just("add"), keys, numbers),
        st.tuples(st.just("add"), keys, numbers),
        st.tuples(st.just("clear"), keys, st.sampled_from(NAMES)),
        st.tuples(st.just("cut"), st.none(), st.none()),
        st.tuples(st.just("restart"), st.integers(1, 3), st.integers(0, 2)),
    ),
    max_size=40,
)


class Run:
    """Subtasks beside a model: for every key and state the numbers that were added since it was cleared."""

    def __init__(self) -> None:
        self.subtasks = [backend()]
        self.model: dict[Any, dict[str, list[int]]] = {}
        self.cuts: list[tuple[dict[Any, Any], list[Any]]] = []

    def of(self, key: Any) -> Any:
        """The subtask that owns a key."""
        return self.subtasks[key_group(key, GROUPS) * len(self.subtasks) // GROUPS]

    def add(self, key: Any, number: int) -> None:
        add(self.of(key), key, number)
        for added in self.model.setdefault(key, {name: [] for name in NAMES}).values():
            added.append(number)

    def clear(self, key: Any, name: str) -> None:
        made = self.of(key)
        made.bind(key)
        made.handles[name].clear()
        made.store()
        if key in self.model:
            self.model[key][name] = []

    def cut(self, *_: Any) -> None:
        self.cuts.append((deepcopy(self.model), [one.snapshot_sync() for one in self.subtasks]))

    def restart(self, parallelism: int, back: int) -> None:
        """Fall back to one of the last cuts; the writes of those behind it are never finished."""
        self.cut()
        position = max(0, len(self.cuts) - 1 - back)
        self.model, pending = self.cuts[position]
        blobs = [snapshot_blob(one) for one in pending]
        self.cuts.clear()
        self.subtasks = spread(blobs, parallelism)

    def check(self) -> None:
        for key, states in self.model.items():
            values = got(self.of(key), key)
            for place, name in enumerate(NAMES):
                assert values[place] == expected(states[name])[place], (key, name)


@settings(max_examples=60, derandomize=True, deadline=None, database=None)
@given(steps)
def test_any_history_gives_what_the_model_gives(history: list[Any]) -> None:
    """Adding, clearing, cutting, falling back and spreading anew, in any order, like plain dicts of lists."""
    run = Run()
    for what, *arguments in history:
        getattr(run, what)(*arguments)
        if what == "restart":  # reading at every step would hide what additions alone leave undone
            run.check()
    run.check()
    run.restart(2, 0)
    run.check()


class AsValue:
    total: hg.ValueState[int] = hg.value_state(default=0)


class AsReducing:
    total: hg.ReducingState[int] = hg.reducing_state(operator.add)


class AsMaximum:
    total: hg.ReducingState[int] = hg.reducing_state(max)


class AsText:
    total: hg.ReducingState[str] = hg.reducing_state(operator.add)


class Adding(hg.AggregateFunction[int, int, int]):
    """An accumulator of the type that a value or reducing state of int has."""

    def create_accumulator(self) -> int:
        return 0

    def add(self, value: int, accumulator: int) -> int:
        return accumulator + value

    def get_result(self, accumulator: int) -> int:
        return accumulator


class AsAggregating:
    total: hg.AggregatingState[int, int] = hg.aggregating_state(Adding())


def moved(old: object, new: object) -> Any:
    """The state of `old` with one key, restored into `new`."""
    made = backend(program=old)
    made.bind("a")
    handle = made.handles["total"]
    if isinstance(old, AsValue):
        handle.value = 5
    else:
        handle.add(5)
    made.store()
    restored = backend(program=new)
    restored.restore([snapshot_blob(made.snapshot_sync())])
    restored.bind("a")
    return restored.handles["total"]


@pytest.mark.parametrize(
    ("old", "new", "was", "now"),
    [
        (AsValue(), AsReducing(), "value", "reducing"),
        (AsReducing(), AsValue(), "reducing", "value"),
        (AsReducing(), AsAggregating(), "reducing", "aggregating"),
        (AsAggregating(), AsReducing(), "aggregating", "reducing"),
        (AsReducing(), AsText(), "int", "str"),
    ],
)
def test_another_kind_or_type_is_refused_by_name(old: object, new: object, was: str, now: str) -> None:
    """Equal bytes under another kind are no more the same state than another type is."""
    with pytest.raises(hg.UsageError, match=f"state 'total' of the checkpoint .*{was}.*{now}"):
        moved(old, new)


def test_another_function_goes_on_from_what_is_stored() -> None:
    """Only the value is stored: a restored state may be reduced by a new function from then on."""
    handle = moved(AsReducing(), AsMaximum())
    handle.add(3)
    assert handle.get() == 5
    handle.add(9)
    assert handle.get() == 9


class Anything(hg.AggregateFunction[Any, int, complex]):
    """Values and results that no serializer knows."""

    def create_accumulator(self) -> int:
        return 0

    def add(self, value: object, accumulator: int) -> int:
        return accumulator + 1

    def get_result(self, accumulator: int) -> complex:
        return complex(accumulator)


class Counting:
    total: hg.AggregatingState[object, complex] = hg.aggregating_state(Anything())


def test_only_the_accumulator_needs_a_serializer() -> None:
    """What is added and what is told are never stored."""
    made = backend(program=Counting())
    made.bind("a")
    made.handles["total"].add(object())
    made.store()
    restored = backend(program=Counting())
    restored.restore([snapshot_blob(made.snapshot_sync())])
    restored.bind("a")
    assert restored.handles["total"].get() == 1 + 0j


def test_state_types_name_the_kind_and_what_is_stored() -> None:
    """The metadata's description has the accumulator's type, not those of what goes in and comes out."""
    types = backend().state_types()
    whole = {"kind": "int", "version": 1}
    assert types["total"] == {"kind": "reducing", "of": [whole]}
    assert types["average"]["kind"] == "aggregating"
    assert [part["kind"] for part in types["average"]["of"]] == ["tuple"]
