"""Joins whose keys are split into parts give what they give without, and spread a frequent key."""

from __future__ import annotations

import random
from itertools import count
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from mini_jobs import TINY, environment
from running_jobs import Valve, wait_until

import headgate as hg
import headgate.functions as F  # noqa: N812  # as PySpark's users write it

NUMBERS = count(11900)
LEFT = pa.schema({"k": pa.int64(), "at": pa.int64(), "x": pa.float64()})
RIGHT = pa.schema({"k": pa.int64(), "seen": pa.int64(), "y": pa.string()})
KINDS = ("inner", "left", "semi", "anti")
MARKS = {**TINY, "execution.mark-interval": "1ms"}


def rows(seed: int) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Random rows; most are of one key, some of none, and some are equal."""
    chance = random.Random(seed)
    keys = [1, 1, 1, 1, 2, 3, 4, None]
    left = [
        {
            "k": chance.choice(keys),
            "at": 10 * n + chance.choice([0, 15]),
            "x": chance.choice([0.5, -0.0, 1.5]),
        }
        for n in range(300)
    ]
    right = [
        {"k": chance.choice([1, 2, 5, None]), "seen": 50 * n + chance.randrange(20), "y": chance.choice("ab")}
        for n in range(60)
    ]
    return left, right


def tables(env: hg.Environment, seed: int) -> tuple[Any, Any]:
    """Both tables, with event time."""
    left, right = rows(seed)
    return (
        env.from_collection(left).to_table(LEFT).with_watermark("at", "20ms"),
        env.from_collection(right).to_table(RIGHT).with_watermark("seen", "20ms"),
    )


def collected(table: Any) -> list[str]:
    """The rows at the end, in some order."""
    return sorted(map(str, table.collect()))


@pytest.mark.parametrize("within", [None, (-100, 60)])
@pytest.mark.parametrize("how", KINDS)
def test_a_split_join_gives_the_same(how: str, within: Any) -> None:
    """Of rows that only come."""
    for seed in range(3):
        left, right = tables(environment(3, MARKS), seed)
        plain = collected(left.join(right, "k", how, uid="plain", within=within))
        split = left.join(right, "k", how, uid="split", within=within, split=8)
        assert split.columns == left.join(right, "k", how, within=within).columns
        assert plain
        assert collected(split) == plain


@pytest.mark.parametrize("how", KINDS)
def test_corrected_rows_are_taken_back_where_they_came(how: str) -> None:
    """At marks: counts of both sides, one of which is joined by what is corrected."""
    for seed in range(3):
        left, right = tables(environment(3, MARKS), seed)
        keyed = left.filter(F.col("k").isNotNull())
        counts = keyed.group_by("k", "x").agg(F.count("*").alias("n"), F.max("at").alias("last"), uid="l")
        others = right.group_by("y").agg(F.count("k").alias("k"), F.max("seen").alias("seen"), uid="r")
        keys = others.select((F.col("k") % 3).alias("k"), "y", "seen")
        plain = collected(counts.join(keys, "k", how, uid="plain"))
        assert collected(counts.join(keys, "k", how, uid="split", split=5)) == plain
        newest = keyed.top_n(2, "k", F.desc("at"), uid="newest")
        assert collected(newest.join(right, "k", how, uid="split", split=2)) == collected(
            newest.join(right, "k", how, uid="plain")
        )


def test_a_condition_is_that_of_the_rows() -> None:
    """With and without an interval."""
    left, right = tables(environment(2, MARKS), 7)
    close = F.col("x") > 0
    for more in ({}, {"within": (-100, 60)}):
        plain = collected(left.join(right, "k", uid="plain", where=close, **more))
        assert plain
        assert collected(left.join(right, "k", uid="split", where=close, split=3, **more)) == plain


def test_results_keep_their_event_time() -> None:
    """So windows may follow."""
    left, right = tables(environment(2, MARKS), 8)
    found = [
        collected(
            left.join(right, "k", "left", uid="join", within=(-100, 60), split=split)
            .group_by(F.window("at", "1s"))
            .agg(F.count("y").alias("n"), uid="n")
        )
        for split in (None, 4)
    ]
    assert found[0] == found[1]


def _job(folder: Path, valves: tuple[Valve, Valve], split: int | None) -> hg.Environment:
    env = environment(4, {**MARKS, "restart-strategy.type": "none"})
    env.checkpoints(every="10ms", storage=str(folder / "checkpoints"))
    left, right = (
        env.from_source(each, uid=uid).to_table(schema)
        for each, uid, schema in zip(valves, "lr", (LEFT, RIGHT), strict=True)
    )
    joined = left.join(right, "k", uid="join", split=split).to_stream()
    joined.write_json(str(folder / "out"), uid="out")
    return env


def test_the_state_of_one_key_is_in_several_subtasks(tmp_path: Path) -> None:
    """And a restore with another number of parts is refused, as rows would be looked for in other parts."""
    hot = [{"k": 1, "at": n, "x": float(n)} for n in range(400)]
    valves = Valve(next(NUMBERS), 400, hot), Valve(next(NUMBERS), 1, [{"k": 1, "seen": 1, "y": "a"}])
    with _job(tmp_path, valves, 16).execute_async("join") as handle:
        wait_until(lambda: handle.done or _read(handle) == 401, "the valves' records came")
        uri = handle.stop(str(tmp_path / "savepoints"), format="canonical")
        handle.result()
    folder = Path(unquote(urlsplit(uri).path))
    sizes = [pq.read_metadata(file).num_rows for file in folder.rglob("rows/*.parquet")]
    assert len([size for size in sizes if size > 20]) >= 3
    assert sum(sizes) == 400 + 16
    with pytest.raises(hg.HeadgateError, match=r"was the record headgate\.Rows_of_inner_join_in_16_parts"):
        _job(tmp_path, valves, 8).execute("join", restore_from=str(folder))
    with pytest.raises(hg.HeadgateError, match=r"under keys of type tuple\[int, int, int\], and join"):
        _job(tmp_path, valves, None).execute("join", restore_from=str(folder))


def _read(handle: Any) -> int:
    read = handle.status().vertices
    return sum(vertex.records_in for vertex in read if {"l", "r"} & set(vertex.uids))


def test_explain_tells_of_the_parts() -> None:
    """In the join, and in the columns that make them."""
    left, right = tables(environment(2), 1)
    text = left.join(right, "k", "left", split=8).explain()
    assert "left join by k in 8 parts, corrected at marks" in text
    assert "pmod(hash(k, at, x), 8) AS __part" in text
    assert "explode sequence(0, 7)" in text
    text = left.join(right, "k", within="1s", split=8).explain()
    assert "interval join, inner, by k in 8 parts: right's time within left's +0" in text


def test_what_cannot_be_split_is_refused() -> None:
    """With the line of the call, and what to do."""
    left, right = tables(environment(2), 1)
    with pytest.raises(hg.PlanError, match=r"of kind 'full', .* exchange the tables and make it 'left'"):
        left.join(right, "k", "full", split=8)
    with pytest.raises(hg.PlanError, match=r"of kind 'right_outer', .* leave split= away"):
        left.join(right, "k", "right_outer", split=8, within="1s")
    with pytest.raises(hg.PlanError, match=r"got split=1; expected into how many parts .*, 2 to 1,024"):
        left.join(right, "k", split=1)
    with pytest.raises(hg.PlanError, match=r"got split= and ttl=, .*; leave one of them away"):
        left.join(right, "k", split=8, ttl="1h")
    windows = left.group_by("k", F.window("at", "1s")).agg(F.count("*").alias("n"), uid="n")
    with pytest.raises(hg.PlanError, match=r"got split= for a join by a window"):
        windows.join(windows.rename({"n": "m"}), ["window", "k"], split=8)
