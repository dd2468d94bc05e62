"""State that grows for as long as a job runs: what is said of it, and what silences that."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

import headgate as hg
import headgate.functions as F  # noqa: N812  # as PySpark's users write it
from headgate.api.checking.unbounded_state import warn_of_unbounded_state
from headgate.connectors.generator import generator_source
from headgate.testing import MiniCluster

SCHEMA = pa.schema({"k": pa.int64(), "v": pa.int64()})


def table(env: hg.Environment, name: str, count: int | None = None) -> Any:
    return env.from_source(generator_source(lambda n: {"k": n, "v": n}, count=count), uid=name).to_table(
        SCHEMA
    )


def said(build: Any, count: int | None = None) -> list[str]:
    env = hg.Environment(parallelism=1, executor=MiniCluster())
    build(table(env, "bids", count), table(env, "people", 5))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        warn_of_unbounded_state(env.program.nodes())
    return [str(each.message) for each in caught]


def joined(bids: Any, people: Any, **bound: Any) -> Any:
    return bids.join(people.rename({"v": "w"}), "k", uid="j", **bound)


CALLS = {
    "groups": lambda bids, people, **bound: bids.group_by("k").agg(F.count("*").alias("n"), uid="g", **bound),
    "join": joined,
    "rank": lambda bids, people, **bound: bids.top_n(1, "k", "v", uid="t", **bound),
    "over": lambda bids, people, **bound: bids.over(
        F.sum("v").alias("s"), by="k", order_by="v", uid="o", **bound
    ),
    "distinct": lambda bids, people, **bound: bids.distinct(uid="d", **bound),
    "duplicates": lambda bids, people, **bound: bids.drop_duplicates(["k"], keep="last", uid="l", **bound),
    "sets": lambda bids, people, **bound: bids.intersect(people, uid="i", **bound),
}


@pytest.mark.parametrize("call", CALLS)
def test_each_operator_that_keeps_rows_for_good_names_its_source_and_the_ways_out(call: str) -> None:
    """The source that ends is not named; a time to live silences it, and so does a source that ends."""
    (text,) = said(CALLS[call])
    assert "bids for as long as the job runs" in text
    assert "people" not in text
    assert all(way in text for way in ("F.window", "ttl=", "within="))
    assert said(lambda *tables: CALLS[call](*tables, ttl="1d")) == []
    assert said(CALLS[call], count=3) == []


@pytest.mark.parametrize("call", CALLS)
def test_explain_says_how_long_rows_are_kept(call: str) -> None:
    """For good, or as long as a time to live says."""
    for bound, text in (({}, "for as long as the job runs"), ({"ttl": "90s"}, "has come for 90s")):
        env = hg.Environment(parallelism=1, executor=MiniCluster())
        found = CALLS[call](table(env, "bids", 3), table(env, "people", 5), **bound).explain()
        assert f"{text}\n" in found
        assert "0ms" not in found


TIMED: dict[str, tuple[Callable[..., Any], dict[str, Any]]] = {
    "tolerance=": (
        lambda bids, people, **bound: people.join_asof(bids, "k", uid="a", **bound),
        {"tolerance": "1h"},
    ),
    "within=": (
        lambda bids, people, **bound: bids.match(
            "k", "A B", {"A": F.col("v") > 1}, {"v": F.first("A.v")}, uid="m", **bound
        ),
        {"within": "1h"},
    ),
}


@pytest.mark.parametrize("way", TIMED)
def test_what_event_time_could_bound_names_its_way_out(way: str) -> None:
    """As-of joins without a tolerance and patterns without an end keep rows of each key."""
    call, bound = TIMED[way]

    def build(bids: Any, people: Any, **given: Any) -> Any:
        return call(
            bids.with_watermark("v", "1s"), people.with_watermark("v", "1s").rename({"v": "w"}), **given
        )

    (text,) = said(build)
    assert "of bids for as long as the job runs. Bound it by" in text
    assert way in text
    assert said(lambda *tables: build(*tables, **bound)) == []


def test_left_rows_of_an_as_of_join_are_not_kept() -> None:
    """Nothing grows where the right side ends."""
    assert (
        said(
            lambda bids, people: TIMED["tolerance="][0](
                people.with_watermark("v", "1s").rename({"v": "w"}), bids.with_watermark("v", "1s")
            )
        )
        == []
    )


def test_within_is_a_bound() -> None:
    """Nothing is warned of, and the plan says until when a key is kept."""
    env = hg.Environment(parallelism=1, executor=MiniCluster())
    bids = env.from_source(generator_source(lambda n: {"k": n, "v": n}), uid="bids").with_event_time("v")
    found = bids.to_table(SCHEMA).drop_duplicates(["k"], within="1h", uid="d")
    warn_of_unbounded_state(env.program.nodes())
    assert "keeps each key until the watermark has passed its row by 1h" in found.explain()
