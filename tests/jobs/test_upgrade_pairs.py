"""The verdict of check-upgrade is what the restore does, for generated upgrades over real snapshots."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from proof.upgrade_kinds import KINDS
from proof.upgrade_plants import PLANTS, Plant
from proof.upgrades import Outcome, Pair, Upgrades, facts, pairs, shortfalls, surprises

PAIRS = 310
BASE = ("hashmap", "canonical")


@pytest.fixture(scope="module")
def upgrades(tmp_path_factory: pytest.TempPathFactory) -> Upgrades:
    """The shared snapshots."""
    return Upgrades(tmp_path_factory.mktemp("upgrades"))


@pytest.mark.ci
@pytest.mark.timeout(360)
def test_verdict_restore_and_model_agree(upgrades: Upgrades) -> None:
    """Enough of them restore with a change, enough are refused, and each kind of change comes often."""
    outcomes = [upgrades.carry_out(pair) for pair in pairs(PAIRS, seed=1)]
    assert surprises(outcomes) == []
    assert len(KINDS) >= 40
    assert shortfalls(facts(outcomes)) == []


@pytest.mark.ci
@pytest.mark.timeout(300)
@pytest.mark.parametrize("plant", PLANTS, ids=lambda plant: plant.what.replace(" ", "-"))
def test_a_planted_wrong_verdict_is_found(upgrades: Upgrades, plant: Plant) -> None:
    """Without it the pair agrees, and with it the same pair disagrees."""
    pair = Pair(100_000 + PLANTS.index(plant), BASE, (plant.kind,))
    assert surprises([upgrades.carry_out(pair)]) == []
    folder, snapshot = upgrades.prepared(pair)
    with plant.planted():
        judged = upgrades.judged(pair, folder, snapshot)
    true = upgrades.carry_out(pair)
    assert surprises([dataclasses.replace(true, verdict=judged[0], told=judged[1])])


def test_enough_wrong_verdicts_are_planted() -> None:
    """Each is another one."""
    assert len({plant.what for plant in PLANTS}) == len(PLANTS) >= 20


def test_too_few_of_anything_is_told() -> None:
    """A proof of many pairs that never refuses, or leaves a kind out, proves little."""
    enough: dict[str, Any] = {
        "pairs": 100,
        "restored_with_a_change": 30,
        "refused": 30,
        "two_at_a_time": 15,
        "kinds": dict.fromkeys(KINDS, 5),
    }
    assert shortfalls(enough) == []
    for what in ("restored_with_a_change", "refused", "two_at_a_time"):
        assert shortfalls({**enough, what: enough[what] - 1})[0].startswith(what)
    assert "claimed" in shortfalls({**enough, "kinds": {**enough["kinds"], "claimed": 4}})[0]


@pytest.mark.parametrize("kind", ["field wider", "state gone", "sink elsewhere"])
def test_one_of_each_sort_agrees(upgrades: Upgrades, kind: str, tmp_path: Path) -> None:
    """Restored, lost, refused: the quick form."""
    assert surprises([upgrades.carry_out(Pair(200_000, BASE, (kind,)))]) == []


def test_the_strict_list_is_strict(upgrades: Upgrades) -> None:
    """An entry that agrees is a surprise, and a disagreement that is listed is none."""
    pair = Pair(300_000, BASE, ("nothing",))
    agreeing, wrong = Outcome(pair, True, "", True), Outcome(pair, True, "", False)
    left = Outcome(pair, True, "as is", True, left=True)
    strict = {(*BASE, "nothing"): "a reason"}
    assert surprises([agreeing], {}) == surprises([wrong], strict) == []
    assert "is on the strict list" in surprises([agreeing], strict)[0]
    assert "disagrees" in surprises([wrong], {})[0]
    assert "left something behind" in surprises([left], {})[0]
