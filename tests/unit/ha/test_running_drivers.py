"""A checkpoint is not claimed from a job that is seen to run, and a claim goes on where nothing is seen."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from headgate.checkpoint.storage.local import LocalDisk
from headgate.common.errors import UsageError
from headgate.common.files.job_files import JobFile, PublishedJob, jobs_folder
from headgate.common.settings.config import Config
from headgate.ha.files.file_election import FileElection
from headgate.ha.high_availability import LEADERS, election_key, job_id
from headgate.ha.second_jobs import LOOKS_PER_LEASE, refuse_running
from headgate.state.snapshots import CheckpointMetadata

NAME = "clicks"
LEASE_MS = 900
CONFIG = Config().with_command_line([f"high-availability.lease={LEASE_MS}ms"])


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder of job files that nobody else has."""
    monkeypatch.setenv("HEADGATE_HOME", str(tmp_path / "home"))


class Time:
    """A clock that pauses move; something may happen in each pause."""

    def __init__(self, then: Callable[[], None] = lambda: None) -> None:
        self.ms, self.pauses, self._then = 5_000, 0, then

    def monotonic_ms(self) -> int:
        return self.ms

    def now_ms(self) -> int:
        return self.ms

    def precise_ms(self) -> float:
        return float(self.ms)

    def pause(self, seconds: float) -> None:
        self.ms += round(seconds * 1000)
        self.pauses += 1
        self._then()


def checkpoint_of(job: str) -> CheckpointMetadata:
    """Something to claim."""
    return CheckpointMetadata(job, NAME, 7, 1, 1, 0, 128, "", {}, {}, {}, {})


def published(disk: LocalDisk | None, job: str = "clicks-1", host: str | None = None) -> PublishedJob:
    """The file of a running job."""
    storage = None if disk is None else disk.describe()
    host = host or socket.gethostname()
    return PublishedJob(JobFile(job, NAME, os.getpid(), host, 0, "http://127.0.0.1:1", "s", None, storage))


def test_a_job_that_holds_its_file_is_running(tmp_path: Path) -> None:
    """The message names the driver and what to do; when the job has ended, nothing is in the way."""
    disk, time = LocalDisk(tmp_path / "cp"), Time()
    file = published(disk)
    with pytest.raises(UsageError) as caught:
        refuse_running(CONFIG, disk, checkpoint_of("clicks-1"), time, time.pause)
    for word in (
        f"process {os.getpid()}",
        "checkpoint 7",
        "'clicks-1'",
        "headgate stop clicks-1",
        "headgate savepoint create clicks-1",
        "--allow-second",
    ):
        assert word in str(caught.value)
    refuse_running(CONFIG, disk, checkpoint_of("clicks-2"), time, time.pause)
    file.withdraw()
    refuse_running(CONFIG, disk, checkpoint_of("clicks-1"), time, time.pause)
    assert time.pauses == 0


@pytest.mark.parametrize("what", ["dead", "elsewhere", "of another storage"])
def test_a_file_that_proves_nothing_is_no_sign(tmp_path: Path, what: str) -> None:
    """Of a driver that died, of one whose processes cannot be seen, and of a job of the same id."""
    disk, time = LocalDisk(tmp_path / "cp"), Time()
    other = LocalDisk(tmp_path / "other") if what == "of another storage" else disk
    file = published(other, host="far-away" if what == "elsewhere" else None)
    if what == "dead":
        (path,) = jobs_folder().glob("*.json")
        data = msgspec.json.decode(path.read_bytes(), type=JobFile)
        file.withdraw()
        path.write_bytes(msgspec.json.encode(data))  # nobody holds a lock on it
    refuse_running(CONFIG, disk, checkpoint_of("clicks-1"), time, time.pause)


def leading(disk: LocalDisk, time: Time, won_before: int = 0) -> FileElection:
    """A leader on files."""
    folder = f"{LEADERS}/{election_key(NAME, 'default')}"
    election = FileElection(disk, folder, time, LEASE_MS, who=f"driver {won_before}")
    assert election.campaign().won_ms is not None
    return election


def test_a_leader_whose_beat_goes_on_is_running(tmp_path: Path) -> None:
    """It is seen at the first beat that changes."""
    disk = LocalDisk(tmp_path / "cp")
    leader = leading(disk, Time())
    leader.renew()
    beats = iter([None, None, leader.renew])

    def sometimes() -> None:
        if (beat := next(beats)) is not None:
            beat()

    beating = Time(sometimes)
    with pytest.raises(UsageError, match="driver 0"):
        refuse_running(CONFIG, disk, checkpoint_of(job_id(NAME, "default", 0)), beating, beating.pause)
    assert beating.pauses == 3


def test_a_leader_that_is_silent_for_a_lease_is_in_nobodys_way(tmp_path: Path) -> None:
    """It was watched for that long; one that has made room is not watched at all."""
    disk, time = LocalDisk(tmp_path / "cp"), Time()
    leader = leading(disk, time)
    refuse_running(CONFIG, disk, checkpoint_of(job_id(NAME, "default", 0)), time, time.pause)
    assert time.pauses == LOOKS_PER_LEASE
    leader.end()
    leader.resign()
    refuse_running(CONFIG, disk, checkpoint_of(job_id(NAME, "default", 0)), time, time.pause)
    assert time.pauses == LOOKS_PER_LEASE


def test_a_leader_of_a_later_run_is_another_job(tmp_path: Path) -> None:
    """The job was brought to its end, and began anew under the same name."""
    disk, time = LocalDisk(tmp_path / "cp"), Time()
    first = leading(disk, time)
    first.end()
    first.resign()
    again = leading(disk, time, 1)
    beating = Time(again.renew)
    refuse_running(CONFIG, disk, checkpoint_of(job_id(NAME, "default", 0)), beating, beating.pause)
    with pytest.raises(UsageError, match="driver 1"):
        refuse_running(CONFIG, disk, checkpoint_of(job_id(NAME, "default", 1)), beating, beating.pause)


def test_a_leader_that_ends_while_it_is_watched_has_ended(tmp_path: Path) -> None:
    """Its last beat says so."""
    disk, time = LocalDisk(tmp_path / "cp"), Time()
    leader = leading(disk, time)
    ending = Time(lambda: leader.resign())
    refuse_running(CONFIG, disk, checkpoint_of(job_id(NAME, "default", 0)), ending, ending.pause)
    assert ending.pauses == 1
