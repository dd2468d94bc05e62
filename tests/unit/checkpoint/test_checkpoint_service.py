"""The service: whole checkpoints on a disk, with every crash point in between."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from fake_disks import Crash, FailingDisk, MemoryDisk, StoppingDisk
from latest_checkpoint import load_latest
from one_job import JOB, data_name, keyed, metadata_of, store, write

from headgate.checkpoint.data_files import DataFileWriter, read_handle
from headgate.checkpoint.metadata.metadata_bytes import decode_metadata, encode_metadata
from headgate.checkpoint.opening import load_metadata, open_checkpoint, verify_files
from headgate.checkpoint.service import CheckpointService, may_be_published
from headgate.checkpoint.storage.local import LocalDisk
from headgate.checkpoint.storage.storage_contract import UnsureWriteError
from headgate.checkpoint.store.entries import digest
from headgate.checkpoint.store.log import CompletedCheckpointLog
from headgate.common.errors import FencedError, InternalError, StorageError, UsageError
from headgate.common.format_config import fingerprint
from headgate.common.ids import (
    CheckpointId,
    JobId,
)
from headgate.common.ports import Disk
from headgate.state.snapshots import (
    FileRange,
    Inline,
    OperatorSubtaskState,
    SubtaskSnapshot,
)


class Places:
    def __init__(self) -> None:
        self.seen: list[str] = []

    def reached(self, place: str) -> None:
        self.seen.append(place)


def test_store_and_load_in_every_form(tmp_path: Path) -> None:
    """A stored checkpoint loads as latest, by folder, by file, by job and by URI; bytes verify."""
    disk = LocalDisk(tmp_path)
    places = Places()
    service = CheckpointService(disk, JOB, places)
    assert load_latest(service) is None
    permit = service.claim()
    assert service.next_checkpoint_id() == 1
    metadata = store(service, permit, 1)
    assert places.seen == ["checkpoint.metadata-written", "checkpoint.logged"]
    assert load_latest(service) == metadata
    for folder in ("job", "job/chk-1", "job/chk-1/_metadata"):
        for uri in (str(tmp_path / folder), (tmp_path / folder).as_uri()):
            other, found = open_checkpoint(uri)
            assert found == metadata
            handle = found.operators["count"][0].keyed
            assert handle is not None
            assert read_handle(other, handle.handle) == b"state001"
    verify_files(service.disk, metadata)
    assert service.next_checkpoint_id() == 2


@pytest.mark.parametrize("where", ["latest", "job/chk-9", "elsewhere", "job/chk-9/_metadata"])
def test_nothing_there(tmp_path: Path, where: str) -> None:
    """A place without a checkpoint is refused, naming it."""
    with pytest.raises(StorageError, match=r"holds no completed checkpoint|does not exist"):
        open_checkpoint(str(tmp_path / where))


def test_metadata_without_log_entry_is_not_latest() -> None:
    """A folder with metadata that the log does not name is no completed checkpoint of the job."""
    disk = MemoryDisk()
    service = CheckpointService(disk, JOB)
    permit = service.claim()
    first = store(service, permit, 1)
    with pytest.raises(Crash):
        store(CheckpointService(disk, JOB, StopAt("checkpoint.metadata-written")), permit, 2)
    assert "job/chk-2/_metadata" in disk.files
    fresh = CheckpointService(disk, JOB)
    assert load_latest(fresh) == first
    assert fresh.next_checkpoint_id() == 3


class StopAt:
    def __init__(self, place: str) -> None:
        self.place = place

    def reached(self, place: str) -> None:
        if place == self.place:
            raise Crash


def life(disk: Disk, completed: list[int]) -> None:
    """A job master's life: three checkpoints, one retained, one aborted on the way."""
    service = CheckpointService(disk, JOB)
    permit = service.claim()
    generation = permit.generation
    service.sweep_orphans(permit)
    for checkpoint in range(service.next_checkpoint_id(), service.next_checkpoint_id() + 3):
        aborted = write(disk, checkpoint + 100, generation)
        metadata = metadata_of(checkpoint, [write(disk, checkpoint, generation)], generation)
        service.store(permit, metadata)
        completed.append(checkpoint)
        service.discard([SubtaskSnapshot(1, 0, [keyed(aborted)])])
        older = [CheckpointId(entry.checkpoint) for entry in service.completed()[:-1]]
        service.retire(permit, older)


