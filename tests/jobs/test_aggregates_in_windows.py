"""Aggregates whose accumulators are lists and moments, in whole jobs and across savepoints."""

from __future__ import annotations

import datetime as dt
import statistics
from collections import Counter, defaultdict
from collections.abc import Callable
from itertools import count, pairwise
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from mini_jobs import TINY, environment, json_lines
from running_jobs import Valve, wait_until

import headgate as hg
import headgate.functions as F  # noqa: N812  # as PySpark's users write it
from headgate.checkpoint.opening import open_checkpoint
from headgate.offline.judging import Judgement
from headgate.offline.upgrade import Verdict

NUMBERS = count(9900)
SCHEMA = pa.schema({"at": pa.int64(), "user": pa.string(), "price": pa.int64(), "city": pa.string()})
GAP = 700
SIZE, SLIDE = 4_000, 1_000
Row = dict[str, Any]


def record(n: int, split: int) -> Row:
    """Every fifth price and every seventh city is null."""
    price = None if n % 5 == 0 else (n * n + split) % 40
    city = None if n % 7 == 0 else "abc"[(n + split) % 3]
    at = 90 * n + 37 * (n * n % 11) + 20 * split
    return {"at": at, "user": f"u{(n * n + split) % 7}", "price": price, "city": city}


ROWS = [[record(n, split) for n in range(150)] for split in range(2)]
ALL = sorted((row for split in ROWS for row in split), key=lambda row: row["at"])
RESULTS = (
    F.collect_list("price").alias("prices"),
    F.collect_set("city").alias("cities"),
    F.count_distinct("price", "city").alias("pairs"),
    F.stddev_pop("price").alias("spread"),
    F.percentile("price", [0.5, 1.0]).alias("shares"),
    F.mode("city").alias("usual"),
    F.max_by("city", "price").alias("dearest"),
    F.first("city", True).alias("some"),
    F.bit_xor("price").alias("bits"),
    F.bool_or(F.col("price") > 30).alias("dear"),
    F.count_if(F.col("price") > 30).alias("dears"),
    F.sum(F.col("price").cast("decimal(10,2)")).alias("total"),
    F.try_sum("price").alias("tried"),
)


def shape(rows: list[Row]) -> tuple[Any, ...]:
    """What the results are of these rows; what depends on the order only as far as it does not."""
    prices = [row["price"] for row in rows if row["price"] is not None]
    cities = Counter(row["city"] for row in rows if row["city"] is not None)
    pairs = {(row["price"], row["city"]) for row in rows}
    top = max(prices, default=None)
    bits = None
    for price in prices:
        bits = price if bits is None else bits ^ price
    return (
        sorted(prices),
        sorted(cities),
        sum(None not in pair for pair in pairs),
        round(statistics.pstdev(prices), 6) if prices else None,
        [statistics.median(prices), top] if prices else None,
        min(cities, key=lambda city: (-cities[city], city)) if cities else None,
        True,
        True,
        bits,
        any(price > 30 for price in prices) if prices else None,
        sum(price > 30 for price in prices),
        sum(prices) if prices else None,
        sum(prices) if prices else None,
    )


def shape_of_result(row: Row, members: list[Row]) -> tuple[Any, ...]:
    """The same of a row that the job has written, whose rows were `members`."""
    known = [m["price"] for m in members if m["price"] is not None]
    dearest = {m["city"] for m in members if known and m["price"] == max(known)} or {None}
    cities = {m["city"] for m in members if m["city"] is not None} or {None}
    return (
        sorted(row["prices"]),
        sorted(row["cities"]),
        row["pairs"],
        None if row["spread"] is None else round(row["spread"], 6),
        row["shares"],
        row["usual"],
        row["dearest"] in dearest,
        row["some"] in cities,
        row["bits"],
        row["dear"],
        row["dears"],
        None if row["total"] is None else float(row["total"]),
        row["tried"],
    )


Groups = dict[tuple[str, int, int], list[Row]]


def sliding() -> Groups:
    """The rows by user, start and end of the window."""
    found: Groups = defaultdict(list)
    for row in ALL:
        first = row["at"] // SLIDE * SLIDE
        for start in range(first, first - SIZE, -SLIDE):
            found[row["user"], start, start + SIZE].append(row)
    return found


