"""Records that no checkpoint can take along: barriers stay behind them, and the job goes on."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mini_jobs import TINY

import headgate as hg
from headgate.runtime.job.listener import JobListener
from headgate.testing.mini_cluster import MiniCluster


class Opaque:
    """Says nothing about its fields, so that only pickle could carry it."""

    def __init__(self, number: int) -> None:
        self.number = number


class SlowCount(hg.KeyedProcessFunction[int, Opaque, tuple[int, int]]):
    """A running count that takes its time, so that records queue up before it."""

    count: hg.ValueState[int] = hg.value_state(default=0)

    def process(self, record: Opaque, ctx: hg.KeyedContext[int]) -> Iterator[tuple[int, int]]:
        time.sleep(0.0005)
        self.count.value += 1
        yield ctx.key, self.count.value


class Notes(JobListener):
    """Keeps what users are told."""

    def __init__(self) -> None:
        self.notes: list[str] = []
        self.completed: list[int] = []

    def note(self, text: str) -> None:
        self.notes.append(text)

    def checkpoint_completed(self, checkpoint: int, took_ms: int) -> None:
        self.completed.append(checkpoint)


def test_checkpoints_become_aligned_where_records_cannot_be_stored(tmp_path: Path) -> None:
    """One checkpoint fails without counting, the user is told which class it was, and later ones complete."""
    listener = Notes()
    config: dict[str, Any] = {**TINY, "execution.checkpointing.unaligned.enabled": True}
    env = hg.Environment(parallelism=2, executor=MiniCluster(listener), config=config)
    env.checkpoints(every="20ms", storage=str(tmp_path))
    records = env.from_collection(range(2_000), uid="numbers").map(Opaque).rebalance()
    counted = records.key_by(lambda record: record.number % 7).process(SlowCount(), uid="counts")
    found = counted.collect_later()
    env.execute()
    assert sorted(found.records) == sorted((n % 7, n // 7 + 1) for n in range(2_000))
    told = [note for note in listener.notes if "aligned from now on" in note]
    assert len(told) == 1
    assert "Opaque" in told[0]
    assert listener.completed
