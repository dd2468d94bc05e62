"""The files source: exact positions in every format and compression, and clear refusals."""

from __future__ import annotations

import dataclasses
import gzip
import itertools
import pickle
import tempfile
from pathlib import Path
from typing import Any, NamedTuple, TypedDict

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.api.source import (
    END_OF_INPUT,
    NOTHING_AVAILABLE,
    InputLeft,
    PollStatus,
    Source,
    SourceReader,
    SourceReaderContext,
    Split,
)
from headgate.common.errors import BadRecordError, OperatingError, StorageError, UsageError
from headgate.connectors.files import csv_source, json_source, parquet_source, text_cursor
from headgate.connectors.files.csv_decoder import CsvDecoder
from headgate.connectors.files.source import SIZED_FILES_MAX, FilesEnumerator
from headgate.records.late_columns import LateColumns

BLOCK_SIZES = (7, 64, 1024)
BATCH_SIZES = (1, 100, 4096)
STEPS = st.lists(st.tuples(st.integers(1, 9), st.booleans()), max_size=25)
SHAPES = ("plain", "gzip", "gzip members", "zstd", "zstd frames")


@dataclasses.dataclass
class Point:
    x: int
    y: str = ""


class PointTuple(NamedTuple):
    x: int
    y: str = ""


class PointDict(TypedDict):
    x: int


class PointStruct(msgspec.Struct):
    x: int
    y: str = ""