def check_nothing_half_visible(files: dict[str, bytes], completed: list[int]) -> None:
    """Whatever a fresh reader sees is whole."""
    service = CheckpointService(MemoryDisk(files), JOB)
    logged = [entry.checkpoint for entry in service.completed()]
    latest = load_latest(service)
    if completed:
        assert latest is not None
        assert latest.checkpoint in (completed[-1], completed[-1] + 1)
    for checkpoint in logged:
        verify_files(service.disk, load_metadata(service.disk, f"job/chk-{checkpoint}/_metadata"))
    assert logged == sorted(set(logged))


def test_every_crash_point_of_a_whole_life() -> None:
    """Killed before any change: what is visible is whole; the next master sweeps, goes on, ends clean."""
    for changes in range(200):
        files: dict[str, bytes] = {}
        completed: list[int] = []
        try:
            life(StoppingDisk(files, changes), completed)
            finished = True
        except Crash:
            finished = False
        check_nothing_half_visible(files, completed)
        again: list[int] = []
        life(MemoryDisk(files), again)
        assert not completed or min(again) > max(completed)
        check_nothing_half_visible(files, again)
        last = again[-1]
        assert {name for name in files if "/log/" not in name} >= {f"job/chk-{last}/_metadata"}
        swept = CheckpointService(MemoryDisk(files), JOB)
        swept.sweep_orphans(swept.claim())
        owners = {name.split("/")[1] for name in files}
        assert owners == {"log", f"chk-{last}"}
        if finished:
            assert changes == 1 + 3 * 5 + 7  # the claim, five writes per checkpoint, seven for retiring two
            return
    raise AssertionError("the script never finished")


def test_fenced_master_completes_and_deletes_nothing() -> None:
    """After another claim: store, retire and sweep raise FencedError and change no completed checkpoint."""
    disk = MemoryDisk()
    old = CheckpointService(disk, JOB)
    permit = old.claim()
    store(old, permit, 1)
    store(old, permit, 2)
    new = CheckpointService(disk, JOB)
    new_permit = new.claim()
    write(disk, 9, generation=2)
    before = dict(disk.files)
    with pytest.raises(FencedError) as caught:
        store(old, permit, 3)
    assert may_be_published(caught.value)
    with pytest.raises(FencedError):
        old.retire(permit, [CheckpointId(1)])
    with pytest.raises(FencedError):
        old.sweep_orphans(permit)
    assert before.items() <= disk.files.items()
    assert [entry.checkpoint for entry in new.completed()] == [1, 2]
    with pytest.raises(StorageError, match="used the same checkpoint id"):
        new.store(new_permit, metadata_of(3, [Inline(b"")], generation=2))


def test_retire_spares_files_that_a_retained_checkpoint_needs() -> None:
    """A file of a retired checkpoint lives as long as a retained one refers to it, and no longer."""
    disk = MemoryDisk()
    service = CheckpointService(disk, JOB)
    permit = service.claim()
    shared, own = write(disk, 1), DataFileWriter(disk).write(data_name(1, subtask=1), [b"own"])
    service.store(permit, metadata_of(1, [shared, own]))
    service.store(permit, metadata_of(2, [shared, write(disk, 2)]))
    fresh = CheckpointService(disk, JOB)
    permit = fresh.claim()
    fresh.retire(permit, [CheckpointId(1)])
    assert {name for name in disk.files if "chk-1/" in name} == {shared.file}
    fresh.sweep_orphans(permit)
    assert shared.file in disk.files
    metadata = metadata_of(3, [write(disk, 3, 2)], 2)
    fresh.store(permit, metadata)
    fresh.retire(permit, [CheckpointId(2)])
    assert {name.split("/")[1] for name in disk.files} == {"log", "chk-3"}
    assert load_latest(fresh) == metadata


