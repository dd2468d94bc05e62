"""A checkpoint that another job restores stays, whatever its own job does; one of a dead driver does not."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from fake_disks import MemoryDisk
from test_checkpoint_service import JOB, metadata_of, write

from headgate.checkpoint.in_use import EXPIRES_MS, InUse, Users
from headgate.checkpoint.opening import open_checkpoint, verify_files
from headgate.checkpoint.service import CheckpointService
from headgate.checkpoint.store.store_contract import CommitPermit
from headgate.common.errors import UsageError
from headgate.common.ids import CheckpointId


class Hands:
    """A clock that a test moves."""

    ms = 1_000

    def monotonic_ms(self) -> int:
        return self.ms

    def now_ms(self) -> int:
        return self.ms

    def precise_ms(self) -> float:
        return float(self.ms)


def running(disk: MemoryDisk, clock: Hands) -> tuple[CheckpointService, CommitPermit]:
    """A job with three checkpoints, of which the first shares a file with none."""
    service = CheckpointService(disk, JOB, clock=clock)
    permit = service.claim()
    for number in (1, 2, 3):
        service.store(permit, metadata_of(number, [write(disk, number)]))
    return service, permit


def whole(disk: MemoryDisk, number: int) -> bool:
    """Whether a checkpoint can be restored."""
    name = f"{JOB}/chk-{number}"
    if f"{name}/_metadata" not in disk.files:
        return False
    verify_files(*open_checkpoint(name, disks=Below(disk)))
    return True


class Below:
    """Opens folders of a disk in memory."""

    def __init__(self, disk: MemoryDisk) -> None:
        self._disk = disk

    def __call__(self, uri: str) -> MemoryDisk:
        root = uri.removeprefix("memory://").strip("/")
        files = {
            name[len(root) :].lstrip("/"): data
            for name, data in self._disk.files.items()
            if name.startswith(root)
        }
        found = MemoryDisk(files)
        found.describe = lambda name="": f"memory:///{root}/{name}".rstrip("/")  # type: ignore[method-assign]
        return found


def use(disk: MemoryDisk, number: int) -> InUse:
    """Another job's use."""
    return InUse(disk, JOB, CheckpointId(number), "other")


def test_what_is_in_use_is_not_retired_until_it_is_let_go() -> None:
    """Nor is what is newer, so that the log has no gap; the next retirement deletes all of it."""
    disk, clock = MemoryDisk(), Hands()
    service, permit = running(disk, clock)
    restoring = use(disk, 1)
    restoring.begin()
    service.retire(permit, [CheckpointId(1), CheckpointId(2)])
    assert [whole(disk, n) for n in (1, 2, 3)] == [True, True, True]
    restoring.end()
    service.retire(permit, [CheckpointId(2)])
    assert [whole(disk, n) for n in (1, 2, 3)] == [False, False, True]
    assert not [name for name in disk.files if "in-use" in name]


def test_older_ones_go_meanwhile() -> None:
    """Only what is in use, and what is newer, waits."""
    disk, clock = MemoryDisk(), Hands()
    service, permit = running(disk, clock)
    use(disk, 2).begin()
    service.retire(permit, [CheckpointId(1), CheckpointId(2)])
    assert [whole(disk, n) for n in (1, 2, 3)] == [False, True, True]


def test_at_the_end_of_a_job_that_keeps_nothing_it_stays() -> None:
    """Its files are all there still."""
    disk, clock = MemoryDisk(), Hands()
    service, permit = running(disk, clock)
    use(disk, 2).begin()
    service.discard_completed(permit, [CheckpointId(1), CheckpointId(2), CheckpointId(3)])
    assert [whole(disk, n) for n in (1, 2, 3)] == [False, True, False]


def test_a_driver_that_died_holds_nothing_for_long() -> None:
    """As long as its file changes it lives; then its time runs."""
    disk, clock = MemoryDisk(), Hands()
    service, permit = running(disk, clock)
    restoring = use(disk, 1)
    restoring.begin()
    for _ in range(3):
        service.retire(permit, [CheckpointId(1)])
        clock.ms += EXPIRES_MS - 1
        restoring.renew()
    service.retire(permit, [CheckpointId(1)])
    clock.ms += EXPIRES_MS
    service.retire(permit, [CheckpointId(1)])
    assert [whole(disk, n) for n in (1, 2, 3)] == [False, True, True]


@pytest.mark.parametrize("moment", ["log", "data"])
def test_who_restores_and_who_deletes_at_once(moment: str) -> None:
    """At whatever moment of a retirement a use begins: it is refused, or all that it needs stays."""
    disk, clock = MemoryDisk(), Hands()
    service, permit = running(disk, clock)
    refused: list[bool] = []

    def begin() -> None:
        try:
            use(disk, 1).begin()
        except UsageError:
            refused.append(True)
        else:
            refused.append(False)

    striking(disk, {"log": "/log/", "data": "chk-1/g"}[moment], begin)
    service.retire(permit, [CheckpointId(1)])
    assert len(refused) == 1
    if not refused[0]:
        assert whole(disk, 1)


def striking(disk: MemoryDisk, part: str, then: Callable[[], None]) -> None:
    """Do something right before the first file of a kind is deleted."""
    delete, struck = disk.delete, []

    def deleting(name: str) -> None:
        if part in name and not struck:
            struck.append(name)
            then()
        delete(name)

    disk.delete = deleting  # type: ignore[method-assign]


def test_a_stray_name_marks_no_checkpoint() -> None:
    """A digit that is no number of a checkpoint is not taken for one."""
    disk = MemoryDisk()
    disk.create_if_absent(f"{JOB}/in-use/²-stray", b"")
    assert Users(disk, JOB, None).checkpoints() == set()
