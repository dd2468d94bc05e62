"""Who uses a folder: living drivers only, seen by whoever enters, whatever became of the others."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest

from headgate.common.files import job_files
from headgate.common.files.job_files import Occupancy, Occupant, occupants_of, this_driver_as

ENTERING = """
import sys, time
from pathlib import Path
from headgate.common.files.job_files import Occupancy, this_driver_as
Occupancy(Path(sys.argv[1]), this_driver_as("other-1", "other")).enter(lambda others: None)
if sys.argv[2] == "forks":
    import os
    if os.fork() == 0:
        time.sleep(60)
print("in", flush=True)
time.sleep(60)
"""


class RefusedError(Exception):
    """Somebody is there."""


def refusing(others: Sequence[Occupant]) -> None:
    """Let in nobody beside another."""
    if others:
        raise RefusedError(others[0].job_id)


def entered(folder: Path, how: str = "alone") -> subprocess.Popen[str]:
    """Another process that uses the folder."""
    process = subprocess.Popen(
        [sys.executable, "-c", ENTERING, str(folder), how],
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "in\n"
    return process


def test_who_is_in_is_seen_until_it_leaves(tmp_path: Path) -> None:
    """Also within one process; the folder goes with the last."""
    folder = tmp_path / "users"
    first, second = (Occupancy(folder, this_driver_as(f"job-{n}", "words")) for n in (1, 2))
    first.enter(refusing)
    with pytest.raises(RefusedError, match="job-1"):
        second.enter(refusing)
    assert [each.job_id for each in occupants_of(folder)] == ["job-1"]
    first.leave()
    second.enter(refusing)
    second.leave()
    second.leave()
    assert not folder.exists()


@pytest.mark.parametrize("how", ["alone", "forks"])
def test_who_was_killed_is_gone(tmp_path: Path, how: str) -> None:
    """Its lock dies with it, or lives on in a child that it has forked: the process counts."""
    process = entered(tmp_path, how)
    try:
        with pytest.raises(RefusedError, match="other-1"):
            Occupancy(tmp_path, this_driver_as("mine", "words")).enter(refusing)
        process.kill()
        process.wait()
        Occupancy(tmp_path, this_driver_as("mine", "words")).enter(refusing)
        assert [each.job_id for each in occupants_of(tmp_path)] == ["mine"]
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def test_a_file_of_another_machine_is_believed_only_while_it_is_locked(tmp_path: Path) -> None:
    """Its process cannot be seen; what nobody holds proves nothing, and stays."""
    far = Occupant("far-1", "words", os.getpid(), "far-away")
    (tmp_path / "far-1.json").write_bytes(msgspec.json.encode(far))
    assert occupants_of(tmp_path) == []
    assert (tmp_path / "far-1.json").exists()
    holder = Occupancy(tmp_path, far)
    holder.enter(refusing)
    assert occupants_of(tmp_path) == [far]
    holder.leave()


@pytest.mark.parametrize("problem", [errno.ENOTSUP, errno.ENOLCK])
def test_without_locks_no_file_of_a_living_driver_is_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, problem: int
) -> None:
    """Whether it uses the folder is unknown, so nobody is refused; the file of a dead one is removed."""

    def flock(descriptor: int, operation: int) -> None:
        raise OSError(problem, os.strerror(problem))

    monkeypatch.setattr(fcntl, "flock", flock)
    first, second = (Occupancy(tmp_path, this_driver_as(f"job-{n}", "words")) for n in (1, 2))
    first.enter(refusing)
    second.enter(refusing)
    assert occupants_of(tmp_path) == []
    dead = subprocess.Popen(["true"])
    dead.wait()
    left = msgspec.structs.replace(this_driver_as("dead", "words"), pid=dead.pid)
    (tmp_path / "dead.json").write_bytes(msgspec.json.encode(left))
    assert occupants_of(tmp_path) == []
    assert [path.name[:5] for path in sorted(tmp_path.iterdir())] == ["job-1", "job-2"]
    first.leave()
    second.leave()


def test_what_is_no_file_of_an_occupant_is_passed_over(tmp_path: Path) -> None:
    """Nobody is refused because of it, and it is not touched."""
    (tmp_path / "broken.json").write_bytes(b"{")
    (tmp_path / "note.txt").write_text("mine")
    (tmp_path / "link.json").symlink_to("note.txt")
    assert occupants_of(tmp_path) == []
    assert len([*tmp_path.iterdir()]) == 3


def test_a_folder_that_is_a_link_is_not_used(tmp_path: Path) -> None:
    """It may lead into a folder that is not to be written."""
    (tmp_path / "victim").mkdir()
    (tmp_path / "users").symlink_to(tmp_path / "victim")
    with pytest.raises(OSError, match=r"directory|links"):
        Occupancy(tmp_path / "users", this_driver_as("job-1", "words")).enter(refusing)
    assert not list((tmp_path / "victim").iterdir())


def test_a_pipe_in_the_folder_keeps_nobody_waiting(tmp_path: Path) -> None:
    """Who can write into the folder of an output cannot hang a driver that looks there."""
    os.mkfifo(tmp_path / "job-1.json")
    assert occupants_of(tmp_path) == []


def test_a_folder_that_the_last_user_removes_while_another_enters_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever leaves last may remove the folder between its making and its opening."""
    folder, made = tmp_path / "users", []

    def make_and_lose_once(path: Path) -> None:
        job_files_make_folder(path)
        made.append(path)
        if len(made) == 1:
            path.rmdir()

    job_files_make_folder = job_files.make_folder
    monkeypatch.setattr(job_files, "make_folder", make_and_lose_once)
    occupancy = Occupancy(folder, this_driver_as("job-1", "words"))
    occupancy.enter(refusing)
    assert [each.job_id for each in occupants_of(folder)] == ["job-1"]
    assert len(made) == 2
    occupancy.leave()


def test_of_many_that_enter_at_once_one_is_in(tmp_path: Path) -> None:
    """Looking and entering are one step."""
    results: list[str] = []
    start = threading.Barrier(8)

    def enter(number: int) -> None:
        occupancy = Occupancy(tmp_path / "users", this_driver_as(f"job-{number}", "words"))
        start.wait()
        try:
            occupancy.enter(refusing)
        except RefusedError:
            results.append("refused")
        else:
            results.append("in")

    threads = [threading.Thread(target=enter, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(results) == ["in"] + ["refused"] * 7
