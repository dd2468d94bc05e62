"""The files sink: what committed checkpoints held is published exactly once, and nothing else."""

from __future__ import annotations

import dataclasses
import errno
import json
import pickle
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.api.sink import (
    Fork,
    Lineage,
    SinkCommitter,
    SinkCommitterContext,
    SinkWriter,
    SinkWriterContext,
)
from headgate.common.errors import OperatingError, StorageError, UsageError
from headgate.connectors.files import json_sink, parquet_sink
from headgate.connectors.files.file_names import pending_folder, safe
from headgate.connectors.files.sink import FilesSink
from headgate.records.row import Row


@dataclasses.dataclass
class Point:
    x: int


class PointTuple(NamedTuple):
    x: int


class PointStruct(msgspec.Struct):
    x: int


def writer_of(
    sink: FilesSink, subtask: int = 0, attempt: int = 1, uid: str = "out", job: str = "job"
) -> SinkWriter[Any]:
    """A writer of a copy of the sink, as a worker has it."""
    context = SinkWriterContext(uid, subtask, 2, attempt, job)
    return pickle.loads(pickle.dumps(sink)).create_writer(context, [])  # type: ignore[no-any-return]


def committer_of(sink: FilesSink, uid: str = "out", job: str = "job") -> SinkCommitter:
    """The sink's committer, as the driver has it."""
    committer = sink.create_committer()
    committer.begin(SinkCommitterContext(uid, job, 1, Lineage(job)))
    return committer


def published(root: Path) -> list[Any]:
    """All records in visible files, whatever the format."""
    found: list[Any] = []
    for path in sorted(root.glob("part-*")):
        if path.suffix == ".parquet":
            found.extend(pq.read_table(path).to_pylist())
        else:
            found.extend(json.loads(line) for line in path.read_text().splitlines())
    return found


def pending(root: Path) -> list[str]:
    """Names of files not published."""
    return sorted(path.name for path in root.glob("_pending/*/*"))


EVENTS = st.lists(
    st.sampled_from(["write", "write", "checkpoint", "commit", "again", "crash", "lost"]), max_size=30
)


