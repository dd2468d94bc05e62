"""Directories of events: written once, recognised again, and refused with a sentence where they are wrong."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from nexmark_samples import Bid, bids_table, dataset_of

from headgate.common.errors import BadRecordError, ConfigError, StorageError, UsageError
from headgate.nexmark import (
    SCHEMAS,
    TABLES,
    FileFormat,
    NexmarkSettings,
    events,
    files,
    generate_files,
    open_files,
)
from headgate.nexmark.files import MANIFEST

SETTINGS = NexmarkSettings(seed=1)
COUNT = 1000


@pytest.fixture(autouse=True)
def _small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "PIECE_EVENTS", 100)


def directory_of(tmp_path: Path, name: str = "data") -> Path:
    """A directory with the first 1,000 events, in two Parquet files a table."""
    generate_files(tmp_path / name, SETTINGS, COUNT, files=2)
    return tmp_path / name


def rewritten(directory: Path, change: object) -> Path:
    """A copy of a directory's bids after a change, in place of them."""
    table = change(pq.read_table(directory / "bids" / "part-0000.parquet"))  # type: ignore[operator]
    path = directory / "bids" / "part-0000.parquet"
    pq.write_table(table, path)
    return path


# -- writing -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("file_format", FileFormat)
@pytest.mark.parametrize("count_of_files", [1, 3, 20])
def test_files_have_all_events_in_their_order(
    tmp_path: Path, file_format: FileFormat, count_of_files: int
) -> None:
    """In either format, also where files are left without events."""
    made = generate_files(tmp_path / "a", SETTINGS, COUNT, file_format=file_format, files=count_of_files)
    found = open_files(tmp_path / "a")
    assert found == made
    assert found.file_format is file_format
    for table, batch in zip(TABLES, events(SETTINGS, 0, COUNT)):
        assert len(found.paths(table)) == count_of_files
        assert found.read(table).equals(pa.Table.from_batches([batch]))


def test_interleaved_files_cover_the_same_time(tmp_path: Path) -> None:
    """Each has every other piece of the stream."""
    dataset = generate_files(tmp_path / "a", SETTINGS, COUNT, files=2, interleaved=True)
    for number, path in enumerate(dataset.paths("bids")):
        pieces = [events(SETTINGS, first, first + 100).bids for first in range(100 * number, COUNT, 200)]
        assert pq.read_table(path).equals(pa.Table.from_batches(pieces))


def test_row_groups_are_full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All but the last one of a file."""
    monkeypatch.setattr(files, "ROW_GROUP_ROWS", 300)
    dataset = generate_files(tmp_path / "a", SETTINGS, COUNT, files=1)
    footer = pq.read_metadata(dataset.paths("bids")[0])
    rows = [footer.row_group(number).num_rows for number in range(footer.num_row_groups)]
    assert rows == [300, 300, 300, 20]


def test_json_lines_have_times_as_text(tmp_path: Path) -> None:
    """In ISO 8601, with milliseconds."""
    dataset = generate_files(tmp_path / "a", SETTINGS, COUNT, file_format=FileFormat.JSON, files=1)
    rows = [json.loads(line) for line in dataset.paths("auctions")[0].read_text().splitlines()]
    assert list(rows[0]) == SCHEMAS["auctions"].names
    assert rows[0]["id"] == 1000
    assert [rows[0]["dateTime"], rows[-1]["dateTime"]] == [
        "2015-07-15T00:00:00.000Z",
        "2015-07-15T00:00:00.095Z",
    ]


def test_a_piece_may_lack_a_kind(tmp_path: Path) -> None:
    """The last one has a person and nothing else, and one of two files no person at all."""
    for file_format in FileFormat:
        dataset = generate_files(tmp_path / file_format, SETTINGS, 101, file_format=file_format, files=2)
        assert [dataset.read(table).num_rows for table in TABLES] == [3, 6, 92]


def test_chosen_columns_are_read(tmp_path: Path) -> None:
    """In the order that was asked for, and no others."""
    for file_format in FileFormat:
        dataset = generate_files(tmp_path / file_format, SETTINGS, COUNT, file_format=file_format)
        assert dataset.read("bids", ["price", "auction"]).column_names == ["price", "auction"]


# -- found again ---------------------------------------------------------------------------------------


def test_an_existing_directory_is_used(tmp_path: Path) -> None:
    """The second call writes nothing."""
    directory = directory_of(tmp_path)
    before = {path: path.stat().st_mtime_ns for path in directory.rglob("*")}
    again = generate_files(directory, SETTINGS, COUNT, files=2)
    assert again.read("bids").num_rows == 920
    assert {path: path.stat().st_mtime_ns for path in directory.rglob("*")} == before
    assert list(tmp_path.iterdir()) == [directory]


@pytest.mark.parametrize(
    ("settings", "changed", "says"),
    [
        (NexmarkSettings(seed=2), {}, "seed 1 (expected 2); remove it"),
        (NexmarkSettings(rate=5, base_time_ms=0), {}, "rate 10000 (expected 5), base_time_ms 14369184"),
        (SETTINGS, {"count": 999}, "events 1000 (expected 999)"),
        (SETTINGS, {"files": 3}, "files 2 (expected 3)"),
        (SETTINGS, {"interleaved": True}, "interleaved False (expected True)"),
        (SETTINGS, {"file_format": FileFormat.JSON}, "file_format parquet (expected json)"),
    ],
)
def test_a_directory_of_other_settings_is_refused(
    tmp_path: Path, settings: NexmarkSettings, changed: dict[str, int], says: str
) -> None:
    """And left as it is; the message says what differs."""
    directory = directory_of(tmp_path)
    with pytest.raises(ConfigError) as refused:
        generate_files(directory, settings, **{"count": COUNT, "files": 2, **changed})
    assert says in str(refused.value)
    assert open_files(directory).read("bids").num_rows == 920


def test_a_directory_of_an_older_generator_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its events may be others."""
    directory = directory_of(tmp_path)
    monkeypatch.setattr(files, "GENERATOR_VERSION", 99)
    with pytest.raises(ConfigError, match=r"generator_version 1 \(expected 99\)"):
        generate_files(directory, SETTINGS, COUNT, files=2)


