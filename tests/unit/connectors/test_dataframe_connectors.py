"""DataFrames in and out, with a stand-in for Spark: staged once, read with positions, refused when wrong."""

from __future__ import annotations

import datetime
import pickle
import shutil
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark import TaskContext
from pyspark.sql import Row
from pyspark.sql import types as t

from headgate.api.sink import Lineage, SinkCommitterContext, SinkWriterContext
from headgate.api.source import END_OF_INPUT, InputLeft, SourceReaderContext
from headgate.common.errors import StorageError, UsageError
from headgate.connectors.dataframe import DataFrameSource, dataframe_sink, dataframe_source
from headgate.connectors.dataframe.arrow_rows import TypedRows
from headgate.connectors.dataframe.column_types import arrow_schema, check_types
from headgate.connectors.dataframe.source import StreamReader


class DataFrame:
    """Stands in for a DataFrame of 6 rows in two partitions; cannot be pickled, like the real one."""

    __module__ = "pyspark.sql.classic.dataframe"
    isStreaming = False  # noqa: N815 - Spark's name

    def __init__(self, columns: tuple[str, ...] = ("n",), error: str | None = None) -> None:
        self.columns, self.error, self.computed = list(columns), error, 0
        self.schema = t.StructType()
        for column in columns:
            self.schema.add(column, "long")

    def mapInArrow(self, function: Callable[[Any], Any], schema: str) -> Any:  # noqa: N802
        self._function = function
        return self

    def collect(self) -> list[Row]:
        """As tasks of Spark would: each partition in a context of its own."""
        if self.error is not None:
            raise RuntimeError(self.error)
        self.computed += 1
        found, before = [], TaskContext._taskContext
        for part in range(2):
            context = TaskContext._getOrCreate()
            context._partitionId, context._attemptNumber, context._taskAttemptId = part, 0, part
            batch = pa.record_batch({"n": [3 * part, 3 * part + 1, 3 * part + 2]})
            found += [Row(**row) for made in self._function(iter([batch])) for row in made.to_pylist()]
        TaskContext._taskContext = before
        return found

    def __reduce__(self) -> Any:
        raise TypeError("a DataFrame stays in the driver")


def staged(folder: Path) -> tuple[DataFrameSource, DataFrameSource]:
    """A source that is ready, as the driver has it and as workers get it."""
    source = dataframe_source(DataFrame())  # type: ignore[arg-type]
    source.prepare(None, str(folder))  # type: ignore[arg-type]
    return source, pickle.loads(pickle.dumps(source))


def read(reader: Any, limit: int) -> list[int]:
    """At most `limit` records, or those up to the end."""
    found: list[int] = []
    while len(found) < limit and (polled := reader.poll(limit)) is not END_OF_INPUT:
        found += polled.column("n").to_pylist()
    return found


def test_rows_are_read_once_and_from_the_position_of_a_snapshot(tmp_path: Path) -> None:
    """Another driver, which never computes its own DataFrame, goes on in the staged files with the rest."""
    source, shipped = staged(tmp_path / ".headgate-staging" / "job" / "in" / "0123456789abcdef")
    context = SourceReaderContext("in", 0, 1)
    enumerator, reader = source.create_enumerator(None), shipped.create_reader(context)
    reader.add_splits(enumerator.next_splits(0) or [])
    first = read(reader, 2)
    state, positions = enumerator.snapshot(), reader.snapshot()

    frame = DataFrame()
    other = dataframe_source(frame)  # type: ignore[arg-type]
    enumerator = other.create_enumerator(state)
    reader = pickle.loads(pickle.dumps(other)).create_reader(context)
    reader.add_splits(positions)
    while splits := enumerator.next_splits(0):
        reader.add_splits(splits)
    reader.no_more_splits()
    assert first + read(reader, 100) == [0, 1, 2, 3, 4, 5]
    assert frame.computed == 0


def test_what_is_left_of_an_epoch_has_one_name(tmp_path: Path) -> None:
    """Files are new with each epoch: by their names a stream would have ever more series."""
    source, _ = staged(tmp_path / ".headgate-staging" / "job" / "in" / "0123456789abcdef")
    enumerator, reader = source.create_enumerator(None), StreamReader[Any]()
    left = [reader.left_to_read()]
    while splits := enumerator.next_splits(0):
        reader.add_splits(splits)
    for limit in (2, 100):
        left.append(reader.left_to_read())
        read(reader, limit)
        reader.no_more_splits()
    left.append(reader.left_to_read())
    assert left == [{"epoch": InputLeft(records=records)} for records in (0, 6, 4, 0)]