@settings(max_examples=60, deadline=None)
@given(EVENTS, st.sampled_from([json_sink, parquet_sink]), st.sampled_from([1, 10**6]))
def test_published_equals_committed(events: list[str], make: Any, roll: int) -> None:
    """Over writes, checkpoints, lost checkpoints and crashes the output is what the log holds."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder, "out")
        sink: FilesSink = make(root, roll_bytes=roll)
        committer, attempt, number = committer_of(sink), 1, 0
        writers = [writer_of(sink, subtask) for subtask in range(2)]
        written: list[int] = []  # Since the last checkpoint of this attempt.
        logged: list[int] = []  # In a completed checkpoint.
        last: list[Any] = []
        waiting: list[Any] = []
        dead: list[SinkWriter[Any]] = []
        for event in [*events, "checkpoint", "commit"]:
            if event == "write":
                writers[number % 2].write([{"n": number}])
                written.append(number)
                number += 1
            elif event == "checkpoint":
                last = waiting + [ready for writer in writers for ready in writer.prepare_commit()]
                last = msgspec.msgpack.decode(msgspec.msgpack.encode(last))
                waiting = list(last)
                logged, written = logged + written, []
            elif event == "commit":
                committer.commit(waiting)
                waiting = []
            elif event == "again":
                committer.commit(last)
                waiting = []
            else:  # The attempt ends; a lost checkpoint was prepared but never completed.
                if event == "lost":
                    for writer in writers:
                        writer.prepare_commit()
                else:
                    writers[0].close()
                written, attempt = [], attempt + 1
                committer = committer_of(sink)
                committer.commit(last)
                committer.abandon(last)
                waiting = []
                assert pending(root) == []
                dead += writers
                writers = [writer_of(sink, subtask, attempt) for subtask in range(2)]
        for writer in dead + writers:  # Closing late, as a stopped process may, changes nothing.
            writer.close()
        assert Counter(record["n"] for record in published(root)) == Counter(logged)
        assert pending(root) == []


def test_nothing_visible_before_commit(tmp_path: Path) -> None:
    """Written and prepared records stay invisible until the commit."""
    writer = writer_of(sink := json_sink(tmp_path))
    writer.write([1])
    ready = writer.prepare_commit()
    assert published(tmp_path) == []
    committer_of(sink).commit(ready)
    assert published(tmp_path) == [1]


def test_no_records_make_no_file(tmp_path: Path) -> None:
    """A checkpoint without records has no committables and leaves no file."""
    writer = writer_of(json_sink(tmp_path))
    writer.write([])
    assert writer.prepare_commit() == []
    assert list(tmp_path.iterdir()) == []


def test_close_removes_what_was_not_prepared_only(tmp_path: Path) -> None:
    """Closing discards open and rolled files, and leaves what a checkpoint may hold."""
    writer = writer_of(sink := json_sink(tmp_path, roll_bytes=1))
    writer.write([1])
    ready = writer.prepare_commit()
    writer.write([2])
    writer.write([3])
    assert len(pending(tmp_path)) == 3
    writer.close()
    committer_of(sink).commit(ready)
    assert (published(tmp_path), pending(tmp_path)) == ([1], [])


def test_abandon_never_touches_others(tmp_path: Path) -> None:
    """Pending files of another sink or job in the same directory survive an abandon."""
    mine, other = json_sink(tmp_path), json_sink(tmp_path)
    kept = [(other, "other", "job"), (other, "out", "job-2")]
    ready = []
    for sink, uid, job in kept:
        writer = writer_of(sink, uid=uid, job=job)
        writer.write([job])
        ready += writer.prepare_commit()
    killed = writer_of(mine)
    killed.write(["gone"])
    lost = writer_of(mine, attempt=2)
    lost.write(["gone, too"])
    lost.prepare_commit()
    committer_of(mine).abandon([])
    killed.close()
    assert len(pending(tmp_path)) == 2
    committer_of(other).commit(ready)
    assert sorted(published(tmp_path)) == ["job", "job-2"]


def test_new_driver_cleans_up_after_the_old_one(tmp_path: Path) -> None:
    """A restored job's committer, in a new process, clears what the dead driver's writers left."""
    old = writer_of(json_sink(tmp_path))
    old.write([1])
    ready = old.prepare_commit()
    old.write([2])
    old.prepare_commit()
    committer = committer_of(json_sink(tmp_path))
    committer.commit(ready)
    committer.abandon(ready)
    assert (published(tmp_path), pending(tmp_path)) == ([1], [])


def test_the_end_of_a_job_removes_what_workers_of_an_old_driver_wrote_later(tmp_path: Path) -> None:
    """They write until they are ended, also after a new driver has cleaned up; savepoints keep theirs."""
    sink = json_sink(tmp_path)
    old = writer_of(sink)
    old.write([1])
    held = old.prepare_commit()
    committer = committer_of(sink)
    committer.hold(held, Fork("job", 1, 1, 4))
    committer.abandon([])
    old.write([2])
    old.prepare_commit()
    old.write([3])
    committer.finish()
    names = pending(tmp_path)
    assert [name for name in names if not name.endswith(".held")] == [Path(held[0]["pending"]).name]
    committer.finish()
    assert pending(tmp_path) == names
    old.close()


def test_a_folder_that_cannot_be_looked_into_is_not_taken_for_an_empty_one(tmp_path: Path) -> None:
    """What a failed attempt has prepared would stay for ever if the restart only passed over it."""
    writer = writer_of(json_sink(tmp_path))
    writer.write([1])
    writer.prepare_commit()
    aside = (tmp_path / "_pending").rename(tmp_path / "aside")
    (tmp_path / "_pending").write_text("in the way")
    committer = committer_of(json_sink(tmp_path))
    with pytest.raises(StorageError, match=r"_pending.*Not a directory"):
        committer.abandon([])
    (tmp_path / "_pending").unlink()
    aside.rename(tmp_path / "_pending")
    committer.abandon([])
    assert pending(tmp_path) == []


def test_lost_damaged_and_changed_files_are_refused(tmp_path: Path) -> None:
    """A committable whose file is gone, damaged or cut short is refused by the file's name."""
    writer = writer_of(sink := json_sink(tmp_path))
    writer.write(["abc"])
    (ready,) = writer.prepare_commit()
    path, committer = tmp_path / ready["pending"], committer_of(sink)
    whole = path.read_bytes()
    path.write_bytes(whole.replace(b"abc", b"abd"))
    with pytest.raises(OperatingError, match="damaged"):
        committer.commit([ready])
    assert published(tmp_path) == []
    path.write_bytes(whole)
    committer.commit([ready])
    (tmp_path / ready["final"]).write_bytes(b"")
    with pytest.raises(OperatingError, match="published with 0 bytes"):
        committer.commit([ready])
    (tmp_path / ready["final"]).unlink()
    with pytest.raises(OperatingError, match=r"neither .*jsonl"):
        committer.commit([ready])


