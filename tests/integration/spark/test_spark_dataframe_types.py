"""Every supported column type through a job and back, as rows and as columns, with several settings."""

from __future__ import annotations

import datetime
import pickle
from collections.abc import Callable
from decimal import Decimal
from operator import itemgetter
from pathlib import Path
from typing import Any

import pytest

import headgate as hg
from headgate.common.errors import UsageError
from headgate.deploy.spark.executor import SparkExecutor
from headgate.runtime.job.listener import JobListener

pytestmark = [pytest.mark.ci, pytest.mark.spark]

ZONES = ("UTC", "Asia/Kathmandu", "America/New_York")

COLUMNS = {
    "nothing": ["null"],
    "flag": ["true", "false"],
    "i8": ["cast(-128 as tinyint)", "cast(127 as tinyint)"],
    "i16": ["cast(-32768 as smallint)"],
    "i32": ["-2147483648", "2147483647"],
    "i64": ["cast('-9223372036854775808' as bigint)", "9223372036854775807"],
    "f32": ["float('nan')", "float('-infinity')", "float(-0.0)", "float(1.17549435e-38)"],
    "f64": ["double('nan')", "double('infinity')", "4.9e-324D"],
    "price": ["cast(-0.01 as decimal(9,2))", "cast('9999999.99' as decimal(9,2))"],
    "huge": ["cast('-99999999999999999999999999999999999999' as decimal(38,0))"],
    "text": ["''", "'\\u00e4\\u6f22\\u0000'", "repeat('x', 70000)"],
    "folded": ["'Ab' collate UNICODE_CI"],
    "bytes": ["x''", "x'00ff80'"],
    "day": ["date'0001-01-01'", "date'1582-10-10'", "date'9999-12-31'"],
    "at": [
        "timestamp'0001-01-01 00:00:00Z'",
        "timestamp'1900-01-01 00:00:00.000001Z'",
        "timestamp'2024-03-10 06:59:59.999999Z'",  # one microsecond before clocks go forward in New York
        "timestamp'2024-03-10 07:00:00Z'",
        "timestamp'2024-11-03 05:30:00Z'",  # 1:30 in New York, the first time
        "timestamp'2024-11-03 06:30:00Z'",  # and the second time
        "timestamp'9999-12-31 00:00:00.999999Z'",
    ],
    "wall": ["timestamp_ntz'2024-03-10 02:30:00'", "timestamp_ntz'0001-01-01 00:00:00.000001'"],
    "took": ["interval '-1 02:03:04.000005' day to second", "make_dt_interval(106751991, 4, 0, 54.775807)"],
    "hours": ["interval '-5' hour"],
    "list": ["array(1, null, -3)", "array()"],
    "times": ["array(timestamp'2024-11-03 06:30:00Z', null)"],
    "by": ["map('a', 1, 'b', null)", "map()"],
    "by_time": ["map(timestamp'2024-11-03 06:30:00Z', date'1500-01-01')"],
    "inner": ["named_struct('n', 1, 'deep', named_struct('tags', array('x', null), 'cost', 1.50BD))"],
    "mixed": ["array(map('k', named_struct('took', interval '3' day)))"],
}
"""Column -> its values as SQL, besides null."""


@pytest.fixture(scope="module")
def spark(open_spark: Callable[..., Any]) -> Any:
    """A session with three slots."""
    return open_spark("local[3]")


def frame_of(spark: Any) -> Any:
    """One row for each value, the first has nulls only; `id` numbers them."""
    firsts = ", ".join(f"{values[0]} as {name}" for name, values in COLUMNS.items())
    kinds = {field.name: field.dataType.simpleString() for field in spark.sql(f"select {firsts}").schema}
    selects = []
    for row in range(max(map(len, COLUMNS.values())) + 1):
        cells = [
            f"cast({values[row - 1] if 0 < row <= len(values) else 'null'} as {kinds[name]}) as {name}"
            for name, values in COLUMNS.items()
        ]
        selects.append(f"select {row} as id, {', '.join(cells)}")
    return spark.sql(" union all ".join(selects)).coalesce(2)


def environment(spark: Any) -> hg.Environment:
    """On Spark, without a display."""
    return hg.Environment(parallelism=2, spark=spark, executor=SparkExecutor(JobListener()))


def values_of(frame: Any) -> list[str]:
    """All values as text, which two equal DataFrames share."""
    cells = [f"to_json(struct({name})) as {name}" for name in COLUMNS]
    return sorted(map(repr, frame.selectExpr("id", *cells).collect()))


@pytest.mark.parametrize(("zone", "ansi"), [(zone, zone != "Asia/Kathmandu") for zone in ZONES])
def test_every_type_comes_back_as_it_was(spark: Any, zone: str, ansi: bool) -> None:
    """Untouched columns, and rows rebuilt by a function: extremes and nulls, whatever the session's zone."""
    spark.conf.set("spark.sql.session.timeZone", zone)
    spark.conf.set("spark.sql.ansi.enabled", ansi)
    frame = frame_of(spark)
    env = environment(spark)
    stream = env.from_spark(frame)
    columns = stream.to_dataframe_later(frame.schema)
    rows = stream.map(lambda row: row.as_dict()).to_dataframe_later(frame.schema)
    env.execute("there and back")
    expected = values_of(frame)
    for out in (columns.dataframe, rows.dataframe):
        assert out.schema.simpleString() == frame.schema.simpleString()
        assert values_of(out) == expected


