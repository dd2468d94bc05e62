"""Joins in windows by keys that are null, NaN or 0: as in Spark, and across a savepoint."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pyarrow as pa
import pytest
from mini_jobs import TINY, environment, json_lines
from running_jobs import Valve, wait_until

import headgate as hg
import headgate.functions as F  # noqa: N812  # as PySpark's users write it

NUMBERS = count(9950)
NAN = float("nan")
SCHEMA = pa.schema({"at": pa.int64(), "name": pa.string(), "x": pa.float64(), "n": pa.int64()})
KEYS = [("a", 1.0), ("a", None), (None, 1.0), (None, None), ("", 0.0), ("a", -0.0), ("b", NAN)]
LEFT = [dict(zip(SCHEMA.names, (at, *key, at), strict=True)) for at, key in enumerate([*KEYS, ("l", 1.0)])]
RIGHT = [
    dict(zip(SCHEMA.names, (at, *key, 10 * at), strict=True))
    for at, key in enumerate([("a", 0.0), ("", -0.0), ("b", -NAN), ("r", NAN), *KEYS])
]
KINDS = ["inner", "left", "right", "full", "semi", "anti"]


def equal(one: dict[str, Any], other: dict[str, Any]) -> bool:
    """As Spark compares keys: null equals nothing, NaN equals NaN."""
    pairs = [(one[name], other[name]) for name in ("name", "x")]
    return all(a is not None and (a == b or (a != a and b is not None and b != b)) for a, b in pairs)


def row(key: dict[str, Any], *values: Any) -> tuple[str, ...]:
    """A result as text, in which NaN is equal to itself, and -0.0 to 0.0."""
    x = key["x"]
    return tuple(map(str, (key["name"], x if x is None else x + 0.0, *values)))


def answer(how: str, least: int = 0) -> list[tuple[str, ...]]:
    """The rows of the join, all of which lie in one window; partners' numbers add up to `least` or more."""

    def fit(left: dict[str, Any], right: dict[str, Any]) -> bool:
        return equal(left, right) and left["n"] + right["n"] >= least

    found = []
    for left in LEFT:
        partners = [right["n"] for right in RIGHT if fit(left, right)]
        if how in ("semi", "anti"):
            found += [row(left, left["n"])] if bool(partners) == (how == "semi") else []
            continue
        found += [row(left, left["n"], n) for n in partners]
        if not partners and how in ("left", "full"):
            found.append(row(left, left["n"], None))
    if how in ("right", "full"):
        alone = [right for right in RIGHT if not any(fit(left, right) for left in LEFT)]
        found += [row(right, None, right["n"]) for right in alone]
    return sorted(found)


def joined(
    env: hg.Environment,
    how: str,
    left: hg.Source[Any],
    right: hg.Source[Any],
    where: hg.Column | None = None,
) -> Any:
    """The join of two inputs by name and x."""
    tables = [
        env.from_source(source, uid=uid)
        .to_table(SCHEMA)
        .with_watermark("at", "1s")
        .select("name", "x", F.col("n").alias(uid), F.window("at", 1_000))
        for source, uid in ((left, "left"), (right, "right"))
    ]
    return tables[0].join(tables[1], ["name", "window", "x"], how, uid="join", where=where)


def shown(rows: Sequence[Any]) -> list[tuple[str, ...]]:
    """Results in the form of the answer."""
    return sorted(row(each, *(each[name] for name in ("left", "right") if name in each)) for each in rows)


@pytest.mark.parametrize("parallelism", [1, 3])
@pytest.mark.parametrize("how", KINDS)
def test_null_has_no_partner_and_nan_is_equal_to_itself(how: str, parallelism: int) -> None:
    """A row with a null key comes out where rows without a partner do."""
    valves = [Valve(next(NUMBERS), float("inf"), rows[::2], rows[1::2]) for rows in (LEFT, RIGHT)]
    found = joined(environment(parallelism, TINY), how, *valves).to_stream()
    assert shown(found.map(lambda row: row.as_dict()).collect()) == answer(how)


@pytest.mark.parametrize("least", [50, 1_000])
@pytest.mark.parametrize("how", KINDS)
def test_a_condition_may_rule_out_partners(how: str, least: int) -> None:
    """A row whose partners all fail it is one without partner."""
    valves = [Valve(next(NUMBERS), float("inf"), rows[::2], rows[1::2]) for rows in (LEFT, RIGHT)]
    enough = F.col("left") + F.col("right") >= least
    found = joined(environment(2, TINY), how, *valves, enough).to_stream()
    assert shown(found.map(lambda row: row.as_dict()).collect()) == answer(how, least)


@pytest.mark.parametrize(("form", "parallelism"), [("canonical", 3), ("native", 1)])
def test_rows_with_such_keys_wait_in_a_savepoint(tmp_path: Path, form: str, parallelism: int) -> None:
    """They come out once, whichever subtask has them then."""

    def job(limit: float, subtasks: int) -> hg.Environment:
        env = environment(subtasks, {**TINY, "restart-strategy.type": "none"})
        env.checkpoints(every="10ms", storage=str(tmp_path / "checkpoints"))
        valves = [Valve(next(NUMBERS), limit, rows[::2], rows[1::2]) for rows in (LEFT, RIGHT)]
        # JSON has no NaN.
        shown_x = F.when(F.isnan("x"), "nan").otherwise(F.col("x").cast("string"))
        found = joined(env, "full", *valves).with_column("x", shown_x)
        found.write_json(str(tmp_path / "out"), uid="out")
        return env

    with job(3, 2).execute_async("join") as handle:
        wait_until(lambda: handle.done or _read(handle) == 12, "the valves' records came")
        uri = handle.stop(str(tmp_path / "savepoints"), format=form)
        handle.result()
    assert not list((tmp_path / "out").glob("part-*"))
    job(float("inf"), parallelism).execute("join", restore_from=unquote(urlsplit(uri).path))
    found = json_lines(tmp_path / "out")
    assert shown([{**each, "x": each["x"] and float(each["x"])} for each in found]) == answer("full")


def _read(handle: Any) -> int:
    read = handle.status().vertices
    return sum(vertex.records_in for vertex in read if {"left", "right"} & set(vertex.uids))


def test_windows_that_may_be_null_and_columns_named_twice_are_refused() -> None:
    """While the plan is made."""
    env = environment(1)
    table = env.from_collection(LEFT).with_event_time("at").to_table(SCHEMA)
    windows = table.select("name", F.window("at", 1_000))
    missing = windows.union_by_name(table.select("name"), allow_missing=True)
    with pytest.raises(hg.PlanError, match="'window' of the right table may be null"):
        windows.join(missing, ["window", "name"], "left")
    with pytest.raises(hg.PlanError, match="a column is named twice in window, name, NAME"):
        windows.join(windows, ["window", "name", "NAME"])
