"""Filters that are pushed into sources: same results, fewer records read, restarts with another filter."""

from __future__ import annotations

import datetime as dt
import tempfile
from collections.abc import Sequence
from decimal import Decimal
from functools import reduce
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mini_jobs import TINY, environment, json_lines
from running_jobs import wait_until

import headgate as hg
import headgate.functions as F  # noqa: N812  # as PySpark's users write it
from headgate.checkpoint.opening import open_checkpoint
from headgate.connectors.files import parquet_source
from headgate.connectors.files.file_formats import ParquetSource
from headgate.connectors.generator import throttled
from headgate.offline.judging import Judgement
from headgate.offline.upgrade import Verdict

UTC = dt.UTC
SCHEMA = pa.schema(
    {
        "n": pa.int64(),
        "small": pa.int8(),
        "price": pa.decimal128(5, 2),
        "text": pa.string(),
        "at": pa.timestamp("us", "UTC"),
        "day": pa.date32(),
        "share": pa.float64(),
        "flag": pa.bool_(),
    }
)
VALUES: dict[str, list[Any]] = {
    "n": [-(2**63), -1, 0, 1, 2, 2**63 - 1],
    "small": [-128, -1, 0, 1, 127],
    "price": [Decimal(text) for text in ("-999.99", "-0.01", "0.00", "1.50", "999.99")],
    "text": ["", "a", "a\x00", "b" * 70, "é", "\U0001f600", "1"],
    "at": [
        dt.datetime(1, 1, 1, tzinfo=UTC),
        dt.datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC),
        dt.datetime(2024, 5, 6, tzinfo=UTC),
        dt.datetime(9999, 12, 31, tzinfo=UTC),
    ],
    "day": [dt.date(1, 1, 1), dt.date(1970, 1, 1), dt.date(2024, 5, 6), dt.date(9999, 12, 31)],
    "share": [float("nan"), float("-inf"), -0.0, 0.0, 1.5, float("inf")],
    "flag": [False, True],
}

COMPARISONS = ["__eq__", "__lt__", "__le__", "__gt__", "__ge__"]


class Whole(ParquetSource[Any]):
    """Parquet files that take no filters."""

    def with_filters(self, tests: Any) -> Any:
        return self


FAILING: dict[str, Any] = {
    "n": F.col("n") + 1 > 0,
    "small": 1 / F.col("small") > 0,
    "text": F.col("text").cast("bigint") > 0,
}
"""Column -> a condition that fails for some of its values."""


@st.composite
def cases(draw: st.DrawFn) -> tuple[list[dict[str, Any]], list[Any]]:
    """Rows with values in a few columns, often the same ones in a row, and filters of these columns."""
    names = draw(st.lists(st.sampled_from(list(VALUES)), min_size=1, max_size=3, unique=True))
    row = st.fixed_dictionaries({name: st.none() | st.sampled_from(VALUES[name]) for name in names})
    runs = draw(st.lists(st.tuples(row, st.integers(1, 3)), min_size=1, max_size=8))
    filters = draw(st.lists(conditions(names), min_size=1, max_size=2))
    return [each for each, times in runs for _ in range(times)], filters


@st.composite
def conditions(draw: st.DrawFn, names: list[str]) -> Any:
    """A condition on one column, or one that may fail, or several of them."""
    name = draw(st.sampled_from(names))
    column, known = F.col(name), st.sampled_from(VALUES[name])
    kinds = [
        "compare",
        "compare",
        "null",
        "in",
        "and",
        "guarded",
        "or",
        *(["fails"] if name in FAILING else []),
    ]
    match draw(st.sampled_from(kinds)):
        case "null":
            return draw(st.sampled_from([column.isNull(), column.isNotNull()]))
        case "in":
            return column.isin(draw(st.lists(known | st.none(), min_size=1, max_size=3)))
        case "fails":
            return FAILING[name]
        case "guarded":
            failing = [each for each in names if each in FAILING]
            return draw(conditions(names)) & (FAILING[failing[-1]] if failing else column.isNotNull())
        case "and":
            return draw(conditions(names)) & draw(conditions(names))
        case "or":
            return draw(conditions(names)) | draw(conditions(names))
    if name == "flag":
        return draw(st.sampled_from([column, ~column]))
    other = draw(known.map(F.lit) | st.sampled_from([F.lit("1"), F.lit(0)]))
    try:
        return getattr(column, draw(st.sampled_from(COMPARISONS)))(other)
    except hg.PlanError:
        return column.isNotNull()


