"""Tables that have other rows than their input: unions and exploded arrays, with their event time."""

from __future__ import annotations

import datetime as dt
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from mini_jobs import RESTART_AT_ONCE, TINY, Halting, environment

import headgate as hg
import headgate.functions as F  # noqa: N812  # as PySpark's users write it

CARTS = pa.schema(
    {
        "at": pa.int64(),
        "user": pa.string(),
        "items": pa.list_(pa.string()),
        "prices": pa.map_(pa.string(), pa.int64()),
    }
)
ROWS = [
    {"at": 0, "user": "ada", "items": ["tea", None, "jam"], "prices": [("tea", 3), ("jam", None)]},
    {"at": 10, "user": "bob", "items": [], "prices": []},
    {"at": 20, "user": "cid", "items": None, "prices": None},
    {"at": 30, "user": "dan", "items": ["rye"], "prices": [("rye", 2)]},
]


def table(env: hg.Environment, rows: list[dict[str, Any]], schema: pa.Schema) -> Any:
    """A table of rows from memory, with event time if there is a column `at`."""
    stream = env.from_collection(rows)
    timed = stream.with_event_time("at", "100s") if "at" in schema.names else stream
    return timed.to_table(schema)


def carts() -> Any:
    """The table of carts, of an environment of its own."""
    return table(environment(1), ROWS, CARTS)


# -- several rows of one


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        (F.explode("items"), [("ada", "tea"), ("ada", None), ("ada", "jam"), ("dan", "rye")]),
        (
            F.explode_outer("items"),
            [("ada", "tea"), ("ada", None), ("ada", "jam"), ("bob", None), ("cid", None), ("dan", "rye")],
        ),
        (F.posexplode("items"), [("ada", 0, "tea"), ("ada", 1, None), ("ada", 2, "jam"), ("dan", 0, "rye")]),
        (
            F.posexplode_outer("prices"),
            [
                ("ada", 0, "tea", 3), ("ada", 1, "jam", None), ("bob", None, None, None),
                ("cid", None, None, None), ("dan", 0, "rye", 2),
            ],
        ),
        (F.explode("prices"), [("ada", "tea", 3), ("ada", "jam", None), ("dan", "rye", 2)]),
    ],
    ids=["array", "array outer", "array with places", "map outer with places", "map"],
)  # fmt: skip
def test_a_row_for_each_element(made: Any, expected: list[tuple[Any, ...]]) -> None:
    """In the order of the elements; outer ones keep rows without elements."""
    assert [tuple(row.values()) for row in carts().select("user", made).collect()] == expected


def test_names_of_made_columns_are_pysparks() -> None:
    """`col`, `pos`, `key` and `value`, if there is no alias; their nulls are known."""
    found = carts().select(F.posexplode("prices"))
    assert found.columns == ["pos", "key", "value"]
    assert [field.nullable for field in found.schema] == [False, False, True]
    assert carts().select(F.explode("items")).columns == ["col"]
    assert carts().select(F.posexplode("prices").alias("n", "what", "price")).columns == [
        "n",
        "what",
        "price",
    ]
    assert carts().with_column("item", F.explode("items")).columns == [*CARTS.names, "item"]
    assert carts().explode("prices").columns == ["at", "user", "items", "key", "value"]
    assert carts().explode("items").columns == CARTS.names


def test_what_is_not_used_is_not_made() -> None:
    """Filters, computed columns and constants after it; also where nothing of the elements is read."""
    rows = carts().select("user", F.posexplode("items").alias("n", "item"))
    upper = rows.filter(F.col("n") > 0).select(F.upper("item").alias("item"))
    assert [row["item"] for row in upper.collect()] == [None, "JAM"]
    assert carts().select(F.explode("items")).select(F.lit(1).alias("one")).collect() == [{"one": 1}] * 4
    twice = carts().select(F.explode(F.split(F.lit("a,b"), ",")).alias("x"), "items").explode("items")
    assert len(twice.collect()) == 8


def test_long_arrays_become_several_batches() -> None:
    """More elements than fit in one batch, all in order."""
    rows = [{"items": [str(n) for n in range(40_000)]}, {"items": ["x"]}]
    found = table(environment(1), rows, pa.schema({"items": pa.list_(pa.string())})).explode("items")
    assert [row["items"] for row in found.collect()] == [*map(str, range(40_000)), "x"]