def sessions() -> Groups:
    """The rows by user, start and end of the session."""
    by_user: dict[str, list[Row]] = defaultdict(list)
    for row in ALL:
        by_user[row["user"]].append(row)
    found: Groups = {}
    for user, rows in by_user.items():
        breaks = (i for i in range(1, len(rows)) if rows[i]["at"] - rows[i - 1]["at"] > GAP)
        for first, stop in pairwise([0, *breaks, len(rows)]):
            run = rows[first:stop]
            found[user, run[0]["at"], run[-1]["at"] + GAP] = run
    return found


KINDS: dict[str, tuple[Any, Callable[[], Groups]]] = {
    "window": (F.window("at", SIZE, SLIDE), sliding),
    "session_window": (F.session_window("at", GAP), sessions),
}


class Job:
    """Aggregates over the rows, which come through a valve."""

    def __init__(
        self,
        folder: Path,
        kind: str,
        parallelism: int,
        limit: float = float("inf"),
        results: tuple[Any, ...] = RESULTS,
    ) -> None:
        self.env = environment(parallelism, {**TINY, "restart-strategy.type": "none"})
        self.env.checkpoints(every="20ms", storage=str(folder / "checkpoints"))
        valve = Valve(next(NUMBERS), limit, *ROWS)
        stream = self.env.from_source(valve, uid="in").with_event_time("at", out_of_orderness="13s")
        grouped = stream.to_table(SCHEMA).group_by("user", KINDS[kind][0])
        table = grouped.agg(*results, uid="windows")
        table.write_json(str(folder / "out"), uid="out")


def check(folder: Path, kind: str) -> None:
    """All that is published are the batch answers of its windows, and none is missing."""
    expected = KINDS[kind][1]()
    found = {
        (row["user"], ms(row[kind]["start"]), ms(row[kind]["end"])): row for row in json_lines(folder / "out")
    }
    assert found.keys() == expected.keys()
    wrong = {
        key: (shape_of_result(found[key], rows), shape(rows))
        for key, rows in expected.items()
        if shape_of_result(found[key], rows) != shape(rows)
    }
    assert wrong == {}


def ms(text: str) -> int:
    """A moment as the sink writes it."""
    return round(dt.datetime.fromisoformat(text).timestamp() * 1000)


def stopped(folder: Path, kind: str, form: str) -> Path:
    """The folder of a savepoint that a job with a part of the input was stopped with."""
    job = Job(folder, kind, 2, 60)
    with job.env.execute_async("windows") as handle:
        wait_until(lambda: handle.done or handle.status().checkpoints_completed > 1, "checkpoints complete")
        wait_until(lambda: handle.done or _read(handle) == 120, "the valve's records came")
        uri = handle.stop(str(folder / "savepoints"), format=form)
        handle.result()
    return Path(unquote(urlsplit(uri).path))


def _read(handle: Any) -> int:
    return sum(vertex.records_in for vertex in handle.status().vertices if "in" in vertex.uids)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("parallelism", [1, 3])
def test_results_are_those_of_the_batch_answer(tmp_path: Path, kind: str, parallelism: int) -> None:
    """Lists, sets, moments and picked values, in panes and in sessions; decimals keep their type."""
    Job(tmp_path, kind, parallelism).env.execute("windows")
    check(tmp_path, kind)


@pytest.mark.ci
@pytest.mark.parametrize(
    ("kind", "form", "parallelism"),
    [("window", "canonical", 3), ("window", "native", 1), ("session_window", "canonical", 1)],
)
def test_they_go_on_across_a_savepoint(tmp_path: Path, kind: str, form: str, parallelism: int) -> None:
    """Lists of open windows are in the savepoint, and come back at another parallelism."""
    folder = stopped(tmp_path, kind, form)
    Job(tmp_path, kind, parallelism).env.execute("windows", restore_from=str(folder))
    check(tmp_path, kind)


CHANGES: dict[str, tuple[tuple[Any, ...], Verdict]] = {
    "the same": (RESULTS, Verdict.AS_IS),
    "a list less": (RESULTS[1:], Verdict.AFTER_MIGRATION),
    "the variance in place of the deviation": (
        tuple(F.var_pop("price").alias("spread") if each is RESULTS[3] else each for each in RESULTS),
        Verdict.AS_IS,
    ),
    "a list of another type": ((F.collect_list("city").alias("prices"), *RESULTS[1:]), Verdict.INCOMPATIBLE),
    "a set in place of the list": (
        (F.collect_set("price").alias("prices"), *RESULTS[1:]),
        Verdict.INCOMPATIBLE,
    ),
    "the last in place of the first": (
        tuple(F.last("city", True).alias("some") if each is RESULTS[7] else each for each in RESULTS),
        Verdict.INCOMPATIBLE,
    ),
}