def outcome(source: Any, filters: Sequence[Any]) -> Any:
    """The rows that a table gives, or that it failed."""
    table = environment(1).from_source(source, uid="in").to_table()
    try:
        found = reduce(lambda found, each: found.filter(each), filters, table).collect()
    except hg.PlanError:
        return "refused"
    except hg.UsageError as error:
        return str(error)
    return [repr(row) for row in found]  # NaN is not equal to itself


def both_outcomes(rows: list[dict[str, Any]], group: int, filters: Sequence[Any]) -> tuple[Any, Any]:
    """The outcomes with pushdown and without it, for a file with `group` rows in a row group."""
    with tempfile.TemporaryDirectory() as folder:
        pq.write_table(pa.Table.from_pylist(rows, SCHEMA), f"{folder}/x.parquet", row_group_size=group)
        return outcome(parquet_source(folder), filters), outcome(Whole(folder, None), filters)


@settings(max_examples=120, deadline=None)
@given(cases(), st.integers(1, 4))
def test_results_are_those_without_pushdown(case: Any, group: int) -> None:
    """Rows and failures alike, whatever the files hold and whatever is asked."""
    rows, filters = case
    pushed, whole = both_outcomes(rows, group, filters)
    assert pushed == whole


def test_a_row_whose_condition_is_null_still_fails() -> None:
    """Null in the first operand of `and` does not hide the second one; false does."""
    condition = (F.col("n") > 0) & (1 / F.col("small") > 0)
    pushed, whole = both_outcomes([{"n": -1, "small": 0}, {"n": None, "small": 0}], 2, [condition])
    assert pushed == whole
    assert "DIVIDE_BY_ZERO" in pushed
    assert both_outcomes([{"n": -1, "small": 0}] * 2, 2, [condition]) == ([], [])


def test_nan_is_above_all_numbers() -> None:
    """The bounds of a row group do not know of it."""
    pushed, whole = both_outcomes([{"share": 1.0}, {"share": float("nan")}], 2, [F.col("share") > 2])
    assert pushed == whole
    assert len(pushed) == 1


def test_a_constant_that_cannot_be_cast_fails_for_rows_only() -> None:
    """Where no row comes to a condition, nothing fails."""
    never = F.col("day") == "no day"
    rows = [{"n": 1, "day": None}] * 2
    assert both_outcomes(rows, 2, [F.col("n") == 0, never]) == ([], [])
    assert both_outcomes(rows, 2, [(F.col("n") == 0) & never]) == ([], [])
    pushed, whole = both_outcomes(rows, 2, [(F.col("n") == 1) & never])
    assert pushed == whole
    assert "CAST_INVALID_INPUT" in pushed


# -- what is read, and what is shown