def test_rows_of_elements_have_the_event_time_of_their_row() -> None:
    """They are counted in its windows, and no record becomes late by it."""
    items = carts().select("at", F.explode("items").alias("item"))
    found = items.group_by("at", F.window("at", "10ms")).agg(F.count("*").alias("n"), uid="n").collect()
    assert sorted((row["at"], row["n"]) for row in found) == [(0, 3), (30, 1)]


def test_wrong_uses_of_explode_are_refused() -> None:
    """Two of them, one within an expression, of no array, with too few names."""
    with pytest.raises(hg.PlanError, match=r"select\(\) \(test_table_rows.py:\d+\).*both make rows"):
        carts().select(F.explode("items"), F.explode("prices"))
    with pytest.raises(hg.PlanError, match="gives several rows"):
        carts().select(F.upper(F.explode("items")))
    with pytest.raises(hg.PlanError, match="of string; expected an array or a map"):
        carts().select(F.explode("user"))
    with pytest.raises(hg.PlanError, match=r"gives 2 columns \(key, value\) and has 1 names"):
        carts().with_column("x", F.explode("prices"))
    with pytest.raises(hg.PlanError, match=r"'user' is there twice"):
        carts().explode("items", "user")
    with pytest.raises(hg.PlanError, match=r"explode\(\) .*there is no column 'itens'; did you mean 'items'"):
        carts().explode("itens")


# -- unions


def test_a_union_goes_by_place() -> None:
    """Names of the left, the type that both fit into; duplicates stay."""
    env = environment(2)
    left = table(env, [{"n": 1, "x": "a"}], pa.schema({"n": pa.int32(), "x": pa.string()}))
    right = table(
        env, [{"m": 2**40, "y": None}, {"m": 1, "y": "a"}], pa.schema({"m": "int64", "y": "string"})
    )
    found = left.union(right)
    assert found.dtypes == [("n", "bigint"), ("x", "string")]
    rows = sorted((row["n"], row["x"]) for row in found.union(left).collect())
    assert rows == [(1, "a"), (1, "a"), (1, "a"), (2**40, None)]


def test_a_union_by_name() -> None:
    """In the order of the left; a missing column is null, if that is allowed."""
    env = environment(2)
    left = table(env, [{"n": 1, "x": "a"}], pa.schema({"n": pa.int64(), "x": pa.string()}))
    right = table(env, [{"Y": 5, "N": 2}], pa.schema({"Y": pa.int64(), "N": pa.int64()}))
    with pytest.raises(
        hg.PlanError, match=r"union_by_name\(\) \(test_table_rows.py:\d+\): column 'x' is in one"
    ):
        left.union_by_name(right)
    found = left.unionByName(right, allowMissingColumns=True)
    assert found.columns == ["n", "x", "Y"]
    rows = [tuple(row.values()) for row in found.collect()]
    assert sorted(rows) == [(1, "a", None), (2, None, 5)]


def test_wrong_unions_are_refused() -> None:
    """Other numbers of columns, other types, no table, another environment."""
    env = environment(2)
    one = table(env, [], pa.schema({"n": pa.int64()}))
    two = table(env, [], pa.schema({"n": pa.int64(), "x": pa.string()}))
    lists = table(env, [], pa.schema({"n": pa.list_(pa.int64())}))
    with pytest.raises(hg.PlanError, match=r"union\(\) \(test_table_rows.py:\d+\): .*have 1 and 2 columns"):
        one.union(two)
    with pytest.raises(
        hg.PlanError, match=r"column 'n' is bigint in one table and array<bigint> in the other"
    ):
        one.union(lists)
    with pytest.raises(hg.PlanError, match="got list; expected a table"):
        one.union([])
    with pytest.raises(hg.PlanError, match="another Environment"):
        one.union(table(environment(2), [], pa.schema({"n": pa.int64()})))


