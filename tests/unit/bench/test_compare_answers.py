"""The answers of the comparison, and the fingerprints and checksums by which results are compared."""

from __future__ import annotations

import ast
import json
from collections import Counter, defaultdict
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

pytest.importorskip("duckdb", reason="the answers are DuckDB's")

import headgate as hg
from bench.compare import answers, checksums, headgate_job
from bench.compare.entries import Lacking
from bench.compare.events import JSON, LAYOUTS, PARTS, SEQUENCE, EventSet, event_set, sequence_files
from bench.compare.queries import ALL, QUERIES
from bench.machine import ROOT
from headgate.api.sink import SinkWriterContext
from headgate.nexmark import Dataset
from headgate.nexmark.queries import QUERIES as TABLES
from headgate.nexmark.queries import Inputs
from headgate.relational.changes import CHANGE

EVENTS = EventSet(2_000, 100)
SECOND_US = 1_000_000


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A cache of the tests' own."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HEADGATE_BENCH_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(scope="module")
def few(cache: Any) -> Dataset:
    """Two thousand events over twenty seconds."""
    return EVENTS.layout(PARTS)


def bids(dataset: Dataset) -> list[tuple[int, int, int]]:
    """Auction, price and microseconds of each bid, in order of arrival."""
    table = dataset.read("bids", ["auction", "price", "dateTime"]).sort_by("dateTime")
    times = table["dateTime"].cast(pa.int64()).to_pylist()
    return list(zip(table["auction"].to_pylist(), table["price"].to_pylist(), times, strict=True))


def sliding_counts(rows: list[tuple[int, int, int]]) -> dict[int, Counter[int]]:
    """Start of each sliding window -> bids by auction, one by one."""
    found: dict[int, Counter[int]] = defaultdict(Counter)
    for auction, _, at in rows:
        first = at - at % (2 * SECOND_US)
        for start in range(first - 8 * SECOND_US, first + 1, 2 * SECOND_US):
            found[start][auction] += 1
    return found


def test_running_counts_are_those_of_a_loop(few: Dataset) -> None:
    """J2: a row for each bid."""
    seen: Counter[int] = Counter()
    expected = []
    for auction, _, _ in bids(few):
        seen[auction] += 1
        expected.append((auction, seen[auction]))
    found = answers.answer(QUERIES["J2"], few).to_pylist()
    assert sorted((row["auction"], row["number"]) for row in found) == sorted(expected)


def test_windows_are_those_of_a_loop(few: Dataset) -> None:
    """J3: count and highest price by auction and ten seconds."""
    expected: dict[tuple[int, int], tuple[int, int]] = {}
    for auction, price, at in bids(few):
        number, highest = expected.get((auction, at - at % (10 * SECOND_US)), (0, 0))
        expected[auction, at - at % (10 * SECOND_US)] = (number + 1, max(highest, price))
    table = answers.answer(QUERIES["J3"], few)
    starts = table["starttime"].cast(pa.int64()).to_pylist()
    columns = (
        table["auction"].to_pylist(),
        starts,
        table["number"].to_pylist(),
        table["highest"].to_pylist(),
    )
    assert {(a, s): (n, h) for a, s, n, h in zip(*columns, strict=True)} == expected


def test_of_equally_many_bids_the_higher_auction_wins(few: Dataset) -> None:
    """J4: one row for each sliding window."""
    expected = {
        start: max((number, auction) for auction, number in counts.items())
        for start, counts in sliding_counts(bids(few)).items()
    }
    table = answers.answer(QUERIES["J4"], few)
    starts = table["starttime"].cast(pa.int64()).to_pylist()
    found = zip(table["number"].to_pylist(), table["auction"].to_pylist(), strict=True)
    assert dict(zip(starts, found, strict=True)) == expected


@pytest.mark.parametrize("name", [query.name for query in ALL if query.timed])
def test_closed_windows_end_by_the_watermark(name: str, few: Dataset) -> None:
    """At the end of time all rows are there; before the first window's end there are none."""
    query, whole = QUERIES[name], answers.answer(QUERIES[name], few)
    base = EVENTS.settings.base_time_ms * 1000
    none = answers.closed_answer(query, few, whole, base)
    # A session ends ten seconds after its last event.
    some = answers.closed_answer(query, few, whole, base + (28 if name == "q11" else 10) * SECOND_US)
    every = answers.closed_answer(query, few, whole, base + 1000 * SECOND_US)
    assert none.num_rows < some.num_rows < whole.num_rows
    assert answers.fingerprint(every) == answers.fingerprint(whole)