def ranked(folder: Path, rows: int = 1_000, group: int = 10) -> Path:
    """A file of numbers in order; every group of rows has a rank, from 0 to 6 in turn."""
    numbers = list(range(rows))
    ranks = [n // group % 7 for n in numbers]
    folder.mkdir(exist_ok=True)
    pq.write_table(pa.table({"n": numbers, "rank": ranks}), folder / "x.parquet", row_group_size=group)
    return folder


def pushed(table: Any) -> list[str]:
    """What the plan says of filters that were pushed."""
    return [line.strip() for line in table.explain().splitlines() if "pushed filters" in line]


def test_row_groups_that_fail_are_not_read(tmp_path: Path) -> None:
    """The source counts what it has read."""
    env = environment(1)
    table = env.table(ranked(tmp_path / "in"), uid="in").filter(F.col("n") >= 985)
    table.write_json(tmp_path / "out", uid="out")
    result = env.execute("selective")
    assert [row["n"] for row in json_lines(tmp_path / "out")] == list(range(985, 1_000))
    assert result.records_in["in"] == 20


def test_whole_files_may_be_left_out(tmp_path: Path) -> None:
    """Readers ask for the next file, and end after the last one."""
    for day in range(9):
        pq.write_table(pa.table({"day": [day] * 5}), tmp_path / f"{day}.parquet")
    found = environment(2).table(tmp_path).filter(F.col("day").isin(3, 5)).collect()
    assert sorted(row["day"] for row in found) == [3] * 5 + [5] * 5
    assert environment(2).table(tmp_path).filter(F.col("day") > 100).collect() == []


def test_the_plan_shows_what_was_pushed(tmp_path: Path) -> None:
    """As written a filter over the scan; as it runs, in the source, too."""
    table = environment(1).table(ranked(tmp_path / "in"), uid="in")
    found = table.select(F.col("n").alias("k"), "rank").filter((F.col("k") > 5) & (F.col("rank") == 1))
    written, runs = found.explain().split("as it runs")
    assert "  filter and((k > 5), (rank = 1))\n    columns n AS k, rank\n      scan" in written
    assert "(uid 'in')\n      pushed filters: n > 5, rank = 1\n" in runs
    assert "where and((n > 5), (rank = 1))" in runs
    assert "pushed filters" not in written
    assert pushed(table.filter(F.col("n") % 2 == 0)) == []


def test_not_past_event_time(tmp_path: Path) -> None:
    """Rows that a filter drops move the watermark if they come before it, and only then."""
    folder = ranked(tmp_path / "in")
    table = environment(1).table(folder)
    assert pushed(table.with_watermark("n").filter(F.col("n") > 5)) == []
    later = table.filter(F.col("n") > 5).to_stream().with_event_time("n").to_table()
    assert pushed(later.filter(F.col("rank") == 1)) == ["pushed filters: n > 5"]


def test_a_source_with_several_readers_is_asked_for_what_all_drop(tmp_path: Path) -> None:
    """One that reads all rows, or no table, keeps the source whole."""
    env = environment(1)
    table = env.table(ranked(tmp_path / "in"))
    some = table.filter(F.col("n") > 5)
    union = some.filter(F.col("rank") == 1).union(some.filter(F.col("rank") == 2))
    assert pushed(union) == ["pushed filters: n > 5"]
    assert sorted(row["n"] for row in union.collect() if row["n"] < 30) == [*range(10, 30)]
    assert pushed(some.union(table)) == []
    env = environment(1)
    stream = env.read_parquet(tmp_path / "in")
    stream.map(len).print()
    stream.to_table().filter(F.col("n") > 5).to_stream().print()
    assert "pushed filters" not in env.explain()


class Hours(hg.Source[Any]):
    """A source of the program that takes no filters."""

    create_enumerator = create_reader = None  # type: ignore[assignment]


def test_a_source_that_takes_no_filters_shows_none() -> None:
    """By default `with_filters` returns the source itself."""
    table = environment(1).from_source(Hours(), uid="in").to_table(pa.schema({"n": pa.int64()}))
    assert pushed(table.filter(F.col("n") > 5)) == []


# -- restarts with another filter


def job(folder: Path, condition: Any, rate: float | None = None) -> hg.Environment:
    """Copies the rows that pass to files; `rate` rows a second."""
    env = environment(1, {**TINY, "restart-strategy.type": "none"})
    env.checkpoints(every="10ms", storage=str(folder / "checkpoints"))
    source = parquet_source(ranked(folder / "in"))
    table = env.from_source(source if rate is None else throttled(source, rate), uid="in").to_table()
    if condition is not None:
        table = table.filter(condition)
    table.write_json(folder / "out", uid="out")
    return env


@pytest.mark.parametrize("after", ["others", "more", "none"])
@pytest.mark.parametrize("before", ["some", "none"])
def test_a_restart_with_another_filter_goes_on_after_the_last_row(
    tmp_path: Path, before: str, after: str
) -> None:
    """Every row after it that passes the new filter comes, and none before it; the upgrade check agrees."""
    kinds = {"none": range(7), "some": [2, 5], "others": [0, 3], "more": [2, 3, 4, 5]}

    def condition(name: str) -> Any:
        return None if name == "none" else F.col("rank").isin(list(kinds[name]))

    with job(tmp_path, condition(before), 100).execute_async("filters") as handle:
        wait_until(lambda: sum(vertex.records_in for vertex in handle.status().vertices) >= 45, "rows came")
        uri = handle.stop(str(tmp_path / "savepoints"))
        handle.result()
    savepoint = unquote(urlsplit(uri).path)
    first = sorted(row["n"] for row in json_lines(tmp_path / "out"))
    assert 0 < len(first) < 280
    assert first == [n for n in range(first[-1] + 1) if n // 10 % 7 in kinds[before]]
    env = job(tmp_path, condition(after))
    disk, metadata = open_checkpoint(savepoint)
    report = Judgement(disk, metadata, env.program.nodes(), env.plan("filters"), False).report(
        savepoint, "filters"
    )
    assert report.restorable
    assert {item.verdict for operator in report.operators for item in operator.items} <= {Verdict.AS_IS}
    env.execute("filters", restore_from=savepoint)
    rest = sorted(row["n"] for row in json_lines(tmp_path / "out"))[len(first) :]
    assert rest == [n for n in range(first[-1] + 1, 1_000) if n // 10 % 7 in kinds[after]]