def test_retire_takes_forgotten_older_checkpoints_along() -> None:
    """A completed checkpoint that nobody retired leaves no hole in the log when a newer one goes."""
    disk = MemoryDisk()
    service = CheckpointService(disk, JOB)
    permit = service.claim()
    for checkpoint in (1, 2, 3):
        store(service, permit, checkpoint)
    service.retire(permit, [CheckpointId(2)])
    assert [entry.checkpoint for entry in service.completed()] == [3]
    store(service, permit, 4)
    service.retire(permit, [CheckpointId(3)])
    service.sweep_orphans(permit)
    assert {name.split("/")[1] for name in disk.files} == {"log", "chk-4"}


def test_retiring_everything_is_a_bug() -> None:
    """The last completed checkpoint cannot be retired."""
    service = CheckpointService(MemoryDisk(), JOB)
    permit = service.claim()
    store(service, permit, 1)
    with pytest.raises(InternalError, match="without any"):
        service.retire(permit, [CheckpointId(1)])


def test_discard_spares_completed_and_foreign_files() -> None:
    """Files that a known completed checkpoint needs, or outside the job's checkpoints, are not discarded."""
    disk = MemoryDisk({"job/log/x": b"", "other/chk-1/a": b""})
    service = CheckpointService(disk, JOB)
    permit = service.claim()
    kept = store(service, permit, 1).operators["count"][0]
    gone = write(disk, 2)
    foreign = [FileRange(name, 0, 1, 0) for name in ("job/log/x", "other/chk-1/a")]
    states = [kept, keyed(gone), keyed(Inline(b"")), OperatorSubtaskState("x"), *map(keyed, foreign)]
    service.discard([SubtaskSnapshot(1, 0, states)])
    assert gone.file not in disk.files
    assert {"job/log/x", "other/chk-1/a", data_name(1)} <= set(disk.files)


def test_a_store_that_never_heard_of_the_job_takes_nothing_over(tmp_path: Path) -> None:
    """Another one says which of these checkpoints are complete; a sweep by this one would delete them all."""
    disk = LocalDisk(tmp_path)
    first = CheckpointService(disk, JOB, log=CompletedCheckpointLog(disk, "elsewhere/log"))
    permit = first.claim()
    store(first, permit, 1)
    with pytest.raises(UsageError, match=r"holds 'chk-1/.*high-availability.cluster-id"):
        CheckpointService(disk, JOB).claim()
    assert CheckpointService(disk, JOB, log=CompletedCheckpointLog(disk, "elsewhere/log")).claim()


def test_a_log_of_another_store_is_in_the_way(tmp_path: Path) -> None:
    """Its claims alone tell that another store had the job."""
    disk = LocalDisk(tmp_path)
    CheckpointService(disk, JOB).claim()
    with pytest.raises(UsageError, match="holds 'log/0000000000000000000'"):
        CheckpointService(disk, JOB, log=CompletedCheckpointLog(disk, "elsewhere/log")).claim()


def test_sweep_removes_orphans_and_unfinished_files(tmp_path: Path) -> None:
    """Of checkpoints neither completed nor pending; half-written log entries may be a living master's."""
    disk = LocalDisk(tmp_path)
    service = CheckpointService(disk, JOB)
    permit = service.claim()
    store(service, permit, 1)
    write(disk, 2), write(disk, 3)
    for checkpoint in (1, 2, 3):
        (tmp_path / f"job/chk-{checkpoint}/.tmp-1").write_bytes(b"half")
    (tmp_path / "job/log/.tmp-1").write_bytes(b"half a cl")
    (tmp_path / "job/notes").write_bytes(b"the user's own")
    swept = service.sweep_orphans(permit, pending=[CheckpointId(3)])
    assert sorted(swept) == ["job/chk-1/.tmp-1", "job/chk-2/.tmp-1", data_name(2)]
    assert sorted(path.name for path in (tmp_path / "job").iterdir()) == ["chk-1", "chk-3", "log", "notes"]
    assert (tmp_path / "job/log/.tmp-1").exists()


