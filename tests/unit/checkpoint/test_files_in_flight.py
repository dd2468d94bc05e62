"""Files of records in flight: they live, and are verified, with the checkpoint that they belong to."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from fake_disks import MemoryDisk
from latest_checkpoint import load_latest
from one_job import JOB, data_name, metadata_of, write

from headgate.checkpoint.data_files import DataFileWriter
from headgate.checkpoint.opening import verify_files
from headgate.checkpoint.service import CheckpointService
from headgate.checkpoint.storage.local import LocalDisk
from headgate.checkpoint.store.store_contract import CommitPermit
from headgate.common.errors import StorageError
from headgate.common.ids import (
    CheckpointId,
)
from headgate.common.ports import Disk
from headgate.state.snapshots import (
    CheckpointMetadata,
    FileRange,
    InFlightPart,
    InFlightStream,
    Inline,
    StateHandle,
    SubtaskSnapshot,
)


def in_flight(*handles: StateHandle) -> InFlightStream:
    """A stream of these parts."""
    return InFlightStream("sum", "map", None, 0, 0, parts=[InFlightPart(handle, 8, 1) for handle in handles])


def write_in_flight(disk: Disk, checkpoint: int) -> list[FileRange]:
    """Write a file of records in flight: two sections."""
    name = f"{data_name(checkpoint)}-f1"
    return DataFileWriter(disk).write_sections(name, [[b"record", b"s0"], [b"records1"]])


def store_in_flight(service: CheckpointService, permit: CommitPermit, checkpoint: int) -> CheckpointMetadata:
    """Complete a checkpoint that has state and records in flight."""
    first, second = write_in_flight(service.disk, checkpoint)
    state = write(service.disk, checkpoint, permit.generation)
    metadata = msgspec.structs.replace(
        metadata_of(checkpoint, [state], permit.generation),
        in_flight=[in_flight(first), in_flight(), in_flight(second, Inline(b"few"))],
    )
    service.store(permit, metadata)
    return metadata


def test_files_of_records_in_flight_live_as_long_as_their_checkpoint() -> None:
    """A sweep spares them, also through a fresh service; retiring deletes them, also when others stay."""
    disk = MemoryDisk()
    service = CheckpointService(disk, JOB)
    permit = service.claim()
    for checkpoint in (1, 2):
        store_in_flight(service, permit, checkpoint)
    fresh = CheckpointService(disk, JOB)
    permit = fresh.claim()
    assert fresh.sweep_orphans(permit) == []
    fresh.retire(permit, [CheckpointId(1)])
    names = {f"job/chk-2/{rest}" for rest in ("_metadata", "g1-a1-v1-s0", "g1-a1-v1-s0-f1")}
    assert {name for name in disk.files if "/log/" not in name} == names
    latest = load_latest(fresh)
    assert latest is not None
    assert [[p.handle for p in stream.parts] for stream in latest.in_flight][1:] == [
        [],
        [FileRange(f"{data_name(2)}-f1", 8, 8, latest.in_flight[2].parts[0].handle.crc32), Inline(b"few")],  # type: ignore[union-attr]
    ]


def test_retire_spares_records_in_flight_of_a_retained_checkpoint() -> None:
    """Wherever their file lies, a retained checkpoint that refers to it keeps it."""
    disk = MemoryDisk()
    service = CheckpointService(disk, JOB)
    permit = service.claim()
    first = store_in_flight(service, permit, 1)
    service.store(
        permit, msgspec.structs.replace(metadata_of(2, [write(disk, 2)]), in_flight=first.in_flight)
    )
    fresh = CheckpointService(disk, JOB)
    permit = fresh.claim()
    fresh.retire(permit, [CheckpointId(1)])
    fresh.sweep_orphans(permit)
    assert {name for name in disk.files if "chk-1/" in name} == {f"{data_name(1)}-f1"}
    assert load_latest(fresh) is not None


def test_discard_deletes_records_in_flight_of_aborted_snapshots_only() -> None:
    """Files of an acknowledgement that came to nothing go; those of a completed checkpoint do not."""
    disk = MemoryDisk()
    service = CheckpointService(disk, JOB)
    permit = service.claim()
    kept = store_in_flight(service, permit, 1)
    gone = write_in_flight(disk, 2)
    foreign = FileRange("other/chk-1/a", 0, 1, 0)
    disk.files[foreign.file] = b"x"
    streams = [*kept.in_flight, in_flight(gone[0], Inline(b"")), in_flight(gone[1]), in_flight(foreign)]
    service.discard([SubtaskSnapshot(1, 0, [], in_flight=streams)])
    assert gone[0].file not in disk.files
    assert {f"{data_name(1)}-f1", foreign.file} <= set(disk.files)


def test_missing_short_and_damaged_records_in_flight(tmp_path: Path) -> None:
    """Found as early as with state, and named."""
    disk = LocalDisk(tmp_path)
    service = CheckpointService(disk, JOB)
    metadata = store_in_flight(service, service.claim(), 1)
    path = tmp_path / f"{data_name(1)}-f1"
    verify_files(service.disk, metadata)
    path.write_bytes(b"records0records2")
    assert load_latest(service) == metadata
    with pytest.raises(StorageError, match=f"{path} is damaged: bytes 8 to 16"):
        verify_files(service.disk, metadata)
    path.write_bytes(b"records0record")
    with pytest.raises(StorageError, match=f"{path} is truncated: it ends at byte 14"):
        load_latest(service)
    path.unlink()
    with pytest.raises(StorageError, match=f"{path} is missing"):
        load_latest(service)
