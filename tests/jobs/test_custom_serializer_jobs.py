"""Whole jobs with serializers of the user's: a new format takes over, a wrong one is refused."""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from mini_jobs import Halting, environment, json_lines

import headgate as hg
from headgate.testing import OperatorHarness

WORDS = ["ant", "bee", "cow", "bee"] * 50
STOP = 100
"""How many words of each split the first program has counted when it stops."""

DOCS = Path(__file__).parents[2] / "docs"


class CountSerializer(hg.TypeSerializer[int]):
    """A count in decimals, and later in two bytes."""

    immutable = True

    def __init__(self, version: int) -> None:
        self.version = version

    def encode(self, value: int) -> bytes:
        return str(value).encode() if self.version == 1 else value.to_bytes(2, "big")

    def decode(self, data: bytes) -> int:
        return int(data) if self.version == 1 else int.from_bytes(data, "big")

    def snapshot(self) -> CountSnapshot:
        return CountSnapshot(self.version)


class CountSnapshot(hg.TypeSerializerSnapshot[int]):
    def __init__(self, version: int = 0) -> None:
        self.version = version

    def current_version(self) -> int:
        return 1

    def write_snapshot(self, out: hg.DataOutputView) -> None:
        out.write_int(self.version)

    def read_snapshot(self, read_version: int, in_: hg.DataInputView) -> None:
        self.version = in_.read_int()

    def restore_serializer(self) -> CountSerializer:
        return CountSerializer(self.version)

    def resolve_schema_compatibility(self, old_snapshot: Any) -> hg.TypeSerializerSchemaCompatibility[int]:
        if self.version < old_snapshot.version:
            return hg.TypeSerializerSchemaCompatibility.incompatible("there is no way back")
        if self.version > old_snapshot.version:
            return hg.TypeSerializerSchemaCompatibility.compatible_after_migration()
        return hg.TypeSerializerSchemaCompatibility.compatible_as_is()


class First(hg.KeyedProcessFunction[Any, Any, Any]):
    """Counts words."""

    version = 1
    seen: hg.ValueState[int] = hg.value_state(default=0, serializer=CountSerializer(1))
    places: hg.ListState[int] = hg.list_state(serializer=CountSerializer(1))
    letters: hg.MapState[str, int] = hg.map_state(serializer=CountSerializer(1))

    def process(self, record: Any, ctx: hg.KeyedContext[Any]) -> Iterator[Any]:
        assert self.places.get() == list(range(self.seen.value))
        assert self.letters.get(record, 0) == self.seen.value
        self.places.add(self.seen.value)
        self.seen.value += 1
        self.letters.put(record, self.seen.value)
        yield {"word": record, "n": self.seen.value, "by": self.version}


class Second(hg.KeyedProcessFunction[Any, Any, Any]):
    """Counts words on, in the new format."""

    version = 2
    seen: hg.ValueState[int] = hg.value_state(default=0, serializer=CountSerializer(2))
    places: hg.ListState[int] = hg.list_state(serializer=CountSerializer(2))
    letters: hg.MapState[str, int] = hg.map_state(serializer=CountSerializer(2))

    process = First.process


def job(function: Any, stop: int, tmp_path: Path, parallelism: int = 2) -> hg.Environment:
    """Words from two splits, counted into files."""
    env = environment(parallelism, {"restart-strategy.type": "none"})
    env.checkpoints(every="5ms", storage=str(tmp_path / "checkpoints"))
    source = Halting(id(env), stop, WORDS, WORDS)
    counted = env.from_source(source, uid="words").key_by(lambda word: word).process(function, uid="count")
    counted.write_json(str(tmp_path / "out"), uid="out")
    return env


def last_checkpoint(tmp_path: Path) -> str:
    """The newest checkpoint of a job that has stopped."""
    found = (tmp_path / "checkpoints").rglob("_metadata")
    return str(max(found, key=lambda file: file.stat().st_mtime).parent)