@pytest.mark.parametrize("at", ["_metadata", "log"])
@pytest.mark.parametrize("when", ["before", "after"])
def test_failed_store_says_whether_it_may_be_published(at: str, when: str) -> None:
    """Only a log entry that may be visible is unsure; otherwise no metadata is left behind."""
    armed = False

    def fail(operation: str, name: str) -> str | None:
        return when if armed and operation == "create_if_absent" and at in name else None

    disk = FailingDisk({}, fail)
    service = CheckpointService(disk, JOB)
    permit = service.claim()
    armed = True
    with pytest.raises(StorageError) as caught:
        store(service, permit, 1)
    unsure = (at, when) == ("log", "after")
    assert may_be_published(caught.value) == isinstance(caught.value, UnsureWriteError) == unsure
    assert ("job/chk-1/_metadata" in disk.files) == unsure
    armed = False
    assert [entry.checkpoint for entry in service.completed()] == ([1] if unsure else [])


def test_missing_short_and_damaged_data_files(tmp_path: Path) -> None:
    """Missing and short files are found when loading, damaged ones when reading; each named."""
    disk = LocalDisk(tmp_path)
    service = CheckpointService(disk, JOB)
    permit = service.claim()
    store(service, permit, 1)
    metadata = store(service, permit, 2)
    path = tmp_path / data_name(2)
    older = "next older checkpoint that is complete: --from file://.*chk-1$"
    path.write_bytes(b"state0X2")
    with pytest.raises(StorageError, match=f"{path} is damaged"):
        verify_files(service.disk, metadata)
    assert load_latest(service) == metadata
    path.write_bytes(b"state00")
    with pytest.raises(StorageError, match=rf"{path} is truncated: it ends at byte 7.*{older}"):
        load_latest(service)
    path.unlink()
    with pytest.raises(StorageError, match=rf"{path} is missing.*{older}"):
        load_latest(service)
    assert load_metadata(service.disk, "job/chk-1/_metadata").checkpoint == 1


def test_files_missing_on_a_disk_without_sizes() -> None:
    """Also a disk that cannot tell sizes notices missing files when loading."""
    disk = MemoryDisk()
    service = CheckpointService(disk, JOB)
    metadata = store(service, service.claim(), 1)
    assert load_latest(service) == metadata
    del disk.files[data_name(1)]
    with pytest.raises(StorageError, match="is missing but a checkpoint refers to it"):
        load_latest(service)


def test_swapped_metadata_is_noticed_through_the_log() -> None:
    """Valid metadata that is not the one the log names is refused."""
    disk = MemoryDisk()
    service = CheckpointService(disk, JOB)
    permit = service.claim()
    store(service, permit, 1)
    store(service, permit, 2)
    disk.files["job/chk-2/_metadata"] = disk.files["job/chk-1/_metadata"]
    with pytest.raises(StorageError, match="is not the file that the log"):
        load_latest(service)


def test_other_format_fingerprint_is_refused() -> None:
    """A checkpoint of another key hash would be read wrong: refused, saying what differs."""
    disk = MemoryDisk()
    service = CheckpointService(disk, JOB)
    foreign = fingerprint().replace("headgate-1", "headgate-9")
    service.store(service.claim(), msgspec.structs.replace(metadata_of(1, []), format_fingerprint=foreign))
    with pytest.raises(StorageError, match="key_hash is headgate-9, expected headgate-1"):
        load_latest(service)


@pytest.mark.parametrize(
    "item",
    [
        FileRange("../../etc/passwd", 0, 1, 0),
        FileRange("job/chk-1/x", -1, 1, 0),
        FileRange("job/chk-1/x", 0, -1, 0),
    ],
)
def test_hostile_references_are_refused(tmp_path: Path, item: FileRange) -> None:
    """References out of the root or with negative bounds are refused before anything is read."""
    disk = LocalDisk(tmp_path)
    with pytest.raises(StorageError, match=r"is no file name|may be negative"):
        read_handle(disk, item)
    service = CheckpointService(disk, JOB)
    service.store(service.claim(), metadata_of(1, [item]))
    with pytest.raises(StorageError, match=r"is no file name|may be negative"):
        load_latest(service)


def test_wrong_generation_or_job_is_a_bug() -> None:
    """Metadata of another generation than the permit's is refused."""
    service = CheckpointService(MemoryDisk(), JOB)
    permit = service.claim()
    with pytest.raises(InternalError, match="generation 7"):
        service.store(permit, metadata_of(1, [], generation=7))


