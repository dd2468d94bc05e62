"""Claimed snapshots: the whole life of a claiming job with a crash before every change, and rivals."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from fake_disks import Crash, MemoryDisk, StoppingDisk
from latest_checkpoint import load_latest
from test_checkpoint_service import JOB, keyed, metadata_of, store, write

from headgate.checkpoint.data_files import DataFileWriter
from headgate.checkpoint.metadata.metadata_bytes import encode_metadata
from headgate.checkpoint.opening import verify_files
from headgate.checkpoint.ownership import (
    MARK,
    RECORD,
    ClaimRecord,
    check_newest,
    claim,
    continues_as,
    decode_record,
    encode_record,
    release,
)
from headgate.checkpoint.service import CheckpointService
from headgate.checkpoint.storage.local import LocalDisk
from headgate.checkpoint.store.log import CompletedCheckpointLog
from headgate.common.errors import FencedError, StorageError, UsageError
from headgate.common.ids import CheckpointId, JobId
from headgate.common.ports import Disk
from headgate.state.snapshots import CheckpointMetadata, SubtaskSnapshot

NEW = JobId("new")


def old_job(disk: Disk, checkpoints: int = 1) -> CheckpointMetadata:
    """A job that completed checkpoints and was stopped; gives the newest."""
    service = CheckpointService(disk, JOB)
    permit = service.claim()
    return [store(service, permit, number + 1) for number in range(checkpoints)][-1]


def new_service(disk: Disk, elsewhere: Disk) -> CheckpointService:
    """The service of the claiming job, which finds the old one's storage `elsewhere`."""
    return CheckpointService(disk, NEW, disks=lambda _: elsewhere)


def complete(service: CheckpointService, checkpoints: int) -> None:
    """Complete and retire as a coordinator that keeps one does."""
    permit = service.claim()
    service.sweep_orphans(permit)
    claimed = service.claimed()
    known = [] if claimed is None else [claimed]
    known += [CheckpointId(entry.checkpoint) for entry in service.completed()]
    for _ in range(checkpoints):
        number = service.next_checkpoint_id()
        name = f"{NEW}/chk-{number}/g{permit.generation}-a1-v1-s0"
        handle = DataFileWriter(service.disk).write(name, [b"state"])
        metadata = metadata_of(number, [handle], permit.generation)
        service.store(permit, msgspec.structs.replace(metadata, job=NEW))
        known.append(number)
        service.retire(permit, known[:-1])
        del known[:-1]


def test_a_claimed_checkpoint_goes_at_every_crash_point_or_stays_whole() -> None:
    """Killed before any change: the new job has a checkpoint of its own first; in the end the other is gone.

    Other checkpoints of the old job and their log entries are there at every moment.
    """
    for changes in range(100):
        new: dict[str, bytes] = {}
        old: dict[str, bytes] = {}
        newest = old_job(MemoryDisk(old), 3)
        before = dict(old)
        service = new_service(MemoryDisk(new), MemoryDisk(old))
        service.own(claim(MemoryDisk(old), newest, NEW))
        stopping = StoppingDisk(old, changes)
        try:
            complete(new_service(MemoryDisk(new), stopping), 1)
            finished = True
        except Crash:
            finished = False
        check_others(old, before)
        again = new_service(MemoryDisk(new), MemoryDisk(old))
        assert again.completed(), "the new job's checkpoint came first"
        complete(again, 1)
        check_others(old, before)
        assert again.claimed() is None
        if finished:
            assert not [name for name in old if "chk-3/" in name]
            left = [
                entry.checkpoint for entry in CompletedCheckpointLog(MemoryDisk(old), "job/log").completed()
            ]
            assert left == [1, 2]
            return
        # Between the claim before the deletion and its note in the record it is unknown whose it is.
        assert changes == 1 or not [name for name in old if "chk-3/" in name]
    raise AssertionError("the script never finished")


def check_others(old: dict[str, bytes], before: dict[str, bytes]) -> None:
    """Checkpoints 1 and 2 of the old job are untouched and in its log."""
    for name, data in before.items():
        if "chk-1/" in name or "chk-2/" in name:
            assert old[name] == data
    logged = {entry.checkpoint for entry in CompletedCheckpointLog(MemoryDisk(old), "job/log").completed()}
    assert logged >= {1, 2}