def stopped(function: Any, tmp_path: Path) -> str:
    """The last checkpoint of a program that stops on its way."""
    with pytest.raises(hg.HeadgateError):
        job(function, STOP, tmp_path).execute("words")
    return last_checkpoint(tmp_path)


def test_a_new_format_takes_over(tmp_path: Path) -> None:
    """Value, list and map state of the first version are read by the second; each word counts once."""
    checkpoint = stopped(First(), tmp_path)
    job(Second(), len(WORDS), tmp_path, parallelism=3).execute("words", restore_from=checkpoint)
    lines = json_lines(tmp_path / "out")
    totals = {word: 2 * WORDS.count(word) for word in WORDS}
    expected = sorted((word, n) for word, total in totals.items() for n in range(1, total + 1))
    assert sorted((line["word"], line["n"]) for line in lines) == expected
    assert {line["by"] for line in lines} == {1, 2}


def test_a_format_that_cannot_follow_ends_the_job(tmp_path: Path) -> None:
    """The error names the state and says why."""
    checkpoint = stopped(Second(), tmp_path)
    with pytest.raises(hg.HeadgateError, match=r"state 'seen' .* there is no way back"):
        job(First(), len(WORDS), tmp_path).execute("words", restore_from=checkpoint)


def test_a_class_that_could_not_be_found_again_is_refused_before_anything_runs(tmp_path: Path) -> None:
    """With the operator, the state, and the line of its declaration."""

    class LocalSnapshot(CountSnapshot):
        pass

    class Local(CountSerializer):
        def snapshot(self) -> Any:
            return LocalSnapshot()

    class Counting(hg.KeyedProcessFunction[Any, Any, Any]):
        seen: hg.ValueState[int] = hg.value_state(serializer=Local(1))

        def process(self, record: Any, ctx: Any) -> Iterator[Any]:
            yield record

    with pytest.raises(
        hg.PlanError,
        match=r"operator 'Counting' .* state 'seen' \(test_custom_serializer_jobs.py:\d+\): .*local",
    ):
        job(Counting(), STOP, tmp_path).execute("words")
    assert not (tmp_path / "checkpoints").exists()


@pytest.fixture
def version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[int], ModuleType]:
    """Installs a version of the module of the documentation, in place of the other one."""
    monkeypatch.syspath_prepend(tmp_path)
    pages = "".join(
        (DOCS / f"{name}.md").read_text() for name in ("custom-serializers", "serializer-versions")
    )
    blocks = dict(enumerate(re.findall(r"```python readings\.py.*?\n(.*?)```", pages, re.DOTALL), 1))
    assert sorted(blocks) == [1, 2]

    def installed(number: int) -> ModuleType:
        monkeypatch.delitem(sys.modules, "readings", raising=False)
        importlib.invalidate_caches()
        for old in tmp_path.glob("__pycache__/*"):
            old.unlink()
        (tmp_path / "readings.py").write_text(blocks[number])
        return importlib.import_module("readings")

    return installed


def test_the_example_of_the_documentation_changes_its_format(version: Callable[[int], ModuleType]) -> None:
    """State of the first version is the second one's, which stores more exactly; there is no way back."""
    harness = OperatorHarness(version(1).Warmest(), key="room")
    harness.process_batch([{"room": "hall", "celsius": 21.5}, {"room": "hall", "celsius": 20.0}])
    assert harness.take() == [21.5, 21.5]
    later = OperatorHarness.restore(version(2).Warmest(), harness.snapshot(), key="room")
    assert later.state("warmest", "hall") == 21.5
    later.process({"room": "hall", "celsius": 400.25})
    again = OperatorHarness.restore(version(2).Warmest(), later.snapshot(), key="room")
    assert again.state("warmest", "hall") == 400.25
    with pytest.raises(hg.HeadgateError, match="state 'warmest'"):
        OperatorHarness.restore(version(1).Warmest(), again.snapshot(), key="room")
