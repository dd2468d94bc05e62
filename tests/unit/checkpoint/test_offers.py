"""Which older checkpoint is offered in place of a damaged one, and what makes a job go back."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from test_checkpoint_service import JOB, data_name, store

from headgate.checkpoint.data_files import DataFileWriter, StoredBytes
from headgate.checkpoint.opening import open_checkpoint, open_logged
from headgate.checkpoint.service import CheckpointService
from headgate.checkpoint.storage.local import LocalDisk
from headgate.common.errors import DamagedFileError, StorageError
from headgate.state.stored.blob_format import Header, place_in, preamble_and_header, read_header


@pytest.fixture
def service(tmp_path: Path) -> CheckpointService:
    """Three completed checkpoints."""
    made = CheckpointService(LocalDisk(tmp_path), JOB)
    permit = made.claim()
    for checkpoint in (1, 2, 3):
        store(made, permit, checkpoint)
    return made


def damage(path: Path) -> None:
    """Flip a bit of the last byte."""
    data = path.read_bytes()
    path.write_bytes(data[:-1] + bytes((data[-1] ^ 1,)))


def offered(place: Path) -> str:
    """What the refusal of a place ends with."""
    with pytest.raises(DamagedFileError) as caught:
        open_checkpoint(str(place), whole=True)
    return str(caught.value).rpartition("; ")[2]


def whole(path: Path) -> str:
    """The offer of a checkpoint."""
    return f"the next older checkpoint that is complete: --from {path.as_uri()}"


def test_what_is_offered_was_read(service: CheckpointService, tmp_path: Path) -> None:
    """One whose data files are damaged is there, and is not offered."""
    damage(tmp_path / data_name(3))
    damage(tmp_path / data_name(2))
    for place in (tmp_path / JOB, tmp_path / JOB / "chk-3", tmp_path / JOB / "chk-3" / "_metadata"):
        assert offered(place) == whole(tmp_path / JOB / "chk-1")
    damage(tmp_path / data_name(1))
    assert offered(tmp_path / JOB) == "none of the older checkpoints (2) is complete"
    assert offered(tmp_path / JOB / "chk-1") == "there is no older checkpoint"


@pytest.mark.parametrize(("entry", "best"), [(3, 2), (2, 3), (0, 3)])
def test_a_damaged_log_offers_what_its_other_entries_name(
    service: CheckpointService, tmp_path: Path, entry: int, best: int
) -> None:
    """Entry 0 is the claim; entry k completed checkpoint k."""
    damage(tmp_path / JOB / "log" / f"{entry:019d}")
    assert offered(tmp_path / JOB) == whole(tmp_path / JOB / f"chk-{best}")


def test_without_a_log_beside_them_the_folders_tell(service: CheckpointService, tmp_path: Path) -> None:
    """As with ZooKeeper: those with metadata, by number."""
    shutil.rmtree(tmp_path / JOB / "log")
    damage(tmp_path / JOB / "chk-3" / "_metadata")
    (tmp_path / JOB / "chk-2" / "_metadata").unlink()
    assert offered(tmp_path / JOB / "chk-3") == whole(tmp_path / JOB / "chk-1")


class Unreachable(LocalDisk):
    """Does not answer for the newest checkpoint."""

    def read(self, name: str) -> bytes:
        """Like a storage behind a broken network."""
        if "chk-3" in name:
            raise StorageError(f"{self.describe(name)} cannot be read: connection refused")
        return super().read(name)


def test_only_damage_makes_a_job_go_back(service: CheckpointService, tmp_path: Path) -> None:
    """What cannot be read at the moment may be whole, and its output is committed."""
    told: list[str] = []
    with pytest.raises(StorageError, match="connection refused"):
        open_logged(Unreachable(tmp_path), service.completed(), fell_back=told.append)
    assert told == []
    damage(tmp_path / data_name(3))
    assert open_logged(service.disk, service.completed(), fell_back=told.append)[1].checkpoint == 2
    assert "going back to" in told[0]


def test_readers_of_blobs_tell_file_and_offset(tmp_path: Path) -> None:
    """Of a blob that lies in a file behind something else."""
    disk = LocalDisk(tmp_path)
    blob = preamble_and_header(Header(4, 0, 3, {}, [], 9))
    _, second = DataFileWriter(disk).write_sections("job/chk-1/a", [[b"12345"], [blob]])
    stored = StoredBytes(disk, second)
    assert place_in(stored, 0, 4) == f"bytes 5 to 9 of {disk.describe('job/chk-1/a')}"
    with pytest.raises(StorageError, match=rf"bytes 5 to {5 + len(blob)} of file://.*job/chk-1/a"):
        read_header(stored)