def test_a_position_in_rows_that_are_gone_is_refused(tmp_path: Path) -> None:
    """The driver looks at what is not handed out yet, a reader at its own file; neither guesses."""
    source, shipped = staged(tmp_path / ".headgate-staging" / "job" / "in" / "0123456789abcdef")
    enumerator, reader = (
        source.create_enumerator(None),
        shipped.create_reader(SourceReaderContext("in", 0, 1)),
    )
    whole = enumerator.snapshot()
    reader.add_splits(enumerator.next_splits(0) or [])
    rest = enumerator.snapshot()
    enumerator.next_splits(0)
    none_left = enumerator.snapshot()
    shutil.rmtree(tmp_path / ".headgate-staging")
    for state in (whole, rest):
        with pytest.raises(UsageError, match=r"staged in '.*/in/.*', and .*\.arrow is not there"):
            source.create_enumerator(state)
    assert source.create_enumerator(none_left).next_splits(0) is None
    with pytest.raises(StorageError, match="cannot read staged file"):
        reader.poll(10)


def test_a_position_of_the_time_when_staged_rows_ended_with_their_run_is_refused(tmp_path: Path) -> None:
    """Such checkpoints exist; the message says what to do."""
    source, _ = staged(tmp_path / ".headgate-staging" / "job" / "in" / "0123456789abcdef")
    with pytest.raises(UsageError, match=r"staged for one run only; .*read_parquet\(\)"):
        source.create_enumerator({"staged": "00ff", "files": ["/tmp/part-0.parquet"]})


def test_a_dataframe_that_cannot_be_computed_is_told_in_one_sentence(tmp_path: Path) -> None:
    """Spark's own errors go on for pages."""
    broken = DataFrame(error="[DIVIDE_BY_ZERO] Division by zero.\n\tat a lot of Java")
    with pytest.raises(UsageError, match=r"from_spark\(\) \(n\) cannot be computed: .*Division by zero\.$"):
        dataframe_source(broken).prepare(None, str(tmp_path / "x"))  # type: ignore[arg-type]


def test_what_is_no_bounded_dataframe_is_refused() -> None:
    """Other things, streaming ones, those of Spark Connect and those without columns."""
    streaming, remote = DataFrame(), type("DataFrame", (DataFrame,), {})
    streaming.isStreaming = True
    remote.__module__ = "pyspark.sql.connect.dataframe"
    for wrong, message in (
        ([1], "got list; expected a DataFrame"),
        (streaming, "expected a bounded one"),
        (remote(), "Spark Connect; expected one of a classic session"),
        (DataFrame(columns=()), "without columns"),
    ):
        with pytest.raises(UsageError, match=message):
            dataframe_source(wrong)  # type: ignore[arg-type]


def test_executors_without_spark_are_told() -> None:
    """Whoever runs the job without preparing these connectors gets a sentence, not a crash."""
    source, sink = dataframe_source(DataFrame()), dataframe_sink()  # type: ignore[arg-type]
    for use in (
        lambda: source.create_enumerator(None),
        lambda: sink.create_committer(),
        lambda: sink.dataframe,
    ):
        with pytest.raises(UsageError, match="needs a Spark session"):
            use()


def test_output_is_written_and_published_in_the_staging_folder(tmp_path: Path) -> None:
    """The sink is the files sink below: pending until committed, then a visible Parquet file."""
    sink = dataframe_sink()
    sink.prepare(None, str(tmp_path / "out"))  # type: ignore[arg-type]
    sink._spark = object()  # type: ignore[assignment]
    with pytest.raises(UsageError, match=r"gave no records, .* give schema="):
        _ = sink.dataframe
    writer = pickle.loads(pickle.dumps(sink)).create_writer(SinkWriterContext("out", 0, 1, 1, "job"), [])
    writer.write([("ada", 1), ("bob", 2)])
    ready = writer.prepare_commit()
    assert list((tmp_path / "out").glob("*.parquet")) == []
    committer = sink.create_committer()
    committer.begin(SinkCommitterContext("out", "job", 1, Lineage("job")))
    committer.commit(ready)
    (file,) = (tmp_path / "out").glob("*.parquet")
    assert pq.read_table(file).to_pylist() == [{"_1": "ada", "_2": 1}, {"_1": "bob", "_2": 2}]


