"""DataFrames in and out, with a stand-in for Spark: staged once, read with positions, refused when wrong."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from headgate.api.sink import Lineage, SinkCommitterContext, SinkWriterContext
from headgate.api.source import END_OF_INPUT, SourceReaderContext
from headgate.common.errors import UsageError
from headgate.connectors.dataframe import DataFrameSource, dataframe_sink, dataframe_source


class Conf:
    """Settings of the stand-in."""

    def __init__(self) -> None:
        self.values = {"spark.sql.parquet.outputTimestampType": "INT96"}

    def get(self, key: str) -> str:
        return self.values[key]

    def set(self, key: str, value: str) -> None:
        self.values[key] = value


class DataFrame:
    """Stands in for a DataFrame of 6 rows in two partitions; cannot be pickled, like the real one."""

    __module__ = "pyspark.sql.classic.dataframe"
    isStreaming = False  # noqa: N815 - Spark's name

    def __init__(self, columns: tuple[str, ...] = ("n",), error: str | None = None) -> None:
        self.columns, self.error, self.written_with = list(columns), error, ""
        self.conf = Conf()

    @property
    def sparkSession(self) -> Any:  # noqa: N802
        return self

    @property
    def write(self) -> Any:
        return self

    def option(self, key: str, value: object) -> Any:
        return self

    def parquet(self, folder: str) -> None:
        self.written_with = self.conf.get("spark.sql.parquet.outputTimestampType")
        if self.error is not None:
            raise RuntimeError(self.error)
        Path(folder).mkdir()
        for part in range(2):
            rows = pa.table({"n": [3 * part, 3 * part + 1, 3 * part + 2]})
            pq.write_table(rows, f"{folder}/part-{part}.parquet")

    def __reduce__(self) -> Any:
        raise TypeError("a DataFrame stays in the driver")


def staged(folder: Path) -> DataFrameSource:
    """A source that is ready, as workers get it."""
    source = dataframe_source(DataFrame())  # type: ignore[arg-type]
    source.prepare(None, str(folder))  # type: ignore[arg-type]
    shipped: DataFrameSource = pickle.loads(pickle.dumps(source))
    return shipped


def read(reader: Any, limit: int) -> list[int]:
    """At most `limit` records, or those up to the end."""
    found: list[int] = []
    while len(found) < limit and (polled := reader.poll(limit)) is not END_OF_INPUT:
        found += polled.column("n").to_pylist()
    return found


def test_rows_are_read_once_and_from_the_position_of_a_snapshot(tmp_path: Path) -> None:
    """Splits and positions are those of the staged files; a restored reader returns exactly the rest."""
    source = staged(tmp_path / "in")
    context = SourceReaderContext("in", 0, 1)
    enumerator, reader = source.create_enumerator(None), source.create_reader(context)
    reader.add_splits(enumerator.next_splits(0) or [])
    first = read(reader, 2)
    state, positions = enumerator.snapshot(), reader.snapshot()

    enumerator, reader = source.create_enumerator(state), source.create_reader(context)
    reader.add_splits(positions)
    while splits := enumerator.next_splits(0):
        reader.add_splits(splits)
    reader.no_more_splits()
    assert first + read(reader, 100) == [0, 1, 2, 3, 4, 5]


def test_a_position_in_the_staging_of_another_run_is_refused(tmp_path: Path) -> None:
    """Rows computed again may come in another order, so such a position means nothing."""
    state = staged(tmp_path / "one").create_enumerator(None).snapshot()
    with pytest.raises(UsageError, match=r"another run has staged; .*read_parquet\(\)"):
        staged(tmp_path / "two").create_enumerator(state)


def test_timestamps_are_staged_as_microseconds_and_the_setting_is_put_back(tmp_path: Path) -> None:
    """The default would be read as nanoseconds by others; also after a failure nothing stays changed."""
    frame = DataFrame()
    dataframe_source(frame).prepare(None, str(tmp_path / "in"))  # type: ignore[arg-type]
    assert frame.written_with == "TIMESTAMP_MICROS"
    assert frame.conf.values == {"spark.sql.parquet.outputTimestampType": "INT96"}
    broken = DataFrame(error="[DIVIDE_BY_ZERO] Division by zero.\n\tat a lot of Java")
    with pytest.raises(UsageError, match=r"from_spark\(\) \(n\) cannot be computed: .*Division by zero\.$"):
        dataframe_source(broken).prepare(None, str(tmp_path / "x"))  # type: ignore[arg-type]
    assert broken.conf.values == {"spark.sql.parquet.outputTimestampType": "INT96"}


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
    with pytest.raises(UsageError, match=r"gave no records, .* give schema="):
        sink.__class__.dataframe.fget(_with_reader(sink))  # type: ignore[attr-defined]
    writer = pickle.loads(pickle.dumps(sink)).create_writer(SinkWriterContext("out", 0, 1, 1, "job"), [])
    writer.write([("ada", 1), ("bob", 2)])
    ready = writer.prepare_commit()
    assert list((tmp_path / "out").glob("*.parquet")) == []
    committer = sink.create_committer()
    committer.begin(SinkCommitterContext("out", "job", 1, Lineage("job")))
    committer.commit(ready)
    (file,) = (tmp_path / "out").glob("*.parquet")
    assert pq.read_table(file).to_pylist() == [{"_1": "ada", "_2": 1}, {"_1": "bob", "_2": 2}]


def _with_reader(sink: Any) -> Any:
    sink._spark = type("Spark", (), {"read": None})()
    return sink


def test_a_schema_is_a_struct_or_its_text() -> None:
    """Anything else is refused where it is written."""
    with pytest.raises(UsageError, match="schema of type list; expected a StructType or text"):
        dataframe_sink(["a"])  # type: ignore[arg-type]