@pytest.mark.parametrize("changes", range(12))
def test_a_crash_in_the_new_jobs_storage_loses_no_claim(changes: int) -> None:
    """Wherever the new job dies, one of the two snapshots is whole; the next master brings it to its end."""
    new: dict[str, bytes] = {}
    old: dict[str, bytes] = {}
    newest = old_job(MemoryDisk(old))
    new_service(MemoryDisk(new), MemoryDisk(old)).own(claim(MemoryDisk(old), newest, NEW))
    crashed = False
    try:
        complete(new_service(StoppingDisk(new, changes), MemoryDisk(old)), 1)
    except Crash:
        crashed = True
    again = new_service(MemoryDisk(new), MemoryDisk(old))
    if not again.completed():
        assert load_latest(CheckpointService(MemoryDisk(old), JOB)) == newest
    latest = load_latest(again)
    if latest is not None:
        verify_files(again.disk, latest)
    complete(again, 2)
    assert again.claimed() is None
    assert crashed or not [name for name in old if "/chk-" in name]


def test_a_claim_fences_the_job_that_runs() -> None:
    """It completes nothing more, and deletes nothing more."""
    disk = MemoryDisk()
    running = CheckpointService(disk, JOB)
    permit = running.claim()
    store(running, permit, 1)
    newest = store(running, permit, 2)
    claim(disk, newest, NEW)
    with pytest.raises(FencedError):
        store(running, permit, 3)
    with pytest.raises(FencedError):
        running.retire(permit, [CheckpointId(1)])


def test_the_last_claim_counts() -> None:
    """Whoever claimed before lets go without deleting anything, and says why."""
    disk = MemoryDisk()
    newest = old_job(disk)
    first, second = claim(disk, newest, NEW), claim(disk, newest, JobId("third"))
    before = dict(disk.files)
    told = release(first, lambda _: None, lambda _: disk)
    assert told == "the checkpoints of job 'job' were claimed by another job since"
    assert {name for name in before if "chk-" in name} <= set(disk.files)
    assert set(disk.files) == set(before), "not even the log was claimed once more"
    assert release(second, lambda _: None, lambda _: disk) is None
    assert not [name for name in disk.files if "chk-" in name]


def savepoint(disk: Disk) -> CheckpointMetadata:
    """A savepoint whose folder is the disk's root."""
    handle = DataFileWriter(disk).write("data/v1-s0-0", [b"state"])
    metadata = msgspec.structs.replace(metadata_of(7, [handle]), kind="savepoint", format="native")
    disk.create("_metadata", [encode_metadata(metadata)])
    return metadata


@pytest.mark.parametrize("changes", range(5))
def test_a_claimed_savepoint_goes_whole_and_nothing_else_of_its_folder(changes: int) -> None:
    """A person's own file stays; a crash on the way is made up for."""
    files: dict[str, bytes] = {"README": b"mine"}
    record = claim(MemoryDisk(files), savepoint(MemoryDisk(files)), NEW)
    assert files[MARK] == b"new"
    try:
        release(record, lambda _: None, lambda _: StoppingDisk(files, changes))
    except Crash:
        release(record, lambda _: None, lambda _: MemoryDisk(files))
    assert files == {"README": b"mine"}


def test_a_savepoint_that_was_claimed_since_or_replaced_is_left_alone() -> None:
    """The mark names the owner; other metadata is another savepoint."""
    disk = MemoryDisk()
    metadata = savepoint(disk)
    first = claim(disk, metadata, NEW)
    second = claim(disk, metadata, JobId("third"))
    assert "was claimed by 'third' since" in str(release(first, lambda _: None, lambda _: disk))
    whole = dict(disk.files)
    disk.create("_metadata", [encode_metadata(msgspec.structs.replace(metadata, checkpoint=8))])
    assert "not the file any more" in str(release(second, lambda _: None, lambda _: disk))
    assert set(disk.files) == set(whole)


def test_which_checkpoints_are_gone_on_from_as_the_same_job() -> None:
    """The newest of its log on the same storage; anything else is claimed with a claim record."""
    disk = MemoryDisk()
    newest = old_job(disk, 2)
    assert continues_as(disk, disk.describe(), newest) == JOB
    assert continues_as(disk, "memory://other", newest) is None
    assert continues_as(disk, disk.describe(), msgspec.structs.replace(newest, checkpoint=1)) is None
    assert continues_as(disk, disk.describe(), msgspec.structs.replace(newest, kind="savepoint")) is None
    service = CheckpointService(disk, JOB)
    check_newest(service.completed(), newest)
    store(service, service.claim(), 3)
    with pytest.raises(UsageError, match="has completed checkpoint 3 meanwhile, so it was running"):
        check_newest(service.completed(), newest)


