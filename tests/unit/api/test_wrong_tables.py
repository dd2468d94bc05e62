"""Programs as PySpark's users would write them, and wrong here: each is told what to write."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

import headgate as hg
import headgate.functions as F  # noqa: N812  # as users of PySpark write it
from headgate.testing import MiniCluster

_NUMBER, _TEXT = pa.int64(), pa.string()
SCHEMA = pa.schema(
    {"at": _NUMBER, "user": _TEXT, "price": _NUMBER, "tags": pa.list_(_TEXT), "open": pa.bool_()}
)
PRICE, OPEN, USER = F.col("price"), F.col("open"), F.col("user")
WINDOW = F.window("at", "10s")
Program = Callable[[Any], Any]


@pytest.fixture
def stream() -> hg.DataStream[Any]:
    """A stream of bids with event time."""
    env = hg.Environment(parallelism=1, executor=MiniCluster())
    row = {"at": 1, "user": "a", "price": 3, "tags": ["x"], "open": True}
    return env.from_collection([row]).with_event_time("at")


@pytest.fixture
def bids(stream: hg.DataStream[Any]) -> hg.Table:
    """The stream as a table."""
    return stream.to_table(SCHEMA)


COUNTED = r"'count'\? the columns are user, count$"
RESERVED = "a column is called '__change', which is kept for what a row does to a corrected table"
WRONG: list[tuple[Program, str]] = [
    # the column that says what a row of a changelog does
    (lambda t: t.group_by("user").count(uid="n").filter(F.col("__change") == 0), COUNTED),
    (lambda t: t.group_by("user").count(uid="n").select("user", "__change"), COUNTED),
    (lambda t: t.group_by("user").count(uid="n").drop("__change"), COUNTED),
    (lambda t: t.group_by("user").count(uid="n").select("cuont"), COUNTED),
    (lambda t: t.rename({"price": "__change"}), RESERVED),
    (lambda t: t.select(PRICE.alias("__change")), RESERVED),
    (lambda t: t.group_by("user").count(uid="n").with_column("__change", F.lit(1)), RESERVED),
    (lambda t: t.group_by("user").agg(F.sum("price").alias("__change"), uid="n"), RESERVED),
    (lambda t: t.top_n(1, "user", "price", rank="__change", uid="n"), RESERVED),
    # names
    (lambda t: t.select("usr"), r"select\(\) \(.*'usr'; did you mean 'user'\? the columns are at, user"),
    (lambda t: t.filter(t["prise"] > 1), r"table\[\.\.\.\] \(.*did you mean 'price'"),
    (lambda t: t[0], r"table\[\.\.\.\] \(.*got 0; expected the name of a column"),
    (lambda t: t.group_by("usr", WINDOW), r"group_by\(\) \(.*did you mean 'user'"),
    (lambda t: t.select(F.split_part("user", "/", 1)), r"'/'; .*the text itself write F.lit\('/'\)"),
    (lambda t: t.with_column("x", "price"), r"got 'price'; write F.col\(...\) for a column, or F.lit"),
    (lambda t: t.select(F.expr("price + 1")), r"F.expr\(\) takes a name and arguments, no SQL"),
    # conditions
    (lambda t: t.filter("price > 1"), r"is string, not a condition; compare columns, as in F.col"),
    (lambda t: t.filter(PRICE), r"price is bigint, not a condition; compare"),
    (lambda t: t.filter(PRICE > 1 and OPEN), r"combine conditions with & \| ~"),
    (lambda t: t.filter(PRICE > 1 & OPEN), r"got int, boolean; put each comparison in parentheses"),
    (lambda t: t.filter(PRICE == None), r"compared with None, .*; write isNull\(\) or isNotNull\(\)"),  # noqa: E711
    (lambda t: t.filter(PRICE != None), r"compared with None"),  # noqa: E711
    (lambda t: t.filter(lambda row: row["price"] > 1), r"of type function cannot stand as a value"),
    # types
    (lambda t: t.select(PRICE.cast(int)), r"cast\(\) got <class 'int'>; expected the name of a type"),
    (lambda t: t.select(PRICE.cast("integr")), r"no column type 'integr'; expected one of boolean"),
    (lambda t: t.select(F.col("tags")[0]), r"F.get\(column, F.lit\(0\)\) for an element"),
    (lambda t: t.select(lambda row: row), r"select\(\) \(.*expected a column or the name of one"),
    # aggregates and windows
    (lambda t: t.select(F.sum("price")), r"is an aggregate; it goes into group_by"),
    (lambda t: t.group_by(WINDOW, F.window("at", "1s")), r"got 2 windows; expected one at most"),
    (lambda t: t.group_by("user", WINDOW).agg({"price": "sum"}), r"agg\(\) \(.*expected an aggregate"),
    (lambda t: t.group_by("user", WINDOW).agg(F.sum("price") + 1), r"select\(\) after it"),
    (lambda t: t.group_by("user", WINDOW).agg(F.sum("user")), r"sum\(\) takes a number; got string"),
    (lambda t: F.window("at", "10 sekunden"), r"'10 sekunden'; expected a number and a unit such as"),
    (lambda t: list(t), r"was iterated over; collect\(\) returns its rows"),
]  # fmt: skip


@pytest.mark.parametrize(("program", "message"), WRONG)
def test_a_wrong_program_is_told_what_to_write(program: Program, message: str, bids: hg.Table) -> None:
    """In one sentence, before anything runs."""
    with pytest.raises(hg.PlanError, match=message):
        program(bids)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("fliter", r"a table has no 'fliter'; did you mean 'filter'\?"),
        ("pirce", r"did you mean 'price'\?"),
        ("agg", r"write group_by\(F.window"),
        ("orderBy", r"sort what collect\(\) returns"),
        ("show", r"preview\(n\)"),
        ("withColumnRenamed", r'write rename\(\{"old": "new"\}\)'),
        ("write", r"write_parquet\(path\)"),
        ("key_by", r"write to_stream\(\) before"),
    ],
)
def test_a_call_that_tables_lack_names_the_one_to_write(name: str, message: str, bids: hg.Table) -> None:
    """It is an AttributeError, as of any object."""
    with pytest.raises(AttributeError, match=message):
        getattr(bids, name)


@pytest.mark.parametrize(
    ("name", "message"),
    [("cats", "did you mean 'cast'"), ("startswith", r"write F.startswith\(column"), ("qqq", "F.name")],
)
def test_a_call_that_columns_lack_names_the_function(name: str, message: str) -> None:
    """Functions of PySpark's columns that are functions of `F` here."""
    with pytest.raises(AttributeError, match=message):
        getattr(USER, name)


