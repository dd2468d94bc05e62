"""State is taken out of an existing savepoint, whatever its form; what else there is stays. Without Spark."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from savepoint_bench import SavepointBench, States

from headgate.checkpoint.opening import open_checkpoint, referenced_ranges, verify_files
from headgate.checkpoint.storage.local import LocalDisk
from headgate.common.errors import StorageError, UsageError
from headgate.stateprocessor.diff import compare
from headgate.stateprocessor.writing import writing_run
from headgate.stateprocessor.writing.savepoint_writer import SavepointWriter


@pytest.mark.parametrize(("kind", "form"), [("heap", "canonical"), ("heap", "native"), ("rocksdb", "native")])
def test_a_state_is_taken_out(tmp_path: Path, kind: str, form: str) -> None:
    """With its stamps; the other states and the timers are as they were, and a program restores them."""
    bench = SavepointBench(tmp_path, kind)
    bench.fill(range(1, 30))
    before = bench.savepoint(form)
    expected = {**bench.contents(), "short": {}, "seen": {}}
    bench.close()
    writer = SavepointWriter.from_existing(str(before)).remove("op", "short").remove("op", "seen")
    made = writer.write(str(tmp_path / "after"))
    disk, metadata = open_checkpoint(made.uri)
    verify_files(disk, metadata)
    assert (metadata.format, metadata.origin) == ("canonical", before.as_uri())
    kept = [state.keyed for state in metadata.operators["op"] if state.keyed is not None]
    names = {table.name for keyed in kept for table in keyed.tables or ()}
    assert names == {"count", "sizes", "most", "timers:all"}
    assert not list((tmp_path / "after").glob(".base*/**/*.parquet"))
    other = SavepointBench(tmp_path / "other", "rocksdb", 3, made.uri)
    assert other.contents() == expected
    other.close()
    differing = {one.state: one.removed for one in compare(str(before), made.uri) if one.differs}
    assert differing == {"short": 29, "seen": 29}


def test_an_operator_is_taken_out(tmp_path: Path) -> None:
    """Nothing of it is left; what the snapshot does not have cannot be taken out of it."""
    bench = SavepointBench(tmp_path)
    bench.fill(range(3))
    before = str(bench.savepoint())
    bench.close()
    made = SavepointWriter.from_existing(before).remove("op").write(str(tmp_path / "after"))
    metadata = open_checkpoint(made.uri)[1]
    assert (metadata.operators, metadata.parallelism, metadata.state_types) == ({}, {}, {})
    for uid, state, why in (("po", None, "no state of operator 'po'; it has 'op'"), ("op", "x", "state 'x'")):
        with pytest.raises(UsageError, match=why):
            SavepointWriter.from_existing(before).remove(uid, state).write(str(tmp_path / "no"))
        assert not [file for file in (tmp_path / "no").rglob("*") if file.is_file()]


@pytest.mark.parametrize("removed", ["count", None])
def test_a_state_is_not_removed_and_transformed(removed: str | None, tmp_path: Path) -> None:
    """It would be written in key groups that are not its own; the order of the calls is no matter."""
    writer = SavepointWriter.from_existing(str(tmp_path))
    with pytest.raises(UsageError, match="'count' of operator 'op' is removed and transformed"):
        writer.remove("op", removed).transform("op", "count", abs, declared=States)
    with pytest.raises(UsageError, match="'count' of operator 'op' is removed and transformed"):
        writer.transform("op", "count", abs, declared=States).remove("op", removed)
    writer.remove("op", "seen").transform("op", "count", abs, declared=States)


def test_a_folder_with_something_in_it_is_refused(tmp_path: Path) -> None:
    """And left as it is; so is a snapshot whose table is damaged, of which nothing is written."""
    bench = SavepointBench(tmp_path)
    bench.fill(range(3))
    before = bench.savepoint()
    bench.close()
    with pytest.raises(UsageError, match="is not empty"):
        SavepointWriter.from_existing(str(before)).write(str(before))
    verify_files(*open_checkpoint(str(before)))
    table = next((before / "state" / "op" / "count").iterdir())
    table.write_bytes(table.read_bytes()[:-9] + b"\0" * 9)
    with pytest.raises(StorageError):
        SavepointWriter.from_existing(str(before)).write(str(tmp_path / "no"))
    assert not [file for file in (tmp_path / "no").rglob("*") if file.is_file()]


def files_of(folder: Path) -> set[str]:
    """All files in it."""
    return {str(file.relative_to(folder)) for file in folder.rglob("*") if file.is_file()}


@pytest.mark.parametrize("moment", ["opened_as_tables", "referenced_ranges", "encode_metadata"])
@pytest.mark.parametrize("form", ["canonical", "native"])
def test_of_two_writers_in_one_folder_the_loser_touches_nothing_of_the_winner(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moment: str, form: str
) -> None:
    """Wherever the loser is when the other one finishes: before it copies, or tidies up, or ends."""
    before = []
    for name, keys in (("other", 9), ("mine", 30)):
        bench = SavepointBench(tmp_path / name)
        bench.fill(range(keys))
        before.append(str(bench.savepoint(form)))
        expected = bench.contents()
        bench.close()
    target, begun, go = tmp_path / "after", threading.Event(), threading.Event()
    winner = threading.Thread(
        target=lambda: SavepointWriter.from_existing(before[1]).write(str(target)), daemon=True
    )
    opened, there = writing_run.opened_as_tables, getattr(writing_run, moment)

    def begins(*given: object) -> object:
        if threading.current_thread() is winner:
            begun.set()
            assert go.wait(60)
        return opened(*given)  # type: ignore[arg-type]

    def overtaken(*given: object) -> object:
        if threading.current_thread() is not winner and not go.is_set():
            go.set()
            winner.join(60)
            assert (target / "_metadata").exists()
        return begins(*given) if moment == "opened_as_tables" else there(*given)

    monkeypatch.setattr(writing_run, "opened_as_tables", begins)
    monkeypatch.setattr(writing_run, moment, overtaken)
    winner.start()
    assert begun.wait(60)
    with pytest.raises(StorageError, match="was written by another process meanwhile"):
        SavepointWriter.from_existing(before[0]).remove("op", "seen").write(str(target))
    disk, metadata = open_checkpoint(str(target))
    verify_files(disk, metadata)
    restored = SavepointBench(tmp_path / "restored", "heap", 3, str(target))
    assert restored.contents() == expected
    restored.close()
    assert files_of(target) == {"_metadata", *(found.file for found in referenced_ranges(metadata))}


def test_metadata_that_a_failed_call_has_stored_goes_with_the_rest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is the writer's own, and would be a savepoint without its tables."""
    bench = SavepointBench(tmp_path)
    bench.fill(range(3))
    before = str(bench.savepoint())
    bench.close()
    create = LocalDisk.create_if_absent

    def unsure(disk: LocalDisk, name: str, data: bytes) -> bool:
        assert create(disk, name, data)
        raise StorageError("the answer was lost")

    monkeypatch.setattr(LocalDisk, "create_if_absent", unsure)
    with pytest.raises(StorageError, match="the answer was lost"):
        SavepointWriter.from_existing(before).write(str(tmp_path / "no"))
    assert files_of(tmp_path / "no") == set()
