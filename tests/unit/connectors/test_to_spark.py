"""The sink of epochs without Spark: staging, journal and committer with tables of Arrow for DataFrames."""

from __future__ import annotations

import contextlib
import json
import pickle
import zlib
from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import headgate as hg
from headgate.api.sink import Fork, Lineage, Sink, SinkCommitterContext, SinkWriterContext
from headgate.common.errors import FencedError, OperatingError, UsageError
from headgate.connectors.dataframe.to_spark import SparkSink, spark_sink
from headgate.connectors.dataframe.to_spark_commit import SparkCommitter
from headgate.connectors.dataframe.to_spark_frames import Columns, agreed, same_columns
from headgate.connectors.dataframe.to_spark_journal import Begun, Origin, Owner, Written
from headgate.connectors.dataframe.to_spark_log import Log, decoded
from headgate.connectors.dataframe.writers import EpochWriter, SparkEpoch, parquet
from headgate.connectors.dataframe.writers.writer_contract import AT_LEAST_ONCE, IDEMPOTENT
from headgate.testing.suites import SinkSuite


class Tables:
    """Reads staged rows as a table of Arrow, where the product makes a DataFrame."""

    def columns(self, paths: Sequence[str]) -> Columns:
        """Arrow's own names of types."""
        return agreed([[(f.name, str(f.type)) for f in pq.read_schema(path)] for path in paths])

    @contextlib.contextmanager
    def opened(
        self, paths: Sequence[str], columns: Columns, epoch: SparkEpoch, writer: EpochWriter
    ) -> Iterator[Any]:
        """All rows."""
        yield Table(pa.concat_tables([pq.read_table(path) for path in paths]))

    def cancel(self) -> None:
        """Nothing runs beside."""


class Table:
    """Rows, and the session that there is none of."""

    sparkSession: Any = None  # noqa: N815 - Spark's name

    def __init__(self, rows: pa.Table) -> None:
        self.rows = rows
        self.write, self.columns = self, rows.column_names

    def partitionBy(self, *names: str) -> Table:  # noqa: N802 - Spark's name
        assert not names
        return self

    def parquet(self, path: str) -> None:
        """What Spark leaves of a directory of Parquet."""
        folder = Path(path.removeprefix("file://"))
        folder.mkdir(parents=True)
        pq.write_table(self.rows, folder / "part-0.parquet")
        (folder / "_SUCCESS").touch()

    @property
    def numbers(self) -> list[int]:
        return self.rows.column("n").to_pylist()


class Lines(EpochWriter):
    """An idempotent writer: one file of JSON for each epoch."""

    takes_back: ClassVar[bool] = True

    def __init__(self, folder: Path) -> None:
        self.folder, self.begun = folder, 0

    def begin(self, spark: Any, epoch: SparkEpoch) -> None:
        self.begun += 1

    def write(self, frame: Any, epoch: SparkEpoch) -> None:
        path = self._path(epoch.lineage, epoch.epoch)
        if path.with_suffix(".gone").exists():
            raise FencedError("taken back")
        path.write_text(json.dumps(frame.numbers))

    def take_back(self, lineage: str, sink: str, epochs: Iterable[int], unfinished: Collection[int]) -> None:
        for epoch in {*epochs, *unfinished}:
            path = self._path(lineage, epoch)
            if path.exists():
                path.rename(path.with_suffix(".gone"))
            elif epoch in unfinished:
                path.with_suffix(".gone").touch()

    def put_back(self, lineage: str, sink: str, epochs: Iterable[int]) -> None:
        for epoch in epochs:
            path = self._path(lineage, epoch)
            if path.with_suffix(".gone").exists():
                path.with_suffix(".gone").rename(path)

    def _path(self, lineage: str, epoch: int) -> Path:
        self.folder.mkdir(exist_ok=True)
        return self.folder / f"{lineage}-{epoch}.json"


class OfNumbers(Sink[Any]):
    """Gives integers a column."""

    def __init__(self, inner: SparkSink) -> None:
        self.inner = inner

    def create_writer(self, context: Any, restored: Any) -> Any:
        """A writer that makes rows of numbers."""
        writer = self.inner.create_writer(context, restored)
        write = writer.write
        writer.write = lambda records: write([{"n": record} for record in records])  # type: ignore[method-assign]
        return writer

    def create_committer(self) -> Any:
        return self.inner.create_committer()


