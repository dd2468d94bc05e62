"""When a worker keeps local copies, when it reads them, and that it does neither unasked."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from headgate.checkpoint.data_files import DataFileWriter, read_handle
from headgate.checkpoint.local_copies import BackedUpDisk, NearbyDisk
from headgate.checkpoint.storage.local import LocalDisk
from headgate.common.ids import JobId
from headgate.common.settings.config import Config
from headgate.runtime.job.job_settings import job_settings
from headgate.runtime.job.shipped_program import WorkerSettings
from headgate.runtime.worker.local_recovery import LocalRecovery

BACKUP, RECOVER = "execution.checkpointing.local-backup.enabled", "execution.state-recovery.from-local"


class InLoop:
    """Background work that is done when it is submitted."""

    def submit(self, work: Any, done: Any) -> None:
        done(work(), None)


@pytest.mark.parametrize(
    ("config", "makes", "reads"),
    [
        ({}, False, False),
        ({RECOVER: True}, True, True),
        ({BACKUP: True}, True, False),
        ({RECOVER: True, BACKUP: False}, False, True),
    ],
)
def test_copies_are_made_and_read_as_the_options_say(
    tmp_path: Path, config: dict[str, Any], makes: bool, reads: bool
) -> None:
    """Making follows reading unless it is set; without either nothing is touched."""
    where = {"execution.checkpointing.local-backup.dirs": str(tmp_path / "local")}
    settings = job_settings(Config().with_program(config | where)).worker
    recovery, disk = LocalRecovery(JobId("job"), 0), LocalDisk(tmp_path / "storage")
    recovery.configure(settings)
    assert isinstance(recovery.writing(disk), BackedUpDisk) is makes
    assert isinstance(recovery.reading(disk), NearbyDisk) is reads
    assert (recovery.writing(None), recovery.reading(None)) == (None, None)
    assert (tmp_path / "local").exists() is (makes or reads)


def test_copies_outlive_attempts_and_workers_but_not_the_job(tmp_path: Path) -> None:
    """An attempt begins anew, then a process; in the end the worker that hears of it removes all."""
    settings = WorkerSettings(
        local_backup=True, recover_from_local=True, local_backup_dir=os.fspath(tmp_path / "local")
    )
    disk = LocalDisk(tmp_path / "storage")
    first = LocalRecovery(JobId("job"), 0)
    first.configure(settings)
    storage: Any = first.writing(disk)
    old, new = (DataFileWriter(storage).write(f"job/chk-{n}/a", [b"abc"]) for n in (1, 2))
    first.configure(settings)
    first.completed(2, InLoop())
    first.close(InLoop(), job_over=False)
    second = LocalRecovery(JobId("job"), 0)
    second.configure(settings)
    nearby: Any = second.reading(disk)
    assert [read_handle(nearby, handle) for handle in (old, new)] == [b"abc", b"abc"]
    assert (nearby.bytes_local, nearby.bytes_remote) == (3, 3)
    second.close(InLoop(), job_over=True)
    assert list((tmp_path / "local").iterdir()) == []
