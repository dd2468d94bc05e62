"""What tests of whole jobs share: an environment on the mini cluster, a running count, read-back of files."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import headgate as hg
from headgate.testing.mini_cluster import MiniCluster

TINY = {
    "execution.step-target": "1ms",
    "execution.buffer-timeout": "1ms",
    "taskmanager.network.credit-initial": 1,
}
"""Short steps and one frame of credit: as much interleaving as there can be."""

RESTART_AT_ONCE = {
    "restart-strategy.type": "fixed-delay",
    "restart-strategy.fixed-delay.attempts": 3,
    "restart-strategy.fixed-delay.delay": "1ms",
}


class Count(hg.KeyedProcessFunction[Any, Any, Any]):
    """A running count per key."""

    count: hg.ValueState[int] = hg.value_state(default=0)

    def process(self, record: Any, ctx: hg.KeyedContext[Any]) -> Iterator[Any]:
        self.count.value += 1
        yield ctx.key, self.count.value


def environment(parallelism: int = 2, config: Mapping[str, Any] | None = None) -> hg.Environment:
    """An environment on the mini cluster."""
    return hg.Environment(parallelism=parallelism, executor=MiniCluster(), config=config or {})


def running_counts(keys: Iterable[Any]) -> list[tuple[Any, int]]:
    """The batch answer to :class:`Count`, sorted."""
    totals = Counter(keys)
    return sorted((key, n) for key, total in totals.items() for n in range(1, total + 1))


def json_lines(folder: Path) -> list[Any]:
    """All records that a files sink published."""
    files = [
        file
        for file in sorted(folder.rglob("*.jsonl"))
        if not any(part.startswith((".", "_")) for part in file.relative_to(folder).parts)
    ]
    return [json.loads(line) for file in files for line in file.read_text().splitlines()]


class ListEnumerator(hg.SplitEnumerator):
    """Hands out the lists of a source, one to whoever asks."""

    def __init__(self, left: Iterable[int]) -> None:
        self.left = list(left)

    def next_splits(self, subtask: int) -> list[hg.Split] | None:
        return [hg.Split(str(self.left.pop(0)))] if self.left else None

    def snapshot(self) -> Any:
        return list(self.left)


class ListReader(hg.SourceReader[Any]):
    """Knows its splits and how far each was read; what it gives is the source's own business."""

    def __init__(self, source: Any) -> None:
        self.bad_records = []
        self.source, self.splits, self.final = source, [], False

    def add_splits(self, splits: Sequence[hg.Split]) -> None:
        self.splits += [[split.id, split.position or 0] for split in splits]

    def no_more_splits(self) -> None:
        self.final = True

    def snapshot(self) -> list[hg.Split]:
        return [hg.Split(name, position) for name, position in self.splits]


class Halting(hg.Source[Any]):
    """Lists of records, one per split; a reader that gets to `at` in its list waits there until a checkpoint
    that holds its position is complete, and then raises - once per split in the life of this process.

    No clock is involved: however slow the machine, the crash comes after a checkpoint.
    """

    crashed: ClassVar[set[tuple[int, str]]] = set()

    def __init__(self, name: int, at: int, *splits: Sequence[Any]) -> None:
        self.name, self.at, self.splits = name, at, [list(split) for split in splits]

    def create_enumerator(self, restored: Any) -> hg.SplitEnumerator:
        return ListEnumerator(range(len(self.splits)) if restored is None else restored)

    def create_reader(self, context: hg.SourceReaderContext) -> hg.SourceReader[Any]:
        return _HaltingReader(self)


class _HaltingReader(ListReader):
    def __init__(self, source: Halting) -> None:
        super().__init__(source)
        self.drawn_here, self.completed_here = False, 0

    def poll(self, max_records: int) -> Any:
        if not self.splits:
            return hg.END_OF_INPUT if self.final else hg.NOTHING_AVAILABLE
        name, position = self.splits[0]
        records = self.source.splits[int(name)]
        crash = (self.source.name, name)
        stop = min(len(records), position + max_records)
        if position <= self.source.at < len(records) and crash not in Halting.crashed:
            if position == self.source.at:
                if self.completed_here < 2:
                    return hg.NOTHING_AVAILABLE
                Halting.crashed.add(crash)
                raise RuntimeError(f"crash in split {name} at {position}")
            stop = min(stop, self.source.at)
        self.splits[0][1] = stop
        if stop == len(records):
            self.splits.pop(0)
        return records[position:stop]

    def snapshot(self) -> list[hg.Split]:
        self.drawn_here = bool(self.splits) and self.splits[0][1] == self.source.at
        return super().snapshot()

    def checkpoint_complete(self, checkpoint_id: int) -> None:
        # The first one may have been drawn before; the next was triggered after that. Others than
        # checkpoints ask for the snapshot too, so when it was asked for tells nothing.
        self.completed_here += bool(self.splits) and self.splits[0][1] == self.source.at
