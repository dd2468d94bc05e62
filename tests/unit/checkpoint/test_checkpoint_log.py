"""The log of completed checkpoints: claims, fencing, crash points, trimming."""

from __future__ import annotations

import random
import struct
import zlib

import pytest
from fake_disks import Crash, FailingDisk, MemoryDisk, StoppingDisk

from headgate.checkpoint.storage.storage_contract import UnsureWriteError
from headgate.checkpoint.store.entries import Claim, Completed, decode_entry, encode_entry
from headgate.checkpoint.store.log import CompletedCheckpointLog
from headgate.checkpoint.store.store_contract import CommitPermit
from headgate.common.errors import FencedError, InternalError, StorageError
from headgate.common.ids import CheckpointId, Generation

FOLDER = "job/log"


def a_log(disk: MemoryDisk) -> CompletedCheckpointLog:
    """The log under test on a disk."""
    return CompletedCheckpointLog(disk, FOLDER)


def append(log: CompletedCheckpointLog, permit: CommitPermit, checkpoint: int) -> None:
    """Complete a checkpoint in the log."""
    log.append(permit, CheckpointId(checkpoint), f"job/chk-{checkpoint}/_metadata", "00")


def ids(disk: MemoryDisk) -> list[int]:
    """What a fresh reader finds."""
    return [entry.checkpoint for entry in a_log(disk).completed()]


def entries(disk: MemoryDisk) -> dict[str, Claim | Completed]:
    """All that lies in the folder."""
    return {name: decode_entry(data, name) for name, data in disk.files.items()}


def test_claim_append_read() -> None:
    """Entries are files with padded names; generations grow by claim; the latest is the last."""
    disk = MemoryDisk()
    log = a_log(disk)
    assert log.latest() is None
    first = log.claim()
    for checkpoint in (9, 10, 11):
        append(log, first, checkpoint)
    second = a_log(disk).claim()
    assert (first.generation, second.generation) == (1, 2)
    assert ids(disk) == [9, 10, 11]
    latest = a_log(disk).latest()
    assert latest is not None
    assert (latest.checkpoint, latest.generation, latest.metadata) == (11, 1, "job/chk-11/_metadata")
    assert sorted(disk.files) == [f"job/log/{n:019d}" for n in range(5)]


def test_permit_comes_from_a_claim_only() -> None:
    """Nobody can make a permit for himself."""
    with pytest.raises(InternalError, match="comes from"):
        CommitPermit(Generation(1), object())


def test_replaced_job_master_is_fenced() -> None:
    """After another claim the old permit appends nothing, now and for ever."""
    disk = MemoryDisk()
    old, new = a_log(disk), a_log(disk)
    old_permit = old.claim()
    append(old, old_permit, 1)
    new_permit = new.claim()
    for _ in range(2):
        with pytest.raises(FencedError):
            append(old, old_permit, 2)
    with pytest.raises(FencedError):
        old.check(old_permit)
    append(new, new_permit, 2)
    assert ids(disk) == [1, 2]


def test_own_second_claim_replaces_the_first_permit() -> None:
    """Claiming again in the same process makes the first permit worthless."""
    log = a_log(MemoryDisk())
    first, second = log.claim(), log.claim()
    with pytest.raises(FencedError):
        append(log, first, 1)
    append(log, second, 1)


def test_check_notices_a_claim_without_writing() -> None:
    """A look is enough to notice that another took over."""
    disk = MemoryDisk()
    log = a_log(disk)
    permit = log.claim()
    log.check(permit)
    a_log(disk).claim()
    with pytest.raises(FencedError):
        log.check(permit)


def test_trim_keeps_the_run_and_the_generation() -> None:
    """Trimming removes entries before the oldest retained; generations and reading go on."""
    disk = MemoryDisk()
    log = a_log(disk)
    permit = log.claim()
    for checkpoint in range(1, 6):
        append(log, permit, checkpoint)
    log.trim(permit, CheckpointId(4))
    assert ids(disk) == [4, 5]
    assert sorted(disk.files) == [f"job/log/{n:019d}" for n in (4, 5)]
    log.trim(permit, CheckpointId(99))
    assert ids(disk) == [4, 5]
    append(log, permit, 6)
    assert a_log(disk).claim().generation == 2
    assert ids(disk) == [4, 5, 6]