def test_what_a_function_gets(spark: Any) -> None:
    """Instants are times in UTC whatever the session's zone, other times have none; maps are pairs."""
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    frame = frame_of(spark).where("id in (1, 6)")
    found = environment(spark).from_spark(frame).map(lambda row: pickle.dumps(row.as_dict())).collect()
    first, other = sorted(map(pickle.loads, found), key=itemgetter("id"))
    assert first["at"] == datetime.datetime(1, 1, 1, tzinfo=datetime.UTC)
    assert other["at"] == datetime.datetime(2024, 11, 3, 6, 30, tzinfo=datetime.UTC)
    assert other["at"].utcoffset() == datetime.timedelta(0)
    assert first["wall"] == datetime.datetime(2024, 3, 10, 2, 30)
    assert first["day"] == datetime.date(1, 1, 1)
    assert first["took"] == datetime.timedelta(days=-1, hours=-2, minutes=-3, seconds=-4, microseconds=-5)
    assert (first["price"], first["bytes"], first["text"]) == (Decimal("-0.01"), b"", "")
    assert (first["by"], first["list"]) == ([("a", 1), ("b", None)], [1, None, -3])
    assert first["inner"] == {"n": 1, "deep": {"tags": ["x", None], "cost": Decimal("1.50")}}
    assert (other["price"], other["inner"]) == (None, None)


REFUSED = {
    "interval '1-2' year to month": ("cast it to string", "cast({} as string)"),
    "make_interval(1, 2)": ("cast it to string", "cast({} as string)"),
    """parse_json('{"a": 1}')""": ("cast it to string", "cast({} as string)"),
    "st_geomfromwkb(x'0101000000000000000000F03F0000000000000040')": (r"st_asbinary\(\)", "st_asbinary({})"),
}
"""Value -> advice, and how that is done."""


def test_a_type_that_would_change_is_refused_where_it_is_written(spark: Any) -> None:
    """Before anything runs, by the column's name; and what the message advises works."""
    for value, (advice, _) in REFUSED.items():
        frame = spark.sql(f"select 1 as id, array({value}) as what")
        with pytest.raises(UsageError, match=rf"column 'what\[\]' of from_spark\(\) has type .*{advice}"):
            environment(spark).from_spark(frame)
    cures = [f"{cure.format(value)} as c{place}" for place, (value, (_, cure)) in enumerate(REFUSED.items())]
    frame = spark.sql(f"select {', '.join(cures)}")
    assert environment(spark).from_spark(frame).to_dataframe().collect() == frame.collect()


def test_a_schema_given_as_text_is_looked_at_before_the_job(spark: Any) -> None:
    """Types that cannot come out, and text that is none."""
    stream = environment(spark).from_collection([(1,)])
    with pytest.raises(UsageError, match=r"column 'took' of to_dataframe\(\) has type interval year"):
        stream.to_dataframe("took interval year")
    with pytest.raises(UsageError, match=r"the schema of to_dataframe\(\) is wrong"):
        environment(spark).from_collection([(1,)]).to_dataframe("took such")


def test_rows_that_do_not_fit_fail_the_job_with_column_and_value(spark: Any) -> None:
    """Tuples are taken by position; the first wrong value is named."""
    env = environment(spark)
    good = env.from_collection([("ada", 3)]).to_dataframe("name string, commits long")
    assert [tuple(row) for row in good.collect()] == [("ada", 3)]
    wrong = environment(spark).from_collection([("ada", 3), ("bob", "many")])
    with pytest.raises(hg.HeadgateError, match=r"'commits' of to_dataframe\(\) got 'many'; expected bigint"):
        wrong.to_dataframe("name string, commits long")


def test_the_program_of_the_documentation_runs(spark: Any) -> None:
    """Word by word, with the reader's session."""
    page = (Path(__file__).parents[3] / "docs" / "spark-dataframes.md").read_text(encoding="utf-8")
    scope = {"spark": spark}
    exec(compile(page.split("```python\n")[1].split("```")[0], "docs", "exec", dont_inherit=True), scope)
    assert scope["out"].count() == 10  # type: ignore[attr-defined]


NAMES = ["a.b", "c`d", "`e`", "l.m.n`o", "f g", "h,i;{}()=", "n"]


def test_any_name_of_a_column_goes_through(spark: Any, tmp_path: Path) -> None:
    """Dots and backticks mean something to Spark where a column is asked for by its name."""
    from pyspark.sql.types import StructType

    schema = StructType()
    for name in NAMES:
        schema = schema.add(name, "long")
    rows = [tuple(range(at, at + len(NAMES))) for at in range(3)]
    frame = spark.createDataFrame(rows, schema)
    env = environment(spark)
    stream = env.from_spark(frame, uid="in")
    assert sorted(stream.map(lambda row: [row[name] for name in NAMES]).collect()) == [list(r) for r in rows]
    for given in (None, schema):
        out = stream.to_dataframe(given)
        assert (out.columns, sorted(map(tuple, out.collect()))) == (NAMES, rows)
    seen: list[Any] = []
    for number, given in enumerate((None, schema)):
        stream.to_spark(
            lambda found, epoch: seen.extend((found.columns, tuple(row)) for row in found.collect()),
            uid=f"out-{number}",
            schema=given,
        )
    env.execute()
    assert sorted(seen) == sorted((NAMES, row) for row in rows + rows)
    keyed = stream.key_by("a.b").process(Named(), uid="named")
    assert sorted(keyed.collect()) == [(0, 0), (1, 1), (2, 2)]


class Named(hg.KeyedProcessFunction[int, Any, tuple[int, int]]):
    """Tells the key and the field that it was made of."""

    def process(self, record: Any, ctx: hg.KeyedContext[int]) -> Any:
        yield ctx.key, record["a.b"]
