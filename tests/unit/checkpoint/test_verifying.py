"""Verification: whatever is changed in what counts is found and named; what is left over is no damage."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import unquote, urlsplit

import msgspec
import pytest
from test_checkpoint_service import JOB, data_name, metadata_of, write
from typer.testing import CliRunner

from headgate.checkpoint.data_files import DataFileWriter
from headgate.checkpoint.metadata.metadata_bytes import encode_metadata
from headgate.checkpoint.opening import open_checkpoint, referenced_ranges, verify_files
from headgate.checkpoint.pruning import prune
from headgate.checkpoint.service import CheckpointService
from headgate.checkpoint.storage.local import LocalDisk
from headgate.checkpoint.storage.memory import MemoryDisk
from headgate.checkpoint.storage.uris import open_disk
from headgate.checkpoint.store.entries import digest
from headgate.checkpoint.verifying import verify
from headgate.cli.main import app
from headgate.common.errors import StorageError, UsageError
from headgate.common.ids import CheckpointId

COMPAT = Path(__file__).parents[2] / "compat" / "data"


@pytest.fixture
def storage(tmp_path: Path) -> Path:
    """Two completed checkpoints that share a file, one that was stopped with, and things left over."""
    root = tmp_path / "cp"
    disk = LocalDisk(root)
    service = CheckpointService(disk, JOB)
    permit = service.claim()
    shared = write(disk, 1)
    service.store(permit, metadata_of(1, [shared]))
    service.store(permit, metadata_of(2, [shared, write(disk, 2)]))
    elsewhere = LocalDisk(tmp_path / "savepoints" / "savepoint-1")
    handle = DataFileWriter(elsewhere).write("data/v1-s0-0", [b"saved"])
    metadata = msgspec.structs.replace(metadata_of(3, [handle]), kind="savepoint", format="native")
    data = encode_metadata(metadata)
    elsewhere.create("_metadata", [data])
    service.store_savepoint(permit, metadata, elsewhere.describe("_metadata"), digest(data))
    return root


def test_an_intact_storage_in_every_form(storage: Path, tmp_path: Path) -> None:
    """Root, job, checkpoint, metadata file and savepoint; nothing is changed by looking."""
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    steps: list[tuple[int, int]] = []
    report = verify(str(storage), lambda _, done, of: steps.append((done, of)))
    assert report.clean
    assert (report.jobs, report.checkpoints, report.savepoints, report.files) == (1, 2, 1, 6)
    assert report.orphans == report.unlogged == report.unfinished == report.notes == []
    assert steps[0] == (0, 8 + 8 + 5)
    for place in ("job", "job/chk-1", "job/chk-2/_metadata", "../savepoints/savepoint-1", "../savepoints"):
        assert verify(str(storage / place)).clean
    assert verify(str(storage / "job/chk-2")).checkpoints == 1
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


@pytest.mark.parametrize("folder", ["a#b", "a%20b", "a b?"])
def test_a_storage_with_savepoints_in_folders_of_any_name(folder: str) -> None:
    """People name such folders; each savepoint is found in its own, and nowhere else."""
    disk, stored = open_disk("memory://verified"), COMPAT / "savepoints" / "v2" / "canonical"
    assert isinstance(disk, MemoryDisk)
    files = [path for path in stored.rglob("*") if path.is_file()]
    for path in files:
        disk.create(f"{folder}/{path.relative_to(stored).as_posix()}", [path.read_bytes()])
    try:
        for place in ("memory://verified", disk.describe(folder), disk.describe(f"{folder}/_metadata")):
            report = verify(place)
            assert report.clean
            assert (report.savepoints, report.files) == (1, len(files))
    finally:
        disk.forget()


def everything(storage: Path) -> Iterator[Path]:
    """Every file that counts."""
    yield from sorted(path for path in storage.parent.rglob("*") if path.is_file())


def test_every_flipped_byte_of_everything_that_counts_is_found(storage: Path) -> None:
    """Metadata, log entries, data files, savepoint: the report names the file."""
    for path in everything(storage):
        whole = path.read_bytes()
        for at in range(0, len(whole), 23):
            path.write_bytes(whole[:at] + bytes((whole[at] ^ 1 << at % 8,)) + whole[at + 1 :])
            report = verify(str(storage))
            assert not report.clean, (path, at)
            assert any(path.as_uri() in what or str(path) in what for what in report.damaged), (path, at)
        path.write_bytes(whole)
    assert verify(str(storage)).clean


@pytest.mark.parametrize("how", ["missing", "cut", "empty"])
def test_files_that_are_gone_or_short(storage: Path, how: str) -> None:
    """Each file that counts, one at a time; ends of the log may be gone, and a savepoint moved."""
    for path in everything(storage):
        whole = path.read_bytes()
        if how == "missing":
            path.unlink()
        else:
            path.write_bytes(whole[:-1] if how == "cut" else b"")
        trimmed = how == "missing" and path.name == f"{0:019d}"
        last = how == "missing" and path.name == f"{3:019d}"
        moved = how == "missing" and path.parent.name == "savepoint-1" and path.name == "_metadata"
        report = verify(str(storage))
        assert report.clean == (trimmed or last or moved), path
        assert ["its owner moved or deleted it" in note for note in report.notes] == [True] * moved
        path.parent.mkdir(exist_ok=True, parents=True)
        path.write_bytes(whole)


@pytest.mark.parametrize(
    "name",
    [
        "job-basic",
        pytest.param("job-rocksdb", marks=pytest.mark.ci),
        "savepoints/v2/canonical",
        pytest.param("job-whole", marks=pytest.mark.ci),
        pytest.param("job-in-flight", marks=pytest.mark.ci),
        pytest.param("job-changelog-rocksdb", marks=pytest.mark.ci),
        pytest.param("savepoints/v2/native", marks=pytest.mark.ci),
    ],
)
@pytest.mark.parametrize("samples", [5, pytest.param(10, marks=pytest.mark.proof)])
def test_sampled_damage_of_stored_snapshots_is_refused_and_named(
    tmp_path: Path, name: str, samples: int
) -> None:
    """A flipped byte is never loaded: the restore names the file, and so does the verification."""
    copy = tmp_path / "copy"
    shutil.copytree(COMPAT / name, copy)
    for snapshot in [file.parent for file in sorted(copy.rglob("_metadata"))]:
        assert verify(str(snapshot)).clean
        for path, start, stop in _needed(snapshot):
            whole, by = path.read_bytes(), snapshot.parent if path.parent.name == "log" else snapshot
            for at in range(start, stop, max(1, (stop - start) // samples)):
                path.write_bytes(whole[:at] + bytes((whole[at] ^ 0x10,)) + whole[at + 1 :])
                assert not verify(str(snapshot)).clean, (path, at)
                with pytest.raises(StorageError, match=path.name):
                    verify_files(*open_checkpoint(str(by)))
            path.write_bytes(whole)


def _needed(snapshot: Path) -> Iterator[tuple[Path, int, int]]:
    """Pieces of files that count."""
    log = sorted((snapshot.parent / "log").glob("*"))
    for path in (snapshot / "_metadata", *log):
        yield path, 0, path.stat().st_size
    disk, metadata = open_checkpoint(str(snapshot))
    for item in referenced_ranges(metadata):
        if item.length:
            path = Path(unquote(urlsplit(disk.describe(item.file)).path))
            yield path, item.offset, item.offset + item.length


def test_what_is_left_over_is_told_and_is_no_damage(storage: Path) -> None:
    """Orphans, unfinished files and checkpoints outside the log; files of people are none of these."""
    disk = LocalDisk(storage)
    orphan = write(disk, 9)
    disk.create("job/chk-8/_metadata", [encode_metadata(metadata_of(8, []))])
    (storage / "job/chk-2/.tmp-1").write_bytes(b"half")
    (storage / "job/notes").write_bytes(b"mine")
    report = verify(str(storage))
    assert report.clean
    assert report.orphans == [disk.describe(orphan.file)]
    assert report.unlogged == [disk.describe("job/chk-8/_metadata")]
    assert len(report.perhaps_complete) == 1
    assert report.unfinished == [disk.describe("job/chk-2/.tmp-1")]


def test_a_job_without_a_log_beside_its_checkpoints(storage: Path) -> None:
    """Its checkpoints are verified, none is called an orphan, and nothing is pruned."""
    shutil.rmtree(storage / "job/log")
    report = verify(str(storage))
    assert report.clean
    assert (report.checkpoints, report.orphans) == (2, [])
    assert "has no log of completed checkpoints" in report.notes[0]
    found = prune(str(storage), delete=True, older_than_ms=-1)
    assert found.deleted == 0
    assert "it is unknown what its checkpoints are" in found.refused[0]
    assert verify(str(storage)).checkpoints == 2


def test_nothing_of_headgates(tmp_path: Path) -> None:
    """A place without anything is a wrong call, not a clean storage."""
    for place in (tmp_path, tmp_path / "absent"):
        with pytest.raises(UsageError, match="holds nothing of Headgate's"):
            verify(str(place))


def test_a_checkpoint_that_lost_its_log_entry_is_neither_harmless_nor_pruned(tmp_path: Path) -> None:
    """Nor is what it shares with a retired one; what to do is said, and its owner may say it is left over."""
    root = tmp_path / "cp"
    disk = LocalDisk(root)
    service = CheckpointService(disk, JOB)
    permit = service.claim()
    retired, shared = write(disk, 1), write(disk, 2)
    service.store(permit, metadata_of(1, [retired]))
    service.store(permit, metadata_of(2, [shared]))
    service.store(permit, metadata_of(3, [shared, retired, write(disk, 3)]))
    newest = max((root / "job/log").iterdir())
    (root / "job/log" / f"{1:019d}").unlink()  # of the first, as when it was retired
    newest.unlink()
    for path in (root, root / "job"):
        report = verify(str(path))
        (told,) = report.perhaps_complete
        assert f"--from {disk.describe('job/chk-3')}" in told
        assert disk.describe("job/chk-3/_metadata") in report.unlogged
        assert not any("chk-3" in name or name.endswith(retired.file) for name in report.orphans)
    found = prune(str(root), delete=True, older_than_ms=-1)
    (left,) = [orphan for orphan in found.orphans if "chk-3" in orphan.name]
    assert not left.removable
    assert "--unlogged" in left.why
    verify_files(*open_checkpoint(str(root / "job/chk-3")))
    result = CliRunner().invoke(app, ["checkpoint", "verify", str(root)])
    assert "perhaps complete, and not pruned: checkpoint 3" in result.output
    assert "no harm" not in result.output
    result = CliRunner().invoke(
        app, ["checkpoint", "prune", str(root), "--yes", "--unlogged", "--older-than", "0s"]
    )
    assert result.exit_code == 0
    assert not (root / "job/chk-3/_metadata").exists()
    assert verify(str(root)).perhaps_complete == []


# -- pruning ---------------------------------------------------------------------------------------


def plant(storage: Path) -> tuple[str, str]:
    """A file that is proven to be left over, and one whose checkpoint may be on its way."""
    disk = LocalDisk(storage)
    old = DataFileWriter(disk).write(data_name(1, subtask=5), [b"left over"]).file
    return old, write(disk, 9).file


def test_only_what_is_proven_is_pruned_and_only_on_demand(storage: Path) -> None:
    """A dry run changes nothing; younger files of newer checkpoints stay; what counts is intact."""
    old, pending = plant(storage)
    dry = prune(str(storage))
    assert [orphan.name for orphan in dry.orphans] == [old, pending]
    assert [orphan.name for orphan in dry.removable] == [old]
    assert "may be on its way" in dry.orphans[1].why
    assert (storage / old).exists()
    assert dry.deleted == 0
    assert prune(str(storage), delete=True).deleted == 1
    assert not (storage / old).exists()
    assert (storage / pending).exists()
    assert prune(str(storage), delete=True, older_than_ms=-1).deleted == 1
    assert not (storage / pending).exists()
    report = verify(str(storage))
    assert report.clean
    assert (report.checkpoints, report.savepoints, report.orphans) == (2, 1, [])
    assert not (storage / ".headgate-probe").exists()


def test_pruning_beside_a_running_job_leaves_its_pending_checkpoint_alone(storage: Path) -> None:
    """The log is not claimed: the job that holds it completes what was pending meanwhile."""
    disk = LocalDisk(storage)
    service = CheckpointService(disk, JOB)
    permit = service.claim()
    handle = write(disk, 4, permit.generation)
    plant(storage)
    prune(str(storage), delete=True)
    metadata = metadata_of(4, [handle], permit.generation)
    service.store(permit, metadata)
    verify_files(service.disk, metadata)
    service.retire(permit, [CheckpointId(2)])
    assert verify(str(storage)).clean


@pytest.mark.parametrize("at", ["_metadata", "log"])
def test_where_it_is_not_known_what_counts_nothing_is_pruned(storage: Path, at: str) -> None:
    """Damaged metadata or a damaged log entry: everything of that job stays."""
    plant(storage)
    path = storage / ("job/chk-1/_metadata" if at == "_metadata" else f"job/log/{1:019d}")
    path.write_bytes(path.read_bytes()[:-1])
    found = prune(str(storage), delete=True, older_than_ms=-1)
    assert (found.deleted, found.orphans) == (0, ())
    assert "was left alone" in found.refused[0]


def test_a_gap_in_the_log_lets_no_checkpoint_before_it_be_pruned(storage: Path) -> None:
    """Entries before the gap do not count for a restore, but what they name is not taken for left over."""
    (storage / "job/log" / f"{2:019d}").unlink()
    prune(str(storage), delete=True, older_than_ms=-1)
    assert (storage / "job/chk-1/_metadata").exists()
    assert (storage / data_name(1)).exists()


def test_a_single_snapshot_is_nothing_to_prune(storage: Path) -> None:
    """Savepoints are their owners'."""
    with pytest.raises(UsageError, match="is a single snapshot"):
        prune(str(storage.parent / "savepoints" / "savepoint-1"), delete=True)


