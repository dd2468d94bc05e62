"""The program's own functions within tables: of values, of rows and of batches."""

from __future__ import annotations

import datetime as dt
import threading
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from mini_jobs import environment

import headgate as hg
import headgate.functions as F  # noqa: N812  # as PySpark's users write it
from headgate.relational.spark_types import text_of

if TYPE_CHECKING:
    import polars as pl

PRICES = pa.schema({"at": pa.int64(), "user": pa.string(), "price": pa.int64()})
ROWS = [
    {"at": 0, "user": "ada", "price": 3},
    {"at": 500, "user": "bob", "price": None},
    {"at": 1_000, "user": "ada", "price": 40},
]


def prices(parallelism: int = 1) -> Any:
    """The rows as a table with event time."""
    stream = environment(parallelism).from_collection(ROWS).with_event_time("at", "10s")
    return stream.to_table(PRICES)


# -- of values


def test_a_function_of_values_is_a_column() -> None:
    """With one column, several, constants, or none; null is None, and None is null."""

    @F.udf("bigint")
    def doubled(n: int | None) -> int | None:
        return None if n is None else 2 * n

    joined = F.udf(lambda *parts: "-".join(map(str, parts)))
    found = prices().select(
        doubled("price").alias("double"),
        joined(F.col("user"), F.col("price") + 1, F.lit(7)).alias("text"),
        F.udf(lambda: 1, returnType="int")().alias("one"),
        (doubled(doubled("price")) + 1).alias("more"),
    )
    assert found.dtypes == [("double", "bigint"), ("text", "string"), ("one", "int"), ("more", "bigint")]
    assert [tuple(row.values()) for row in found.collect()] == [
        (6, "ada-4-7", 1, 13),
        (None, "bob-None-7", 1, None),
        (80, "ada-41-7", 1, 161),
    ]
    assert prices().select(doubled("price")).columns == ["doubled(price)"]


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("array<bigint>", [1, None]),
        ("map<string, double>", [("a", 0.5)]),
        ("struct<a: int, b: array<string>>", {"a": 1, "b": ["x"]}),
        ("decimal(9,2)", Decimal("1.50")),
        ("timestamp", dt.datetime(2024, 5, 6, 7, tzinfo=dt.UTC)),
        ("date", dt.date(2024, 5, 6)),
        (pa.large_string(), "x"),
        ("binary", b"x"),
    ],
    ids=str,
)
def test_types_of_a_function_are_texts_or_arrows(kind: Any, value: Any) -> None:
    """Nested ones too; the value comes back as it was, and goes in as it came."""
    made = F.udf(lambda _: value, kind)
    again = F.udf(lambda given: repr(given), "string")
    found = prices().select(made("user").alias("x")).with_column("text", again("x")).take(1)[0]
    assert found["x"] == (dict(value) if isinstance(found["x"], dict) else value)
    if isinstance(value, dt.datetime):
        assert found["x"].utcoffset() == dt.timedelta(0)
    else:
        assert found["text"] == repr(value)


def test_types_of_pyspark_are_taken() -> None:
    """By the text that they give of themselves."""
    from pyspark.sql.types import ArrayType, LongType

    assert prices().select(F.udf(lambda n: [n], ArrayType(LongType()))("price").alias("x")).dtypes == [
        ("x", "array<bigint>")
    ]
    decorated = F.udf(LongType())(lambda n: n)
    assert text_of(decorated.returnType) == "bigint"


def test_a_function_that_raises_names_itself_and_the_values() -> None:
    """With the user's line, and only the columns that it was given."""

    def inverse(n: int, _user: str) -> float:
        return 1 / (n - 40)

    found = prices().filter(F.col("price").isNotNull()).select(F.udf(inverse, "double")("price", "user"))
    with pytest.raises(hg.HeadgateError) as caught:
        found.collect()
    text = str(caught.value)
    assert "raised ZeroDivisionError" in text
    assert "for record inverse(price=40, user='ada')" in text
    assert "return 1 / (n - 40)" in text


