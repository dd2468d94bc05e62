"""A leader on files whose storage is full, broken or away for longer than its lease waits, and goes on."""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from mini_jobs import TINY, Count, json_lines, running_counts
from running_jobs import Valve, wait_until

import headgate as hg
from headgate.checkpoint.storage.local import LocalDisk
from headgate.common.errors import FencedError, StorageError
from headgate.testing import JobListener, MiniCluster

WORDS = [f"w{n % 7}" for n in range(60)]
NUMBERS = count(188_900)
LEASE_S = 1.0


class Notes(JobListener):
    """Remembers what a person is told."""

    def __init__(self) -> None:
        self.notes: list[str] = []

    def note(self, text: str) -> None:
        self.notes.append(text)


class Job:
    """Counts words behind a valve into files, under high availability."""

    def __init__(self, folder: Path, limit: float = 10) -> None:
        self.valve, self.notes = Valve(next(NUMBERS), limit, WORDS), Notes()
        config = {
            **TINY,
            "high-availability.type": "filesystem",
            "high-availability.lease": f"{LEASE_S}s",
            "execution.checkpointing.tolerable-failed-checkpoints": 1_000_000,
        }
        self.env = hg.Environment(parallelism=2, executor=MiniCluster(self.notes), config=config)
        self.env.checkpoints(every="100ms", storage=str(folder / "cp" / "storage"))
        counted = self.env.from_source(self.valve, uid="in").key_by(lambda word: word)
        counted.process(Count(), uid="counts").write_json(str(folder / "out"), uid="out")


@contextmanager
def failing(methods: tuple[str, ...], number: int) -> Iterator[None]:
    """Within it every disk refuses what it is asked for, as the system would."""
    real: dict[str, Callable[..., Any]] = {name: getattr(LocalDisk, name) for name in methods}

    def refuse(disk: LocalDisk, name: str, *_: Any) -> Any:
        problem = OSError(number, os.strerror(number))
        raise StorageError(f"cannot use {name}: {problem.strerror}") from problem

    for name in methods:
        setattr(LocalDisk, name, refuse)
    try:
        yield
    finally:
        for name, method in real.items():
            setattr(LocalDisk, name, method)


@contextmanager
def away(storage: Path) -> Iterator[None]:
    """Within it the folder is an empty one, as the place of a disk is that is not mounted."""
    storage.rename(storage.with_name("elsewhere"))
    storage.mkdir()
    try:
        yield
    finally:
        storage.rename(storage.with_name("underneath"))
        storage.with_name("elsewhere").rename(storage)


WRITES = ("create", "create_if_absent")
FAULTS = {
    "full": lambda storage: failing(WRITES, errno.ENOSPC),
    "read-only": lambda storage: failing((*WRITES, "delete"), errno.EROFS),
    "broken": lambda storage: failing((*WRITES, "delete", "read", "list"), errno.EIO),
    "away": away,
}
SAID = {
    "full": "No space left on device",
    "read-only": "Read-only file system",
    "broken": "Input/output error",
    "away": "is the disk away?",
}


def published(folder: Path) -> list[Any]:
    """What the sink has committed."""
    return sorted(tuple(line) for line in json_lines(folder / "out"))


@pytest.mark.parametrize(
    "fault", ["full", *(pytest.param(each, marks=pytest.mark.ci) for each in ("read-only", "broken", "away"))]
)
def test_a_leader_alone_names_the_cause_and_goes_on_when_there_is_room(tmp_path: Path, fault: str) -> None:
    """Nothing is committed meanwhile; afterwards nothing is missing and nothing is there twice."""
    job = Job(tmp_path)
    with job.env.execute_async("words") as handle:
        wait_until(lambda: len(published(tmp_path)) == 10, "the first output is committed")
        with FAULTS[fault](tmp_path / "cp" / "storage"):
            job.valve.open_to(20)
            time.sleep(3 * LEASE_S)
            assert not handle.done
            assert len(published(tmp_path)) == 10
        wait_until(lambda: len(published(tmp_path)) == 20, "it commits again")
        job.valve.open_to()
        handle.result()
    assert published(tmp_path) == running_counts(WORDS)
    (doubt,) = [note for note in job.notes.notes if "cannot prove that it leads" in note]
    assert SAID[fault] in doubt
    assert any("leads job 'words' again" in note for note in job.notes.notes)


@pytest.mark.ci
@pytest.mark.parametrize("fault", FAULTS)
def test_with_a_standby_one_of_the_two_goes_on(tmp_path: Path, fault: str) -> None:
    """Whoever wins when the disk is back; the other is told who leads, and the output is exact."""
    first, second = Job(tmp_path), Job(tmp_path)
    with ExitStack() as opened:
        leading = opened.enter_context(first.env.execute_async("words"))
        wait_until(lambda: len(published(tmp_path)) == 10, "the first output is committed")
        waiting = opened.enter_context(second.env.execute_async("words"))
        wait_until(lambda: any("standby" in note for note in second.notes.notes), "the other stands by")
        with FAULTS[fault](tmp_path / "cp" / "storage"):
            first.valve.open_to(20)
            time.sleep(3 * LEASE_S)
            assert not leading.done
            assert not waiting.done
        first.valve.open_to()
        second.valve.open_to()
        ended = [_outcome(each) for each in (leading, waiting)]
    assert published(tmp_path) == running_counts(WORDS)
    fenced = [text for text in ended if text is not None]
    assert len(fenced) <= 1
    assert all("has taken over in term" in text for text in fenced)


def _outcome(handle: hg.JobHandle) -> str | None:
    """None, or what it was fenced with."""
    try:
        handle.result()
    except FencedError as error:
        return str(error)
    return None