def test_stray_in_a_trimmed_place_is_no_member() -> None:
    """A stalled job master that creates its entry where newer ones were trimmed is fenced and not read."""
    for trimmed_to in (2, 3):
        disk = MemoryDisk()
        stalled = a_log(disk)
        stalled_permit = stalled.claim()
        log = a_log(disk)
        permit = log.claim()
        for checkpoint in (1, 2, 3):
            append(log, permit, checkpoint)
        log.trim(permit, CheckpointId(trimmed_to))
        assert f"job/log/{1:019d}" not in disk.files
        with pytest.raises(FencedError):
            append(stalled, stalled_permit, 77)
        assert 77 not in ids(disk)
        log.trim(permit, CheckpointId(3))
        assert sorted(disk.files) == [f"job/log/{4:019d}"]


def test_stray_beside_the_first_member_is_told_by_its_digest() -> None:
    """Even directly before the first retained entry a stray is not linked, so it is not read."""
    disk = MemoryDisk()
    stalled = a_log(disk)
    stalled_permit = stalled.claim()
    log = a_log(disk)
    permit = log.claim()
    append(log, permit, 5)
    log.trim(permit, CheckpointId(5))
    with pytest.raises(FencedError):
        append(stalled, stalled_permit, 77)
    assert sorted(disk.files) == [f"job/log/{n:019d}" for n in (1, 2)]
    assert ids(disk) == [5]


def test_every_crash_point() -> None:
    """Killed before any change: the log then shows a whole number of steps, and a new claim goes on."""

    def script(disk: MemoryDisk, done: list[int]) -> None:
        log = a_log(disk)
        permit = log.claim()
        for checkpoint in (1, 2, 3):
            append(log, permit, checkpoint)
            done.append(checkpoint)
        log.trim(permit, CheckpointId(3))

    for changes in range(100):
        files: dict[str, bytes] = {}
        done: list[int] = []
        try:
            script(StoppingDisk(files, changes), done)
            finished = True
        except Crash:
            finished = False
        disk = MemoryDisk(files)
        found = ids(disk)
        assert found == list(range(4 - len(found), 4)) if len(done) == 3 else found == done
        log = a_log(disk)
        permit = log.claim()
        append(log, permit, 4)
        assert ids(disk) == [*found, 4]
        if finished:
            assert changes == 4 + 3
            return
    raise AssertionError("the script never finished")


def test_random_masters_never_complete_after_being_fenced() -> None:
    """Several masters in random turns: members are linked, each appended by the last claimant."""
    for seed in range(150):
        chance = random.Random(seed)
        disk = MemoryDisk()
        masters = [a_log(disk) for _ in range(3)]
        permits: list[CommitPermit | None] = [None] * 3
        owner = -1
        history: list[int] = []
        for turn in range(1, 30):
            who = chance.randrange(3)
            permit = permits[who]
            action = chance.choice(["claim", "append", "append", "append", "trim"])
            if action == "claim":
                permits[who], owner = masters[who].claim(), who
            elif permit is not None and action == "append":
                try:
                    append(masters[who], permit, turn)
                    assert who == owner
                    history.append(turn)
                except FencedError:
                    assert who != owner
            elif permit is not None and history:
                try:
                    masters[who].trim(permit, CheckpointId(history[-1]))
                    assert who == owner
                except FencedError:
                    assert who != owner
            found = ids(disk)
            assert found == history[len(history) - len(found) :]
            assert bool(found) == bool(history)
        generations = [permit.generation for permit in permits if permit is not None]
        assert len(set(generations)) == len(generations)


@pytest.mark.parametrize("visible", [True, False])
def test_unsure_append_is_settled_by_the_next_look(visible: bool) -> None:
    """After an unsure write the next call finds out whether the entry is there, and goes on from it."""
    failing = True

    def fail(operation: str, name: str) -> str | None:
        return "after" if failing and operation == "create_if_absent" and name.endswith("2") else None

    disk = FailingDisk({}, fail)
    log = a_log(disk)
    permit = log.claim()
    append(log, permit, 1)
    with pytest.raises(UnsureWriteError):
        append(log, permit, 2)
    failing = False
    if not visible:
        del disk.files[f"job/log/{2:019d}"]
    append(log, permit, 3)
    assert ids(disk) == ([1, 2, 3] if visible else [1, 3])


