"""Tables of streams in whole jobs: columns, filters, windows; across savepoints, and with bad records."""

from __future__ import annotations

import datetime as dt
import json
import threading
from collections import defaultdict
from itertools import count
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
from headgate.checkpoint.opening import open_checkpoint, verify_files
from headgate.offline.judging import Judgement
from headgate.offline.upgrade import Verdict
from headgate.testing import JobListener, LiveState, MiniCluster

SCHEMA = pa.schema({"at": pa.int64(), "user": pa.string(), "price": pa.int64()})
ROWS = [
    [{"at": 100 * n + 50 * split, "user": f"u{(n + split) % 5}", "price": n} for n in range(120)]
    for split in range(2)
]
ALL = sorted([row for split in ROWS for row in split], key=lambda row: row["at"])
NUMBERS = count(9500)
Answer = list[tuple[str, int, int, int]]


def windows_of(size: int, slide: int) -> Answer:
    """The batch answer: user, end of the window (ms), number of records, highest price."""
    groups: dict[tuple[str, int], list[int]] = defaultdict(list)
    for row in ALL:
        first = row["at"] // slide * slide
        for start in range(first, first - size, -slide):
            if start <= row["at"] < start + size:
                groups[row["user"], start + size].append(row["price"])
    return sorted((user, end, len(prices), max(prices)) for (user, end), prices in groups.items())


def milliseconds(text: str) -> int:
    """An end of a window as the sink writes it."""
    return round(dt.datetime.fromisoformat(text).timestamp() * 1000)


def published(folder: Path) -> Answer:
    """What the sink has committed."""
    lines = json_lines(folder / "out")
    return sorted((r["user"], milliseconds(r["window"]["end"]), r["n"], r["top"]) for r in lines)


class Job:
    """Windows over the rows, which come through a valve."""

    def __init__(
        self,
        folder: Path,
        parallelism: int,
        limit: float = float("inf"),
        size: str = "4s",
        slide: str = "1s",
        keys: tuple[str, ...] = ("user",),
        results: tuple[Any, ...] = (F.count("*").alias("n"), F.max("price").alias("top")),
    ) -> None:
        self.valve = Valve(next(NUMBERS), limit, *ROWS)
        self.env = environment(parallelism, {**TINY, "restart-strategy.type": "none"})
        self.env.checkpoints(every="20ms", storage=str(folder / "checkpoints"))
        stream = self.env.from_source(self.valve, uid="in").with_event_time("at", out_of_orderness="13s")
        grouped = stream.to_table(SCHEMA).group_by(*keys, F.window("at", size, slide))
        table = grouped.agg(*results, uid="windows")
        table.write_json(str(folder / "out"), uid="out")


def stopped(folder: Path, form: str) -> Path:
    """The folder of a savepoint that a job with a third of the input was stopped with."""
    job = Job(folder, 2, 40)
    with job.env.execute_async("windows") as handle:
        wait_until(lambda: handle.done or handle.status().checkpoints_completed > 1, "checkpoints complete")
        wait_until(lambda: handle.done or _read(handle) == 80, "the valve's records came")
        uri = handle.stop(str(folder / "savepoints"), format=form)
        handle.result()
    return Path(unquote(urlsplit(uri).path))


def _read(handle: Any) -> int:
    return sum(vertex.records_in for vertex in handle.status().vertices if "in" in vertex.uids)


@pytest.mark.parametrize(("size", "slide"), [("4s", "1s"), ("3s", "3s"), ("5s", "2s")])
@pytest.mark.parametrize("parallelism", [1, 3])
def test_windows_are_those_of_the_batch_answer(
    tmp_path: Path, size: str, slide: str, parallelism: int
) -> None:
    """Tumbling and sliding, also where the slide does not divide the size."""
    Job(tmp_path, parallelism, size=size, slide=slide).env.execute("windows")
    assert published(tmp_path) == windows_of(int(size[0]) * 1000, int(slide[0]) * 1000)


