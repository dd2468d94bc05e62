"""Whole jobs whose state is stored as Avro, JSON text and pickle: stopped, changed, and gone on with."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import pytest
from mini_jobs import Halting, environment, json_lines

import headgate as hg

WORDS = ["ant", "bee", "cow", "bee"] * 50
STOP = 100
"""How many words of each split the first program has counted when it stops."""

COUNT = {"type": "record", "name": "words.Count", "fields": [{"name": "n", "type": "int"}]}
WIDER = {
    **COUNT,
    "fields": [
        {"name": "total", "type": "long", "aliases": ["n"]},
        {"name": "seen", "type": {"type": "array", "items": "string"}, "default": []},
    ],
}


class Tally:
    """What nothing but pickle holds."""

    def __init__(self) -> None:
        self.n = 0


class First(hg.KeyedProcessFunction[Any, Any, Any]):
    """Counts words in three formats."""

    avro: hg.ValueState[Annotated[dict, hg.avro(COUNT)]] = hg.value_state(default_factory=lambda: {"n": 0})
    text: hg.ValueState[Annotated[dict[str, int], hg.json]] = hg.value_state(default_factory=dict)
    tally: hg.ValueState[Annotated[Tally, hg.pickled]] = hg.value_state(default_factory=Tally)

    def process(self, record: Any, ctx: hg.KeyedContext[Any]) -> Iterator[Any]:
        self.avro.value["n"] += 1
        self.text.value[record] = self.text.value.get(record, 0) + 1
        self.tally.value.n += 1
        yield {"word": record, "n": [self.avro.value["n"], self.text.value[record], self.tally.value.n]}


class Second(hg.KeyedProcessFunction[Any, Any, Any]):
    """Counts on with a renamed and an added field, and wider numbers."""

    avro: hg.ValueState[Annotated[dict, hg.avro(WIDER)]] = hg.value_state(
        default_factory=lambda: {"total": 0, "seen": []}
    )
    text: hg.ValueState[Annotated[dict[str, float], hg.json]] = hg.value_state(default_factory=dict)
    tally: hg.ValueState[Annotated[Tally, hg.pickled]] = hg.value_state(default_factory=Tally)

    def process(self, record: Any, ctx: hg.KeyedContext[Any]) -> Iterator[Any]:
        self.avro.value["total"] += 1
        self.avro.value["seen"].append(record)
        self.text.value[record] = self.text.value.get(record, 0) + 1
        self.tally.value.n += 1
        yield {"word": record, "n": [self.avro.value["total"], self.text.value[record], self.tally.value.n]}


def execute(function: Any, stop: int, tmp_path: Path, restore_from: str | None = None) -> None:
    """Words from two splits, counted into files; each program tells once of its pickled state."""
    env = environment(2, {"restart-strategy.type": "none"})
    env.checkpoints(every="5ms", storage=str(tmp_path / "checkpoints"))
    source = Halting(id(env), stop, WORDS, WORDS)
    counted = env.from_source(source, uid="words").key_by(lambda word: word).process(function, uid="count")
    counted.write_json(str(tmp_path / "out"), uid="out")
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "stored as pickle: state 'tally'", UserWarning)
        env.execute("words", restore_from=restore_from)


def test_a_job_goes_on_with_another_schema(tmp_path: Path) -> None:
    """Each word is counted once in every format, across the restore and the change."""
    with pytest.raises(hg.HeadgateError):
        execute(First(), STOP, tmp_path)
    found = (tmp_path / "checkpoints").rglob("_metadata")
    checkpoint = str(max(found, key=lambda file: file.stat().st_mtime).parent)
    execute(Second(), len(WORDS), tmp_path, checkpoint)
    counted = sorted((line["word"], line["n"]) for line in json_lines(tmp_path / "out"))
    totals = {word: 2 * WORDS.count(word) for word in WORDS}
    assert counted == sorted((word, [n, n, n]) for word, total in totals.items() for n in range(1, total + 1))
