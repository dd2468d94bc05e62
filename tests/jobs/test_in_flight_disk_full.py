"""Records in flight that cannot be stored cost a checkpoint and no more: the job goes on and is exact."""

from __future__ import annotations

import errno
import itertools
import os
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from mini_jobs import RESTART_AT_ONCE, TINY, Count, Halting, environment, json_lines, running_counts

import headgate as hg
from headgate.checkpoint.history_file import CheckpointStatus, History, find_histories, read_history
from headgate.checkpoint.storage.local import LocalDisk
from headgate.common.errors import StorageError

WORDS = [f"w{n % 7} {'x' * 4_000}" for n in range(300)]
"""Large, so that what is in flight is more than an acknowledgement carries and goes to files."""

LOCK = threading.Lock()
NAMES = itertools.count(80_000)
"""Of sources that crash once in the life of this process."""


class Device:
    """Refuses the first files of records in flight, as a device without space does."""

    def __init__(self, refusals: int) -> None:
        self.left, self.refused, self.written = refusals, set[str](), 0

    def install(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Every local folder is on it."""
        create = LocalDisk.create

        def refusing(disk: LocalDisk, name: str, parts: Any) -> None:
            if "-f" in name.rpartition("/")[2]:
                self._take(name)
            create(disk, name, parts)

        monkeypatch.setattr(LocalDisk, "create", refusing)

    def _take(self, name: str) -> None:
        with LOCK:
            if self.left:
                self.left -= 1
                self.refused.add(name.split("/")[1])
                raise StorageError(f"cannot write {name}: {os.strerror(errno.ENOSPC)}")
            self.written += 1


def linger(record: Any) -> Any:
    """A slow user function, so that there is always something in flight before it."""
    time.sleep(0.001)
    return record


def run(folder: Path, source: hg.Source[Any], **config: Any) -> tuple[hg.JobResult, History]:
    """A job whose records wait before a slow function, and the history of its checkpoints."""
    settings = {
        **TINY,
        "execution.checkpointing.unaligned.enabled": True,
        "execution.checkpointing.num-retained": 1_000,
        "execution.checkpointing.tolerable-failed-checkpoints": 1_000,
        **config,
    }
    env = environment(2, settings)
    env.checkpoints(every="10ms", storage=str(folder / "checkpoints"))
    counted = env.from_source(source, uid="words").map(linger, uid="slow").key_by(lambda word: word)
    pairs = counted.process(Count(), uid="count").rebalance().map(linger, uid="slower")
    pairs.map(lambda pair: {"word": pair[0], "n": pair[1]}).write_json(str(folder / "out"), uid="out")
    result = env.execute("words")
    (file,) = find_histories(str(folder / "checkpoints"))
    return result, read_history(file)


def published(folder: Path) -> list[tuple[str, int]]:
    """What the sink holds."""
    return sorted((line["word"], line["n"]) for line in json_lines(folder / "out"))


def never_halting() -> Halting:
    """All the words, twice, without a crash."""
    return Halting(next(NAMES), len(WORDS) + 1, WORDS, WORDS)


def test_a_device_that_is_full_for_a_while(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Checkpoints fail with the reason and leave no file; the first one with space is as good as any."""
    device = Device(4)
    device.install(monkeypatch)
    source = Halting(next(NAMES), len(WORDS) // 2, WORDS, WORDS)
    result, history = run(tmp_path, source, **RESTART_AT_ONCE)
    assert (device.left, bool(device.written)) == (0, True)
    assert 1 <= result.restarts <= 2, "the source's crashes; a full device is none"
    failed = [each for each in history.records if each.status is CheckpointStatus.FAILED]
    told = [each for each in failed if os.strerror(errno.ENOSPC) in each.detail]
    assert {f"chk-{each.checkpoint}" for each in told} == device.refused
    names = [str(path) for path in (tmp_path / "checkpoints").rglob("*") if path.is_file()]
    assert not [name for name in names for folder in device.refused if f"/{folder}/" in name]
    assert published(tmp_path) == running_counts(WORDS + WORDS)


def test_more_in_flight_than_allowed(tmp_path: Path) -> None:
    """Such a checkpoint says which option to change; the last one, with nothing in flight, completes."""
    limit = {"execution.checkpointing.unaligned.max-in-flight-size": "2kb"}
    result, history = run(tmp_path, never_halting(), **limit)
    failed = [each for each in history.records if each.status is CheckpointStatus.FAILED]
    assert any("max-in-flight-size" in each.detail for each in failed)
    assert result.restarts == 0
    assert history.records[-1].status is CheckpointStatus.COMPLETED
    assert published(tmp_path) == running_counts(WORDS + WORDS)


def test_without_tolerance_the_job_fails_and_names_the_option(tmp_path: Path) -> None:
    """The user reads what to do in the error of the job."""
    settings = {
        "execution.checkpointing.unaligned.max-in-flight-size": "2kb",
        "execution.checkpointing.tolerable-failed-checkpoints": 0,
        "restart-strategy.type": "none",
    }
    with pytest.raises(hg.HeadgateError, match="max-in-flight-size"):
        run(tmp_path, never_halting(), **settings)
