"""A program that changed the types of its state goes on from the checkpoint of the one before."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import pytest
from mini_jobs import Halting, environment, json_lines

import headgate as hg

WORDS = ["ant", "bee", "cow", "bee"] * 100
STOP = 200
"""How many words of each split the first program has counted when it stops."""


@dataclass
class Stats:
    word: str
    count: int


@hg.formerly(f"{__name__}.Stats")
@dataclass
class WordStats:
    """A field added, one renamed, one widened and renamed."""

    letters: int | None = None
    seen: Annotated[float, hg.alias("count")] = 0.0
    text: Annotated[str, hg.alias("word")] = ""


@hg.formerly(f"{__name__}.Stats")
@dataclass
class Narrowed:
    word: str
    count: int
    must: str


class First(hg.KeyedProcessFunction[Any, Any, Any]):
    """Counts words."""

    stats: hg.ValueState[Stats | None] = hg.value_state(default=None)
    places: hg.ListState[int] = hg.list_state()

    def process(self, record: Any, ctx: hg.KeyedContext[Any]) -> Iterator[Any]:
        stats = self.stats.value or Stats(record, 0)
        self.stats.value = Stats(record, stats.count + 1)
        self.places.add(stats.count)
        yield {"word": record, "n": stats.count + 1, "by": 1}


class Second(hg.KeyedProcessFunction[Any, Any, Any]):
    """Counts words on; adds what the first one did not keep."""

    stats: hg.ValueState[WordStats | None] = hg.value_state(default=None)
    places: hg.ListState[float | None] = hg.list_state()

    def process(self, record: Any, ctx: hg.KeyedContext[Any]) -> Iterator[Any]:
        stats = self.stats.value or WordStats(text=record)
        assert stats.text == record
        assert len(self.places.get()) == stats.seen
        self.places.add(None)
        self.stats.value = WordStats(len(record), stats.seen + 1, record)
        yield {"word": record, "n": stats.seen + 1, "by": 2}


class Refused(hg.KeyedProcessFunction[Any, Any, Any]):
    """Declares a field that the stored records have no value for."""

    stats: hg.ValueState[Narrowed | None] = hg.value_state(default=None)
    places: hg.ListState[int] = hg.list_state()

    def process(self, record: Any, ctx: hg.KeyedContext[Any]) -> Iterator[Any]:
        yield record


def job(function: Any, stop: int, tmp_path: Path, parallelism: int) -> hg.Environment:
    """Words from two splits, counted into files."""
    env = environment(parallelism, {"restart-strategy.type": "none"})
    env.checkpoints(every="5ms", storage=str(tmp_path / "checkpoints"))
    source = Halting(id(env), stop, WORDS, WORDS)
    counted = env.from_source(source, uid="words").key_by(lambda word: word).process(function, uid="count")
    counted.write_json(str(tmp_path / "out"), uid="out")
    return env


def stopped(tmp_path: Path) -> str:
    """The last checkpoint of the first program."""
    with pytest.raises(hg.HeadgateError):
        job(First(), STOP, tmp_path, 2).execute("words")
    found = (tmp_path / "checkpoints").rglob("_metadata")
    return str(max(found, key=lambda file: file.stat().st_mtime).parent)


@pytest.mark.parametrize("parallelism", [1, 2, 3])
def test_a_changed_program_goes_on(tmp_path: Path, parallelism: int) -> None:
    """The second program counts on from what the first one kept: each count once, and both took part."""
    checkpoint = stopped(tmp_path)
    job(Second(), len(WORDS), tmp_path, parallelism).execute("words", restore_from=checkpoint)
    lines = json_lines(tmp_path / "out")
    found = sorted((line["word"], line["n"]) for line in lines)
    totals = {word: 2 * WORDS.count(word) for word in WORDS}
    assert found == sorted((word, n) for word, total in totals.items() for n in range(1, total + 1))
    assert {line["by"] for line in lines} == {1, 2}


def test_a_change_that_state_cannot_follow_ends_the_job(tmp_path: Path) -> None:
    """The error names the state and the field."""
    checkpoint = stopped(tmp_path)
    with pytest.raises(hg.HeadgateError, match=r"state 'stats' .*field 'must' was added .*without a default"):
        job(Refused(), len(WORDS), tmp_path, 2).execute("words", restore_from=checkpoint)
