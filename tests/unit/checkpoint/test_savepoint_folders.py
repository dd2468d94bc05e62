"""Folders of savepoints, and a log that names one: found again, never deleted by the job."""

from __future__ import annotations

import shutil
from pathlib import Path

import msgspec
import pytest
from latest_checkpoint import load_latest
from test_checkpoint_service import JOB, metadata_of, store

from headgate.checkpoint.opening import open_checkpoint, open_logged
from headgate.checkpoint.savepoints import TOKEN_BYTES, SavepointFolder, prepare
from headgate.checkpoint.service import CheckpointService
from headgate.checkpoint.storage.local import LocalDisk
from headgate.checkpoint.storage.storage_contract import UnsureWriteError
from headgate.checkpoint.store.store_contract import CommitPermit
from headgate.common.errors import FencedError, StorageError
from headgate.common.ids import CheckpointId
from headgate.state.snapshots import CheckpointMetadata, FileRange


def savepoint(target: Path, checkpoint: int, token: int = 0) -> tuple[SavepointFolder, CheckpointMetadata]:
    """A folder with one data file, and the metadata that is still to be written."""
    folder = prepare(LocalDisk(target), JOB, token.to_bytes(TOKEN_BYTES))
    folder.disk.create(f"{folder.name}/data/part", [b"state"])
    metadata = metadata_of(checkpoint, [FileRange("data/part", 0, 5, 0x6CF3A5A2)])
    return folder, msgspec.structs.replace(metadata, kind="savepoint", format="native")


def stopped(tmp_path: Path) -> tuple[CheckpointService, CommitPermit, SavepointFolder, CheckpointMetadata]:
    """A job with checkpoints 1 and 2 that was stopped with a savepoint, 3."""
    service = CheckpointService(LocalDisk(tmp_path / "checkpoints"), JOB)
    permit = service.claim()
    for checkpoint in (1, 2):
        store(service, permit, checkpoint)
    folder, metadata = savepoint(tmp_path / "savepoints", 3)
    service.store_savepoint(permit, metadata, folder.metadata_uri, folder.write(metadata))
    return service, permit, folder, metadata


def files(folder: Path) -> list[str]:
    """Names of all files below."""
    return sorted(str(file.relative_to(folder)) for file in folder.rglob("*") if file.is_file())


def test_the_log_leads_to_the_savepoint(tmp_path: Path) -> None:
    """By the job's folder, by its own, and for the next job master, whose ids go on behind it."""
    service, _, folder, metadata = stopped(tmp_path)
    assert load_latest(service) == metadata
    disk, found = open_checkpoint(str(tmp_path / "checkpoints" / JOB))
    assert (disk.describe(), found) == (folder.uri, metadata)
    assert open_checkpoint(folder.uri)[1] == metadata
    assert service.next_checkpoint_id() == 4


def test_one_that_was_moved_is_refused_with_the_older_ones(tmp_path: Path) -> None:
    """Not passed over in silence: what it holds was committed."""
    service, _, folder, _ = stopped(tmp_path)
    shutil.move(tmp_path / "savepoints", tmp_path / "elsewhere")
    with pytest.raises(
        StorageError, match=rf"{folder.name}.*older checkpoint that is complete: --from .*/chk-2$"
    ):
        open_logged(service.disk, service.completed())


def test_nothing_that_the_job_deletes_is_the_savepoints(tmp_path: Path) -> None:
    """Retired, swept, and discarded with everything else at the end: its files stay."""
    service, permit, _, _ = stopped(tmp_path)
    kept = files(tmp_path / "savepoints")
    store(service, permit, 4)
    service.retire(permit, [CheckpointId(1), CheckpointId(2), CheckpointId(3)])
    assert [entry.checkpoint for entry in service.completed()] == [4]
    assert service.sweep_orphans(permit) == []
    service.discard_completed(permit, [CheckpointId(4)])
    assert [name for name in files(tmp_path / "checkpoints") if "chk-" in name] == []
    assert service.completed() == []
    assert (
        files(tmp_path / "savepoints")
        == kept
        == [
            "savepoint-job-000000000000/_metadata",
            "savepoint-job-000000000000/data/part",
        ]
    )


def test_who_was_replaced_neither_stops_nor_discards(tmp_path: Path) -> None:
    """The permit of the last claim is needed for both."""
    service, permit, _, _ = stopped(tmp_path)
    CheckpointService(LocalDisk(tmp_path / "checkpoints"), JOB).claim()
    before = [name for name in files(tmp_path / "checkpoints") if "chk-" in name]
    folder, metadata = savepoint(tmp_path / "savepoints", 5, token=1)
    digest = folder.write(metadata)
    with pytest.raises(FencedError):
        service.store_savepoint(permit, metadata, folder.metadata_uri, digest)
    with pytest.raises(FencedError):
        service.discard_completed(permit, [CheckpointId(2)])
    assert [name for name in files(tmp_path / "checkpoints") if "chk-" in name] == before


def test_a_failed_one_takes_only_its_own_files_along(tmp_path: Path) -> None:
    """Unfinished files too; a second removal finds nothing and says nothing."""
    first, _ = savepoint(tmp_path, 1)
    second, metadata = savepoint(tmp_path, 2, token=1)
    second.write(metadata)
    (tmp_path / second.name / "data" / ".tmp-left").touch()
    second.remove()
    second.remove()
    assert files(tmp_path) == [f"{first.name}/data/part"]


def test_metadata_whose_flush_failed_does_not_count(tmp_path: Path) -> None:
    """Nobody was told of it, so it is a plain failure, after which the files may go."""

    class Flushless(LocalDisk):
        def create_if_absent(self, name: str, data: bytes) -> bool:
            super().create_if_absent(name, data)
            raise UnsureWriteError("no flush")

    folder, metadata = savepoint(tmp_path, 1)
    with pytest.raises(StorageError) as refused:
        SavepointFolder(Flushless(tmp_path), folder.name).write(metadata)
    assert type(refused.value) is StorageError
    with pytest.raises(StorageError, match="exists already"):
        folder.write(metadata)


def test_a_place_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    """Before anything is triggered."""
    (tmp_path / "file").touch()
    with pytest.raises(StorageError, match="file"):
        prepare(LocalDisk(tmp_path / "file"), JOB, bytes(TOKEN_BYTES))
