"""Whole jobs with state in RocksDB: exact after a crash, and restored from or into the other backend."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from mini_jobs import RESTART_AT_ONCE, TINY, Halting, environment, json_lines, running_counts

import headgate as hg
from headgate.checkpoint.opening import load_metadata, referenced_ranges, verify_files
from headgate.checkpoint.service import CheckpointService
from headgate.checkpoint.storage.local import LocalDisk
from headgate.common.ids import JobId
from headgate.state.backends import remove_abandoned

WORDS = [f"w{n % 7}" for n in range(200)]


class Everything(hg.KeyedProcessFunction[str, str, Any]):
    """Counts in every kind of state, and says when they disagree."""

    value: hg.ValueState[int] = hg.value_state(default=0)
    seen: hg.ListState[int] = hg.list_state()
    by_length: hg.MapState[int, int] = hg.map_state()
    total: hg.ReducingState[int] = hg.reducing_state(lambda left, right: left + right)

    def process(self, record: str, ctx: hg.KeyedContext[str]) -> Iterator[Any]:
        self.value.value += 1
        self.seen.add(self.value.value)
        self.by_length.put(len(record), (self.by_length.get(len(record)) or 0) + 1)
        self.total.add(1)
        n = self.value.value
        same = len(self.seen.get()) == self.by_length.get(len(record)) == self.total.get() == n
        yield {"word": ctx.key, "n": n, "same": same}


def run(
    folder: Path,
    parallelism: int,
    backend: str,
    local: Path,
    name: int,
    restore_from: str | None = None,
    incremental: bool = False,
) -> Any:
    """A job with its state in `backend`; where nothing is restored it crashes once."""
    config = {
        **TINY,
        **({"restart-strategy.type": "none"} if restore_from == "stop" else RESTART_AT_ONCE),
        "state.backend.type": backend,
        "state.backend.rocksdb.localdir": str(local),
        "state.backend.rocksdb.memory.fixed-per-slot": "16mb",
        **({"execution.checkpointing.incremental": True} if incremental else {}),
    }
    env = environment(parallelism, config)
    env.checkpoints(every="10ms", storage=str(folder / "checkpoints"))
    source = Halting(name, len(WORDS) // 2, WORDS, WORDS)
    counted = env.from_source(source, uid="words").key_by(lambda word: word).process(Everything(), uid="all")
    counted.write_json(str(folder / "out"), uid="out")
    return env.execute("everything", restore_from=None if restore_from == "stop" else restore_from)


@pytest.mark.parametrize(("parallelism", "incremental"), [(1, False), (2, False), (2, True)])
def test_a_crash_leaves_no_trace_in_rocksdb(tmp_path: Path, parallelism: int, incremental: bool) -> None:
    """Restored from the checkpoint, each record counts once in each state; no file is left behind."""
    local = tmp_path / "local"
    name = 1220 + parallelism + 3 * incremental
    result = run(tmp_path, parallelism, "rocksdb", local, name, incremental=incremental)
    assert result.restarts >= 1
    found = json_lines(tmp_path / "out")
    assert all(line["same"] for line in found)
    assert sorted((line["word"], line["n"]) for line in found) == running_counts(WORDS + WORDS)
    assert list(local.iterdir()) == []
    assert_exactly_what_is_needed(tmp_path / "checkpoints")


def assert_exactly_what_is_needed(storage: Path) -> None:
    """Every file that a retained checkpoint refers to is there and sound, and there is no other."""
    (folder,) = [each for each in storage.iterdir() if each.is_dir()]
    disk = LocalDisk(storage)
    service = CheckpointService(disk, JobId(folder.name))
    needed: set[str] = set()
    for entry in service.completed():
        metadata = load_metadata(service.disk, entry.metadata)
        verify_files(service.disk, metadata)
        needed |= {entry.metadata, *(item.file for item in referenced_ranges(metadata))}
    assert needed
    assert {name for name in disk.list(folder.name) if "/chk-" in name} == needed


@pytest.mark.parametrize(
    ("before", "after", "incremental"),
    [
        ("hashmap", "rocksdb", True),
        pytest.param("rocksdb", "hashmap", False, marks=pytest.mark.ci),
        ("rocksdb", "hashmap", True),
        ("rocksdb", "rocksdb", True),
    ],
)
def test_a_checkpoint_is_restored_into_either_backend_at_another_parallelism(
    tmp_path: Path, before: str, after: str, incremental: bool
) -> None:
    """What was counted in one goes on in the other."""
    name = 1230 + ["hashmap", "rocksdb"].index(before) + 2 * ["hashmap", "rocksdb"].index(after)
    name += 4 * incremental
    local = tmp_path / "local"
    with pytest.raises(hg.HeadgateError):
        run(tmp_path, 2, before, local, name, "stop", incremental and before == "rocksdb")
    stored = (tmp_path / "checkpoints").rglob("_metadata")
    checkpoint = max(stored, key=lambda file: file.stat().st_mtime).parent
    run(tmp_path, 3, after, local, name, str(checkpoint), incremental and after == "rocksdb")
    found = json_lines(tmp_path / "out")
    assert all(line["same"] for line in found)
    assert sorted((line["word"], line["n"]) for line in found) == running_counts(WORDS + WORDS)


@pytest.mark.ci
@pytest.mark.parametrize("incremental", [False, True])
def test_a_full_local_disk_fails_checkpoints_and_the_job_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, incremental: bool
) -> None:
    """The first checkpoints find no room; the job does not restart, and later ones complete."""
    looked, usage = [0], shutil.disk_usage

    def full_at_first(path: Any) -> Any:
        looked[0] += 1
        found = usage(path)
        return found if looked[0] > 2 else found._replace(free=0)

    monkeypatch.setattr(shutil, "disk_usage", full_at_first)
    config = {
        **TINY,
        "restart-strategy.type": "none",
        "state.backend.type": "rocksdb",
        "state.backend.rocksdb.localdir": str(tmp_path / "local"),
        "execution.checkpointing.incremental": incremental,
        "execution.checkpointing.tolerable-failed-checkpoints": 1000,
    }
    env = environment(1, config)
    env.checkpoints(every="10ms", storage=str(tmp_path / "checkpoints"))
    words = env.from_collection(WORDS, uid="words").key_by(lambda word: word)
    words.process(Everything(), uid="all").write_json(str(tmp_path / "out"), uid="out")
    result = env.execute("everything")
    assert looked[0] > 2
    assert result.checkpoints >= 1
    found = sorted((line["word"], line["n"]) for line in json_lines(tmp_path / "out"))
    assert found == running_counts(WORDS)
    assert_exactly_what_is_needed(tmp_path / "checkpoints")


def test_folders_of_dead_workers_are_removed(tmp_path: Path) -> None:
    """A killed worker leaves its files; the next one on the machine removes them, and nobody else's."""
    import platform

    dead = 2**22 + 1  # above the greatest process id
    mine = tmp_path / f"headgate-state-{platform.node()}-{os.getpid()}-abc"
    gone = tmp_path / f"headgate-state-{platform.node()}-{dead}-abc"
    elsewhere = tmp_path / f"headgate-state-another-host-{dead}-abc"
    for folder in (mine, gone, elsewhere):
        (folder / "db").mkdir(parents=True)
    assert remove_abandoned(tmp_path) == [gone]
    assert sorted(tmp_path.iterdir()) == sorted([mine, elsewhere])
