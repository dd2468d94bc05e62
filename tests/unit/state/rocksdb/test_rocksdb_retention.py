"""Incremental checkpoints and the storage: it holds what retained ones refer to, and no more."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from latest_checkpoint import load_latest
from native_bench import GROUPS, NativeBench, keyed, put

from headgate.checkpoint.opening import load_metadata, referenced_ranges, verify_files
from headgate.checkpoint.service import CheckpointService
from headgate.common.format_config import fingerprint
from headgate.common.ids import CheckpointId, JobId
from headgate.state.snapshots import CheckpointMetadata, SubtaskSnapshot


class Master:
    """The job master's part: what completes is logged, what does not is discarded, old ones are retired."""

    def __init__(self, bench: NativeBench, retained: int) -> None:
        self._service = CheckpointService(bench.disk, JobId(bench.job))
        self._permit = self._service.claim()
        self._retained = retained
        self.disk = bench.disk

    @property
    def completed(self) -> list[int]:
        """What the log holds."""
        return [entry.checkpoint for entry in self._service.completed()]

    def complete(self, checkpoint: int, snapshot: SubtaskSnapshot) -> None:
        """All have acknowledged."""
        metadata = CheckpointMetadata(
            job=self._service.job,
            job_name="job",
            checkpoint=checkpoint,
            generation=self._permit.generation,
            attempt=1,
            trigger_ms=0,
            max_parallelism=GROUPS,
            format_fingerprint=fingerprint(),
            parallelism={"op": 1},
            operators={"op": snapshot.operators},
            enumerators={},
            state_types={},
        )
        self._service.store(self._permit, metadata)
        old = self.completed[: -self._retained]
        if old:
            self._service.retire(self._permit, [CheckpointId(each) for each in old])

    def abort(self, snapshot: SubtaskSnapshot) -> None:
        """Some have not."""
        self._service.discard([snapshot])

    def latest(self) -> CheckpointMetadata:
        """The newest, verified."""
        metadata = load_latest(self._service)
        assert metadata is not None
        return metadata

    def check(self) -> None:
        """Nothing is missing or damaged, and nothing is left over."""
        needed: set[str] = set()
        for entry in self._service.completed():
            metadata = load_metadata(self._service.disk, entry.metadata)
            verify_files(self._service.disk, metadata)
            needed |= {entry.metadata, *(item.file for item in referenced_ranges(metadata))}
        assert {name for name in self.disk.list("job") if "/chk-" in name} == needed


@pytest.mark.parametrize(
    ("retained", "at_once", "count"),
    [
        (1, 2, 14),
        *[pytest.param(r, c, 60, marks=pytest.mark.ci) for r, c in [(1, 1), (2, 1), (1, 2), (1, 3)]],
    ],
)
def test_the_storage_holds_exactly_what_retained_checkpoints_refer_to(
    tmp_path: Path, retained: int, at_once: int, count: int
) -> None:
    """Checkpoints overlap, complete or are aborted, the subtask is restored: retained ones stay whole."""
    chance, bench = random.Random(5), NativeBench(tmp_path)
    master, model, running = Master(bench, retained), dict[int, str](), bench.backend()
    pending: list[tuple[int, SubtaskSnapshot, dict[int, str]]] = []
    expected: dict[int, dict[int, str]] = {}
    for number in range(1, count):
        changes = {chance.randrange(50): str(chance.random()) for _ in range(chance.randrange(12))}
        model |= changes
        put(running, changes)
        completed = max(master.completed, default=0)
        pending.append((number, bench.snapshot(running, number, completed), dict(model)))
        while len(pending) >= at_once:
            checkpoint, snapshot, at_cut = pending.pop(0)
            if chance.random() < 0.7:
                master.complete(checkpoint, snapshot)
                expected[checkpoint] = at_cut
            else:
                master.abort(snapshot)
        if not pending:
            master.check()
        if chance.random() < 0.1 and master.completed:
            for _, snapshot, _ in pending:
                master.abort(snapshot)
            pending.clear()
            master.check()
            latest = master.latest()
            handle = keyed(SubtaskSnapshot(0, 0, latest.operators["op"]))
            running.close()
            running, model = bench.backend(stored=[handle]), dict(expected[latest.checkpoint])
            assert dict(running.scan("v")) == model
    assert len(master.completed) == retained
    bench.close()
