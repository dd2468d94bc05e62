"""Killed drivers that went on from another job's snapshot: it goes when it is replaced, not before."""

from __future__ import annotations

import signal
import time
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from driver_processes import PATIENCE_S, Driver, Drivers

from headgate.api.jobs.remote_job import connect
from headgate.checkpoint.opening import load_metadata, open_checkpoint, referenced_ranges
from headgate.checkpoint.ownership import MARK, RECORD
from headgate.checkpoint.verifying import verify

pytestmark = pytest.mark.ci

CLAIM = "execution.state-recovery.claim-mode=CLAIM"
NEVER_SUBSUMED = "execution.checkpointing.num-retained=100000"
NO_CHECKPOINTS_YET = "execution.checkpointing.interval=1h"
IN_FILES = (
    "state.backend.type=rocksdb",
    "execution.checkpointing.incremental=true",
    "execution.checkpointing.data-inline-threshold=0b",
)


def contents(folder: Path) -> dict[str, bytes]:
    """Every file below a folder, but for the words of who restores from there, which killed drivers leave."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and path.parent.name != "in-use"
    }


def killed(driver: Driver) -> None:
    """It ends without a word."""
    assert driver.signalled(signal.SIGKILL) == -signal.SIGKILL


def begins(driver: Driver) -> int | None:
    """The checkpoint that a driver goes on from."""
    found: int | None = driver.hears("deploying").facts["checkpoint"]
    return found


def gone(path: Path) -> bool:
    """Wait until a file is not there."""
    deadline = time.monotonic() + PATIENCE_S
    while path.exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    return not path.exists()


def test_a_claimed_savepoint_goes_when_it_is_replaced(drivers: Drivers) -> None:
    """Not with the driver that claimed it, not while it is retained; then at once, with the claim record."""
    earlier = drivers.start("rest.enabled=true")
    earlier.completes(2)
    (origin,) = drivers.jobs()
    uri = connect(origin).stop(str(drivers.folder / "savepoints"))
    assert earlier.ends() == 0
    folder = Path(unquote(urlsplit(uri).path))
    at = open_checkpoint(uri)[1].checkpoint
    command = ["--from", uri]

    first = drivers.start(CLAIM, NO_CHECKPOINTS_YET, arguments=command)
    assert begins(first) == at
    (job,) = set(drivers.jobs()) - {origin}
    killed(first)
    assert ((folder / MARK).read_text(), drivers.logged(job)) == (job, [])
    assert verify(uri).clean

    second = drivers.start(CLAIM, NEVER_SUBSUMED, arguments=command)
    assert begins(second) == at
    second.completes(3)
    killed(second)
    assert verify(uri).clean
    assert (drivers.folder / "checkpoints" / job / RECORD).exists()
    last = drivers.logged(job)[-1]

    third = drivers.start(CLAIM, "execution.checkpointing.num-retained=2", arguments=command)
    assert begins(third) == last.checkpoint
    third.completes(1)
    assert gone(folder / MARK)
    assert contents(folder) == {}
    assert gone(drivers.folder / "checkpoints" / job / RECORD)
    third.completes(len(third.watcher.checkpoints()) + 1)
    killed(third)
    drivers.let_end()
    fourth = drivers.start(CLAIM, arguments=command)
    assert fourth.ends() == 0
    drivers.check_output()
    assert verify(str(drivers.folder / "checkpoints" / job)).clean


def test_what_is_not_claimed_is_neither_touched_nor_built_upon(drivers: Drivers) -> None:
    """Over two drivers: incremental checkpoints begin with a full one, and what follows builds on that."""
    earlier = drivers.start(*IN_FILES)
    earlier.completes(2)
    assert earlier.signalled(signal.SIGINT) == 130
    (origin,) = drivers.jobs()
    begin = drivers.logged(origin)[-1].checkpoint
    old = drivers.folder / "checkpoints" / origin
    before = contents(old)
    command = ["--from", str(old / f"chk-{begin}")]

    first = drivers.start(*IN_FILES, NO_CHECKPOINTS_YET, arguments=command)
    assert begins(first) == begin
    killed(first)
    second = drivers.start(*IN_FILES, NEVER_SUBSUMED, arguments=command)
    assert begins(second) == begin
    second.completes(2)
    killed(second)
    (job,) = set(drivers.jobs()) - {origin}
    last = drivers.logged(job)[-1]
    drivers.let_end()
    third = drivers.start(*IN_FILES, NEVER_SUBSUMED, arguments=command)
    assert begins(third) == last.checkpoint
    assert third.ends() == 0
    assert contents(old) == before
    named = {
        item.file
        for entry in drivers.logged(job)
        for item in referenced_ranges(load_metadata(drivers.disk, entry.metadata, entry.sha256))
    }
    assert named
    assert {name.partition("/")[0] for name in named} == {job}
    drivers.check_output()
