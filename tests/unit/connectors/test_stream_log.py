"""The copy of a streaming query's own log: nothing more than it needs, and enough to find lost input."""

from __future__ import annotations

import json
import tracemalloc
import zlib
from pathlib import Path

from headgate.connectors.dataframe import stream_log as logs


def query(folder: Path, last: int, compacted: int | None = None) -> Path:
    """A folder as Spark leaves it while it waits in batch `last`: a file source, and one of another kind."""
    files: dict[str, str] = {"metadata": '{"id":"1"}', "sources/1/0": 'v1\n{"shard":7}', ".metadata.crc": "x"}
    for number in range(last + 1):
        files[f"offsets/{number}"] = (
            f'v1\n{{"batchTimestampMs":{1000 + number}}}\n{{"logOffset":{number}}}\n-'
        )
        if number < last:
            files[f"commits/{number}"] = f"v1\n{number}"
        seen = range(number + 1) if number == compacted else [number]
        lines = [json.dumps({"path": f"file:///in/{each}%20.json", "batchId": each}) for each in seen]
        name = f"sources/0/{number}{'.compact' if number == compacted else ''}"
        files[name] = "\n".join(["v1", *lines])
        files[f"sources/0/.{number}.crc"] = "x"
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


def test_a_picture_has_the_last_two_batches_and_a_commit(tmp_path: Path) -> None:
    """Spark asks for the offsets before the last ones, too; the commit is that of the batch before."""
    log = logs.picture(query(tmp_path, 4), 4)
    assert {name for name in log if not name.startswith("sources/0")} == {
        "metadata", "offsets/3", "offsets/4", "commits/3", "commits/4", "sources/1/0",
    }  # fmt: skip
    assert zlib.decompress(log["commits/4"]) == b"v1\n3"
    assert logs.offsets_text(log, 4) == '{"logOffset":4}; -'
    assert logs.planned_ms(tmp_path, 4) == 1004
    assert logs.planned_ms(tmp_path, 5) is None


def test_a_picture_begins_with_the_newest_compacted_entry(tmp_path: Path) -> None:
    """It holds all before; hidden files are Spark's own checksums."""
    log = logs.picture(query(tmp_path, 14, compacted=9), 14)
    names = sorted(name.removeprefix("sources/0/") for name in log if name.startswith("sources/0/"))
    assert names == ["10", "11", "12", "13", "14", "9.compact"]


def test_a_picture_before_the_first_batch_has_where_sources_begin(tmp_path: Path) -> None:
    """And no commit of anything; a query that has not begun has none of it."""
    (tmp_path / "sources" / "0").mkdir(parents=True)
    (tmp_path / "sources" / "0" / "0").write_text("v1\n{}")
    assert sorted(logs.picture(tmp_path, -1)) == ["sources/0/0"]
    assert logs.picture(tmp_path / "none", -1) == {}


def test_a_laid_out_log_is_what_was_copied(tmp_path: Path) -> None:
    """A copy of the copy is the same."""
    log = logs.picture(query(tmp_path / "first", 14, compacted=9), 14)
    logs.lay_out(tmp_path / "second", log)
    assert logs.picture(tmp_path / "second", 14) == log


def test_later_files_are_those_that_other_queries_of_the_line_have_listed(tmp_path: Path) -> None:
    """Whatever the position lists was read before; the rest must still be there."""
    log = logs.picture(query(tmp_path / "line" / "a", 3), 3)
    query(tmp_path / "line" / "b", 12, compacted=9)
    later = logs.files_of_later_epochs(tmp_path / "line", log)
    assert set(later) == {f"file:///in/{number}%20.json" for number in range(4, 13)}
    assert "/in/4 .json" in logs.missing_locally(later)
    assert logs.files_of_later_epochs(tmp_path / "other", log) == []


def test_many_entries_that_unpack_to_much_are_refused_together() -> None:
    """A few kilobytes of a snapshot could fill the disk otherwise. No entry is held whole for that."""
    entry = zlib.compress(bytes(64 << 20))
    tracemalloc.start()
    found = logs.damage({f"sources/0/{number}": entry for number in range(17)})
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert found is not None
    assert "its entries unpack to more than" in found
    assert peak < 16 << 20
    assert logs.damage({f"sources/0/{number}": entry for number in range(3)}) is None
    assert logs.damage({"sources/0/0": zlib.compress(b"")}) is None
    assert "ends early" in str(logs.damage({"sources/0/0": entry[:-9]}))
