"""A program that other processes control: it counts words until it is told to end.

Arguments: a folder for everything, and where it runs: "mini" or "spark".
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import headgate as hg

WORDS = [f"w{n % 5}" for n in range(20)]


class Endless(hg.Source[Any]):
    """The words, and then nothing more, without an end."""

    def create_enumerator(self, restored: Any) -> hg.SplitEnumerator:
        return _OneSplit(["all"] if restored is None else restored)

    def create_reader(self, context: hg.SourceReaderContext) -> hg.SourceReader[Any]:
        return _EndlessReader()


class _OneSplit(hg.SplitEnumerator):
    def __init__(self, left: list[str]) -> None:
        self.left = left

    def next_splits(self, subtask: int) -> list[hg.Split] | None:
        return [hg.Split(self.left.pop())] if self.left else None

    def snapshot(self) -> Any:
        return list(self.left)


class _EndlessReader(hg.SourceReader[Any]):
    def __init__(self) -> None:
        self.bad_records, self.splits = [], []

    def add_splits(self, splits: Sequence[hg.Split]) -> None:
        self.splits += [[split.id, split.position or 0] for split in splits]

    def no_more_splits(self) -> None:
        """It has no end all the same."""

    def poll(self, max_records: int) -> Any:
        for split in self.splits:
            found = WORDS[split[1] : split[1] + max_records]
            split[1] += len(found)
            if found:
                return found
        return hg.NOTHING_AVAILABLE

    def snapshot(self) -> list[hg.Split]:
        return [hg.Split(name, position) for name, position in self.splits]


class Farewell(hg.KeyedProcessFunction[str, str, Any]):
    """Counts, and tells the count when event time has come far enough."""

    count: hg.ValueState[int] = hg.value_state(default=0)

    def process(self, record: str, ctx: hg.KeyedContext[str]) -> Iterator[Any]:
        self.count.value += 1
        ctx.timers.register_event_time(10**12)
        yield from ()

    def on_timer(self, timestamp: int, ctx: Any) -> Iterator[Any]:
        yield {"word": ctx.key, "count": self.count.value}


def main(folder: Path, where: str) -> None:
    """Run until told to end; what came of it is the last line."""
    executor: Any = "spark"
    if where == "mini":
        from headgate.testing import MiniCluster

        executor = MiniCluster()
    config = {
        "execution.checkpointing.savepoint-dir": str(folder / "savepoints"),
        "heartbeat.interval": "50ms",
        "pipeline.max-parallelism": 16,
    }
    if where == "mini":
        config["rest.enabled"] = True
    env = hg.Environment(parallelism=1, executor=executor, config=config)
    env.checkpoints(every="1min", storage=str(folder / "checkpoints"))
    timed = env.from_source(Endless(), uid="in").with_event_time(lambda word: 5, out_of_orderness="0ms")
    timed.key_by(lambda word: word).process(Farewell(), uid="farewell").write_json(
        str(folder / "out"), uid="out"
    )
    try:
        print("ended with", env.execute("words").savepoint, flush=True)
    except hg.JobFailedError as error:
        print("ended:", error, flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