def test_failed_append_that_wrote_nothing_is_certain() -> None:
    """An append that failed before anything was visible is a plain StorageError and can be repeated."""
    failures = iter(["before"])

    def fail(operation: str, name: str) -> str | None:
        return next(failures, None) if operation == "create_if_absent" and name.endswith("1") else None

    disk = FailingDisk({}, fail)
    log = a_log(disk)
    permit = log.claim()
    with pytest.raises(StorageError) as caught:
        append(log, permit, 1)
    assert not isinstance(caught.value, UnsureWriteError)
    append(log, permit, 2)
    assert ids(disk) == [2]


def test_failed_look_after_a_good_append_is_unsure() -> None:
    """When the entry was written but the look at the end failed, the entry may not be taken back."""
    armed = False

    def fail(operation: str, name: str) -> str | None:
        return "before" if armed and operation == "list" else None

    disk = FailingDisk({}, fail)
    log = a_log(disk)
    permit = log.claim()
    armed = True
    with pytest.raises(UnsureWriteError, match="may exist"):
        append(log, permit, 1)
    armed = False
    assert [entry.checkpoint for entry in log.completed()] == [1]


def test_unsure_and_then_claimed_by_another_is_fenced() -> None:
    """An unsure entry that lost its place to a claim leads to fencing, not to a second try."""
    failing = True

    def fail(operation: str, name: str) -> str | None:
        return "before" if failing and operation == "list" else None

    disk = FailingDisk({}, lambda operation, name: None)
    log = a_log(disk)
    permit = log.claim()
    disk.fail = fail
    with pytest.raises(UnsureWriteError):
        append(log, permit, 1)
    failing = False
    del disk.files[f"job/log/{1:019d}"]
    a_log(disk).claim()
    with pytest.raises(FencedError):
        append(log, permit, 2)


class LateDisk(MemoryDisk):
    """Loses the answers to chosen creations; what was asked for happens when it is delivered."""

    def __init__(self) -> None:
        super().__init__()
        self.losing = 0
        self.late: list[tuple[str, bytes]] = []

    def create_if_absent(self, name: str, data: bytes) -> bool:
        if self.losing:
            self.losing -= 1
            self.late.append((name, data))
            raise UnsureWriteError(f"no answer came about {name}")
        return super().create_if_absent(name, data)

    def deliver(self) -> None:
        """What got lost arrives in its order."""
        while self.late:
            super().create_if_absent(*self.late.pop(0))


def test_an_entry_that_was_not_found_can_not_come_later() -> None:
    """Its place is taken before anybody builds on its absence; the master goes on, under the same claim."""
    disk = LateDisk()
    log = a_log(disk)
    permit = log.claim()
    append(log, permit, 1)
    disk.losing = 1
    with pytest.raises(UnsureWriteError):
        append(log, permit, 2)
    assert [entry.checkpoint for entry in log.completed()] == [1]
    disk.deliver()
    assert [entry.checkpoint for entry in log.completed()] == [1]
    append(log, permit, 3)
    assert ids(disk) == [1, 3]
    claims = [entry for _, entry in sorted(entries(disk).items()) if isinstance(entry, Claim)]
    assert [(claim.generation, claim.token) for claim in claims] == [(1, claims[0].token)] * 2
    assert a_log(disk).generation() == permit.generation
    log.trim(permit, CheckpointId(3))
    assert ids(disk) == [3]
    assert a_log(disk).claim().generation == 2


@pytest.mark.parametrize(("delivered", "found"), [(1, [1, 2, 3]), (2, [1, 2, 3]), (0, [1, 3])])
def test_taking_the_place_may_get_lost_as_well(delivered: int, found: list[int]) -> None:
    """Then the entry stays unsure, and the next call knows whichever of the two has come as its own."""
    disk = LateDisk()
    log = a_log(disk)
    permit = log.claim()
    append(log, permit, 1)
    disk.losing = 2
    with pytest.raises(UnsureWriteError):
        append(log, permit, 2)
    with pytest.raises(UnsureWriteError):
        log.check(permit)
    if delivered:
        disk.late = disk.late[:delivered]
    else:
        del disk.late[0]
    disk.deliver()
    append(log, permit, 3)
    assert ids(disk) == found