def test_what_no_log_names_cannot_be_claimed() -> None:
    """Nobody could fence a job that still uses it."""
    disk = MemoryDisk()
    newest = old_job(disk)
    CompletedCheckpointLog(disk, "job/log").claim()
    for name in [name for name in disk.files if "/log/" in name]:
        del disk.files[name]
    with pytest.raises(UsageError, match=r"no log below .* names it"):
        claim(disk, newest, NEW)


@pytest.mark.parametrize("gone", [1, 2, 3, None])
def test_forgetting_one_entry_of_a_log_at_every_crash_point(gone: int | None) -> None:
    """Readers see the others once each and in order whenever they look."""
    others = [number for number in (1, 2, 3) if number != gone]
    for changes in range(30):
        files: dict[str, bytes] = {}
        old_job(MemoryDisk(files), 3)
        log = CompletedCheckpointLog(StoppingDisk(files, changes + 1), "job/log")
        permit = log.claim()
        try:
            log.forget(permit, gone or 9)
            finished = True
        except Crash:
            finished = False
        seen = [
            entry.checkpoint for entry in CompletedCheckpointLog(MemoryDisk(files), "job/log").completed()
        ]
        assert seen in ([1, 2, 3], others)
        if finished:
            assert seen == others
            return
    raise AssertionError("it never finished")


def test_a_claim_record_is_read_back_or_refused() -> None:
    """Every flipped bit and every length is refused, so that a wrong file is never deleted."""
    record = ClaimRecord("memory://x", "job/chk-1/_metadata", "00", 1, ["job/chk-1/a"], "new", "job", 2)
    data = encode_record(record)
    assert decode_record(data, "here") == record
    for at in range(len(data)):
        for bit in range(8):
            flipped = data[:at] + bytes((data[at] ^ 1 << bit,)) + data[at + 1 :]
            with pytest.raises(StorageError, match="here is no record"):
                decode_record(flipped, "here")
        with pytest.raises(StorageError, match="here is no record"):
            decode_record(data[:at], "here")


def test_ids_go_on_behind_the_claimed_one_and_the_end_of_the_job_takes_it_along(tmp_path: Path) -> None:
    """A job that keeps nothing deletes what it owns."""
    disk, elsewhere = LocalDisk(tmp_path / "new"), LocalDisk(tmp_path / "savepoint")
    metadata = savepoint(elsewhere)
    service = CheckpointService(disk, NEW)
    permit = service.claim()
    service.own(claim(elsewhere, metadata, NEW))
    assert service.claimed() == 7
    assert service.next_checkpoint_id() == 8
    assert [path.name for path in (tmp_path / "new" / NEW).glob("*") if path.is_file()] == [RECORD]
    service.discard_completed(permit, [CheckpointId(7)])
    assert list(elsewhere.list("")) == []
    assert service.claimed() is None


def test_sr5_a_failed_deletion_is_made_up_for_and_spares_what_was_shared_since(tmp_path: Path) -> None:
    """sR5: what could not be deleted goes with the next attempt; a file that a kept checkpoint has stays."""
    failing = True

    class Stubborn(MemoryDisk):
        def delete(self, name: str) -> None:
            if failing and "chk-1/" in name:
                raise StorageError(f"cannot delete {name}")
            super().delete(name)

    disk = Stubborn()
    service = CheckpointService(disk, JOB)
    permit = service.claim()
    shared = write(disk, 1)
    own = DataFileWriter(disk).write("job/chk-1/g1-a1-v1-s1", [b"own"])
    service.store(permit, metadata_of(1, [shared, own]))
    service.store(permit, metadata_of(2, [shared]))
    with pytest.raises(StorageError, match="cannot delete"):
        service.retire(permit, [CheckpointId(1)])
    failing = False
    service.discard([SubtaskSnapshot(1, 0, [keyed(shared)])])
    service.retire(permit, [CheckpointId(1)])
    assert {name for name in disk.files if "/log/" not in name} == {shared.file, "job/chk-2/_metadata"}