# -- the command -----------------------------------------------------------------------------------


def command(*words: str) -> tuple[int, str]:
    """Exit code and standard output of ``headgate checkpoint``."""
    result = CliRunner().invoke(app, ["checkpoint", *words])
    return result.exit_code, result.stdout


def damage(path: Path) -> None:
    """Flip a bit of a file."""
    data = path.read_bytes()
    path.write_bytes(data[:-1] + bytes((data[-1] ^ 1,)))


@pytest.mark.parametrize(
    ("change", "code", "said"),
    [
        (lambda _: None, 0, ": intact"),
        (lambda storage: plant(storage) and None, 0, "nothing complete refers to: file://"),
        (lambda storage: damage(storage / data_name(2)), 1, "damaged: file://"),
    ],
)
def test_verify_tells_scripts_by_its_exit_code(
    storage: Path, change: Callable[[Path], None], code: int, said: str
) -> None:
    """0 intact, also with orphans; 1 damaged; and the same as JSON."""
    change(storage)
    ended, text = command("verify", str(storage))
    assert (ended, said in text) == (code, True)
    ended, text = command("verify", str(storage), "--json")
    assert ended == code
    assert json.loads(text)["clean"] == (code == 0)


@pytest.mark.parametrize("at", ["_metadata", "log"])
def test_files_beside_damage_are_not_called_left_over(storage: Path, at: str) -> None:
    """Nobody knows what the damaged checkpoint needs, and prune leaves all of it alone."""
    damage(storage / ("job/chk-2/_metadata" if at == "_metadata" else f"job/log/{2:019d}"))
    report = verify(str(storage))
    assert report.orphans == []
    assert any(uri.endswith(data_name(2)) for uri in report.of_damaged)
    _, text = command("verify", str(storage))
    assert "may belong to a damaged checkpoint, and is never pruned: file://" in text
    assert "headgate checkpoint prune" not in text
    assert prune(str(storage)).orphans == ()