def compress(data: bytes, shape: str) -> bytes:
    """The data in one of the shapes; members and frames end anywhere, also within a line."""
    pieces = [data]
    if shape.endswith("s"):
        size = max(1, len(data) // 5)
        pieces = [data[i : i + size] for i in range(0, len(data), size)]
    if shape.startswith("gzip"):
        return b"".join(gzip.compress(piece) for piece in pieces)
    if shape.startswith("zstd"):
        return b"".join(zstandard.ZstdCompressor().compress(piece) for piece in pieces)
    return data


def read_on(
    opened: list[SourceReader[Any]], source: Source[Any], steps: Any
) -> tuple[list[Any], list[Any], int]:
    """What :func:`read` does, except for closing."""
    enumerator = source.create_enumerator(None)
    reader = source.create_reader(SourceReaderContext("uid", 0, 1))
    opened.append(reader)
    records: list[Any] = []
    bad: list[Any] = []
    skipped = 0
    for size, crash in itertools.chain(steps, itertools.repeat((50, False), 20_000)):
        if crash:
            positions, state = msgspec.msgpack.decode(
                msgspec.msgpack.encode(
                    [[(s.id, s.position) for s in reader.snapshot()], enumerator.snapshot()]
                )
            )
            skipped += reader.skipped
            reader.close()
            source = pickle.loads(pickle.dumps(source))
            enumerator = source.create_enumerator(state)
            reader = source.create_reader(SourceReaderContext("uid", 0, 1))
            opened.append(reader)
            reader.add_splits([Split(*split) for split in positions])
        polled: Any = reader.poll(size)
        bad.extend(reader.bad_records)
        reader.bad_records = []
        if polled is END_OF_INPUT:
            reader.close()
            return records, bad, skipped + reader.skipped
        if polled is NOTHING_AVAILABLE:
            if not reader.snapshot():
                splits = enumerator.next_splits(0)
                reader.add_splits(splits) if splits is not None else reader.no_more_splits()
            continue
        assert 0 < len(polled) <= size
        if isinstance(polled, LateColumns):
            polled = polled.complete()
        records.extend(polled if isinstance(polled, list) else polled.to_pylist())
    raise AssertionError("the source did not end")


def read(source: Source[Any], steps: Any = ()) -> tuple[list[Any], list[Any], int]:
    """All records, bad records and the count of skipped ones, crashing where a step says so."""
    opened: list[SourceReader[Any]] = []
    try:
        return read_on(opened, source, steps)
    finally:
        for reader in opened:
            reader.close()


def reader_at(source: Source[Any], path: Path, position: Any) -> SourceReader[Any]:
    """A reader of one file."""
    reader = source.create_reader(SourceReaderContext("uid", 0, 1))
    reader.add_splits([Split(str(path), position)])
    reader.no_more_splits()
    return reader


@settings(max_examples=60, deadline=None)
@given(st.data(), st.sampled_from(SHAPES), STEPS)
def test_json_lines_survive_crashes(data: st.DataObject, shape: str, steps: list[tuple[int, bool]]) -> None:
    """From any snapshot on, every line comes exactly once and in order, blank lines or not."""
    values = data.draw(st.lists(st.dictionaries(st.text(max_size=3), st.integers() | st.text(), max_size=3)))
    gaps = data.draw(st.lists(st.sampled_from(["\n", "\n", "\r\n", "\n\n"]), min_size=1))
    text = b"".join(
        msgspec.json.encode(value) + gap.encode() for value, gap in zip(values, itertools.cycle(gaps))
    )
    text = text[: len(text) - data.draw(st.sampled_from([0, 1])) * text.endswith(b"}\n")]
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(text_cursor, "BLOCK_BYTES", data.draw(st.sampled_from(BLOCK_SIZES)))
        patch.setattr(text_cursor, "BATCH_BYTES", data.draw(st.sampled_from(BATCH_SIZES)))
        patch.setattr(text_cursor, "SKIP_BYTES_PER_POLL", 40)
        Path(folder, "a").write_bytes(compress(text, shape))
        Path(folder, "b").write_bytes(compress(b'{"last":1}', shape))
        assert read(json_source(folder), steps)[0] == [*values, {"last": 1}]


@settings(max_examples=60, deadline=None)
@given(st.data(), st.sampled_from(SHAPES), STEPS, st.sampled_from(["dict", "arrow", "late"]))
def test_bad_lines_survive_crashes(
    data: st.DataObject, shape: str, steps: list[tuple[int, bool]], kind: str
) -> None:
    """Good and bad lines both come exactly once, in whatever mixture and from any snapshot on."""
    good = data.draw(st.lists(st.booleans(), max_size=40))
    lines = [b'{"i":%d}' % i if ok else b'{"i":%d}{' % i for i, ok in enumerate(good)]
    schema = None if kind == "dict" else pa.schema([("i", pa.int64())])
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(text_cursor, "BLOCK_BYTES", data.draw(st.sampled_from(BLOCK_SIZES)))
        patch.setattr(text_cursor, "BATCH_BYTES", data.draw(st.sampled_from(BATCH_SIZES)))
        Path(folder, "a").write_bytes(compress(b"\n".join(lines), shape))
        source: Source[Any] = json_source(folder, schema, "side-output")
        records, bad, _ = read(source.with_columns(["i"]) if kind == "late" else source, steps)
        assert records == [{"i": i} for i, ok in enumerate(good) if ok]
        assert [record.position for record in bad] == [i + 1 for i, ok in enumerate(good) if not ok]
        assert [record.raw for record in bad] == [lines[i] for i, ok in enumerate(good) if not ok]
        records, bad, skipped = read(json_source(folder, schema, "skip"), steps)
        assert (len(records), bad, skipped) == (sum(good), [], len(good) - sum(good))


CELLS = st.text(st.sampled_from('ab",\n\r é'), max_size=6)


@settings(max_examples=80, deadline=None)
@given(st.data(), st.sampled_from(SHAPES), STEPS)
def test_csv_survives_crashes(data: st.DataObject, shape: str, steps: list[tuple[int, bool]]) -> None:
    """Quoted line breaks, delimiters and quotes are fields' content; positions stand between rows."""
    rows = data.draw(st.lists(st.tuples(CELLS, CELLS), max_size=30))
    quote = data.draw(st.booleans())
    if not quote:
        rows = [(str(i), "x") for i, _ in enumerate(rows)]

    def cell(text: str) -> str:
        return '"' + text.replace('"', '""') + '"' if quote else text

    end = data.draw(st.sampled_from(["\n", "\r\n"]))
    text = end.join(["\ufeffone,two", *(f"{cell(a)},{cell(b)}" for a, b in rows)]).encode()
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(text_cursor, "BLOCK_BYTES", data.draw(st.sampled_from(BLOCK_SIZES)))
        patch.setattr(text_cursor, "BATCH_BYTES", data.draw(st.sampled_from(BATCH_SIZES)))
        Path(folder, "a").write_bytes(compress(text, shape))
        assert read(csv_source(folder), steps)[0] == [{"one": a, "two": b} for a, b in rows]


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 60), st.integers(1, 25), STEPS)
def test_parquet_survives_crashes(rows: int, group: int, steps: list[tuple[int, bool]]) -> None:
    """Every row comes exactly once and in order, over any row groups, from any snapshot on."""
    with tempfile.TemporaryDirectory() as folder:
        for name in "ab":
            table = pa.table({"i": list(range(rows)), "s": [name] * rows})
            pq.write_table(table, f"{folder}/{name}.parquet", row_group_size=group)
        expected = [{"s": name, "i": i} for name in "ab" for i in range(rows)]
        assert read(parquet_source(folder, ["i", "s"]), steps)[0] == expected