def test_a_fingerprint_sees_values_and_how_often_they_are_there() -> None:
    """Not the order of rows, but which values stand in one row, and equal rows."""
    table = pa.table({"a": [1, 2, 2], "b": ["x", "y", "y"]})
    same = answers.fingerprint(table)
    assert answers.fingerprint(table.take([2, 0, 1])) == same
    assert answers.fingerprint(pa.table({"a": [1, 2, 2], "b": ["y", "x", "y"]})) != same
    assert answers.fingerprint(pa.table({"a": [1, 1, 2], "b": ["x", "x", "y"]})) != same
    assert answers.fingerprint(table.slice(0, 0)) == answers.Fingerprint(0, 0)


def test_what_engines_write_is_read_in_the_answers_types(tmp_path: Path) -> None:
    """Parquet by the order of columns, JSON by their names with times in microseconds; no hidden files."""
    schema = pa.schema({"price": pa.decimal128(23, 3), "at": pa.timestamp("us", tz="UTC")})
    at = 1_436_918_400_000_000
    expected = pa.table(
        {"price": [Decimal("1.250")], "at": pa.array([at]).cast(schema.field("at").type)}, schema
    )
    named = pa.table({"p": [Decimal("1.250")], "t": pa.array([at * 1000]).cast(pa.timestamp("ns"))})
    (tmp_path / "parquet" / "_spark_metadata").mkdir(parents=True)
    (tmp_path / "parquet" / "_spark_metadata" / "0").write_text("v1")
    (tmp_path / "parquet" / ".part.crc").write_text("no Parquet")
    pq.write_table(named, tmp_path / "parquet" / "part-0")
    (tmp_path / "json").mkdir()
    (tmp_path / "json" / "part-0.json").write_text(json.dumps({"price": "1.250", "at": at}) + "\n")
    (tmp_path / "json" / "part-1.json").write_text("")
    for kind in ("parquet", "json"):
        assert answers.written(tmp_path / kind, schema).read_all().equals(expected), kind


def test_all_layouts_have_the_same_events(cache: Any) -> None:
    """In two files, in a sequence, as JSON; and fewer events are the first of more."""
    whole = [EventSet(120_000, 1_000).layout(name).read("bids").sort_by("dateTime") for name in LAYOUTS]
    assert {answers.fingerprint(table) for table in whole} == {answers.fingerprint(whole[0])}
    first = EventSet(120_000, 1_000).first(50_000).layout(SEQUENCE).read("bids")
    assert first.equals(whole[0].slice(0, first.num_rows).combine_chunks()) or first.to_pylist() == (
        whole[0].slice(0, first.num_rows).to_pylist()
    )
    assert event_set(120_000).first(10**9) == event_set(120_000)
    assert EventSet(120_000, 1_000).layout(JSON).file_format == "json"


def test_micro_batches_have_about_half_a_million_events() -> None:
    """Two files each; few events still make several batches."""
    assert 2 * 5_000_000 / sequence_files(5_000_000) == 500_000
    assert sequence_files(200_000) == 4


def test_a_checksum_is_that_of_all_values_in_any_order() -> None:
    """Over slices, missing values, empty texts, and numbers whose sum is larger than 64 bits."""
    table = pa.table(
        {
            "n": pa.array([2**62, 2**62, None, 2**62, 2**62], pa.int64()),
            "text": ["é", None, "", "abc", "abc"],
            "price": pa.array(list(map(Decimal, ["0.001", "0", "-1", "2", "3"])), pa.decimal128(23, 3)),
            "rate": [0.5, 0.25, 0.0, -1.0, None],
            "at": pa.array([1, 2, None, 4, 5]).cast(pa.timestamp("us", tz="UTC")),
        }
    )  # fmt: skip
    whole = checksums.table_checksums(table)
    assert whole["n"] == 0
    assert whole["text"] == sum("éabcabc".encode())
    assert whole["price"] == 4001
    assert whole["at"] == 12
    pieces = pa.concat_tables([table.slice(3), table.slice(1, 2), table.slice(0, 1)])
    assert checksums.table_checksums(pieces) == whole
    for name, value in {"n": 1, "text": "abd", "rate": 2.0, "price": Decimal(1)}.items():
        changed = table.to_pylist()
        changed[3] = {**changed[3], name: value}
        assert checksums.table_checksums(pa.Table.from_pylist(changed, table.schema))[name] != whole[name]


def steps(program: str) -> set[str]:
    """The keys of a program's dict STEPS or PYTHON, without running it: its engine is not here."""
    tree = ast.parse((ROOT / "bench" / "peers" / program).read_text())
    dicts = [
        node.value
        for node in tree.body
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") in ("STEPS", "PYTHON")
    ]
    assert len(dicts) == 1
    return {key.value for key in dicts[0].keys}  # type: ignore[attr-defined]