def test_wrong_calls_end_with_2(storage: Path) -> None:
    """Nothing there, a single snapshot, an age that is none."""
    assert command("verify", str(storage / "absent"))[0] == 2
    assert command("prune", str(storage / "job/chk-1"))[0] == 2
    assert command("prune", str(storage), "--older-than", "soon")[0] == 2


def test_prune_says_what_it_would_do_and_does_it_with_yes(storage: Path) -> None:
    """The dry run is the default."""
    old, _ = plant(storage)
    code, text = command("prune", str(storage))
    assert code == 0
    assert "1 files would be deleted, 1 stay" in text
    assert "give --yes" in text
    assert (storage / old).exists()
    code, text = command("prune", str(storage), "--yes", "--older-than", "1h", "--json")
    assert json.loads(text)["deleted"] == 1
    assert not (storage / old).exists()


def test_prune_with_nothing_to_delete_says_so(storage: Path) -> None:
    """With --yes too: nothing "would be" deleted then."""
    write(LocalDisk(storage), 9)
    code, text = command("prune", str(storage), "--yes")
    assert code == 0
    assert "0 files deleted, 1 stay" in text
    assert "would be" not in text


def test_a_dry_run_writes_nothing(storage: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not even a file that tells the storage's time: the storage may be a read-only one."""
    plant(storage)

    def refuse(_disk: LocalDisk, name: str, _parts: object) -> None:
        raise AssertionError(f"{name} was to be written")

    monkeypatch.setattr(LocalDisk, "create", refuse)
    dry = prune(str(storage))
    assert [orphan.removable for orphan in dry.orphans] == [True, False]
    assert "may be on its way: it was written 0 s ago" in dry.orphans[1].why


def test_two_jobs_are_judged_each_by_its_own_log(storage: Path) -> None:
    """A job beside another; its damaged log does not keep the other from being pruned."""
    disk = LocalDisk(storage)
    shutil.copytree(storage / "job", storage / "other")
    damage(storage / "other/log" / f"{1:019d}")
    old, _ = plant(storage)
    found = prune(str(storage), delete=True)
    assert len(found.refused) == found.deleted == 1
    assert old not in disk.list("job")
