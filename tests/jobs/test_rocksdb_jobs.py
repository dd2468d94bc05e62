"""Whole jobs with state in RocksDB: exact after a crash, and restored from or into the other backend."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from mini_jobs import RESTART_AT_ONCE, TINY, Halting, environment, json_lines, running_counts

import headgate as hg
from headgate.runtime.state_backends import remove_abandoned

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
    folder: Path, parallelism: int, backend: str, local: Path, name: int, restore_from: str | None = None
) -> Any:
    """A job with its state in `backend`; where nothing is restored it crashes once."""
    config = {
        **TINY,
        **({"restart-strategy.type": "none"} if restore_from == "stop" else RESTART_AT_ONCE),
        "state.backend.type": backend,
        "state.backend.rocksdb.localdir": str(local),
        "state.backend.rocksdb.memory.fixed-per-slot": "16mb",
    }
    env = environment(parallelism, config)
    env.checkpoints(every="10ms", storage=str(folder / "checkpoints"))
    source = Halting(name, len(WORDS) // 2, WORDS, WORDS)
    counted = env.from_source(source, uid="words").key_by(lambda word: word).process(Everything(), uid="all")
    counted.write_json(str(folder / "out"), uid="out")
    return env.execute("everything", restore_from=None if restore_from == "stop" else restore_from)


@pytest.mark.parametrize("parallelism", [1, 2])
def test_a_crash_leaves_no_trace_in_rocksdb(tmp_path: Path, parallelism: int) -> None:
    """Restored from the checkpoint, each record counts once in each state; no file is left behind."""
    local = tmp_path / "local"
    result = run(tmp_path, parallelism, "rocksdb", local, 1220 + parallelism)
    assert result.restarts >= 1
    found = json_lines(tmp_path / "out")
    assert all(line["same"] for line in found)
    assert sorted((line["word"], line["n"]) for line in found) == running_counts(WORDS + WORDS)
    assert list(local.iterdir()) == []


@pytest.mark.parametrize(("before", "after"), [("hashmap", "rocksdb"), ("rocksdb", "hashmap")])
def test_a_checkpoint_of_one_backend_is_restored_into_the_other(
    tmp_path: Path, before: str, after: str
) -> None:
    """What was counted in one goes on in the other, at another parallelism."""
    name = 1230 if before == "rocksdb" else 1231
    local = tmp_path / "local"
    with pytest.raises(hg.HeadgateError):
        run(tmp_path, 2, before, local, name, restore_from="stop")
    stored = (tmp_path / "checkpoints").rglob("_metadata")
    checkpoint = max(stored, key=lambda file: file.stat().st_mtime).parent
    run(tmp_path, 3, after, local, name, restore_from=str(checkpoint))
    found = json_lines(tmp_path / "out")
    assert all(line["same"] for line in found)
    assert sorted((line["word"], line["n"]) for line in found) == running_counts(WORDS + WORDS)


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