def test_parquet_stays_columnar(tmp_path: Path) -> None:
    """Parquet gives record batches with the columns asked for."""
    pq.write_table(pa.table({"a": [1, 2], "b": [3, 4]}), tmp_path / "x.parquet")
    reader = reader_at(parquet_source(tmp_path, ["b"]), tmp_path / "x.parquet", None)
    batch: Any = reader.poll(9)
    reader.close()
    assert batch.equals(pa.record_batch({"b": [3, 4]}))


@pytest.mark.parametrize("schema", [Point, PointTuple, PointStruct])
def test_typed_records(tmp_path: Path, schema: Any) -> None:
    """JSON objects and CSV rows become records of the schema's class."""
    (tmp_path / "x.json").write_text('{"x":1,"y":"a","more":0}\n{"x":2}\n')
    (tmp_path / "x.csv").write_text("y,x\na,1\nb,2\n")
    assert read(json_source(tmp_path / "x.json", schema))[0] == [schema(1, "a"), schema(2)]
    assert read(csv_source(tmp_path / "x.csv", schema))[0] == [schema(1, "a"), schema(2, "b")]


def test_typed_dicts_and_field_types(tmp_path: Path) -> None:
    """A TypedDict checks objects; a dict of types reads CSV, with empty fields as None where allowed."""
    (tmp_path / "x.json").write_text('{"x":1}\n')
    (tmp_path / "x.csv").write_text("1.5,\n2,7\n")
    assert read(json_source(tmp_path / "x.json", PointDict))[0] == [{"x": 1}]
    source = csv_source(tmp_path / "x.csv", {"f": float, "n": int | None}, header=False)
    assert read(source)[0] == [{"f": 1.5, "n": None}, {"f": 2.0, "n": 7}]


def test_arrow_schema_reads_columns(tmp_path: Path) -> None:
    """With an Arrow schema JSON and CSV become record batches; absent and empty values are null."""
    schema = pa.schema([("n", pa.int32()), ("s", pa.string())])
    (tmp_path / "x.json").write_text('{"s":"a","n":1}\n{"n":2,"z":0}\n')
    (tmp_path / "x.csv").write_text("s,n\na,1\n,\n")
    reader = reader_at(json_source(tmp_path / "x.json", schema), tmp_path / "x.json", None)
    batch: Any = reader.poll(9)
    reader.close()
    assert batch.equals(pa.record_batch({"n": [1, 2], "s": ["a", None]}, schema=schema))
    reader = reader_at(csv_source(tmp_path / "x.csv", schema), tmp_path / "x.csv", None)
    batch = reader.poll(9)
    reader.close()
    assert batch.equals(pa.record_batch({"n": [1, None], "s": ["a", ""]}, schema=schema))


def test_a_poll_takes_several_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As many records as were asked for, of records of every kind, but no further block after 4 MiB."""
    lines = b"".join(b'{"i":%d}\n' % i for i in range(100))
    (tmp_path / "x.json").write_bytes(lines + b"{\n" + lines)
    monkeypatch.setattr(text_cursor, "BLOCK_BYTES", 32)
    for schema in (None, pa.schema([("i", pa.int64())])):
        source = json_source(tmp_path / "x.json", schema, "side-output")
        reader = reader_at(source, tmp_path / "x.json", None)
        assert len(polled(reader, 90)) == 90
        assert len(polled(reader, 20)) == 20
        assert [bad.position for bad in reader.bad_records] == [101]
        (split,) = reader.snapshot()
        assert (split.position["offset"], split.position["line"]) == (len(lines) + 2 + 80, 111)
        monkeypatch.setattr(text_cursor, "BATCH_BYTES", 200)
        assert 20 <= len(polled(reader, 100)) <= 30
        monkeypatch.setattr(text_cursor, "BATCH_BYTES", 4096)
        assert 60 <= len(polled(reader, 100)) <= 70
        reader.close()


def test_a_poll_ends_after_many_bad_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No further block is read after as many bad lines as records were asked for: a barrier may wait."""
    (tmp_path / "x.json").write_bytes(b"bad\n" * 100 + b'{"i":1}\n')
    monkeypatch.setattr(text_cursor, "BLOCK_BYTES", 40)
    for schema in (None, pa.schema([("i", pa.int64())])):
        reader = reader_at(json_source(tmp_path / "x.json", schema, "skip"), tmp_path / "x.json", None)
        assert reader.poll(15) is NOTHING_AVAILABLE
        assert reader.skipped == 20
        reader.close()