class TestEpochs(SinkSuite):
    """Epochs in files."""

    def new_sink(self, folder: Path) -> Sink[Any]:
        """A sink of its own for each program."""
        sink = spark_sink(Lines(folder / "out"))
        sink.stage_in(str(folder / ".headgate-to-spark"), Tables())
        return OfNumbers(sink)

    def read(self, sink: Sink[Any], folder: Path) -> list[Any]:
        """All epochs."""
        return [n for path in (folder / "out").glob("*.json") for n in json.loads(path.read_text())]


class TestParquetEpochs(SinkSuite):
    """The writer of Parquet."""

    def new_sink(self, folder: Path) -> Sink[Any]:
        """A sink of its own for each program."""
        sink = spark_sink(parquet(folder / "out"))
        sink.stage_in(str(folder / ".headgate-to-spark"), Tables())
        return OfNumbers(sink)

    def read(self, sink: Sink[Any], folder: Path) -> list[Any]:
        """As readers do that pass over names which begin with _ and are no partition."""
        files = (folder / "out").glob("_lineage=*/_sink=*/_epoch=*/part-*")
        return [n for file in files for n in pq.read_table(file, partitioning=None).column("n").to_pylist()]


class Job:
    """One job with one sink and one writer, moved by hand."""

    def __init__(self, folder: Path, write: Any, name: str = "a", generation: int = 1) -> None:
        self.sink, self.name, self.generation = spark_sink(write), name, generation
        self.sink.stage_in(str(folder / ".headgate-to-spark"), Tables())
        self.committer = self.sink.create_committer()
        assert isinstance(self.committer, SparkCommitter)
        self.committer.begin(SinkCommitterContext("out", name, generation, Lineage(name)))
        where = SinkWriterContext("out", 0, 1, 1, name, generation)
        self.writer = pickle.loads(pickle.dumps(self.sink)).create_writer(where, [])

    def draw(self, checkpoint: int, *records: Any) -> list[Any]:
        """What a snapshot holds, as it is stored."""
        self.writer.write([r if isinstance(r, dict) else {"n": r} for r in records])
        ready = self.writer.prepare_commit_at(checkpoint)
        return list(msgspec.msgpack.decode(msgspec.msgpack.encode(ready)))


class Told:
    """A function that notes what it is told, and fails when it is to."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, int, list[int]]] = []
        self.fails = False

    def __call__(self, frame: Any, epoch: SparkEpoch) -> None:
        self.calls.append((epoch.lineage, epoch.epoch, frame.numbers))
        if self.fails:
            raise ValueError("no such table")


def test_epochs_come_in_order_and_bear_their_checkpoints_number(tmp_path: Path) -> None:
    """What one checkpoint carries of several snapshots is an epoch for each of these, the oldest first."""
    told = Told()
    job = Job(tmp_path, told)
    first, savepoint, third = job.draw(2, 1), job.draw(3, 2), job.draw(4, 3)
    job.committer.commit(first)
    job.committer.commit([*third, *savepoint])
    assert told.calls == [("a", 2, [1]), ("a", 3, [2]), ("a", 4, [3])]


def test_a_failed_write_is_repeated_with_the_same_number_and_rows(tmp_path: Path) -> None:
    """By this driver or the next one; after it was recorded it is not repeated, and its rows are gone."""
    told = Told()
    job = Job(tmp_path, told)
    drawn, told.fails = job.draw(5, 1, 2), True
    with pytest.raises(OperatingError, match=r"sink 'out' could not write epoch 5 .*no such table"):
        job.committer.commit(drawn)
    told.fails = False
    later = Job(tmp_path, told, generation=2)
    later.committer.commit([*drawn, *job.draw(6, 3)])
    assert told.calls == [("a", 5, [1, 2]), ("a", 5, [1, 2]), ("a", 6, [3])]
    later.committer.commit(drawn)
    assert len(told.calls) == 3
    assert not list((tmp_path / ".headgate-to-spark").rglob("part-*"))


def test_a_driver_that_was_replaced_writes_nothing_more(tmp_path: Path) -> None:
    """The sink's journal knows the next driver, whatever the old one was told."""
    told = Told()
    old, new = Job(tmp_path, told), Job(tmp_path, told, generation=2)
    new.committer.commit(new.draw(1, 1))
    with pytest.raises(FencedError, match="generation 2"):
        old.committer.commit(old.draw(1, 7))
    assert told.calls == [("a", 1, [1])]


