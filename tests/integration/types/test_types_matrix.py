"""The matrix of types that programs define: each cell is what the docs say, and no cell fails."""

from __future__ import annotations

from pathlib import Path

import pytest

from proof.types import table
from proof.types.cells import PLACES, RUNS, Place, Way, run
from proof.types.kinds import KINDS, Kind
from proof.types.program import USES

RECORDED = table.recorded()


def compared(kind: Kind, place: Place, way: Way, folder: Path) -> None:
    """One job on processes, and what the record says of it."""
    folder.joinpath("cell").mkdir()
    found = run(kind, place, way, folder / "cell")
    expected = {use: RECORDED.get((kind.name, place.name, way, use)) for use in USES}
    assert found == expected, "run `make types-matrix` where the change is meant"


@pytest.mark.ci
@pytest.mark.parametrize(
    ("kind", "place", "way"),
    [pytest.param(*one, id=f"{one[0].name}, {one[1].name}, {one[2]}") for one in RUNS],
)
def test_each_kind_in_each_place_is_as_recorded(kind: Kind, place: Place, way: Way, tmp_path: Path) -> None:
    """All uses that need no Spark, by a job on real worker processes."""
    compared(kind, place, way, tmp_path)


def test_a_dataclass_of_a_script_is_as_recorded(tmp_path: Path) -> None:
    """The newcomer's first program, in the quick tests as well."""
    compared(KINDS[0], PLACES[0], Way.PLAIN, tmp_path)


def test_each_kind_and_each_place_is_isolated_once() -> None:
    """Where a program can be; and every pair is run in the way that is the default."""
    pairs = {(kind.name, place.name) for kind, place, _ in RUNS}
    assert len(pairs) == len(KINDS) * len(PLACES)
    isolated = [(kind.name, place.name) for kind, place, way in RUNS if way is Way.ISOLATED]
    both = {place.name for place in PLACES if len(place.ways) == 2}
    assert {kind for kind, place in isolated if place in both} == {kind.name for kind in KINDS}
    assert {place for _, place in isolated} == both | {"`--requirements`"}


def test_no_cell_fails() -> None:
    """Every cell works or is refused before the start; all that need no Spark were run."""
    assert [key for key, one in RECORDED.items() if one.state not in ("works", "refused")] == []
    missing = [
        (kind.name, place.name, way, use)
        for kind, place, way in RUNS
        for use in USES
        if (kind.name, place.name, way, use) not in RECORDED
    ]
    assert missing == []


def test_only_keys_are_refused() -> None:
    """A record is no key, wherever it is defined; everything else works."""
    assert {use for (_, _, _, use), one in RECORDED.items() if one.state == "refused"} == {"key"}


def test_the_page_is_what_was_recorded() -> None:
    """`make types-matrix` writes both."""
    assert table.PAGE.read_text() == table.page(RECORDED)


@pytest.mark.ci
def test_a_type_that_does_not_work_is_seen(tmp_path: Path) -> None:
    """A class that other processes get without its fields' values, and a program that ends, are failures."""
    text = KINDS[0].text
    forgets = text.replace(
        "    def double(self):\n",
        "    def __post_init__(self):\n        self.n += 1\n\n    def double(self):\n",
    )
    assert forgets != text
    found = run(Kind("forgetful", forgets), PLACES[2], Way.PLAIN, _made(tmp_path / "forgetful"))
    assert found["schema of a source"].state == "fails"
    ends = f"{text}\nif __name__ == '__main__':\n    raise SystemExit(3)\n"
    found = run(Kind("broken", ends), PLACES[0], Way.PLAIN, _made(tmp_path / "broken"))
    assert {one.state for one in found.values()} == {"fails"}


def _made(folder: Path) -> Path:
    folder.mkdir()
    return folder