def test_an_entry_that_comes_while_its_place_is_taken_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Between the look for it and the claim in its place."""
    disk = LateDisk()
    log = a_log(disk)
    permit = log.claim()
    disk.losing = 1
    with pytest.raises(UnsureWriteError):
        append(log, permit, 1)
    read = disk.read

    def read_then_deliver(name: str) -> bytes:
        try:
            return read(name)
        finally:
            disk.deliver()

    monkeypatch.setattr(disk, "read", read_then_deliver)
    append(log, permit, 2)
    assert ids(disk) == [1, 2]


def test_two_claimants_never_write_equal_bytes() -> None:
    """Of one place and one generation: so reading back tells whose a claim is."""
    disks = [MemoryDisk() for _ in range(2)]
    for disk in disks:
        a_log(disk).claim()
    first, second = (disk.files[f"job/log/{0:019d}"] for disk in disks)
    assert first != second


def test_a_claim_from_before_there_were_tokens_is_read() -> None:
    """Its bytes, as they were written then; a log goes on behind it."""
    body = b"\x83\xa4type\xa5claim\xaageneration\x03\xa8previous\xa0"
    old = b"HGLOG\n\x00\x01" + struct.pack(">II", len(body), zlib.crc32(body)) + body
    assert decode_entry(old, "log/0") == Claim(3, "")
    disk = MemoryDisk({f"job/log/{0:019d}": old})
    log = a_log(disk)
    permit = log.claim()
    append(log, permit, 1)
    assert (permit.generation, ids(disk), len(disk.files)) == (4, [1], 3)


def test_entries_round_trip_and_damage_is_refused() -> None:
    """Every flipped bit and every truncation of an entry is refused by name."""
    for entry in (Claim(3, "ab"), Claim(3, "ab", "0f"), Completed(3, "ab", 7, "job/chk-7/_metadata", "cd")):
        data = encode_entry(entry)
        assert decode_entry(data, "log/1") == entry
        for position in range(len(data) * 8):
            damaged = bytearray(data)
            damaged[position // 8] ^= 1 << position % 8
            with pytest.raises(StorageError, match="log/1"):
                decode_entry(bytes(damaged), "log/1")
        for length in range(len(data)):
            with pytest.raises(StorageError, match="log/1"):
                decode_entry(data[:length], "log/1")


def test_damaged_entry_is_never_skipped() -> None:
    """A broken entry of the log raises; it is not read as if it were not there."""
    disk = MemoryDisk()
    log = a_log(disk)
    permit = log.claim()
    append(log, permit, 1)
    append(log, permit, 2)
    for index in (1, 2):
        name = f"job/log/{index:019d}"
        whole = disk.files[name]
        disk.files[name] = whole[:-1]
        with pytest.raises(StorageError, match=f"memory:///{name} is truncated"):
            a_log(disk).latest()
        disk.files[name] = whole


def test_a_terminal_end_whose_deletions_failed_is_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    """The claim at the end is there once, and what stands before it goes with the second try."""
    disk = MemoryDisk()
    log = a_log(disk)
    permit = log.claim()
    append(log, permit, 1)
    delete, failing = disk.delete, [True]

    def once(name: str) -> None:
        if failing and name.endswith("1"):
            failing.clear()
            raise StorageError(f"cannot delete {name}: Input/output error")
        delete(name)

    monkeypatch.setattr(disk, "delete", once)
    with pytest.raises(StorageError, match="Input/output"):
        log.close(permit, terminal=True)
    log.close(permit, terminal=True)
    assert [type(entry) for entry in entries(disk).values()] == [Claim]
    assert ids(disk) == []


def test_where_the_disk_is_not_mounted_nothing_is_completed() -> None:
    """An empty folder in the log's place takes no entry that counts; when the disk is back all goes on."""
    disk = MemoryDisk()
    log = a_log(disk)
    permit = log.claim()
    append(log, permit, 1)
    mounted, disk.files = disk.files, {}
    for _ in range(2):
        with pytest.raises(StorageError, match="is the disk away"):
            log.check(permit)
        with pytest.raises(StorageError, match="is the disk away"):
            append(log, permit, 2)
    disk.files = mounted
    log.check(permit)
    append(log, permit, 3)
    assert ids(disk) == [1, 3]
