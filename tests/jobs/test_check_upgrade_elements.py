"""Elements of sets and keys of dicts that became equal: check and restore refuse them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from test_check_upgrade_jobs import judged, program, stopped, verdicts

import headgate as hg
from headgate.offline.upgrade import Verdict

WHY = "2 stored elements of a set or keys of a dict became 1, because what told them apart was removed"


@dataclass(frozen=True)
class Place:
    word: str
    side: str


@hg.formerly(f"{__name__}.Place")
@dataclass(frozen=True)
class OneSided:
    word: str


@dataclass
class Seen:
    places: dict[Place, int]


@hg.formerly(f"{__name__}.Seen")
@dataclass
class SeenOneSided:
    places: dict[OneSided, int]


class Apart(hg.KeyedProcessFunction[str, str, Any]):
    """Sets and dicts whose elements differ in one field."""

    elements: hg.ValueState[set[Place] | None] = hg.value_state(default=None)
    inside: hg.ListState[Seen] = hg.list_state()
    single: hg.ValueState[frozenset[Place] | None] = hg.value_state(default=None)

    def process(self, record: str, ctx: hg.KeyedContext[str]) -> Iterator[Any]:
        both = {Place(record, "left"), Place(record, "right")}
        self.elements.value = both
        if not self.inside.get():
            self.inside.add(Seen(dict.fromkeys(both, 1)))
        self.single.value = frozenset({Place(record, "left")})
        yield record


class InSet(hg.KeyedProcessFunction[str, str, Any]):
    """The elements of the set lose the field."""

    elements: hg.ValueState[set[OneSided] | None] = hg.value_state(default=None)
    inside: hg.ListState[Seen] = hg.list_state()
    single: hg.ValueState[frozenset[Place] | None] = hg.value_state(default=None)

    def process(self, record: str, ctx: hg.KeyedContext[str]) -> Iterator[Any]:
        yield record, len(self.elements.value or ()), self.single.value, self.inside.get()


class Inside(hg.KeyedProcessFunction[str, str, Any]):
    """Keys of a dict in the elements of a list lose it."""

    elements: hg.ValueState[set[Place] | None] = hg.value_state(default=None)
    inside: hg.ListState[SeenOneSided] = hg.list_state()
    single: hg.ValueState[frozenset[Place] | None] = hg.value_state(default=None)

    def process(self, record: str, ctx: hg.KeyedContext[str]) -> Iterator[Any]:
        yield record, len(self.elements.value or ()), self.single.value, self.inside.get()


class OfOne(hg.KeyedProcessFunction[str, str, Any]):
    """A set of one element can lose it."""

    elements: hg.ValueState[set[Place] | None] = hg.value_state(default=None)
    inside: hg.ListState[Seen] = hg.list_state()
    single: hg.ValueState[frozenset[OneSided] | None] = hg.value_state(default=None)

    def process(self, record: str, ctx: hg.KeyedContext[str]) -> Iterator[Any]:
        yield record, len(self.elements.value or ()), self.single.value, self.inside.get()


class Keeps(hg.ProcessFunction[str, str]):
    """Operator state of sets."""

    kept: hg.OperatorListState[frozenset[Place]] = hg.operator_list_state()

    def process(self, record: str, ctx: Any) -> Iterator[str]:
        if not self.kept.get():
            self.kept.add(frozenset({Place(record, "left"), Place(record, "right")}))
        yield record


class KeepsOneSided(hg.ProcessFunction[str, str]):
    """Its elements lose the field."""

    kept: hg.OperatorListState[frozenset[OneSided]] = hg.operator_list_state()

    def process(self, record: str, ctx: Any) -> Iterator[str]:
        yield record


@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
def test_elements_that_become_equal_are_refused(backend: str, tmp_path: Path) -> None:
    """The type alone could follow; the stored elements decide, in each backend's files."""
    found = stopped(tmp_path, count=Apart, wait=Keeps, backend=backend)
    changes: dict[str, tuple[dict[str, Any], str]] = {
        "elements": ({"count": InSet, "wait": Keeps}, "count"),
        "inside": ({"count": Inside, "wait": Keeps}, "count"),
        "kept": ({"count": Apart, "wait": KeepsOneSided}, "wait"),
    }
    for name, (change, uid) in changes.items():
        report = judged(found, program(tmp_path, **change))
        assert verdicts(report)[uid, name] is Verdict.INCOMPATIBLE, name
        (item,) = [item for one in report.operators for item in one.items if item.name == name]
        assert WHY in (item.why or "")
        with pytest.raises(hg.HeadgateError, match="became 1, because what told them apart was removed"):
            program(tmp_path, **change).execute("words", restore_from=found)


@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
def test_elements_that_stay_apart_are_converted(backend: str, tmp_path: Path) -> None:
    """The same change where no two elements become equal."""
    found = stopped(tmp_path, count=Apart, wait=Keeps, backend=backend)
    change: dict[str, Any] = {"count": OfOne, "wait": Keeps, "backend": backend}
    report = judged(found, program(tmp_path, **change))
    assert report.verdict is Verdict.AFTER_MIGRATION
    program(tmp_path, **change).execute("words", restore_from=found)