def test_a_function_that_returns_another_type_is_an_error() -> None:
    """No null as in PySpark, which would hide it."""
    wrong = prices().select(F.udf(lambda n: "dear" if n == 40 else n, "bigint")("price"))
    wanted = r"<lambda>\(price=40\) returned 'dear' of type str; expected bigint; let the function convert it"
    with pytest.raises(hg.UsageError, match=wanted):
        wrong.collect()


def test_a_function_is_called_only_for_rows_that_ask() -> None:
    """Behind a condition, as with every part that may fail."""
    strict = F.udf(lambda n: 100 // n, "bigint")
    safe = prices().select(F.when(F.col("price").isNotNull(), strict("price")).otherwise(0).alias("x"))
    assert [row["x"] for row in safe.collect()] == [33, 0, 2]
    kept = prices().filter(F.col("price").isNotNull()).filter(strict("price") > 2)
    assert [row["price"] for row in kept.collect()] == [3]


def test_wrong_functions_of_values_are_refused() -> None:
    """Async, blocking, with another number of arguments, of no type, or not to be sent to workers."""

    async def later(n: int) -> int:
        return n

    @hg.blocking
    def slow(n: int) -> int:
        return n

    with pytest.raises(
        hg.PlanError, match=r"udf\(\) \(test_table_functions.py:\d+\) got later, an `async def`"
    ):
        F.udf(later, "bigint")
    with pytest.raises(hg.PlanError, match="blocking"):
        F.udf(slow, "bigint")
    with pytest.raises(hg.PlanError, match=r"takes \(n\)"):
        F.udf(lambda n: n, "bigint")("price", "user")
    with pytest.raises(hg.PlanError, match=r"udf\(\) .*no column type 'bigin'"):
        F.udf("bigin")(lambda n: n)
    with pytest.raises(hg.PlanError, match="did you mean 'price'"):
        prices().select(F.udf(lambda n: n, "bigint")("pice"))
    lock = threading.Lock()
    with pytest.raises(hg.HeadgateError, match="closure variable 'lock'"):
        prices().select(F.udf(lambda n: lock and n, "bigint")("price")).collect()


# -- of batches


def by_arrow(batch: pa.RecordBatch) -> pa.RecordBatch:
    """A record batch."""
    assert isinstance(batch, pa.RecordBatch)
    return pa.record_batch({"n": pc.multiply(batch.column("price"), 2), "at": batch.column("at")})


def by_table(batch: pa.Table) -> pa.Table:
    """A table of Arrow."""
    assert isinstance(batch, pa.Table)
    return pa.table({"at": batch["at"], "n": pc.multiply(batch["price"], 2)})


def by_polars(batch: pl.DataFrame) -> pl.DataFrame:
    """A frame of Polars."""
    import polars

    assert isinstance(batch, polars.DataFrame)
    return batch.select("at", n=polars.col("price") * 2)


AS_ARROW = pa.schema({"n": pa.int64(), "at": pa.int64()})


@pytest.mark.parametrize("function", [by_arrow, by_table, by_polars])
@pytest.mark.parametrize(
    "schema", ["n bigint, at bigint", pa.schema({"n": pa.int64(), "at": pa.int64()})], ids=type
)
def test_a_function_of_batches(function: Any, schema: Any) -> None:
    """It gets what it is annotated with; its columns come in the order of the schema."""
    found = prices().map_batches(function, schema)
    assert found.dtypes == [("n", "bigint"), ("at", "bigint")]
    assert found.schema.event_time == "at"
    assert [tuple(row.values()) for row in found.collect()] == [(6, 0), (None, 500), (80, 1_000)]


def test_frames_say_what_a_function_gets() -> None:
    """Also where nothing is annotated; what is no form is refused."""
    for frames, kind in (("polars", "DataFrame"), ("arrow", "RecordBatch"), ("table", "Table")):

        def named(batch: Any) -> Any:
            return pa.table({"kind": [type(batch).__name__]})

        assert prices().map_batches(named, "kind string", frames=frames).take(1) == [{"kind": kind}]
    with pytest.raises(hg.PlanError, match="got frames 'pandas'; expected one of arrow, table, polars"):
        prices().map_batches(by_arrow, "n bigint", frames="pandas")


def test_what_is_declared_wider_is_widened_and_nothing_else() -> None:
    """Polars' counts are 32 bits wide, its texts large; a double is no bigint."""
    import polars

    def counts(batch: pl.DataFrame) -> pl.DataFrame:
        return batch.group_by("user").agg(n=polars.len()).sort("user")

    assert prices().map_batches(counts, "user string, n bigint").take(1) == [{"user": "ada", "n": 2}]


BAD: dict[str, tuple[Any, str, str]] = {
    "another type": (
        lambda batch: pa.record_batch({"n": [0.5]}),
        "n bigint",
        r"operator 'map_batches' .*column 'n' of what <lambda> returned is double; expected bigint",
    ),
    "too large a decimal": (
        lambda batch: pa.record_batch({"n": [Decimal("12345.67")]}),
        "n decimal(5,2)",
        r"column 'n' .* is decimal\(7,2\); expected decimal\(5,2\)",
    ),
    "a column less": (
        lambda batch: pa.record_batch({"n": [1]}),
        "n bigint, m string",
        r"<lambda> returned the columns n; expected n: bigint, m: string, as the schema",
    ),
    "a column more": (
        lambda batch: batch,
        "price bigint",
        "the columns at, user, price; expected price",
    ),
    "a null": (lambda batch: batch.select(["price"]), "price bigint not null", "column 'price' has a null"),
    "no batch": (
        lambda batch: [1, 2],
        "n bigint",
        r"returned \[1, 2\] of type list; expected a pyarrow",
    ),
    "null event time": (
        lambda batch: pa.record_batch({"at": pa.array([None], pa.int64())}),
        "at bigint",
        "event time 'at' is null",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_a_batch_that_does_not_fit_its_schema(case: str) -> None:
    """Named: operator, function, column, what came, what was expected."""
    function, schema, message = BAD[case]
    with pytest.raises(hg.UsageError, match=message):
        prices().map_batches(function, schema).collect()


def test_a_function_of_batches_that_raises_is_shown() -> None:
    """With its line, and how many rows there were."""

    def broken(batch: pa.RecordBatch) -> pa.RecordBatch:
        raise KeyError("no")

    with pytest.raises(
        hg.HeadgateError, match=r"raised KeyError.* broken\(\) of a batch of \d rows"
    ) as caught:
        prices().map_batches(broken, "n bigint").collect()
    assert 'raise KeyError("no")' in str(caught.value)


def seen_times(table: Any) -> list[tuple[Any, int | None]]:
    """The rows' values of `n`, each with the event time that a function of rows sees."""

    class Times(hg.ProcessFunction[Any, Any]):
        def process(self, record: Any, ctx: hg.Context) -> Any:
            yield record["n"], ctx.timestamp

    found: list[tuple[Any, int | None]] = table.to_stream().process(Times()).collect()
    return found


def test_event_time_of_a_function_of_batches() -> None:
    """Of the column, whatever it did to it; of the row, if there are as many; else none."""
    at = pa.array([7, 8], pa.int64())
    moved = prices().map_batches(lambda batch: pa.record_batch({"n": at, "at": at}), "n bigint, at bigint")
    assert set(seen_times(moved)) == {(7, 7), (8, 8)}
    same = prices().map_batches(lambda batch: batch.select(["price"]).rename_columns(["n"]), "n bigint")
    assert same.schema.event_time is None
    assert seen_times(same) == [(3, 0), (None, 500), (40, 1_000)]
    assert {time for _, time in seen_times(prices().map_batches(longer, "n bigint"))} == {None}
    with pytest.raises(hg.PlanError, match="event time has none"):
        same.group_by(F.window("n", "1s"))


def longer(batch: pa.RecordBatch) -> pa.RecordBatch:
    """One row more than came."""
    return pa.record_batch({"n": pa.array(range(batch.num_rows + 1), pa.int64())})


def test_a_function_of_batches_is_followed_by_windows(tmp_path: Any) -> None:
    """Across two subtasks, with rows dropped and doubled: no row is late, and the answer is exact."""

    def doubled(batch: pl.DataFrame) -> pl.DataFrame:
        import polars

        return polars.concat([batch, batch]).filter(polars.col("price").is_not_null()).sort("at")

    table = prices(2).map_batches(doubled, PRICES)
    found = table.group_by("user", F.window("at", "1s")).agg(F.sum("price").alias("all"), uid="w").collect()
    assert sorted((r["user"], r["window"]["start"].second, r["all"]) for r in found) == [
        ("ada", 0, 6),
        ("ada", 1, 80),
    ]


def test_results_of_windows_keep_event_time_through_a_function() -> None:
    """By their column `window`: windows of windows."""
    counts = prices().group_by("user", F.window("at", "1s")).agg(F.count("*").alias("n"), uid="w")
    mapped = counts.as_rows(
        lambda row: {"window": row["window"], "n": row["n"]}, counts.schema.to_arrow().remove(0)
    )
    assert mapped.schema.event_time == "window"
    assert sorted(seen_times(mapped)) == [(1, 999), (1, 999), (1, 1_999)]


# -- of rows


def test_a_function_of_rows_gives_one_several_or_none() -> None:
    """A dict, a list, a generator, None; each row with the event time of its own."""

    def parts(row: dict[str, Any]) -> Any:
        if row["price"] is None:
            return None
        one = {"n": row["price"], "user": row["user"]}
        return one if row["price"] < 10 else (one | {"n": n} for n in (1, 2))

    table = prices().as_rows(parts, "n bigint, user string")
    assert table.collect() == [{"n": 3, "user": "ada"}, {"n": 1, "user": "ada"}, {"n": 2, "user": "ada"}]
    assert seen_times(table) == [(3, 0), (1, 1_000), (2, 1_000)]


def test_event_time_of_a_function_of_rows_is_its_column() -> None:
    """If the result has it."""
    later = prices().as_rows(lambda row: {"n": 1, "at": row["at"] + 5}, "n int, at bigint")
    assert later.schema.event_time == "at"
    assert seen_times(later) == [(1, 5), (1, 505), (1, 1_005)]


@pytest.mark.parametrize(
    ("result", "message"),
    [
        (
            7,
            r"for record \{'at': 0.*<lambda> returned 7 of type int; expected a dict, a list of",
        ),
        ({"m": 1}, r"<lambda> returned \{'m': 1\}; expected the columns n: bigint"),
        ({"n": 1, "m": 1}, r"expected the columns n: bigint, as the schema of as_rows\(\) says"),
        ({"n": "x"}, r"column 'n' of record \{'n': 'x'\} is 'x' of type str; expected bigint"),
    ],
)
def test_a_row_that_does_not_fit_its_schema(result: Any, message: str) -> None:
    """Named: operator, function, row."""
    with pytest.raises(hg.UsageError, match=message):
        prices().as_rows(lambda row: result, "n bigint").collect()


def test_wrong_functions_of_tables_are_refused() -> None:
    """At the line that gives them."""
    with pytest.raises(hg.PlanError, match=r"map_batches\(\) \(test_table_functions.py:\d+\) got 7; exp"):
        prices().map_batches(7, "n bigint")
    with pytest.raises(hg.PlanError, match=r"takes \(a, b\); expected a function of one row"):
        prices().as_rows(lambda a, b: None, "n bigint")
    with pytest.raises(hg.PlanError, match=r"as_rows\(\) .*'n' in 'n' is no column"):
        prices().as_rows(lambda row: row, "n")
    with pytest.raises(hg.PlanError, match="schema is 7"):
        prices().as_rows(lambda row: row, 7)


def test_a_blocking_function_runs_beside_the_loop() -> None:
    """As in streams; the rest of the table is as it was."""

    @hg.blocking
    def slow(batch: pa.RecordBatch) -> pa.RecordBatch:
        return batch.select(["price"])

    found = prices().map_batches(slow, "price bigint").filter(F.col("price") > 3)
    assert found.collect() == [{"price": 40}]
    found.to_stream().print()
    assert "runs beside the loop" in found._environment.explain()