def test_a_schema_is_a_struct_or_its_text() -> None:
    """Anything else is refused where it is written."""
    with pytest.raises(UsageError, match="schema of type list; expected a StructType or text"):
        dataframe_sink(["a"])  # type: ignore[arg-type]


# -- types


REFUSED = (
    (t.YearMonthIntervalType(), "interval year to month"),
    (t.CalendarIntervalType(), "interval"),
    (t.VariantType(), "variant"),
    (t.TimeType(), "time"),
    (t.GeometryType(4326), "geometry"),
    (t.GeographyType(4326), "geography"),
    (t.CharType(3), "char"),
    (t.VarcharType(3), "varchar"),
)


@pytest.mark.parametrize(("kind", "name"), REFUSED, ids=[name for _, name in REFUSED])
def test_types_that_would_come_through_changed_are_refused(kind: t.DataType, name: str) -> None:
    """Wherever they stand: the message names the path, the type, and what to do."""
    deep = t.MapType(t.StringType(), t.ArrayType(t.StructType().add("x", kind)))
    for schema, path in (
        (t.StructType().add("a", "integer").add("b", kind), "b"),
        (t.StructType().add("b", deep), r"b\.value\[\]\.x"),
    ):
        with pytest.raises(UsageError, match=rf"column '{path}' of from_spark\(\) has type {name}.*; \w+"):
            check_types(schema, "from_spark")


def test_a_type_of_the_users_own_is_refused() -> None:
    """What comes out would be its parts, not the user's objects."""

    class Point(t.UserDefinedType):
        @classmethod
        def sqlType(cls) -> t.DataType:  # noqa: N802
            return t.ArrayType(t.DoubleType())

    with pytest.raises(UsageError, match=r"column 'at' .*select its parts"):
        check_types(t.StructType().add("at", Point()), "from_spark")


def test_names_that_cannot_be_told_apart_and_empty_structs_are_refused() -> None:
    """Spark compares names without regard to case where it reads files."""
    with pytest.raises(UsageError, match=r"column 'a\.N' of to_dataframe\(\) is there twice"):
        check_types(
            t.StructType().add("a", t.StructType().add("n", "integer").add("N", "integer")), "to_dataframe"
        )
    with pytest.raises(UsageError, match=r"column 'a' .* without fields"):
        check_types(t.StructType().add("a", t.StructType()), "to_dataframe")


def test_every_type_of_spark_was_decided_upon() -> None:
    """A type that a later Spark adds must not slip through: it is refused until somebody has looked."""
    from headgate.connectors.dataframe.column_types import SUPPORTED

    known = {name for name in t.__all__ if name.endswith("Type")} - {"DataType"}
    decided = (
        SUPPORTED | {type(kind).__name__ for kind, _ in REFUSED} | {"ArrayType", "MapType", "StructType"}
    )
    assert known - decided == set()
    assert known >= SUPPORTED


# -- rows of a given schema


UTC = datetime.UTC
ZONE = datetime.timezone(datetime.timedelta(hours=5, minutes=45))


LONG, STRING, TIMESTAMP = t.LongType(), t.StringType(), t.TimestampType()


def typed(**kinds: t.DataType) -> TypedRows:
    """Rows of these columns, none of which is required but `id`."""
    schema = t.StructType()
    for name, kind in kinds.items():
        schema.add(name, kind, nullable=name != "id")
    shown = {name: kind.simpleString() for name, kind in kinds.items()}
    return TypedRows(arrow_schema(schema), shown, frozenset({"id"} & kinds.keys()), "to_spark")


