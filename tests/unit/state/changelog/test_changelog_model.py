"""A restored checkpoint is the state at its cut, and the storage holds no more, whatever happens between."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from changelog_bench import INTERVAL_MS, ChangelogBench, Contents, Drawn
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    precondition,
    rule,
    run_state_machine_as_test,
)

from headgate.state.changelog import backend

KEYS = st.sampled_from(["a", 3, ("d", 4), b"e"])
NUMBERS = st.integers(0, 9)
STEPS = st.sampled_from(["change", "change_in_place", "clear", "register", "delete", "fire"])


class Machine(RuleBasedStateMachine):
    """The program changes what its handles give in place; the model is plain dicts."""

    inners: tuple[str, ...] = ("heap",)

    def __init__(self) -> None:
        super().__init__()
        self.root = Path(tempfile.mkdtemp(prefix="headgate-test-"))
        self.limits = mock.patch.multiple(backend, LOG_BYTES_MIN=3_000, CHANGES_MAX=12, SEGMENTS_MAX=4)
        self.limits.start()
        self.pending: list[Drawn] = []
        self.number = 0

    @initialize(parallelism=st.integers(1, 2), retained=st.integers(1, 2))
    def begin(self, parallelism: int, retained: int) -> None:
        self.bench = ChangelogBench(self.root, retained)
        self.bench.start(parallelism, self.inners[0])
        self.model: Contents = self.bench.contents()

    def change(self, key: Any, number: int) -> None:
        handles: dict[str, Any] = (subtask := self.bench.of(key)).handles
        handles["count"].value = number
        handles["log"].add([number])
        handles["most"].add(number)
        subtask.store()
        if number:
            self.model["count"][key] = number
        else:
            self.model["count"].pop(key, None)
        self.model["log"].setdefault(key, []).append([number])
        self.model["most"][key] = max(number, self.model["most"].get(key, number))

    def change_in_place(self, key: Any, number: int) -> None:
        handles: dict[str, Any] = (subtask := self.bench.of(key)).handles
        handles["bag"].value.append(number)
        if "x" not in handles["totals"]:
            handles["totals"].put("x", [])
        handles["totals"].get("x").append(number)
        subtask.store()
        self.model["bag"].setdefault(key, []).append(number)
        self.model["totals"].setdefault(key, {}).setdefault("x", []).append(number)

    def clear(self, key: Any, _: int) -> None:
        subtask = self.bench.of(key)
        for name, handle in subtask.handles.items():
            handle.clear()
            self.model[name].pop(key, None)
        subtask.store()

    def register(self, key: Any, timestamp: int) -> None:
        self.bench.of(key).event_timers.register(timestamp, key)
        self.model["event"].add((timestamp, key))

    def delete(self, key: Any, timestamp: int) -> None:
        self.bench.of(key).event_timers.delete(timestamp, key)
        self.model["event"].discard((timestamp, key))

    def fire(self, _: Any, up_to: int) -> None:
        for subtask in self.bench.subtasks:
            list(subtask.event_timers.pop_due(up_to // 2))
        self.model["event"] = {timer for timer in self.model["event"] if timer[0] > up_to // 2}

    @rule(
        steps=st.lists(st.tuples(STEPS, KEYS, NUMBERS), max_size=4),
        end=st.sampled_from(["complete", "complete", "complete", "complete", "abort", "later", "later"]),
    )
    @precondition(lambda self: len(self.pending) < 3)
    def checkpoint(self, steps: list[tuple[str, Any, int]], end: str) -> None:
        self.work(steps)
        self.number += 1
        drawn = self.bench.draw(self.number)
        assert drawn.expected == self.model
        self.pending.append(drawn)
        if end != "later":
            self.end([], len(self.pending) - 1, end == "complete")

    def work(self, steps: list[tuple[str, Any, int]]) -> None:
        for name, key, number in steps:
            getattr(self, name)(key, number)

    @rule(
        steps=st.lists(st.tuples(STEPS, KEYS, NUMBERS), max_size=4),
        place=st.integers(0, 2),
        completes=st.booleans(),
    )
    @precondition(lambda self: self.pending)
    def end(self, steps: list[tuple[str, Any, int]], place: int, completes: bool) -> None:
        self.work(steps)
        for drawn in self.pending:  # there is one writer: what was drawn first is written first
            self.bench.finish(drawn)
        for subtask in self.bench.subtasks:
            subtask.settle()
        place = min(place, len(self.pending) - 1)
        drawn = self.pending.pop(place)
        if not completes:
            self.bench.abort(drawn)
        else:
            for older in self.pending[:place]:
                self.bench.abort(older)
            del self.pending[:place]
            self.bench.complete(drawn)
            assert self.bench.stored() == drawn.expected
        if not self.pending:
            self.bench.check_storage()

    @rule()
    def wait(self) -> None:
        self.bench.clock.advance(INTERVAL_MS // 4)

    @rule(
        likely=st.integers(0, 2),
        inner=st.integers(0, 2),
        parallelism=st.integers(1, 3),
        changelog=st.sampled_from([True, True, False]),
    )
    @precondition(lambda self: self.bench.completed)
    def restart(self, likely: int, inner: int, parallelism: int, changelog: bool) -> None:
        if likely:
            return
        for drawn in self.pending:
            self.bench.abort(drawn)
        self.pending.clear()
        kind = self.inners[inner % len(self.inners)]
        self.model = self.bench.restart(parallelism, kind, changelog)
        assert self.bench.contents() == self.model

    def teardown(self) -> None:
        self.limits.stop()
        self.bench.close()
        shutil.rmtree(self.root, ignore_errors=True)


class OnRocksToo(Machine):
    inners = ("rocksdb", "incremental", "heap")


def run(machine: type[Machine], examples: int, steps: int) -> None:
    """Play it."""
    run_state_machine_as_test(
        machine, settings=settings(max_examples=examples, stateful_step_count=steps, deadline=None)
    )


def test_a21_a_restored_checkpoint_is_the_state_at_its_cut() -> None:
    """On the heap, in any order of changes, checkpoints, aborts, materialisations and restores."""
    run(Machine, 12, 30)


@pytest.mark.proof
@pytest.mark.parametrize(("machine", "examples"), [(Machine, 150), (OnRocksToo, 40)])
def test_a21_the_same_at_length_and_on_either_backend(machine: type[Machine], examples: int) -> None:
    """A restart may change the backend, and turn the changelog off and on."""
    run(machine, examples, 50)