def test_every_entry_of_a_query_is_written() -> None:
    """Each query has an answer; each named step is in the program of its engine, and each step is named."""
    for query in ALL:
        assert answers.schema_of(query)
        assert query.counted is None or query.counted in answers.schema_of(query).names
    for program, entries in {
        "bytewax_query_flow.py": [query.bytewax for query in ALL],
        "pathway_query.py": [query.pathway for query in ALL],
        "spark_query.py": [query.spark[7:] for query in ALL if str(query.spark).startswith("python:")],
    }.items():
        named = {entry for entry in entries if not isinstance(entry, Lacking)}
        assert named == steps(program), program


def test_headgate_is_asked_what_it_has() -> None:
    """All its queries but q10, which is about its sink, and the patterns, which stand by themselves; and the
    four jobs, two of them in Python too.
    """
    asked = {query.name for query in ALL if headgate_job.has(query.name)}
    numbered = {name for name in TABLES if name.startswith("q")}
    assert asked == {"J1", "J2", "J3", "J3-py", "J4", "J4-py", *numbered} - {"q10"}


def test_rows_are_corrected_where_headgate_corrects_them(few: Dataset) -> None:
    """Every engine is told so; rows that are replaced together have columns of the answer as their key."""
    env = hg.Environment(parallelism=1)
    for query in ALL:
        if query.name in TABLES:
            table = TABLES[query.name](Inputs(env, few.directory))
            assert table.schema.updating == query.updating, query.name
        assert set(query.key) <= set(answers.schema_of(query).names), query.name
        assert query.updating or not query.key, query.name


CHANGED = {"n": [1, 2, 1, 5, 7, 7], "text": ["a", "b", "a", "c", "d", "d"], CHANGE: [0, 0, 1, 2, 0, 3]}
"""A row comes and is corrected, one comes and stays, one comes and goes."""


def changes() -> pa.Table:
    """The changes after which two rows are left."""
    return pa.table(CHANGED, pa.schema({"n": pa.int64(), "text": pa.string(), CHANGE: pa.int8()}))


def test_a_fingerprint_of_changes_is_of_the_rows_that_are_left() -> None:
    """In any order; a row that did not go is seen."""
    left = answers.fingerprint(pa.table({"n": [2, 5], "text": ["b", "c"]}))
    assert answers.fingerprint(changes()) == left
    assert answers.fingerprint(changes().take([5, 3, 1, 0, 2, 4])) == left
    assert answers.fingerprint(changes().slice(0, 5)) != left
    assert answers.fingerprint(changes().take([0, 1, 3, 4, 5, 5])) != left


def test_checksums_of_changes_are_of_the_rows_that_are_left() -> None:
    """The sink subtracts rows that go, whatever else is in their batch."""
    context = SinkWriterContext("sink", 0, 1, 1, "job")
    for cut in range(7):
        writer = checksums.ChecksumWriter(context, ["n", "text"])
        for part in (changes().slice(0, cut), changes().slice(cut)):
            for batch in part.to_batches():
                writer.write(batch)
        [[_, _, records, columns]] = writer.prepare_commit()
        assert records == 2
        assert {name: int(value) % 2**64 for name, value in columns.items()} == {"n": 7, "text": 197}


def test_changes_are_read_as_engines_write_them(tmp_path: Path) -> None:
    """As Parquet with kinds of changes, as canal-json, and as the rows that are left."""
    schema = pa.schema({"n": pa.int64(), "at": pa.timestamp("us", tz="UTC")})
    at = "2015-07-15T00:00:00.25Z"
    lines = [("INSERT", 1), ("INSERT", 2), ("DELETE", 1), ("INSERT", 5)]
    text = [json.dumps({"data": [{"n": n, "at": at}], "type": kind}) + "\n" for kind, n in lines]
    times = pa.array([1_436_918_400_250_000] * 4).cast(schema.field("at").type)
    for folder in ("canal-json", "parquet", "rows"):
        (tmp_path / folder).mkdir()
    (tmp_path / "canal-json" / "part-0").write_text("".join(text))
    kinds = pa.array([0, 0, 1, 2], pa.int8())
    table = pa.table({"n": [1, 2, 1, 5], "at": times, CHANGE: kinds})
    pq.write_table(table, tmp_path / "parquet" / "part-0.parquet")
    left = pa.table({"n": [2, 5], "at": times[:2]}, schema)
    pq.write_table(left, tmp_path / "rows" / "part-0.parquet")
    for folder in ("canal-json", "parquet", "rows"):
        found = answers.fingerprint(answers.written(tmp_path / folder, schema, updating=True))
        assert found == answers.fingerprint(left), folder