def test_full_disk_names_the_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A full disk is an operating error with the path, and no half file is ever published."""

    def full(*_: Any) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    writer = writer_of(sink := json_sink(tmp_path))
    writer.write([1])
    monkeypatch.setattr("headgate.common.files.durable_file.system.fsync", full)
    with pytest.raises(StorageError, match=r"_pending.*No space left"):
        writer.prepare_commit()
    writer.close()
    committer_of(sink).abandon([])
    assert (published(tmp_path), pending(tmp_path)) == ([], [])


def test_rolling_by_size(tmp_path: Path) -> None:
    """A file that reached the size is finished and the next one begun."""
    writer = writer_of(sink := json_sink(tmp_path, roll_bytes=10))
    for number in range(4):
        writer.write(["x" * 4, number])
    ready = writer.prepare_commit()
    assert [committable["size"] for committable in ready] == [18, 18]
    committer_of(sink).commit(ready)
    assert len(published(tmp_path)) == 8


@pytest.mark.parametrize("record", [Point(1), PointTuple(1), PointStruct(1), Row.of(x=1), {"x": 1}])
def test_records_with_fields_become_objects_and_columns(tmp_path: Path, record: Any) -> None:
    """Every kind of record with named fields is a JSON object and a Parquet row."""
    for make in (json_sink, parquet_sink):
        writer = writer_of(sink := make(tmp_path))
        writer.write([record])
        committer_of(sink).commit(writer.prepare_commit())
    assert published(tmp_path) == [{"x": 1}, {"x": 1}]


def test_tuples_and_batches(tmp_path: Path) -> None:
    """Tuples are JSON arrays and columns _1, _2 of Parquet; batches are rows of both."""
    for make, expected in [(json_sink, [1, "a"]), (parquet_sink, {"_1": 1, "_2": "a"})]:
        root = tmp_path / make.__name__
        writer = writer_of(sink := make(root))
        writer.write([(1, "a")])
        ready = writer.prepare_commit()
        other = writer_of(sink, subtask=1)
        other.write(pa.record_batch({"c": [5]}))
        committer_of(sink).commit([*ready, *other.prepare_commit()])
        assert published(root) == [expected, {"c": 5}]


def test_parquet_records_that_do_not_fit(tmp_path: Path) -> None:
    """A new field, another type and an integer beyond 64 bits are refused with the schema named."""
    writer = writer_of(parquet_sink(tmp_path))
    writer.write([{"a": 1}])
    for record, match in [
        ({"a": 1, "b": 2}, "'b' is not in"),
        ({"a": "x"}, "a: int64"),
        ({"a": 2**70}, "a: int64"),
    ]:
        with pytest.raises(UsageError, match=match):
            writer.write([record])
    with pytest.raises(UsageError, match="a: string"):
        writer.write(pa.record_batch({"a": ["x"]}))
    with pytest.raises(UsageError, match="type int has no columns"):
        writer.write([1])
    writer.close()


def test_closing_discards_a_begun_parquet_file(tmp_path: Path) -> None:
    """Closing with row groups written leaves no file, and no complaint when the writer is collected."""
    writer = writer_of(parquet_sink(tmp_path))
    writer.write(pa.record_batch({"a": list(range(200_000))}))
    assert len(pending(tmp_path)) == 1
    writer.close()
    assert pending(tmp_path) == []


def test_given_parquet_schema_is_kept(tmp_path: Path) -> None:
    """With a schema absent fields are null and types are the schema's."""
    schema = pa.schema([("a", pa.int32()), ("b", pa.string())])
    writer = writer_of(sink := parquet_sink(tmp_path, schema))
    writer.write([{"a": 1}])
    writer.write(pa.record_batch({"b": ["x"], "a": [2]}))
    committer_of(sink).commit(writer.prepare_commit())
    (path,) = tmp_path.glob("part-*")
    assert pq.read_table(path).equals(pa.table({"a": [1, 2], "b": [None, "x"]}, schema=schema))


def test_unwritable_records_are_refused(tmp_path: Path) -> None:
    """A value without JSON form is refused by its type."""
    writer = writer_of(json_sink(tmp_path))
    with pytest.raises(UsageError, match="type object"):
        writer.write([object()])
    writer.close()


def test_wrong_outputs_are_refused_before_the_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file in the way, a directory we may not write in, and visible files if so asked are refused."""
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="is a file"):
        json_sink(tmp_path / "file").validate()
    with pytest.raises(UsageError, match="cannot write in"):
        json_sink(tmp_path / "file" / "below").validate()
    json_sink(tmp_path).validate()
    with pytest.raises(UsageError, match="holds 'file' already"):
        json_sink(tmp_path, if_exists="refuse").validate()
    monkeypatch.setattr("headgate.connectors.files.sink.os.access", lambda *_: False)
    with pytest.raises(UsageError, match="cannot write in"):
        json_sink(tmp_path / "new").validate()
    with pytest.raises(UsageError, match="roll_bytes=0"):
        json_sink(tmp_path, roll_bytes=0)


@given(st.lists(st.text(max_size=8), min_size=4, max_size=4))
def test_names_never_collide(parts: list[str]) -> None:
    """Different jobs and uids have different folders, and names hold no separator."""
    job, uid, other_job, other_uid = parts
    if (job, uid) != (other_job, other_uid):
        assert pending_folder(job, uid) != pending_folder(other_job, other_uid)
    assert not {"/", "+"} & set(safe(job))