def test_what_a_driver_wrote_while_it_was_replaced_is_recorded_once(tmp_path: Path) -> None:
    """The old driver's write ends behind the new one's; both had the same rows, and it is fenced then."""
    drawn: list[Any] = []
    calls: list[int] = []

    def overtaken(frame: Any, epoch: SparkEpoch) -> None:
        calls.append(epoch.epoch)
        Job(tmp_path, lambda frame, epoch: calls.append(epoch.epoch), generation=2).committer.commit(drawn)

    job = Job(tmp_path, overtaken)
    drawn += job.draw(4, 1)
    with pytest.raises(FencedError):
        job.committer.commit(drawn)
    assert calls == [4, 4]


def test_rows_that_are_gone_or_damaged_are_not_written(tmp_path: Path) -> None:
    """Damage is found before a byte is decoded; the sentence names the file and the epoch."""
    told = Told()
    job = Job(tmp_path, told)
    drawn = job.draw(3, 1)
    (path,) = (tmp_path / ".headgate-to-spark").rglob("part-*")
    whole = path.read_bytes()
    path.write_bytes(whole[:-9] + b"x" + whole[-8:])
    with pytest.raises(OperatingError, match="CRC-32"):
        job.committer.commit(drawn)
    path.unlink()
    with pytest.raises(OperatingError, match=r"part-.* are gone, but the epoch of checkpoint 3"):
        job.committer.commit(drawn)
    path.write_bytes(whole)
    job.committer.commit(drawn)
    assert told.calls == [("a", 3, [1])]


def test_an_epoch_with_other_columns_is_refused(tmp_path: Path) -> None:
    """The sentence names the column; another order of columns is none."""
    job = Job(tmp_path, Told())
    job.committer.commit(job.draw(1, {"n": 1, "text": "x"}))
    job = Job(tmp_path, Told(), generation=2)
    with pytest.raises(UsageError, match=r"epoch 2 .* column 'text' absent; expected it as string"):
        job.committer.commit(job.draw(2, {"n": 1}))
    with pytest.raises(UsageError, match="column 'a' as int from one subtask and as string"):
        agreed([[("a", "int")], [("a", "string")]])
    assert same_columns([("a", "int"), ("b", "x")], [("b", "x"), ("a", "int")], "")[0] == ("a", "int")


def test_held_rows_stay_behind_their_epoch(tmp_path: Path) -> None:
    """A savepoint can be restored where no journal tells that its rows were written."""
    job = Job(tmp_path, Told())
    savepoint = job.draw(3, 1)
    job.committer.hold(savepoint, Fork("a", 1, 1, 3))
    job.committer.commit(savepoint)
    assert len(list((tmp_path / ".headgate-to-spark").rglob("part-*.parquet"))) == 1
    elsewhere, told = tmp_path / "elsewhere", Told()
    other = Job(elsewhere, told, name="b")
    other.committer.commit(savepoint)
    assert told.calls == [("b", 3, [1])]
    unprepared = spark_sink(told).create_committer()
    unprepared.release(savepoint, Fork("a", 1, 1, 3))
    job.committer.abandon([])
    assert not list((tmp_path / ".headgate-to-spark").rglob("part-*"))


