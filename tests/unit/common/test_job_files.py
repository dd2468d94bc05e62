"""Files of running jobs: who may read them, which are of dead drivers, and what is none."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import msgspec
import pytest

from headgate.common.files.job_files import (
    FORGOTTEN_AFTER_S,
    JobFile,
    PublishedJob,
    forget_old,
    jobs_folder,
    known_jobs,
)
from headgate.common.keys.key_text import key_of_text, key_text

NOW_MS = int(time.time() * 1000)


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home of the test's own."""
    monkeypatch.setenv("HEADGATE_HOME", str(tmp_path))
    return tmp_path


def job(job_id: str = "words-1", pid: int | None = None, started_ms: int = NOW_MS) -> JobFile:
    """The file of a job of this machine."""
    host = os.uname().nodename
    return JobFile(job_id, "words", pid or os.getpid(), host, started_ms, "http://127.0.0.1:1", "s3cret")


def written(file: JobFile) -> Path:
    """A file without the lock that a living driver holds."""
    jobs_folder().mkdir(exist_ok=True)
    path = jobs_folder() / f"{file.job_id}.json"
    path.write_bytes(msgspec.json.encode(file))
    return path


def test_a_published_job_is_known_until_it_is_withdrawn() -> None:
    """What was written is read; nothing is left behind."""
    published = PublishedJob(job())
    (known,) = known_jobs()
    assert (known.file, known.exited) == (job(), False)
    published.withdraw()
    assert known_jobs() == []
    assert list(jobs_folder().iterdir()) == []


def test_a_replaced_driver_leaves_the_file_of_its_successor() -> None:
    """Drivers of one job have one path, of which the last one's file is there."""
    old = PublishedJob(job())
    new = PublishedJob(msgspec.structs.replace(job(), address="http://127.0.0.1:2"))
    old.withdraw()
    assert [known.file.address for known in known_jobs()] == ["http://127.0.0.1:2"]
    new.withdraw()
    assert list(jobs_folder().iterdir()) == []


def test_a_file_that_somebody_removed_is_withdrawn_all_the_same() -> None:
    """There is nothing left to remove."""
    published = PublishedJob(job())
    known_jobs()[0].forget()
    published.withdraw()
    assert known_jobs() == []


def test_a_dead_process_is_gone_and_so_is_a_living_one_without_the_lock() -> None:
    """The number of a dead driver may have become another process's."""
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    written(job("dead-1", ended.pid))
    written(job("reused-1", os.getpid()))
    published = PublishedJob(job("living-1"))
    assert {known.file.job_id: known.exited for known in known_jobs()} == {
        "dead-1": True, "living-1": False, "reused-1": True,
    }  # fmt: skip
    published.withdraw()


def test_a_job_of_another_machine_is_not_judged() -> None:
    """Its processes cannot be seen from here."""
    written(msgspec.structs.replace(job(pid=2**22 + 1), host="elsewhere"))
    assert [known.exited for known in known_jobs()] == [False]


def test_what_is_no_file_of_a_job_is_passed_over() -> None:
    """Damaged, foreign, half written, a link to somewhere else, or a named pipe."""
    target = written(job("real-1"))
    folder = jobs_folder()
    (folder / "odd.json").write_bytes(b"\xff{")
    (folder / "other.json").write_text('{"job_id": 7}')
    (folder / ".half").write_text("{")
    (folder / "folder.json").mkdir()
    (folder / "link.json").symlink_to(target)
    os.mkfifo(folder / "pipe.json")  # to which no process writes
    assert [known.file.job_id for known in known_jobs()] == ["real-1"]


def test_dead_drivers_are_forgotten_in_time() -> None:
    """Those that nobody asked for within a week; others wait to be listed."""
    written(job("old-1", started_ms=NOW_MS - (FORGOTTEN_AFTER_S + 60) * 1000))
    written(job("new-1"))
    long = PublishedJob(job("long-1", started_ms=NOW_MS - (FORGOTTEN_AFTER_S + 60) * 1000))
    forget_old()
    assert {known.file.job_id for known in known_jobs()} == {"new-1", "long-1"}
    long.withdraw()


def test_every_kind_of_key_survives_as_text() -> None:
    """Exactly: type and value."""
    import datetime as dt
    import uuid

    keys = [
        "ada", "", "42", 42, -(2**80), 1.5, True, b"\x00\xff", (), ("a", (1, b"x")), dt.date(2026, 1, 2),
        dt.datetime(2026, 1, 2, 3, tzinfo=dt.UTC), dt.datetime(2026, 1, 2, 3, 4, 5, 6), uuid.UUID(int=7),
    ]  # fmt: skip
    back = [key_of_text(key_text(key)) for key in keys]
    assert [(type(key), key) for key in back] == [(type(key), key) for key in keys]
