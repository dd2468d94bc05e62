"""Tests with random programs: the backend must hold what plain dicts hold after the same operations."""

from __future__ import annotations

import copy
import random
from collections.abc import Callable
from typing import Any, ClassVar, Final, TypeVar

import pytest

from headgate.api.declared.keyed_states import (
    AggregatingState,
    ListState,
    MapState,
    ReducingState,
    ValueState,
)
from headgate.state.backend import KeyedBackend, PendingSnapshot
from headgate.state.snapshots import KeyedStateHandle
from headgate.testing.suites.backend.bench import Bench, owner_of
from headgate.testing.suites.backend.states import KEYS, STATES, Basket, contents
from headgate.testing.suites.backend.suite_bench import BackendTests

K = TypeVar("K")
Free = dict[str, list[int | tuple[int, str]]]
Model = dict[str, dict[Any, Any]]
"""Expected contents: state -> key -> value; for timers, (timestamp, key) -> None."""


class ModelTests(BackendTests):
    """Tests that run `seeds` random programs of `steps` operations each: changes, completed and aborted
    checkpoints, and restores at any parallelism.
    """

    seeds: ClassVar[int] = 3  # how many random programs are run; a failure names its seed
    steps: ClassVar[int] = 120  # of each program

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        """Make one test per seed of those tests that take a `seed`."""
        if "seed" in metafunc.fixturenames:
            metafunc.parametrize("seed", range(self.seeds))

    def test_random_programs_hold_what_dicts_would(self, bench: Bench, seed: int) -> None:
        """After random operations, the backend and its restored checkpoint hold what plain dicts hold."""
        run = _Run(bench, random.Random(seed))
        for _ in range(self.steps):
            run.step()
        run.checkpoint()
        run.restart()


class _Run:
    """One random program, the dicts that mirror its state, and its last completed checkpoint."""

    def __init__(self, bench: Bench, chance: random.Random) -> None:
        self.bench, self.chance = bench, chance
        self.subtasks = bench.subtasks(chance.randint(1, 3))
        self.model = _empty()
        self.checkpoints = self.completed = 0
        self.restorable: tuple[list[KeyedStateHandle], Model] = ([], _empty())
        self.pending: list[tuple[KeyedBackend, PendingSnapshot]] = []

    def step(self) -> None:
        happening = self.chance.choices(
            [self.change, self.timer, self.checkpoint, self.give_up, self.settle, self.restart],
            [60, 15, 6, 4, 10, 3],
        )[0]
        happening()

    def change(self) -> None:
        key, name = self.chance.choice(KEYS), self.chance.choice(list(STATES))
        number, backend = self.chance.randint(1, 9), owner_of(self.subtasks, key)
        backend.bind(key)
        handle, of_state = backend.handles[name], self.model[name]
        if self.chance.random() < 0.2:
            handle.clear()
            of_state.pop(key, None)
        else:
            _CHANGES[name](handle, of_state, key, number)
        backend.store()
        assert dict(backend.scan(name)).get(key) == of_state.get(key), f"state {name!r}, key {key!r}"

    def timer(self) -> None:
        key, timestamp = self.chance.choice(KEYS), self.chance.randint(0, 20)
        which = self.chance.choice(["event", "processing"])
        timers = getattr(owner_of(self.subtasks, key), f"{which}_timers")
        of_model = self.model[f"{which} timers"]
        match self.chance.randint(0, 2):
            case 0:
                timers.register(timestamp, key)
                of_model[timestamp, key] = None
            case 1:
                timers.delete(timestamp, key)
                of_model.pop((timestamp, key), None)
            case _:
                up_to = timestamp // 4
                queues = [getattr(one, f"{which}_timers") for one in self.subtasks]
                fired = [one for queue in queues for one in queue.pop_due(up_to)]
                due = [one for one in of_model if one[0] <= up_to]
                assert sorted(fired, key=repr) == sorted(due, key=repr)
                for one in due:
                    del of_model[one]

    def checkpoint(self) -> None:
        self.checkpoints += 1
        number, model = self.checkpoints, copy.deepcopy(self.model)
        taken = [(one, one.snapshot_sync(number, self.completed)) for one in self.subtasks]
        for _ in range(self.chance.randint(0, 10)):
            self.change()
        stored = [
            self.bench.finish(one, pending, number, subtask) for subtask, (one, pending) in enumerate(taken)
        ]
        if self.chance.random() < 0.3:
            for handle in stored:
                self.bench.abort(number, handle)
            return
        self.completed, self.restorable = number, (stored, model)
        self.bench.keep_only(stored)

    def give_up(self) -> None:
        if self.pending and self.chance.random() < 0.5:
            self.pending.pop()[1].release()
            return
        one = self.chance.choice(self.subtasks)
        self.pending.append((one, one.snapshot_sync(10_000 + self.checkpoints, self.completed)))

    def settle(self) -> None:
        for one in self.subtasks:
            one.settle()

    def restart(self) -> None:
        for one in self.subtasks:
            one.close()
        while self.pending:
            self.pending.pop()[1].release()
        stored, model = self.restorable
        self.model = copy.deepcopy(model)
        self.subtasks = self.bench.subtasks(self.chance.randint(1, 3), stored)
        assert contents(self.subtasks) == _as_contents(self.model)