@pytest.mark.parametrize("job", ["", "a/b", "..", ".hidden", "a b", "x" * 201])
def test_job_ids_that_cannot_name_a_folder(job: str) -> None:
    """A job id that would leave its folder is refused."""
    with pytest.raises(StorageError, match="cannot name a folder"):
        CheckpointService(MemoryDisk(), JobId(job))


def test_sections_of_one_file() -> None:
    """Sections of one file have their own bounds and checksums."""
    disk = MemoryDisk()
    sections = DataFileWriter(disk).write_sections("job/chk-1/a", [[b"one"], [], [b"th", memoryview(b"ree")]])
    assert [(s.offset, s.length) for s in sections] == [(0, 3), (3, 0), (3, 5)]
    assert [read_handle(disk, s) for s in sections] == [b"one", b"", b"three"]
    assert sorted(disk.files) == ["job/chk-1/a"]


def test_every_flipped_bit_of_a_data_file_is_refused() -> None:
    """No damaged section is handed to a decoder."""
    disk = MemoryDisk()
    handle = DataFileWriter(disk).write("job/chk-1/a", [b"some state"])
    whole = disk.files["job/chk-1/a"]
    for position in range(len(whole) * 8):
        damaged = bytearray(whole)
        damaged[position // 8] ^= 1 << position % 8
        disk.files["job/chk-1/a"] = bytes(damaged)
        with pytest.raises(StorageError, match="job/chk-1/a is damaged"):
            read_handle(disk, handle)


def test_a_log_may_end_with_a_savepoint_elsewhere(tmp_path: Path) -> None:
    """The job's folder leads to it, and its file names are relative to its own folder."""
    disk, elsewhere = LocalDisk(tmp_path / "cp"), LocalDisk(tmp_path / "my savepoints" / "savepoint-1")
    service = CheckpointService(disk, JOB)
    permit = service.claim()
    store(service, permit, 1)
    handle = DataFileWriter(elsewhere).write("data/v1-s0-0", [b"state002"])
    metadata = msgspec.structs.replace(metadata_of(2, [handle]), kind="savepoint", format="native")
    data = encode_metadata(metadata)
    elsewhere.create_if_absent("_metadata", data)
    service.store_savepoint(permit, metadata, elsewhere.describe("_metadata"), digest(data))
    for where in (tmp_path / "cp" / "job", tmp_path / "my savepoints" / "savepoint-1"):
        opened, found = open_checkpoint(str(where))
        assert found == metadata == load_latest(service)
        assert read_handle(opened, handle) == b"state002"
    elsewhere.delete("data/v1-s0-0")
    with pytest.raises(StorageError, match=r"data/v1-s0-0 is missing.*complete: --from file.*cp/job/chk-1$"):
        open_checkpoint(str(tmp_path / "cp" / "job"))


def test_what_a_savepoint_is_cannot_be_left_out(tmp_path: Path) -> None:
    """A savepoint's metadata is told from a checkpoint's by its version, and says its format."""
    metadata = msgspec.structs.replace(metadata_of(2, []), kind="savepoint", format="canonical")
    assert decode_metadata(encode_metadata(metadata), "here") == metadata
    odd = encode_metadata(msgspec.structs.replace(metadata, format="odd"))
    with pytest.raises(StorageError, match="'savepoint' of format 'odd'; expected a savepoint, canonical or"):
        decode_metadata(odd, "here")


def test_the_end_of_a_job_can_be_repeated() -> None:
    """A deletion that failed behind the end of the log goes on where it was."""
    failures = 2

    class Stubborn(MemoryDisk):
        def delete(self, name: str) -> None:
            nonlocal failures
            if failures and "chk-" in name:
                failures -= 1
                raise StorageError(f"cannot delete {name}")
            super().delete(name)

    disk = Stubborn()
    service = CheckpointService(disk, JOB)
    permit = service.claim()
    for checkpoint in (1, 2):
        service.store(permit, metadata_of(checkpoint, [write(disk, checkpoint)]))
    for _ in range(2):
        with pytest.raises(StorageError, match="cannot delete"):
            service.discard_completed(permit, [CheckpointId(1), CheckpointId(2)])
    service.discard_completed(permit, [CheckpointId(1), CheckpointId(2)])
    assert [name for name in disk.list("") if "chk-" in name] == []
    assert service.completed() == []
