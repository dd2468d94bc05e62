"""Checkpoint storage that refuses: a checkpoint fails with the reason; the job does what is configured."""

from __future__ import annotations

import errno
import itertools
import os
import threading
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from mini_jobs import RESTART_AT_ONCE, Count, Halting, environment, running_counts

import headgate as hg
from headgate.checkpoint.history_file import CheckpointStatus, History, find_histories, read_history
from headgate.checkpoint.opening import open_checkpoint, verify_files
from headgate.checkpoint.storage import local
from headgate.checkpoint.storage.local import LocalDisk
from headgate.common.errors import StorageError

WORDS = [f"w{n % 7}" for n in range(200)]
NAMES = itertools.count(90_000)
"""Of sources that crash once in the life of this process."""

IN_FILES = {"execution.checkpointing.data-inline-threshold": "0b"}
TOLERANT = {"execution.checkpointing.tolerable-failed-checkpoints": 1_000}
PATIENCE_S = 30


class Fault:
    """An operating system that refuses the files of some checkpoints."""

    def __init__(self, call: str, code: int, checkpoints: Iterable[int]) -> None:
        self.call, self.code = call, code
        self.folders = {f"chk-{number}" for number in checkpoints}
        self.hit: set[str] = set()
        self._now = threading.local()

    def install(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """From here on the operating system refuses."""
        real = getattr(os, self.call)

        def refusing(*arguments: Any) -> Any:
            folder = getattr(self._now, "folder", "")
            if folder in self.folders:
                self.hit.add(folder)
                raise OSError(self.code, os.strerror(self.code))
            return real(*arguments)

        for method in ("create", "create_if_absent"):
            monkeypatch.setattr(LocalDisk, method, self._watched(getattr(LocalDisk, method)))
        monkeypatch.setattr(local.system, self.call, refusing)

    def _watched(self, method: Any) -> Any:
        def call(disk: LocalDisk, name: str, data: Any) -> Any:
            self._now.folder = name.partition("/")[2].partition("/")[0]
            try:
                return method(disk, name, data)
            finally:
                self._now.folder = ""

        return call


def run(storage: str, source: hg.Source[Any], **config: Any) -> list[tuple[str, int]]:
    """A job that counts words, and what it found."""
    settings = {"execution.checkpointing.num-retained": 1_000, "execution.buffer-timeout": "1ms", **config}
    env = environment(2, settings)
    env.checkpoints(every="10ms", storage=storage)
    keyed = env.from_source(source, uid="words").key_by(lambda word: word)
    counts = keyed.process(Count(), uid="count").collect_later()
    env.execute("collect")
    return sorted(counts.records)


def crashing_once() -> Halting:
    """All the words, twice; each list crashes in its middle, after a checkpoint that holds its position."""
    return Halting(next(NAMES), len(WORDS) // 2, WORDS, WORDS)


def told(storage: Path) -> History:
    """What the job noted of its checkpoints."""
    return read_history(find_histories(str(storage))[0])


def check_what_is_stored(storage: Path, history: History, refused: set[str]) -> None:
    """Completed checkpoints can be restored; refused ones have left no file."""
    (job,) = [folder for folder in storage.iterdir() if not folder.name.startswith(".")]
    for record in history.records:
        if record.status is CheckpointStatus.COMPLETED:
            verify_files(*open_checkpoint(str(job / f"chk-{record.checkpoint}")))
    for folder in refused:
        assert [path for path in (job / folder).rglob("*") if path.is_file()] == []


@pytest.mark.parametrize("where", ["data", "metadata"])
@pytest.mark.parametrize(
    ("call", "code"),
    [("write", errno.ENOSPC), ("fsync", errno.EIO), ("open", errno.EROFS), ("open", errno.EACCES)],
)
def test_f17_f18_refused_checkpoints_are_tolerated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str, code: int, where: str
) -> None:
    """The second and third checkpoint fail with the reason; the job goes on, crashes, and is exact."""
    fault = Fault(call, code, (2, 3))
    fault.install(monkeypatch)
    where_to = IN_FILES if where == "data" else {}
    found = run(str(tmp_path), crashing_once(), **RESTART_AT_ONCE, **TOLERANT, **where_to)
    assert found == running_counts(WORDS + WORDS)
    history = told(tmp_path)
    failed = {
        f"chk-{each.checkpoint}": each for each in history.records if each.status is CheckpointStatus.FAILED
    }
    assert fault.hit
    assert fault.hit <= failed.keys()
    assert all(os.strerror(code) in failed[folder].detail for folder in fault.hit)
    check_what_is_stored(tmp_path, history, fault.hit)


def test_f18_refused_checkpoints_fail_the_job_where_none_may_fail(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The reason is in the job's error, and the checkpoint before can be restored."""
    fault = Fault("write", errno.ENOSPC, range(2, 1_000))
    fault.install(monkeypatch)
    config = {"execution.checkpointing.tolerable-failed-checkpoints": 0, "restart-strategy.type": "none"}
    with pytest.raises(hg.HeadgateError, match=os.strerror(errno.ENOSPC)):
        run(str(tmp_path), crashing_once(), **config, **IN_FILES)
    history = told(tmp_path)
    assert history.records[0].status is CheckpointStatus.COMPLETED
    check_what_is_stored(tmp_path, history, fault.hit)


def test_f22_a_storage_that_hangs_costs_a_checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A checkpoint whose files are not written in time is given up; what comes late is no part of another."""
    create, expired = LocalDisk.create, threading.Event()

    def slow(disk: LocalDisk, name: str, parts: Any) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while "/chk-2/" in name and not expired.is_set() and time.monotonic() < deadline:
            with suppress(StorageError):  # there is no history yet
                states = {each.checkpoint: each.status for each in told(tmp_path).records}
                if states.get(2) is CheckpointStatus.FAILED:
                    expired.set()
            time.sleep(0.01)
        create(disk, name, parts)

    monkeypatch.setattr(LocalDisk, "create", slow)
    config = {"execution.checkpointing.timeout": "500ms"}
    found = run(str(tmp_path), crashing_once(), **config, **RESTART_AT_ONCE, **TOLERANT, **IN_FILES)
    assert expired.is_set()
    assert found == running_counts(WORDS + WORDS)


def test_a12_checkpoints_in_memory() -> None:
    """A job whose checkpoints are in the driver's memory restarts from them, and is exact."""
    found = run("memory://jobs", crashing_once(), **RESTART_AT_ONCE, **IN_FILES)
    assert found == running_counts(WORDS + WORDS)


class Hoard(hg.KeyedProcessFunction[Any, Any, Any]):
    """Keeps more than memory storage takes."""

    text: hg.ValueState[str] = hg.value_state(default="")

    def process(self, record: Any, ctx: hg.KeyedContext[Any]) -> Any:
        self.text.value = "x" * 4_000
        return []


def test_a12_too_much_for_memory_says_what_to_do() -> None:
    """State above the limit fails the checkpoint, and the message names both options."""
    env = environment(1, {"headgate.storage.memory.max-state-size": "2kb", "restart-strategy.type": "none"})
    env.checkpoints(every="10ms", storage="memory://hoard")
    keyed = env.from_source(crashing_once(), uid="words").key_by(lambda word: word)
    with pytest.raises((hg.HeadgateError, StorageError), match=r"checkpointing\.dir .*max-state-size"):
        keyed.process(Hoard(), uid="hoard").collect_later()
        env.execute()