def test_rows_become_columns_of_the_schema() -> None:
    """Dicts, tuples by position, exact widening; what is absent is null; an instant is kept in any zone."""
    rows = typed(
        id=LONG,
        price=t.DecimalType(9, 2),
        at=TIMESTAMP,
        tags=t.ArrayType(STRING),
        by=t.MapType(STRING, t.IntegerType()),
    )
    when = datetime.datetime(2024, 3, 10, 7, 45, tzinfo=ZONE)
    found = rows.batch_of(
        [{"id": 1, "price": 3, "at": when, "by": {"a": 1}}, (2, Decimal("1.5"), None, ["x"], None)]
    )
    assert found.to_pylist() == [
        {"id": 1, "price": Decimal("3.00"), "at": when.astimezone(UTC), "tags": None, "by": [("a", 1)]},
        {"id": 2, "price": Decimal("1.50"), "at": None, "tags": ["x"], "by": None},
    ]


@pytest.mark.parametrize(
    ("kind", "value", "why"),
    [
        (LONG, 1.5, "a float is no int"),
        (LONG, "many", "a str is no int"),
        (LONG, 2**63, "int too big|too large"),
        (t.ByteType(), 128, "too large"),
        (t.DoubleType(), 2**60 + 1, "exactly representable"),
        (STRING, 1, "a int is no str"),
        (STRING, b"x", "a bytes is no str"),
        (t.BinaryType(), "x", "a str is no bytes"),
        (t.BooleanType(), 1, "a int is no bool"),
        (t.DecimalType(5, 2), Decimal("1.234"), "data loss"),
        (t.DecimalType(5, 2), 1.5, "a float is no Decimal"),
        (t.DateType(), datetime.datetime(2024, 1, 1), "a datetime is no date"),
        (TIMESTAMP, datetime.datetime(2024, 1, 1), "no time zone and needs one"),
        (TIMESTAMP, 5, "a int is no datetime"),
        (t.TimestampNTZType(), datetime.datetime(2024, 1, 1, tzinfo=UTC), "a time zone and needs none"),
        (t.ArrayType(TIMESTAMP), [datetime.datetime(2024, 1, 1)], "no time zone and needs one"),
        (t.StructType().add("n", LONG), {"n": 1, "m": 2}, "none of n"),
        (t.MapType(STRING, LONG), {"a": 1.5}, "a float is no int"),
    ],
)
def test_a_value_that_does_not_fit_is_named_with_its_column(kind: t.DataType, value: Any, why: str) -> None:
    """Nothing is rounded, cut or guessed, where Arrow alone would."""
    with pytest.raises(UsageError, match=rf"column 'x' of to_dataframe\(\) got .*\({why}|column 'x'.*{why}"):
        typed(x=kind).batch_of([{"x": None}, {"x": value}])


def test_a_record_of_other_columns_is_refused() -> None:
    """A field too many, a tuple of another length, a null where none may be."""
    rows = typed(id=LONG, name=STRING)
    with pytest.raises(UsageError, match="field 'nmae' that its schema has not; expected id, name"):
        rows.batch_of([{"id": 1, "nmae": "x"}])
    with pytest.raises(UsageError, match=r"tuple of 1 values \(\(1,\)\); expected 2: id, name"):
        rows.batch_of([(1,)])
    with pytest.raises(UsageError, match=r"column 'id' .* got None; expected bigint .*not null"):
        rows.batch_of([{"name": "x"}])


def test_batches_are_cast_where_that_loses_nothing() -> None:
    """Columns by name, in any order; an error names the column and the first value."""
    rows = typed(id=t.IntegerType(), at=TIMESTAMP)
    when = datetime.datetime(2024, 1, 1, tzinfo=UTC)
    batch = pa.record_batch({"at": pa.array([when], pa.timestamp("ms", "Asia/Kathmandu")), "id": [7]})
    assert rows.batch_of(batch).to_pylist() == [{"id": 7, "at": when}]
    with pytest.raises(UsageError, match=rf"column 'id' .* got {2**40}; expected int"):
        rows.batch_of(
            pa.record_batch({"id": [1, 2**40], "at": pa.array([when, when], pa.timestamp("us", "UTC"))})
        )
    with pytest.raises(UsageError, match=r"column 'at' .* one has a time zone and the other has none"):
        rows.batch_of(
            pa.record_batch({"id": [1], "at": pa.array([when.replace(tzinfo=None)], pa.timestamp("us"))})
        )
    with pytest.raises(UsageError, match="has the columns id; expected id, at"):
        rows.batch_of(pa.record_batch({"id": [1]}))