@pytest.mark.parametrize(("form", "parallelism"), [("canonical", 3), ("native", 1), ("canonical", 2)])
def test_windows_go_on_across_a_savepoint(tmp_path: Path, form: str, parallelism: int) -> None:
    """Open windows are in the savepoint; both jobs together give the batch answer."""
    folder = stopped(tmp_path, form)
    verify_files(*open_checkpoint(str(folder)))
    Job(tmp_path, parallelism).env.execute("windows", restore_from=str(folder))
    assert published(tmp_path) == windows_of(4_000, 1_000)


CHANGES: dict[str, tuple[dict[str, Any], Verdict]] = {
    "the same": ({}, Verdict.AS_IS),
    "another parallelism": ({"parallelism": 3}, Verdict.AS_IS),
    "an aggregate less": ({"results": (F.count("*").alias("n"),)}, Verdict.AFTER_MIGRATION),
    "an aggregate more": (
        {"results": (F.count("*").alias("n"), F.max("price").alias("top"), F.sum("price").alias("all"))},
        Verdict.INCOMPATIBLE,
    ),
    "another slide": ({"slide": "2s"}, Verdict.INCOMPATIBLE),
    "another size": ({"size": "8s"}, Verdict.INCOMPATIBLE),
    "another type of key": ({"keys": ("price",)}, Verdict.INCOMPATIBLE),
    "a key more": ({"keys": ("user", "price")}, Verdict.INCOMPATIBLE),
}