def test_a_record_of_many_lines_is_searched_few_times(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The end of a record is looked for in twice as many bytes each time, not in each block once more."""
    text = "line\n" * 2000
    (tmp_path / "x.csv").write_text(f'a,b\n1,"{text}"\n2,"c"\n')
    monkeypatch.setattr(text_cursor, "BLOCK_BYTES", 32)
    searched: list[int] = []
    border = CsvDecoder.border
    monkeypatch.setattr(
        CsvDecoder, "border", lambda decoder, data: searched.append(len(data)) or border(decoder, data)
    )
    reader = reader_at(csv_source(tmp_path / "x.csv"), tmp_path / "x.csv", None)
    assert polled(reader, 9) == [{"a": "1", "b": text}, {"a": "2", "b": "c"}]
    assert len(searched) < 20
    reader.close()


def polled(reader: SourceReader[Any], most: int) -> Any:
    """The records of a poll, which has some."""
    records = reader.poll(most)
    assert not isinstance(records, PollStatus)
    return records


def test_integers_beyond_64_bits(tmp_path: Path) -> None:
    """Python records keep integers of any size; an Arrow column refuses them as bad records."""
    path = tmp_path / "x.json"
    path.write_text(f'{{"x":{2**64}}}\n{{"x":{-(2**200)}}}\n{{"x":1}}\n')
    assert [record["x"] for record in read(json_source(path))[0]] == [2**64, -(2**200), 1]
    assert [record.x for record in read(json_source(path, Point))[0]] == [2**64, -(2**200), 1]
    records, bad, _ = read(json_source(path, pa.schema([("x", pa.int64())]), "side-output"))
    assert records == [{"x": 1}]
    assert [record.position for record in bad] == [1, 2]


@pytest.mark.parametrize("line", ["{", '{"x":"no"}', "{} {}", "NaN", '{"x":1}{"x":2}', '"\\ud800'])
def test_fail_names_file_and_line(tmp_path: Path, line: str) -> None:
    """By default the first bad line ends the job, with file and line in the message."""
    path = tmp_path / "x.json"
    path.write_text('{"x":1}\n\n' + line + '\n{"x":2}\n')
    with pytest.raises(BadRecordError, match=r"x\.json, line 3: "):
        read(json_source(path, Point))


@pytest.mark.parametrize(
    ("text", "line"),
    [("a,b\n1,2\n1\n", 3), ('a,b\n"x\ny",2\n1,"2\n3\n', 4), ("a,b\n1,2\nz,2\n", 3), ("a,a\n1,2\n", 1)],
)
def test_bad_csv_rows_are_named(tmp_path: Path, text: str, line: int) -> None:
    """Wrong field counts, open quotes, wrong types and unusable headers are refused by line."""
    path = tmp_path / "x.csv"
    path.write_text(text)
    schema = {"a": int, "b": str} if line == 3 else None
    with pytest.raises(BadRecordError, match=rf"x\.csv, line {line}: "):
        read(csv_source(path, schema))


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("change", ["shorter", "other", "gone"])
def test_changed_files_are_refused(tmp_path: Path, shape: str, change: str) -> None:
    """A file that shrank, changed or vanished since the checkpoint is refused, never read from 0."""
    path = tmp_path / "x.json"
    lines = b"".join(b'{"i":%d,"r":%d}\n' % (i, i * 2654435761 % 2**32) for i in range(500))
    path.write_bytes(compress(lines, shape))
    source = json_source(path)
    reader = reader_at(source, path, None)
    reader.poll(437)
    (split,) = reader.snapshot()
    reader.close()
    if change == "shorter":
        path.write_bytes(path.read_bytes()[:-9])
    elif change == "other":
        path.write_bytes(compress(lines.replace(b"r", b"s"), shape) + compress(b"\n" * 999, shape))
    else:
        path.unlink()
    again = reader_at(source, path, split.position)
    with pytest.raises(OperatingError, match=r"x\.json"):
        again.poll(10)
    again.close()


@pytest.mark.parametrize("shape", ["gzip", "zstd"])
def test_damaged_compression_is_refused(tmp_path: Path, shape: str) -> None:
    """A compressed file that ends early or holds garbage is refused by name."""
    whole = compress(b'{"i":1}\n' * 9000, shape)
    for name, data in [("cut", whole[:-3]), ("tail", whole + b"garbage")]:
        (tmp_path / name).write_bytes(data)
        with pytest.raises(StorageError, match=f"{name}.*{shape} data"):
            read(json_source(tmp_path / name))


def test_gzip_padding_is_skipped(tmp_path: Path) -> None:
    """Zero bytes between and after gzip members are padding."""
    member = gzip.compress(b'{"i":1}\n')
    (tmp_path / "x.gz").write_bytes(member + bytes(700) + member + bytes(9))
    assert read(json_source(tmp_path / "x.gz"))[0] == [{"i": 1}, {"i": 1}]


def test_changed_parquet_is_refused(tmp_path: Path) -> None:
    """A Parquet file with another footer than at the checkpoint is refused."""
    path = tmp_path / "x.parquet"
    pq.write_table(pa.table({"a": range(10)}), path)
    reader = reader_at(parquet_source(path), path, None)
    reader.poll(3)
    (split,) = reader.snapshot()
    reader.close()
    pq.write_table(pa.table({"a": range(1, 11)}), path)
    with pytest.raises(OperatingError, match=r"changed since the checkpoint, .* row 3"):
        reader_at(parquet_source(path), path, split.position).poll(1)


def test_files_are_found_and_hidden_ones_skipped(tmp_path: Path) -> None:
    """Directories are read recursively, sorted, without hidden names; a file named twice counts once."""
    for name in ("b/2.json", "a/1.json", "_tmp/3.json", ".x/4.json", "b/_SUCCESS", "b/.crc"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(f'{{"f":"{name}"}}')
    expected = [{"f": "a/1.json"}, {"f": "b/2.json"}]
    assert read(json_source(tmp_path))[0] == expected
    assert read(json_source(f"{tmp_path}/**/*.json"))[0] == expected
    assert read(json_source([f"{tmp_path}/b/2.json", f"{tmp_path}/*", f"file://{tmp_path}/a"]))[0] == expected
    assert read(json_source(f"{tmp_path}/_tmp/*.json"))[0] == [{"f": "_tmp/3.json"}]


def test_wrong_paths_are_refused_before_the_start(tmp_path: Path) -> None:
    """Missing files, empty globs and directories, other formats and false suffixes are usage errors."""
    (tmp_path / "x.csv").write_text("a")
    (tmp_path / "y.json.gz").write_text("{}")
    (tmp_path / "z").write_text("not it")
    (tmp_path / "empty").mkdir()
    cases: list[tuple[Source[Any], str]] = [
        (json_source(tmp_path / "none"), "no such file"),
        (json_source([tmp_path / "z", tmp_path / "none"]), "no such file"),
        (json_source(f"{tmp_path}/*.nothing"), "no file to read"),
        (json_source(tmp_path / "empty"), "no file to read"),
        (json_source([]), "empty list"),
        (json_source("s3://bucket/x"), "not a local file"),
        (json_source(tmp_path / "x.csv"), "looks like CSV"),
        (json_source(tmp_path / "y.json.gz"), "not compressed"),
        (parquet_source(tmp_path / "z"), "not a Parquet file"),
        (json_source(tmp_path / "z", on_error="ignore"), "on_error"),  # type: ignore[arg-type]
        (json_source(tmp_path / "z", schema=object()), "cannot be decoded"),
        (csv_source(tmp_path / "x.csv", schema=3), "cannot be read"),
        (csv_source(tmp_path / "x.csv", delimiter="::"), "delimiter"),
        (csv_source(tmp_path / "x.csv", header=False), "header=False"),
    ]
    for source, match in cases:
        with pytest.raises(UsageError, match=match):
            source.validate()


def test_missing_column_is_refused(tmp_path: Path) -> None:
    """A column that a Parquet file does not have is refused by name before the start."""
    pq.write_table(pa.table({"a": [1]}), tmp_path / "x.parquet")
    with pytest.raises(UsageError, match="no column 'b'"):
        parquet_source(tmp_path, ["a", "b"]).validate()


def test_position_re_reads_one_member_at_most(tmp_path: Path) -> None:
    """A position inside the third gzip member enters the file at that member, not at its beginning."""
    members = [gzip.compress(b'{"i":%d}\n' % i * 100) for i in range(4)]
    path = tmp_path / "x.gz"
    path.write_bytes(b"".join(members))
    reader = reader_at(json_source(path), path, None)
    taken = 0
    while taken < 250:
        polled: Any = reader.poll(250 - taken)
        taken += len(polled)
    (split,) = reader.snapshot()
    assert split.position["member"] == len(members[0]) + len(members[1])
    assert (split.position["skip"], split.position["line"]) == (50 * 8, 250)
    reader.close()


class Unknown:
    """No fields that a decoder knows."""


@dataclasses.dataclass
class Holds:
    """One field is of an unknown class."""

    inner: Unknown


def test_a_field_of_an_unknown_class_is_told_as_a_bad_record(tmp_path: Path) -> None:
    """With file and line, not as an error of the decoder's own."""
    (tmp_path / "x.json").write_text('{"inner": {}}\n')
    with pytest.raises(BadRecordError, match="none of the types that records can have"):
        read(json_source(tmp_path / "x.json", Holds))


@pytest.mark.parametrize("packed", [False, True])
def test_bytes_left_fall_from_the_size_to_zero(tmp_path: Path, packed: bool) -> None:
    """Those of the split with the records, those that nobody reads with the splits that are handed out."""
    text = b"".join(b'{"n": %d}\n' % n for n in range(30_000))
    for name in ("a.jsonl", "b.jsonl"):
        (tmp_path / name).write_bytes(gzip.compress(text) if packed else text)
    size = (tmp_path / "a.jsonl").stat().st_size
    source = json_source(str(tmp_path))
    enumerator, reader = source.create_enumerator(None), source.create_reader(SourceReaderContext("u", 0, 1))
    assert enumerator.left_to_assign() == InputLeft(bytes=2 * size)
    (split,) = enumerator.next_splits(0) or ()
    assert enumerator.left_to_assign() == InputLeft(bytes=size)
    reader.add_splits([split])
    left = [reader.left_to_read()[split.id].bytes]
    while reader.poll(1_000) is not NOTHING_AVAILABLE:
        left += [each.bytes for each in reader.left_to_read().values()]
        if not packed and len(left) == 16:
            assert left[-1] == len(b"".join(b'{"n": %d}\n' % n for n in range(15_000, 30_000)))
    assert left[0] == size
    assert left == sorted(left, reverse=True)
    assert reader.left_to_read() == {}


def test_sizes_of_many_files_are_never_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither at the start nor when few are left: the driver's loop would stand still meanwhile."""
    asked: list[str] = []

    def size_of(path: str) -> int:
        asked.append(path)
        return 7

    monkeypatch.setattr("headgate.connectors.files.source._size_of", size_of)
    many: FilesEnumerator[Any] = FilesEnumerator([str(n) for n in range(SIZED_FILES_MAX + 1)])
    few: FilesEnumerator[Any] = FilesEnumerator(["a", "b"])
    while many.next_splits(0):
        expected = InputLeft(bytes=0) if not many.snapshot() else None
        assert many.left_to_assign() == expected
    assert asked == []
    assert few.left_to_assign() == InputLeft(bytes=14)
    few.next_splits(0)
    assert few.left_to_assign() == InputLeft(bytes=7)
    assert asked == ["a", "b", "a"]


def test_bytes_left_of_parquet_are_a_share_of_the_file(tmp_path: Path) -> None:
    """By its rows."""
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"n": range(100)}), path, row_group_size=30)
    reader = reader_at(parquet_source(str(path)), path, None)
    reader.poll(40)
    rest = path.stat().st_size - reader.left_to_read()[str(path)].bytes
    read_so_far = sum(split.position["row_group"] * 30 + split.position["row"] for split in reader.snapshot())
    assert rest == pytest.approx(path.stat().st_size * read_so_far / 100, abs=1)
    reader.close()
