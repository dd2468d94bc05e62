"""Jobs in real processes that are held up by a planted cause: it is named, at its place, or nothing is."""

from __future__ import annotations

from pathlib import Path

import pytest

from proof.bottleneck_cases import HEALTHY, MAKERS, case_of
from proof.bottlenecks import carry_out

pytestmark = [pytest.mark.ci]

SEED = 500
TRIES = 2
"""Something else may take this machine for the seconds in which a job is watched; not twice."""


@pytest.mark.parametrize(("kind", "seed"), [*((kind, SEED) for kind in MAKERS), (HEALTHY, SEED + 1)])
def test_what_holds_a_job_up_is_named(
    kind: str, seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Kind and place, by what `headgate why` asks for."""
    monkeypatch.setenv("HEADGATE_HOME", str(tmp_path / "home"))
    said = []
    for number in range(TRIES):
        outcome = carry_out(case_of(kind, seed), tmp_path / str(number))
        if outcome.right:
            return
        said.append(outcome.facts())
    pytest.fail(f"{case_of(kind, seed).name} was not named: {said}")
