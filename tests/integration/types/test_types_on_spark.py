"""Types that programs define, in DataFrames: each cell is what the docs say."""

from __future__ import annotations

from pathlib import Path

import pytest

from proof.types import on_spark, table
from proof.types.cells import PLACES, Way
from proof.types.kinds import KINDS
from proof.types.program import SPARK_USES

RECORDED = table.recorded()


@pytest.mark.spark
@pytest.mark.ci
@pytest.mark.parametrize("session", on_spark.SESSIONS)
def test_the_jobs_of_a_session_are_as_recorded(session: str, tmp_path: Path) -> None:
    """`to_dataframe`, `to_spark` and what a savepoint holds, in values."""
    found = on_spark.run(session, tmp_path)
    assert found == {key: RECORDED.get(key) for key in found}, "run `make types-matrix` where it is meant"
    assert {one.state for one in found.values()} == {"works"}


def test_each_kind_and_each_place_is_among_them() -> None:
    """Thirteen jobs, and all three uses by each; isolated ones in each place where programs can be."""
    assert len(set(on_spark.RUNS)) == 13
    assert {kind for kind, _, _ in on_spark.RUNS} == {kind.name for kind in KINDS}
    assert {place for _, place, _ in on_spark.RUNS} == {place.name for place in PLACES}
    assert {way for _, _, way in on_spark.RUNS} == set(Way)
    assert all((*run, use) in RECORDED for run in on_spark.RUNS for use in SPARK_USES)