def test_a_directory_of_somebody_else_is_refused(tmp_path: Path) -> None:
    """Nothing is written among other files."""
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(
        ConfigError, match=f"has no {MANIFEST}, so nobody generated events there; name another"
    ):
        generate_files(tmp_path, SETTINGS, COUNT)
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


def test_an_empty_directory_is_filled(tmp_path: Path) -> None:
    """As one that does not exist, with all folders above it."""
    (tmp_path / "empty").mkdir()
    for directory in (tmp_path / "empty", tmp_path / "not" / "there"):
        assert generate_files(directory, SETTINGS, COUNT).read("persons").num_rows == 20


@pytest.mark.parametrize("damage", ["cut", "gone"])
def test_damaged_files_are_found(tmp_path: Path, damage: str) -> None:
    """By their sizes; they are not written again silently."""
    directory = directory_of(tmp_path)
    path = directory / "bids" / "part-0001.parquet"
    path.unlink()
    if damage == "cut":
        path.write_bytes(b"PAR1")
    with pytest.raises(StorageError, match=r"part-0001\.parquet is not what was written there: got"):
        generate_files(directory, SETTINGS, COUNT, files=2)


def test_a_damaged_manifest_is_refused(tmp_path: Path) -> None:
    """With its name, and what to do."""
    directory = directory_of(tmp_path)
    (directory / MANIFEST).write_text('{"contents": 5}')
    with pytest.raises(StorageError, match=f"{MANIFEST} cannot be read .*; remove"):
        generate_files(directory, SETTINGS, COUNT, files=2)


def test_a_failure_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither a directory that looks finished, nor a temporary one."""

    def fail(*_: object) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(files, "events", fail)
    with pytest.raises(OSError, match="disk full"):
        generate_files(tmp_path / "a", SETTINGS, COUNT)
    assert list(tmp_path.iterdir()) == []


def test_another_process_may_be_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What it wrote is used, and the own work is thrown away."""
    directory, other = tmp_path / "a", directory_of(tmp_path, "other")
    written = files._write_files

    def overtaken(*arguments: object) -> None:
        written(*arguments)  # type: ignore[arg-type]
        if not directory.exists():
            shutil.copytree(other, directory)

    monkeypatch.setattr(files, "_write_files", overtaken)
    assert generate_files(directory, SETTINGS, COUNT, files=2).read("bids").num_rows == 920
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "other"]


@pytest.mark.parametrize(("count", "number"), [(0, 1), (COUNT, 0), (COUNT, 10_001)])
def test_wrong_numbers_are_refused(tmp_path: Path, count: int, number: int) -> None:
    """No event, no file, or too many files."""
    with pytest.raises(ConfigError, match="expected 1 to"):
        generate_files(tmp_path / "a", SETTINGS, count, files=number)


# -- directories of users ------------------------------------------------------------------------------


def test_users_files_may_have_more(tmp_path: Path) -> None:
    """Columns in another order, other columns, large strings, hidden files and folders within."""
    directory = directory_of(tmp_path)
    whole = open_files(directory).read("bids")

    def change(table: pa.Table) -> pa.Table:
        large = table.set_column(3, "channel", table["channel"].cast(pa.large_string()))
        return large.select(table.column_names[::-1]).append_column("more", table["price"])

    rewritten(directory, change)
    (directory / "bids" / "_SUCCESS").touch()
    (directory / "bids" / "_log").mkdir()
    (directory / "bids" / "_log" / "0.json").touch()
    (directory / "bids" / "day=1").mkdir()
    (directory / "bids" / "part-0001.parquet").rename(directory / "bids" / "zone.parquet")
    assert open_files(directory).read("bids").equals(whole)