def test_an_epoch_that_may_be_written_is_told_and_taken_back(tmp_path: Path) -> None:
    """A job died in the middle of it; from an older snapshot nobody goes on silently."""
    told = Told()
    job = Job(tmp_path, told)
    old = job.draw(1, 1)
    job.committer.commit(old)
    told.fails = True
    with pytest.raises(OperatingError):
        job.committer.commit(job.draw(2, 2))
    lines = Lines(tmp_path / "out")
    other = Job(tmp_path, lines, name="b")
    context = SinkCommitterContext("out", "b", 1, Lineage("a", (Fork("a", 1, 1, 1),)))
    assert other.committer.committed_after(context) == "epoch 2, prepared by job 'a', may be written"
    other.committer.take_back(context)
    assert other.committer.committed_after(context) is None
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["a-2.gone"]
    other.committer.begin(context)
    other.committer.commit(other.draw(2, 20))
    assert json.loads((tmp_path / "out" / "a-3.json").read_text()) == [20]


def add_epochs(log: Log, numbers: range) -> None:
    """Epochs of a job `a`, as its committer adds them."""
    for number in numbers:
        assert log.append(Begun(number, Origin("a", 1, 1, number), [str(number)], []))
        assert log.append(Written(number))


def test_the_journal_stays_short(tmp_path: Path) -> None:
    """Now and then an entry stands for all before it; who reads from the start or goes on sees the same."""
    log, beside = Log(tmp_path, 10), Log(tmp_path)
    assert log.append(Owner("a", 1))
    for number in range(1, 40):
        add_epochs(log, range(number, number + 1))
        if number % 7 == 0:
            beside.refresh()
    assert len(list(tmp_path.iterdir())) <= 11
    fresh = Log(tmp_path).refresh()
    assert fresh == beside.refresh() == log.state
    assert [list(run.epochs) for run in fresh.written] == [list(range(1, 40))]


def test_a_stale_view_of_the_journal_adds_nothing(tmp_path: Path) -> None:
    """Also when the number that it would take has come and gone."""
    log, stale = Log(tmp_path, 10), Log(tmp_path)
    add_epochs(log, range(1, 3))
    stale.refresh()
    add_epochs(log, range(3, 9))
    assert not stale.append(Owner("b", 1))
    assert stale.refresh() == log.state == Log(tmp_path).refresh()


def test_a_damaged_journal_is_not_believed(tmp_path: Path) -> None:
    """Whatever byte is wrong, the sentence names the file."""
    told = Told()
    job = Job(tmp_path, told)
    job.committer.commit(job.draw(1, 1))
    path = max((tmp_path / ".headgate-to-spark" / "journal" / "a+out").iterdir())
    whole = path.read_bytes()
    for place in range(len(whole) - 1):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        with pytest.raises(OperatingError, match=path.name):
            Job(tmp_path, told, generation=2).committer.commit(job.draw(2, 2))


def test_wrong_arguments_are_refused() -> None:
    """In one sentence, before anything runs."""
    with pytest.raises(UsageError, match=r"to_spark\(\) got int; expected a function"):
        spark_sink(3)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="schema of type int"):
        spark_sink(print, 3)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="needs a Spark session"):
        spark_sink(print).create_writer(SinkWriterContext("out", 0, 1, 1, "a"), [])


def test_the_guide_is_true(tmp_path: Path) -> None:
    """Its programs can be planned, and say what they promise."""
    text = (Path(__file__).parents[3] / "docs" / "spark-sinks.md").read_text(encoding="utf-8")
    text = text.replace("/shared", str(tmp_path))
    (tmp_path / "orders").mkdir()
    (tmp_path / "orders" / "1.jsonl").write_text('{"id": 1, "country": "at"}\n')
    first, second = (block.partition("```")[0] for block in text.split("```python\n")[1:])
    names: dict[str, Any] = {}
    exec(first, names)
    assert IDEMPOTENT in names["program"](str(tmp_path / "out")).explain()
    exec(second, names)
    env = hg.Environment()
    env.checkpoints(every="10s", storage=str(tmp_path))
    names["program"](env)
    assert AT_LEAST_ONCE in env.explain()


@pytest.mark.parametrize("body", [b"", b"{}", b'{"type":"begun"}', b"[" * 100_000, b"\xff"])
def test_an_entry_of_the_journal_that_is_none_is_refused(body: bytes) -> None:
    """Also with a right checksum, and however deep it is nested."""
    with pytest.raises(OperatingError, match="'a file' does not tell which epochs were written"):
        decoded(b"%08x %s\n" % (zlib.crc32(body), body), "a file")