def test_watermarks_of_a_union_combine() -> None:
    """Two sources, one of them far ahead: no record of the other is late, and the answer is exact."""
    env = environment(2)
    schema = pa.schema({"at": pa.int64(), "kind": pa.string()})
    ahead = env.from_collection([{"at": at, "kind": "a"} for at in range(100_000, 200_000, 500)])
    behind = env.from_collection([{"at": at, "kind": "b"} for at in range(0, 100_000, 500)])
    both = ahead.with_event_time("at").to_table(schema).union(behind.with_event_time("at").to_table(schema))
    assert both.schema.event_time == "at"
    found = both.group_by("kind", F.window("at", "50s")).agg(F.count("*").alias("n"), uid="n").collect()
    seconds = sorted((row["kind"], row["window"]["start"].timestamp(), row["n"]) for row in found)
    assert seconds == [("a", 100.0, 100), ("a", 150.0, 100), ("b", 0.0, 100), ("b", 50.0, 100)]


def test_event_time_of_a_union_is_of_one_column() -> None:
    """At another place, or on one side only, there is none: windows are refused."""
    env = environment(2)
    left = table(env, [], pa.schema({"at": pa.int64(), "n": pa.int64()}))
    right = table(env, [], pa.schema({"n": pa.int64(), "at": pa.int64()}))
    assert left.union(right).schema.event_time is None
    assert left.union_by_name(right).schema.event_time == "at"
    untimed = table(env, [], pa.schema({"n": pa.int64(), "m": pa.int64()}))
    assert left.union(untimed).schema.event_time is None


def test_sources_below_a_union_read_only_what_is_used(tmp_path: Path) -> None:
    """The columns that come after the union, on each side under its own name."""
    for name, at in (("a", dt.datetime(2024, 5, 6)), ("b", dt.datetime(2024, 5, 7))):
        pq.write_table(
            pa.table({f"{name}_n": [1, 2], "at": [at, at], "note": ["x", "y"]}), tmp_path / f"{name}.pq"
        )
    env = environment(2)
    left, right = (env.table(tmp_path / f"{name}.pq") for name in ("a", "b"))
    found = left.union(right).filter(F.col("a_n") > 1).select((F.col("a_n") * 10).alias("ten"))
    assert found.collect() == [{"ten": 20}] * 2
    found.write_json(tmp_path / "out", uid="out")
    sources = [vertex.chain[0].source for vertex in env.plan().vertices[:2]]  # type: ignore[attr-defined]
    assert sorted(source.columns for source in sources) == [["a_n"], ["b_n"]]


# -- whole jobs


def test_rows_are_made_once_across_a_crash(tmp_path: Path) -> None:
    """A union of a source and itself, exploded, through functions of all kinds, counted and written."""
    rows = [{"at": 10 * n, "user": f"u{n % 3}", "items": ["a", "b"][: n % 3]} for n in range(240)]
    schema = pa.schema({"at": pa.int64(), "user": pa.string(), "items": pa.list_(pa.string())})
    env = environment(2, {**TINY, **RESTART_AT_ONCE})
    env.checkpoints(every="20ms", storage=str(tmp_path / "checkpoints"))
    source = env.from_source(Halting(7300, 60, rows[:120], rows[120:]), uid="in")
    carts = source.with_event_time("at", "2s").to_table(schema)
    doubled = carts.union(carts).explode("items", "item")
    lower = F.udf(lambda item: item.upper(), "string")
    kept = doubled.select("at", "user", lower("item").alias("item")).as_rows(
        lambda row: [row, row] if row["item"] == "B" else row, "at bigint, user string, item string"
    )
    mapped = kept.map_batches(
        lambda batch: batch.filter(pc.equal(batch["item"], "B")), kept.schema.to_arrow()
    )
    counts = mapped.group_by("user", F.window("at", "1s")).agg(F.count("*").alias("n"), uid="counts")
    counts.write_json(tmp_path / "out", uid="out", partition_by="user")
    assert env.execute("rows").restarts > 0
    expected = Counter((row["user"], row["at"] // 1_000) for row in rows if len(row["items"]) == 2)
    found = {}
    for file in (tmp_path / "out").rglob("user=*/part-*.jsonl"):
        for line in file.read_text().splitlines():
            made = json.loads(line)
            second = int(dt.datetime.fromisoformat(made["window"]["start"]).timestamp())
            key = file.parent.name.partition("=")[2], second
            assert key not in found
            found[key] = made["n"]
    assert found == {key: 4 * n for key, n in expected.items()}