@pytest.fixture(scope="module")
def savepoint(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A savepoint with open windows."""
    return str(stopped(tmp_path_factory.mktemp("old"), "canonical"))


@pytest.mark.parametrize("change", CHANGES)
def test_the_verdict_on_windows_is_what_a_restore_does(change: str, savepoint: str, tmp_path: Path) -> None:
    """Other windows, aggregates and keys: refused where open windows would be wrong."""
    changes, expected = CHANGES[change]
    given = {"parallelism": 2, **changes}
    env = Job(tmp_path, **given).env
    disk, metadata = open_checkpoint(savepoint)
    report = Judgement(disk, metadata, env.program.nodes(), env.plan("windows"), False).report(
        savepoint, "windows"
    )
    verdicts = {
        item.verdict for operator in report.operators if operator.uid == "windows" for item in operator.items
    }
    assert expected in verdicts
    if report.restorable:
        env.execute("windows", restore_from=savepoint)
        return
    with pytest.raises(hg.HeadgateError, match=r"checkpoint|savepoint"):
        env.execute("windows", restore_from=savepoint)


def test_windows_are_a_table_in_a_savepoint(tmp_path: Path) -> None:
    """A row for each key and slice of event time, with a column for each accumulator."""
    folder = stopped(tmp_path, "canonical")
    stored = pa.concat_tables(pq.read_table(file) for file in (folder / "state/windows/windows").iterdir())
    assert {"key", "n_count", "top_max"} <= set(_flat(stored).column_names)
    assert stored.num_rows > 0


def _flat(table: pa.Table) -> pa.Table:
    while any(pa.types.is_struct(column.type) for column in table.columns):
        table = table.flatten()
    return table.rename_columns([name.rpartition(".")[2] for name in table.column_names])


# -- columns


def table(rows: list[dict[str, Any]], schema: pa.Schema) -> Any:
    """A table of rows from memory."""
    return environment(1).from_collection(rows).to_table(schema)


def test_columns_are_computed_and_rows_filtered() -> None:
    """As PySpark's verbs."""
    prices = table([{"price": n} for n in (1, None, 30, 40)], pa.schema({"price": pa.int64()}))
    found = prices.filter(F.col("price") > 1).with_column("twice", F.col("price") * 2).rename({"price": "p"})
    assert found.collect() == [{"p": 30, "twice": 60}, {"p": 40, "twice": 80}]
    kind = F.when(F.col("price") > 30, "dear").when(F.col("price") > 1, "fair").otherwise("cheap")
    assert [row["kind"] for row in prices.select(kind.alias("kind")).collect()] == [
        "cheap",
        "cheap",
        "fair",
        "dear",
    ]
    assert prices.with_column("more", F.lit(1)).drop("price").columns == ["more"]


def test_wrong_columns_are_refused_with_the_nearest_name() -> None:
    """While the plan is made, at the line that names them."""
    prices = table([{"price": 1}], pa.schema({"price": pa.int64(), "name": pa.string()}))
    with pytest.raises(
        hg.PlanError, match=r"filter\(\) \(test_tables.py:\d+\).*'pice'; did you mean 'price'"
    ):
        prices.filter(F.col("pice") > 1)
    with pytest.raises(hg.PlanError, match="is bigint, not a condition"):
        prices.filter(F.col("price") + 1)
    with pytest.raises(hg.PlanError, match="there is no function 'pluss'"):
        prices.select(F.expr("pluss", "price"))
    with pytest.raises(hg.PlanError, match="'price' is there twice"):
        prices.select("price", "price")


def test_a_value_that_cannot_be_computed_names_its_row() -> None:
    """Operator, expression, values, and Spark's name of the error."""
    prices = table([{"price": 7}, {"price": 0}], pa.schema({"price": pa.int64()}))
    with pytest.raises(hg.UsageError, match=r"'columns'.*\{'price': 0\}.*DIVIDE_BY_ZERO"):
        prices.select((100 / F.col("price")).alias("x")).collect()
    safe = prices.select(F.when(F.col("price") != 0, 100 / F.col("price")).alias("x"))
    assert [row["x"] for row in safe.collect()] == [100 / 7, None]


def test_a_record_of_another_type_names_itself() -> None:
    """A string where a number should be."""
    prices = table([{"price": 7}, {"price": "dear"}], pa.schema({"price": pa.int64()}))
    with pytest.raises(
        hg.UsageError, match=r"column 'price' of record .*dear.* of type str; expected bigint"
    ):
        prices.select("price").collect()


def test_late_records_are_dropped_and_a_window_is_exact(tmp_path: Path) -> None:
    """A record whose windows have ended is in no result."""
    rows = [{"at": at, "user": "u", "price": at} for at in (0, 5_000, 900, 5_100)]
    stream = environment(1).from_collection(rows).with_event_time("at")
    found = (
        stream.to_table(SCHEMA).group_by("user", F.window("at", "1s")).agg(F.count("*").alias("n"), uid="w")
    )
    assert sorted((row["window"]["start"].second, row["n"]) for row in found.collect()) == [(0, 1), (5, 2)]


def test_a_window_needs_event_time() -> None:
    """Named at the call that asks for it."""
    prices = table([{"price": 1}], pa.schema({"price": pa.int64()}))
    with pytest.raises(hg.PlanError, match=r"group_by\(\) .*event time has none"):
        prices.group_by(F.window("price", "1s"))


def test_a_table_of_parquet_files_reads_only_what_is_used(tmp_path: Path) -> None:
    """By the plan: the source is narrowed to the columns of the table, and to event time."""
    rows = [row for split in ROWS for row in split]
    columns = {name: [row[name] for row in rows] for name in ("at", "price")}
    pq.write_table(pa.table(columns | {"note": ["x"] * len(rows)}), tmp_path / "bids.parquet")
    env = environment(2)
    bids = env.table(tmp_path / "bids.parquet").with_watermark("at", "20s")
    assert bids.dtypes == [("at", "bigint"), ("price", "bigint"), ("note", "string")]
    found = bids.group_by(F.window("at", "10s")).agg(F.sum("price").alias("total"), uid="totals")
    assert sum(row["total"] for row in found.collect()) == sum(row["price"] for row in rows)
    found.write_json(tmp_path / "out", uid="out")
    assert env.plan().vertices[0].chain[0].source.columns == ["at", "price"]  # type: ignore[attr-defined]


def test_a_table_of_json_lines_has_only_the_columns_that_are_used(tmp_path: Path) -> None:
    """A line that does not fit the schema is bad all the same, wherever it does not."""
    rows = [row for split in ROWS for row in split]
    lines = [json.dumps({"at": row["at"], "price": row["price"], "note": "x"}) for row in rows]
    (tmp_path / "bids.json").write_text("\n".join([*lines, '{"at":1,"price":1000000,"note":5}']))
    schema = pa.schema([("note", pa.string()), ("at", pa.int64()), ("price", pa.int64())])
    env = environment(2)
    bids = env.read_json(tmp_path / "bids.json", schema=schema, on_error="skip").to_table()
    found = bids.with_watermark("at", "20s").filter(F.col("at") >= 0).group_by(F.window("at", "10s"))
    totals = found.agg(F.sum("price").alias("total"), uid="totals")
    assert sum(row["total"] for row in totals.collect()) == sum(row["price"] for row in rows)
    totals.write_json(tmp_path / "out", uid="out")
    assert env.plan().vertices[0].chain[0].source.columns == ["at", "price"]  # type: ignore[attr-defined]


def test_rows_of_json_lines_that_a_filter_drops_become_no_columns(tmp_path: Path) -> None:
    """But they are checked: a dropped line that does not fit the schema is bad, as one that is kept."""
    lines = [
        json.dumps({"n": n, "text": str(n), "at": f"2020-01-01T00:00:{n % 60:02}Z"}) for n in range(5000)
    ]
    schema = pa.schema([("n", pa.int64()), ("text", pa.string()), ("at", pa.timestamp("us", "UTC"))])
    bad = ['{"n":1,"text":2,"at":null}', '{"n":1,"text":"","at":"no time"}', '{"n":4999,"text":"x","n":1}']
    (tmp_path / "x.json").write_text("\n".join([*lines[:2000], *bad, *lines[2000:]]))
    table = environment(2).read_json(tmp_path, schema=schema, on_error="skip").to_table()
    kept = table.filter(F.col("n") % 1000 == 999).select("text", F.hour("at").alias("hour"))
    assert sorted((row["text"], row["hour"]) for row in kept.collect()) == [
        (text, 0) for text in ("1999", "2999", "3999", "4999", "999")
    ]
    with pytest.raises(hg.HeadgateError, match=r"x\.json, line 2001: .*text.* changed from string to number"):
        environment(1).read_json(tmp_path, schema=schema).to_table().filter(F.col("n") < 0).collect()


# -- keys of groups, and what windows hold


class Looker(JobListener):
    """Keeps the live state of a job that runs, for the test's own thread."""

    def __init__(self) -> None:
        self.begun = threading.Event()

    def begins(self, live_state: LiveState) -> None:
        self.live_state = live_state
        self.begun.set()


def answer(looker: Looker, state: str, key: Any) -> Any:
    """What the running job says of a key; it is asked again while it says that it has not started."""
    found: list[Any] = []

    def asked() -> bool:
        try:
            found.append(looker.live_state.value("windows", state, key))
        except hg.OperatingError:
            return False
        return True

    assert looker.begun.wait(30)
    wait_until(asked, "the job answers")
    return found[0]


def test_a_live_query_gives_the_windows_of_a_key() -> None:
    """Slice of event time -> its accumulators, of open windows only; an unknown key is an error."""
    valve, looker = Valve(next(NUMBERS), 40, *ROWS), Looker()
    env = hg.Environment(parallelism=2, executor=MiniCluster(looker), config=TINY)
    stream = env.from_source(valve, uid="in").with_event_time("at", out_of_orderness="13s")
    grouped = stream.to_table(SCHEMA).group_by("user", F.window("at", "2s"))
    grouped.agg(F.count("*").alias("n"), F.max("price").alias("top"), uid="windows").to_stream().print()
    with env.execute_async("live") as handle:
        wait_until(lambda: _read(handle) == 80, "the valve's records came")
        mine = [row for split in ROWS for row in split[:40] if row["user"] == "u1"]
        starts = sorted({row["at"] // 2_000 * 2_000 for row in mine})
        wait_until(lambda: sorted(answer(looker, "windows", "u1")) == starts, "all windows are there")
        for start, stored in answer(looker, "windows", "u1").items():
            prices = [row["price"] for row in mine if start <= row["at"] < start + 2_000]
            assert (stored.n_count, stored.top_max) == (len(prices), max(prices))
        with pytest.raises(hg.NoEntryError):
            answer(looker, "windows", "nobody")
        with pytest.raises(hg.UsageError, match="no keyed state 'window'"):
            answer(looker, "window", "u1")
        valve.open_to()
        handle.result()


def counted(rows: list[dict[str, Any]], kind: pa.DataType, *results: Any) -> list[dict[str, Any]]:
    """Rows grouped by their column `key` in windows of a second."""
    stream = environment(2).from_collection(rows).with_event_time("at")
    keyed = stream.to_table(pa.schema({"at": pa.int64(), "key": kind}))
    found: list[dict[str, Any]] = (
        keyed.group_by("key", F.window("at", "1s"))
        .agg(*(results or (F.count("*").alias("n"),)), uid="w")
        .collect()
    )
    return found


@pytest.mark.parametrize("kind", [pa.float32(), pa.float64()], ids=str)
def test_both_zeros_are_one_key(kind: pa.DataType) -> None:
    """As in Spark; the key that comes out is 0.0."""
    (row,) = counted([{"at": at, "key": key} for at, key in enumerate([-0.0, 0.0, -0.0])], kind)
    assert (str(row["key"]), row["n"]) == ("0.0", 3)


@pytest.mark.parametrize(
    ("kind", "shown"),
    [
        (pa.decimal128(9, 2), "decimal(9,2)"),
        (pa.list_(pa.int64()), "array<bigint>"),
        (pa.struct({"a": pa.int64()}), "struct<a:bigint>"),
    ],
    ids=["decimal", "list", "struct"],
)
def test_a_key_without_a_hash_is_refused_where_it_is_written(kind: pa.DataType, shown: str) -> None:
    """Before anything runs, with the line and the type."""
    with pytest.raises(hg.PlanError) as caught:
        counted([{"at": 1, "key": None}], kind)
    assert f"key is {shown}, by which rows cannot be grouped" in str(caught.value)
    assert str(caught.value).startswith("group_by() (test_tables.py:")


def test_names_that_differ_in_signs_only_are_refused() -> None:
    """State finds accumulators by a name made of letters and digits."""
    two = F.count("*").alias("n-1"), F.count("*").alias("n+1")
    with pytest.raises(hg.PlanError, match=r"agg\(\) \(test_tables.py:\d+\).*'n_1_count'.*alias\(\)"):
        counted([{"at": 1, "key": 1}], pa.int64(), *two)


def test_a_null_key_and_nan_are_refused_with_what_to_do() -> None:
    """There is no key group for them; the message has the record, its time, and the way out."""
    wanted = r"key 'key' is null .*event time 1970-01-01 00:00:00.001 UTC; fill it .*or filter"
    with pytest.raises(hg.UsageError, match=wanted):
        counted([{"at": 0, "key": 7}, {"at": 1, "key": None}], pa.int64())
    wanted = r"key 'key' is NaN .*00:00:00.001 UTC; fill it by nanvl\(\) or filter"
    with pytest.raises(hg.UsageError, match=wanted):
        counted([{"at": 0, "key": 7.0}, {"at": 1, "key": float("nan")}], pa.float64())


def test_a_wrong_duration_of_a_watermark_names_its_line() -> None:
    """The call, the line, and what was given."""
    prices = table([{"at": 1}], pa.schema({"at": pa.int64()}))
    with pytest.raises(hg.PlanError, match=r"with_watermark\(\) \(test_tables.py:\d+\).*'soon'"):
        prices.with_watermark("at", "soon")
    with pytest.raises(hg.PlanError, match=r"with_watermark\(\) \(test_tables.py:\d+\).*-1"):
        prices.with_watermark("at", -1)
