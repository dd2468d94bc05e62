"""Replays of operators of tables, on the rows of one key."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from replayed_jobs import environment, kept, replay_here, visit

import headgate as hg
import headgate.functions as F  # noqa: N812  # as PySpark's users write it
from headgate.connectors.generator import generator_source
from headgate.offline.replay.replay_report import ReplayReport

TABLE = pa.schema({"user": pa.string(), "page": pa.string(), "t": pa.int64()})

Made = Callable[[hg.Environment], Any]


def visits(env: hg.Environment, uid: str = "in") -> Any:
    made = env.from_source(generator_source(visit, 600, 1_000, splits=1), uid=uid)
    return made.with_event_time("t").to_table(TABLE)


def others(env: hg.Environment) -> Any:
    return visits(env, "others").select("user", F.col("t").alias("other"))


def windows(env: hg.Environment) -> Any:
    grouped = visits(env).group_by("user", F.window("t", "40ms"))
    return grouped.agg(F.count("*").alias("n"), F.sum("t").alias("all"), uid="it")


def late_windows(env: hg.Environment) -> Any:
    grouped = visits(env).group_by("user", F.window("t", "40ms")).lateness("30ms")
    return grouped.agg(F.count("*").alias("n"), uid="it")


def sets_in_windows(env: hg.Environment) -> Any:
    grouped = visits(env).group_by("user", F.window("t", "40ms", "10ms"))
    return grouped.agg(F.collect_set("page").alias("pages"), uid="it")


def sessions(env: hg.Environment) -> Any:
    few = visits(env).filter(F.col("t") % 50 < 30)
    return few.group_by("user", F.session_window("t", "10ms")).agg(
        F.collect_list("page").alias("all"), uid="it"
    )


def counts(env: hg.Environment) -> Any:
    return visits(env).group_by("user").agg(F.count("*").alias("n"), F.max("t").alias("last"), uid="it")


def averages(env: hg.Environment) -> Any:
    parts = visits(env).with_column("part", F.col("t") / 7)
    return parts.group_by("user").agg(F.sum("part").alias("all"), uid="it")


def ranks(env: hg.Environment) -> Any:
    return visits(env).top_n(2, "user", F.desc("t"), uid="it")


def different_rows(env: hg.Environment) -> Any:
    return visits(env).select("user", "page").distinct(uid="it")


def different_pages(env: hg.Environment) -> Any:
    return visits(env).group_by("user").agg(F.count_distinct("page").alias("n"), uid="it")


def joined(env: hg.Environment) -> Any:
    few = visits(env).filter(F.col("t") % 30 < 2)
    return few.join(others(env).filter(F.col("other") % 30 < 2), "user", "left", uid="it")


def joined_by_time(env: hg.Environment) -> Any:
    timed = others(env).to_stream().with_event_time("other").to_table()
    return visits(env).join(timed, "user", uid="it", within="5ms")


def reports(tmp_path: Path, made: Made, key: Any, **settings: Any) -> list[ReplayReport]:
    """Of replays from every third checkpoint to the next one: of two, one could always be between windows."""
    config = {name.replace("_", "."): value for name, value in settings.items()}

    def program() -> hg.Environment:
        env = environment(tmp_path, config=config)
        table = made(env)
        write = table.write_json if made in PLAIN else table.write_changelog
        write(str(tmp_path / "out"), uid="out")
        return env

    program().execute("visits")
    pairs = list(pairwise(kept(tmp_path)))[::3]
    return [replay_here(program(), "it", key, *pair, settings=config) for pair in pairs]


PLAIN = [windows, sets_in_windows, sessions, different_rows, joined_by_time]
ONE_INPUT = [windows, late_windows, sets_in_windows, sessions, counts, ranks, different_rows]


@pytest.mark.parametrize("made", ONE_INPUT)
def test_operators_of_tables_get_the_next_state(tmp_path: Path, made: Made) -> None:
    """Byte for byte; the steps show rows and results."""
    found = reports(tmp_path, made, ("b", "x") if made is different_rows else "b")
    assert [report.failure for report in found] == [None] * len(found)
    assert [(report.differences, report.inexact) for report in found] == [([], [])] * len(found)
    steps = [step for report in found for step in report.steps]
    assert len(steps) > 1
    assert any(step.output for step in steps) or made is different_rows  # each of which came before


def test_sums_of_floats_are_named(tmp_path: Path) -> None:
    """The last bits depend on which rows were added first."""
    found = reports(tmp_path, averages, "b")
    assert all("floating-point" in report.inexact[0] for report in found)
    assert any(report.differences == [] for report in found)


def test_sets_are_stored_in_an_order_of_their_own(tmp_path: Path) -> None:
    """That is said, as it depends on how rows came together in batches."""
    found = reports(tmp_path, different_pages, "b")
    assert all("an order that depends on batches" in report.inexact[0] for report in found)


@pytest.mark.parametrize("made", [joined, joined_by_time])
def test_joins_have_two_senders(tmp_path: Path, made: Made) -> None:
    """Which is said where rows of both came; the number that keys of joins end with may be left out."""
    found = reports(tmp_path, made, "b")
    assert [report.failure for report in found] == [None] * len(found)
    assert [report.key for report in found] == ["('b', 0)"] * len(found)
    assert any("2 senders" in why for report in found for why in report.inexact)
    assert any(report.differences == [] for report in found)


@pytest.mark.parametrize("made", [windows, ranks])
@pytest.mark.parametrize("backend", ["rocksdb", "hashmap"])
def test_unaligned_checkpoints_and_other_backends(tmp_path: Path, made: Made, backend: str) -> None:
    """How many rows were in flight depends on batches, so that is said where there were any; so are marks."""
    settings = {"state_backend_type": backend, "execution_checkpointing_unaligned_enabled": True}
    found = reports(tmp_path, made, "b", **settings)
    assert [report.failure for report in found] == [None] * len(found)
    assert [report.differences for report in found if report.differences and not report.inexact] == []
    said = {why for report in found for why in report.inexact if "were in flight" not in why}
    marks = {"rows of corrected tables are settled at marks, which the wall clock begins"}
    assert said == (marks if made is ranks else set())
