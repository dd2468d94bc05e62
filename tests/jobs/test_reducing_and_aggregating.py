"""Whole jobs with reducing and aggregating state: a restart leaves no trace in what was folded."""

from __future__ import annotations

import operator
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from mini_jobs import RESTART_AT_ONCE, TINY, Halting, environment, json_lines, running_counts

import headgate as hg

WORDS = [f"w{n % 7}" for n in range(200)]


class Mean(hg.AggregateFunction[int, list[int], float]):
    """Changes its accumulator in place."""

    def create_accumulator(self) -> list[int]:
        return [0, 0]

    def add(self, value: int, accumulator: list[int]) -> list[int]:
        accumulator[0] += 1
        accumulator[1] += value
        return accumulator

    def get_result(self, accumulator: list[int]) -> float:
        return accumulator[1] / accumulator[0]


class Fold(hg.KeyedProcessFunction[str, str, Any]):
    """The n-th record of a key adds n to a mean, and one to a sum and to a list."""

    total: hg.ReducingState[int] = hg.reducing_state(operator.add)
    marks: hg.ReducingState[list[int]] = hg.reducing_state(operator.iadd)
    mean: hg.AggregatingState[int, float] = hg.aggregating_state(Mean())

    def process(self, record: str, ctx: hg.KeyedContext[str]) -> Iterator[Any]:
        self.total.add(1)
        n = self.total.get() or 0
        self.marks.add([n])
        self.mean.add(n)
        marks = self.marks.get() or []
        yield {"word": ctx.key, "n": n, "in order": marks == list(range(1, n + 1)), "mean": self.mean.get()}


@pytest.mark.parametrize("parallelism", [1, 2])
def test_a_crash_after_a_checkpoint_leaves_no_trace_in_what_was_folded(
    tmp_path: Path, parallelism: int
) -> None:
    """Restored from the checkpoint, every record was added exactly once to each state."""
    env = environment(parallelism, {**RESTART_AT_ONCE, **TINY})
    env.checkpoints(every="10ms", storage=str(tmp_path / "checkpoints"))
    source = Halting(1210 + parallelism, len(WORDS) // 2, WORDS, WORDS)
    folded = env.from_source(source, uid="words").key_by(lambda word: word).process(Fold(), uid="fold")
    folded.write_json(str(tmp_path / "out"), uid="out")
    assert env.execute("folds").restarts >= 1
    found = sorted(
        (line["word"], line["n"], line["in order"], line["mean"]) for line in json_lines(tmp_path / "out")
    )
    assert found == [(word, n, True, (n + 1) / 2) for word, n in running_counts(WORDS + WORDS)]
