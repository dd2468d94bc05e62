"""A stream united with itself: two exchanges between the same two operators, under unaligned checkpoints."""

from __future__ import annotations

import itertools
import time
from pathlib import Path
from typing import Any

import pytest
from mini_jobs import RESTART_AT_ONCE, TINY, Count, Halting, environment, json_lines, running_counts

NAMES = itertools.count(90_000)
WORDS = [f"w{n % 7}" for n in range(300)]


def linger(record: Any) -> Any:
    """Takes its time."""
    time.sleep(0.001)
    return record


@pytest.mark.parametrize("way", ["self", "rebalanced", "broadcast"])
def test_two_exchanges_between_the_same_operators(tmp_path: Path, way: str) -> None:
    """Unaligned checkpoints tell them apart, and a restore gives each record once."""
    config = {**TINY, **RESTART_AT_ONCE, "execution.checkpointing.unaligned.enabled": True}
    env = environment(2, config)
    env.checkpoints(every="10ms", storage=str(tmp_path / "checkpoints"))
    words = env.from_source(Halting(next(NAMES), 150, WORDS, WORDS), uid="words")
    other = {"self": lambda: words, "rebalanced": words.rebalance, "broadcast": words.broadcast}[way]()
    counted = other.union(words).map(linger, uid="slow").key_by(lambda word: word)
    lines = counted.process(Count(), uid="count").map(linger, uid="slower")
    lines.map(lambda pair: {"word": pair[0], "n": pair[1]}).write_json(str(tmp_path / "out"), uid="out")
    result = env.execute("words")
    assert result.restarts >= 1
    found = sorted((line["word"], line["n"]) for line in json_lines(tmp_path / "out"))
    assert found == running_counts((WORDS + WORDS) * (3 if way == "broadcast" else 2))