def _empty() -> Model:
    return {name: {} for name in (*STATES, "event timers", "processing timers")}


def _as_contents(model: Model) -> dict[str, Any]:
    return {name: sorted(held, key=repr) if name.endswith("timers") else held for name, held in model.items()}


def _count(handle: ValueState[int], model: dict[K, int], key: K, number: int) -> None:
    handle.value += number
    model[key] = model.get(key, 0) + number


def _basket(handle: ValueState[Basket], model: dict[K, Basket], key: K, number: int) -> None:
    handle.value.items.append(str(number))
    model.setdefault(key, Basket()).items.append(str(number))


def _free(handle: ValueState[Free], model: dict[K, Free], key: K, number: int) -> None:
    handle.value = {"n": [number, (number, "t")]}
    model[key] = {"n": [number, (number, "t")]}


def _names(handle: ListState[str], model: dict[K, list[str]], key: K, number: int) -> None:
    if number % 3:
        handle.add(str(number))
        model.setdefault(key, []).append(str(number))
        return
    handle.update([str(number)] * (number // 3))
    model[key] = [str(number)] * (number // 3)


def _log(handle: ListState[list[int]], model: dict[K, list[list[int]]], key: K, number: int) -> None:
    handle.add([number])
    model.setdefault(key, []).append([number])
    for inner in (*handle.get(), *model[key]):
        inner.append(number)


def _totals(handle: MapState[str, int], model: dict[K, dict[str, int]], key: K, number: int) -> None:
    if number % 2:
        handle.put(f"t{number}", number)
        model.setdefault(key, {})[f"t{number}"] = number
        return
    handle.remove(f"t{number - 1}")
    model.get(key, {}).pop(f"t{number - 1}", None)
    if model.get(key) == {}:
        del model[key]


def _lists(
    handle: MapState[int, list[int]], model: dict[K, dict[int, list[int]]], key: K, number: int
) -> None:
    handle.put(number % 3, [number])
    model.setdefault(key, {})[number % 3] = [number]
    for inner in (*(value for _, value in handle.items()), *model[key].values()):
        inner.append(number)


def _best(handle: ReducingState[int], model: dict[K, int], key: K, number: int) -> None:
    handle.add(number)
    model[key] = max(model.get(key, 0), number)


def _bag(handle: ReducingState[list[int]], model: dict[K, list[int]], key: K, number: int) -> None:
    handle.add([number])
    model.setdefault(key, []).append(number)


def _mean(handle: AggregatingState[int, float], model: dict[K, tuple[int, int]], key: K, number: int) -> None:
    handle.add(number)
    count, total = model.get(key, (0, 0))
    model[key] = (count + 1, total + number)


def _spread(handle: AggregatingState[int, int], model: dict[K, list[int]], key: K, number: int) -> None:
    handle.add(number)
    before = model.get(key, [])
    model[key] = [min([number, *before]), max([number, *before])]


_CHANGES: Final[dict[str, Callable[..., None]]] = {
    "count": _count, "basket": _basket, "free": _free, "names": _names, "log": _log, "totals": _totals,
    "lists": _lists, "best": _best, "bag": _bag, "mean": _mean, "spread": _spread,
}  # fmt: skip
"""State -> function that makes one change both in the state handle and in the model's dict."""
