"""The states of the conformance suite: one of every kind, with mutable and immutable values."""

from __future__ import annotations

import copy
from collections.abc import Hashable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

from headgate.api.declared import keyed_states as declared
from headgate.state.backend import KeyedBackend

GROUPS: Final = 16
"""Number of key groups (max parallelism) of every backend in the suite."""

KEYS: Final = ["a", 1, 1.5, ("b", 2), b"c", 2**70, "d", "e"]
"""Keys of various types; each third of the key groups has some of them."""


@dataclass
class Basket:
    """A mutable value, which tests change in place."""

    items: list[str] = field(default_factory=list)


class Spread(declared.AggregateFunction[int, list[int], int]):
    """Aggregate function: greatest value minus least, with an accumulator that is changed in place."""

    def create_accumulator(self) -> list[int]:
        return []

    def add(self, value: int, accumulator: list[int]) -> list[int]:
        accumulator[:] = [min([value, *accumulator]), max([value, *accumulator])]
        return accumulator

    def get_result(self, accumulator: list[int]) -> int:
        return accumulator[1] - accumulator[0]


class Mean(declared.AggregateFunction[int, tuple[int, int], float]):
    """Aggregate function: the mean of the values, with an immutable accumulator."""

    def create_accumulator(self) -> tuple[int, int]:
        return 0, 0

    def add(self, value: int, accumulator: tuple[int, int]) -> tuple[int, int]:
        return accumulator[0] + 1, accumulator[1] + value

    def get_result(self, accumulator: tuple[int, int]) -> float:
        return accumulator[1] / accumulator[0]


def _joined(one: list[int], other: list[int]) -> list[int]:
    one.extend(other)
    return one


class _Everything:
    count: declared.ValueState[int] = declared.value_state(default=0)
    basket: declared.ValueState[Basket] = declared.value_state(default_factory=Basket)
    free: declared.ValueState[Any] = declared.value_state()
    names: declared.ListState[str] = declared.list_state()
    log: declared.ListState[list[int]] = declared.list_state()
    totals: declared.MapState[str, int] = declared.map_state()
    lists: declared.MapState[int, list[int]] = declared.map_state()
    best: declared.ReducingState[int] = declared.reducing_state(max)
    bag: declared.ReducingState[list[int]] = declared.reducing_state(_joined)
    mean: declared.AggregatingState[int, float] = declared.aggregating_state(Mean())
    spread: declared.AggregatingState[int, int] = declared.aggregating_state(Spread())


STATES: Final[dict[str, declared.StateDescriptor]] = declared.declared_state(_Everything())


@contextmanager
def bound(backend: KeyedBackend, key: Hashable) -> Iterator[Mapping[str, Any]]:
    """Provide a backend's handles by name, bound to one key; store changes unless the block raises."""
    backend.bind(key)
    yield backend.handles
    backend.store()


def touch(backend: KeyedBackend, key: Hashable, number: int) -> None:
    """Change all states of a key, depending on `number`; set an event-time timer to `number` ms and a
    processing-time timer to -`number` ms.
    """
    with bound(backend, key) as handles:
        handles["count"].value += number
        handles["basket"].value.items.append(str(number))
        free = handles["free"].value or {"n": []}
        free["n"].append(number)
        handles["free"].value = free
        handles["names"].add(f"s{number}")
        handles["log"].add([number])
        handles["totals"].put(f"t{number % 3}", number)
        handles["lists"].put(number % 3, [number])
        for inner in (*handles["log"].get(), *(value for _, value in handles["lists"].items())):
            inner.append(number)
        for name in ("best", "mean", "spread"):
            handles[name].add(number)
        handles["bag"].add([number])
    backend.event_timers.register(number, key)
    backend.processing_timers.register(-number, key)


def contents(backends: Iterable[KeyedBackend]) -> dict[str, Any]:
    """Return a copy of all state (name -> {key: value}) and timers ("event timers" and "processing timers",
    each a sorted list) of an operator's subtasks together, comparable at any parallelism.
    """
    found: dict[str, Any] = {"event timers": [], "processing timers": []}
    for backend in backends:
        for name in backend.handles:
            found.setdefault(name, {}).update(copy.deepcopy(dict(backend.scan(name))))
        found["event timers"] += backend.event_timers.snapshot()
        found["processing timers"] += backend.processing_timers.snapshot()
    for timers in ("event timers", "processing timers"):
        found[timers].sort(key=repr)
    return found
