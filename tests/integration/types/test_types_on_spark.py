"""Types that programs define, in DataFrames: each cell is what the docs say."""

from __future__ import annotations

from pathlib import Path

import pytest

from proof.types import on_spark, table
from proof.types.cells import PLACES
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
    """Twelve jobs, and all three uses by each."""
    assert len(set(on_spark.PAIRS)) == 12
    assert {kind for kind, _ in on_spark.PAIRS} == {kind.name for kind in KINDS}
    assert {place for _, place in on_spark.PAIRS} == {place.name for place in PLACES}
    assert all((*pair, use) in RECORDED for pair in on_spark.PAIRS for use in SPARK_USES)