def test_only_the_tables_that_are_needed_must_be_there(tmp_path: Path) -> None:
    """Asking for another one later is refused."""
    directory = directory_of(tmp_path)
    shutil.rmtree(directory / "persons")
    with pytest.raises(UsageError, match="has no folder persons; expected a folder of Parquet or JSON-lines"):
        open_files(directory)
    dataset = open_files(directory, ["bids"])
    with pytest.raises(
        UsageError, match="was opened without auctions, only with bids; open it with auctions"
    ):
        dataset.read("auctions")


def test_a_missing_column_is_named(tmp_path: Path) -> None:
    """With the file, and what is there."""
    path = rewritten(directory_of(tmp_path), lambda table: table.drop_columns(["price"]))
    with pytest.raises(UsageError) as refused:
        open_files(tmp_path / "data")
    assert str(refused.value) == (
        f"{path} has no column price, only auction, bidder, channel, url, dateTime, extra; expected the "
        "columns of Nexmark's bids, auction, bidder, price, channel, url, dateTime, extra: "
        "write the file with all of them"
    )


@pytest.mark.parametrize(
    ("column", "to", "says"),
    [
        (
            "price",
            pa.int32(),
            "column price of {} is int32; expected int64: cast it where the file is written",
        ),
        (
            "dateTime",
            pa.timestamp("us"),
            "column dateTime of {} is timestamp[us]; expected timestamp[us, tz=UTC]",
        ),
        ("extra", pa.binary(), "column extra of {} is binary; expected string"),
    ],
)
def test_a_column_of_another_type_is_named(tmp_path: Path, column: str, to: pa.DataType, says: str) -> None:
    """With the file and both types."""

    def change(table: pa.Table) -> pa.Table:
        place = table.column_names.index(column)
        values = table[column].cast(to, safe=False)
        return table.set_column(place, column, values)

    path = rewritten(directory_of(tmp_path), change)
    with pytest.raises(UsageError) as refused:
        open_files(tmp_path / "data")
    assert says.format(path) in str(refused.value)


def test_missing_values_are_refused(tmp_path: Path) -> None:
    """When they are read: nothing in a Parquet file's footer must tell of them."""

    def change(table: pa.Table) -> pa.Table:
        return table.set_column(2, "price", pa.array([None, *table["price"].to_pylist()[1:]], pa.int64()))

    rewritten(directory_of(tmp_path), change)
    dataset = open_files(tmp_path / "data")
    with pytest.raises(
        BadRecordError, match="has rows without a value in column price; expected a value of type int64"
    ):
        dataset.read("bids")


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("nonsense", "cannot be read as JSON"),
        ('{"auction": "5"}', "cannot be read as JSON .*auction"),
        ('{"auction": 5}', "has rows without a value in column bidder"),
    ],
)
def test_wrong_json_lines_are_refused(tmp_path: Path, line: str, says: str) -> None:
    """As soon as the directory is opened, where the beginning of a file is wrong."""
    directory = tmp_path / "a"
    generate_files(directory, SETTINGS, COUNT, file_format=FileFormat.JSON, files=1)
    (directory / "bids" / "part-0000.json").write_text(line + "\n")
    with pytest.raises(BadRecordError, match=says):
        open_files(directory)


def test_files_that_are_no_parquet_are_refused(tmp_path: Path) -> None:
    """By their first bytes, or when the footer is read."""
    directory = directory_of(tmp_path)
    path = directory / "bids" / "part-0000.parquet"
    path.write_bytes(b"other")
    with pytest.raises(UsageError, match="is not a Parquet file: it begins with"):
        open_files(directory)
    path.write_bytes(b"PAR1 and no footer")
    with pytest.raises(BadRecordError, match=r"part-0000\.parquet cannot be read as Parquet"):
        open_files(directory)


@pytest.mark.parametrize(
    ("names", "says"),
    [
        ([], "bids has no files; expected Parquet or JSON-lines files"),
        (["_SUCCESS"], "bids has no files"),
        (["bids.csv"], "bids has the file bids.csv; expected names that end in .parquet, .pq, .json"),
    ],
)
def test_folders_without_events_are_refused(tmp_path: Path, names: list[str], says: str) -> None:
    """Empty ones, and those of files of another kind."""
    directory = directory_of(tmp_path)
    shutil.rmtree(directory / "bids")
    (directory / "bids").mkdir()
    for name in names:
        (directory / "bids" / name).touch()
    with pytest.raises(UsageError, match=says):
        open_files(directory)


def test_two_formats_are_refused(tmp_path: Path) -> None:
    """In two tables, or in one."""
    directory = directory_of(tmp_path)
    (directory / "bids" / "more.json").touch()
    with pytest.raises(UsageError, match="looks like"):
        open_files(directory)
    for path in (directory / "bids").glob("*.parquet"):
        path.unlink()
    with pytest.raises(UsageError, match=r"has Parquet in .*persons and JSON in .*bids; expected one format"):
        open_files(directory)


def test_samples_are_datasets(tmp_path: Path) -> None:
    """The hand-made ones of the other tests are read as any other."""
    assert dataset_of(tmp_path, Bid(), Bid(price=5)).read("bids").equals(bids_table([Bid(), Bid(price=5)]))
