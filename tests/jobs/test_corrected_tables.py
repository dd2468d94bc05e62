"""Whole jobs with tables whose rows are corrected: unions of them, and sums of floats that are taken back."""

from __future__ import annotations

import math
from typing import Any

import pyarrow as pa
import pytest

import headgate as hg
import headgate.functions as F  # noqa: N812  # as PySpark's users write it
from headgate.testing import MiniCluster

SCHEMA = pa.schema({"at": pa.int64(), "k": pa.int64(), "v": pa.float64()})


def table(env: hg.Environment, *values: float) -> Any:
    rows = [{"at": at, "k": 1, "v": value} for at, value in enumerate(values)]
    return env.from_collection(rows).to_table(SCHEMA)


@pytest.mark.parametrize("corrected_first", [False, True])
def test_a_corrected_table_and_one_that_only_grows_can_be_united(corrected_first: bool) -> None:
    """Rows of the one that grows come, in the result."""
    env = hg.Environment(parallelism=2, executor=MiniCluster())
    plain = table(env, 1.0, 2.0).select("k")
    counts = (
        table(env, 3.0, 4.0).group_by("k").agg(F.count("*").alias("n"), uid="n").select(F.col("n").alias("k"))
    )
    sides = (counts, plain) if corrected_first else (plain, counts)
    assert sorted(row["k"] for row in sides[0].union(sides[1]).collect()) == [1, 1, 2]
    assert sorted(row["k"] for row in sides[0].union_by_name(sides[1]).collect()) == [1, 1, 2]


@pytest.mark.parametrize("gone", [math.nan, math.inf, 1e300])
def test_floats_that_were_taken_back_leave_nothing_in_a_sum(gone: float) -> None:
    """The first row of a key is replaced, at marks or at once: what it was is in no sum afterwards."""
    env = hg.Environment(parallelism=1, executor=MiniCluster())
    env.config("execution.mark-interval", "1ms")
    rows = ({"at": -at, "k": 1, "v": gone if at < 2_000 else 2.5} for at in range(4_000))
    newest = env.from_collection(list(rows)).to_table(SCHEMA).top_n(1, "k", "at", uid="newest")
    other = table(env, 0.5)
    both = newest.select("k", "v").union(other.select("k", "v"))
    found = both.group_by("k").agg(F.sum("v").alias("s"), F.avg("v").alias("mean"), uid="sums").collect()
    assert found == [{"k": 1, "s": 3.0, "mean": 1.5}]


def test_elements_of_corrected_rows_are_corrected() -> None:
    """A row that is taken back takes its elements along."""
    env = hg.Environment(parallelism=2, executor=MiniCluster())
    env.config("execution.mark-interval", "1ms")
    sums = table(env, *[1.0] * 4_000).group_by("k").agg(F.count("*").alias("n"), uid="n")
    halves = sums.select("k", F.explode(F.array(F.col("n"), F.col("n") / 2)).alias("n"))
    assert halves._relation.schema.updating
    assert halves.group_by("k").agg(F.sum("n").alias("s"), uid="s").collect() == [{"k": 1, "s": 6_000.0}]
    assert len(sums.with_column("m", F.array("n", "k")).explode("m").collect()) == 2