def test_an_expression_given_to_a_stream_is_told_of_tables(stream: hg.DataStream[Any]) -> None:
    """The stream's `filter` takes a function."""
    with pytest.raises(hg.PlanError, match=r"for columns call to_table\(\) before"):
        stream.filter(PRICE > 1)  # type: ignore[arg-type]


def test_what_pyspark_allows_is_allowed(bids: hg.Table) -> None:
    """Columns as attributes, and lists of columns and of values."""
    assert bids.filter(bids.price > 1).columns == bids.columns
    assert bids.select(["user", PRICE]).columns == ["user", "price"]
    assert bids.filter(PRICE.isin([1, 3])).take(1)[0]["price"] == 3
    assert bids.select(["user", "price"]).dtypes == [("user", "string"), ("price", "bigint")]


def test_tables_and_columns_say_what_they_are(bids: hg.Table) -> None:
    """The schema with types; the keys of a group. They can be copied."""
    assert repr(bids.select("at", "price")) == "Table\nroot\n |-- at: bigint (event time)\n |-- price: bigint"
    assert repr(bids.group_by("user", WINDOW)) == (
        "<table grouped by user, window(at, 10000 ms); agg() follows>"
    )
    assert repr(copy.copy(PRICE)) == repr(PRICE)
    assert not hasattr(bids, "_repr_html_")