@pytest.fixture(scope="module")
def savepoint(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A savepoint with open windows."""
    return str(stopped(tmp_path_factory.mktemp("old"), "window", "canonical"))


@pytest.mark.ci
@pytest.mark.parametrize("change", CHANGES)
def test_the_verdict_on_lists_is_what_a_restore_does(change: str, savepoint: str, tmp_path: Path) -> None:
    """What is stored for one aggregate is not taken for another, where it means something else."""
    results, expected = CHANGES[change]
    env = Job(tmp_path, "window", 2, results=results).env
    disk, metadata = open_checkpoint(savepoint)
    judgement = Judgement(disk, metadata, env.program.nodes(), env.plan("windows"), False)
    report = judgement.report(savepoint, "windows")
    verdicts = {
        item.verdict for operator in report.operators if operator.uid == "windows" for item in operator.items
    }
    assert expected in verdicts
    assert report.restorable == (expected is not Verdict.INCOMPATIBLE)
    if report.restorable:
        env.execute("windows", restore_from=savepoint)
        return
    with pytest.raises(hg.HeadgateError, match=r"checkpoint|savepoint"):
        env.execute("windows", restore_from=savepoint)


def test_lists_are_columns_of_lists_in_a_savepoint(savepoint: str) -> None:
    """Readable by any reader of Parquet."""
    files = (Path(savepoint) / "state/windows/windows").iterdir()
    stored = pa.concat_tables(pq.read_table(file) for file in files)
    while any(pa.types.is_struct(column.type) for column in stored.columns):
        stored = stored.flatten()
    kinds = {name.rpartition(".")[2]: stored.column(name).type for name in stored.column_names}
    assert kinds["prices_list"].value_type == pa.int64()
    assert kinds["cities_distinct"].value_type == pa.string()
    assert kinds["spread_m2"] == pa.float64()
    assert pa.types.is_list(kinds["shares_counts"])


SHORT = pa.schema({"at": pa.int64(), "k": pa.string(), "n": pa.int32(), "x": pa.float64()})


def short() -> Any:
    """Rows of one window, grouped by text."""
    rows = [{"at": n, "k": "ab"[n % 2], "n": n, "x": n / 2} for n in range(4)]
    stream = environment(1).from_collection(rows).with_event_time("at")
    return stream.to_table(SHORT).group_by("k", F.window("at", "1s"))


SHORT_FORMS: dict[str, tuple[Callable[[Any], Any], Row, Row]] = {
    "count": (lambda of: of.count(), {"count": 2}, {"count": 2}),
    "sum": (lambda of: of.sum("n"), {"sum(n)": 2}, {"sum(n)": 4}),
    "max": (lambda of: of.max(), {"max(n)": 2, "max(x)": 1.0}, {"max(n)": 3, "max(x)": 1.5}),
    "min": (lambda of: of.min("x", "n"), {"min(x)": 0.0, "min(n)": 0}, {"min(x)": 0.5, "min(n)": 1}),
    "mean": (lambda of: of.mean("x"), {"avg(x)": 0.5}, {"avg(x)": 1.0}),
}


@pytest.mark.parametrize("name", SHORT_FORMS)
def test_short_forms_are_those_of_pyspark(name: str) -> None:
    """With its names of columns; without columns all of numbers, in the order of the table."""
    call, of_a, of_b = SHORT_FORMS[name]
    found = {row.pop("k"): row for row in call(short()).collect() if row.pop("window")}
    assert found == {"a": of_a, "b": of_b}
    assert list(found["a"]) == list(of_a)


def test_short_forms_of_what_has_no_numbers_are_refused() -> None:
    """At the line of the call."""
    with pytest.raises(hg.PlanError, match=r"sum\(\) \(test_aggregates_in_windows.py:\d+\): 'k' is string"):
        short().sum("k")
    only = environment(1).from_collection([{"at": 1}]).with_event_time("at")
    with pytest.raises(hg.PlanError, match="got no columns"):
        only.to_table(pa.schema({"at": pa.int64()})).group_by(F.window("at", "1s")).avg()


def test_values_that_cannot_be_stored_are_refused() -> None:
    """While the plan is made."""
    nested = pa.schema({"at": pa.int64(), "many": pa.map_(pa.string(), pa.int64())})
    grouped = environment(1).from_collection([{"at": 1}]).with_event_time("at").to_table(nested)
    with pytest.raises(hg.PlanError, match=r"collect_list\(\) takes a column of numbers"):
        grouped.group_by(F.window("at", "1s")).agg(F.collect_list("many"))
