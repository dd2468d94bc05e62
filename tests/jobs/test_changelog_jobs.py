"""Whole jobs with a changelog: exact after a crash, and restored with another backend or without one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from mini_jobs import RESTART_AT_ONCE, TINY, Halting, environment, json_lines, running_counts

import headgate as hg
from headgate.checkpoint.opening import load_metadata, referenced_ranges, verify_files
from headgate.checkpoint.service import CheckpointService
from headgate.checkpoint.storage.local import LocalDisk
from headgate.common.ids import JobId

WORDS = [f"w{n % 7}" for n in range(200)]
STEP = 20
KINDS = ["hashmap", "rocksdb", "incremental"]


class InSteps(Halting):
    """Lists of records of which no more than some are read before another checkpoint is complete.

    So there are several checkpoints with changes in between before the crash, however slow the machine.
    """

    def create_reader(self, context: hg.SourceReaderContext) -> hg.SourceReader[Any]:
        return _SteppingReader(super().create_reader(context))


class _SteppingReader(hg.SourceReader[Any]):
    def __init__(self, reader: hg.SourceReader[Any]) -> None:
        self._reader, self._left = reader, STEP
        self.bad_records = reader.bad_records

    def add_splits(self, splits: Sequence[hg.Split]) -> None:
        self._reader.add_splits(splits)

    def no_more_splits(self) -> None:
        self._reader.no_more_splits()

    def poll(self, max_records: int) -> Any:
        found = self._reader.poll(min(max_records, self._left)) if self._left else hg.NOTHING_AVAILABLE
        if isinstance(found, list):
            self._left -= len(found)
        return found

    def snapshot(self) -> list[hg.Split]:
        return self._reader.snapshot()

    def checkpoint_complete(self, checkpoint_id: int) -> None:
        self._left = STEP
        self._reader.checkpoint_complete(checkpoint_id)


class Everything(hg.KeyedProcessFunction[str, str, Any]):
    """Counts in states of either kind, and says when they disagree."""

    value: hg.ValueState[int] = hg.value_state(default=0)
    seen: hg.ListState[int] = hg.list_state()
    total: hg.ReducingState[int] = hg.reducing_state(lambda left, right: left + right)

    def process(self, record: str, ctx: hg.KeyedContext[str]) -> Iterator[Any]:
        self.value.value += 1
        self.seen.add(self.value.value)
        self.total.add(1)
        n = self.value.value
        yield {"word": ctx.key, "n": n, "same": len(self.seen.get()) == self.total.get() == n}


def run(
    folder: Path,
    parallelism: int,
    backend: str,
    name: int,
    restore_from: str | None = None,
    changelog: bool = True,
    restart: bool = True,
) -> Any:
    """A job that crashes once, unless it begins with a checkpoint of one that did."""
    config = {
        **TINY,
        **(RESTART_AT_ONCE if restart else {"restart-strategy.type": "none"}),
        "state.backend.type": "rocksdb" if backend == "incremental" else backend,
        "state.backend.rocksdb.localdir": str(folder / "local"),
        "state.backend.rocksdb.memory.fixed-per-slot": "16mb",
        "state.changelog.enabled": changelog,
    }
    if changelog:
        config["state.changelog.periodic-materialize.interval"] = "100ms" if restart else "10min"
    if backend == "incremental":
        config["execution.checkpointing.incremental"] = True
    env = environment(parallelism, config)
    env.checkpoints(every="10ms", storage=str(folder / "checkpoints"))
    source = InSteps(name, len(WORDS) // 2, WORDS, WORDS)
    counted = env.from_source(source, uid="words").key_by(lambda word: word).process(Everything(), uid="all")
    counted.write_json(str(folder / "out"), uid="out")
    return env.execute("everything", restore_from=restore_from)


def demand_exact(folder: Path) -> None:
    """Each record counted once in each state, and the storage holds what retained checkpoints need."""
    found = json_lines(folder / "out")
    assert all(line["same"] for line in found)
    assert sorted((line["word"], line["n"]) for line in found) == running_counts(WORDS + WORDS)


def logged(storage: Path) -> int:
    """The longest log of the newest checkpoint; whose files are all there, and no others."""
    (job,) = [each for each in storage.iterdir() if each.is_dir()]
    disk = LocalDisk(storage)
    service = CheckpointService(disk, JobId(job.name))
    needed: set[str] = set()
    for entry in service.completed():
        metadata = load_metadata(service.disk, entry.metadata)
        verify_files(service.disk, metadata)
        needed |= {entry.metadata, *(item.file for item in referenced_ranges(metadata))}
    assert {name for name in disk.list(job.name) if "/chk-" in name} == needed
    return max(len(state.keyed.log) for state in metadata.operators["all"] if state.keyed is not None)


@pytest.mark.parametrize(
    ("parallelism", "backend"),
    [
        (2, "hashmap"),
        *[
            pytest.param(*each, marks=pytest.mark.ci)
            for each in [(1, "hashmap"), (1, "rocksdb"), (2, "incremental")]
        ],
    ],
)
def test_a21_a_crash_leaves_no_trace(tmp_path: Path, parallelism: int, backend: str) -> None:
    """Restored from a base and its log, each record counts once in each state; no file is left behind."""
    name = 1340 + parallelism + 3 * KINDS.index(backend)
    result = run(tmp_path, parallelism, backend, name)
    assert result.restarts >= 1
    demand_exact(tmp_path)
    logged(tmp_path / "checkpoints")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (("hashmap", True), ("rocksdb", True)),
        *[
            pytest.param(*each, marks=pytest.mark.ci)
            for each in [
                (("hashmap", True), ("hashmap", False)),
                (("hashmap", False), ("hashmap", True)),
                (("incremental", True), ("hashmap", True)),
                (("incremental", True), ("incremental", False)),
                (("rocksdb", True), ("incremental", True)),
            ]
        ],
    ],
)
def test_a_log_is_restored_by_either_backend_with_a_changelog_or_without(
    tmp_path: Path, before: tuple[str, bool], after: tuple[str, bool]
) -> None:
    """At another parallelism, too."""
    name = 136_000 + KINDS.index(before[0]) + 3 * KINDS.index(after[0]) + 9 * before[1] + 18 * after[1]
    with pytest.raises(hg.HeadgateError):
        run(tmp_path, 2, before[0], name, changelog=before[1], restart=False)
    assert bool(logged(tmp_path / "checkpoints")) == before[1]
    stored = (tmp_path / "checkpoints").rglob("_metadata")
    checkpoint = max(stored, key=lambda file: file.stat().st_mtime).parent
    run(tmp_path, 3, after[0], name, str(checkpoint), changelog=after[1])
    demand_exact(tmp_path)
