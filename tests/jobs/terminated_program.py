"""A program that gets SIGTERM: it counts slowly until a file says that the rest may come at once.

Arguments: a folder for everything; the cluster, "mini-cluster" or "spark"; how it begins its jobs, a key of
WAYS; settings.
"""

from __future__ import annotations

import contextlib
import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import headgate as hg

RECORDS = 2_000


class Slow(hg.Source[Any]):
    """Numbers, one each 2 ms, until there is a file `rest`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def create_enumerator(self, restored: Any) -> hg.SplitEnumerator:
        return _OneSplit(["all"] if restored is None else restored)

    def create_reader(self, context: hg.SourceReaderContext) -> hg.SourceReader[Any]:
        return _SlowReader(self.folder)


class _OneSplit(hg.SplitEnumerator):
    def __init__(self, left: list[str]) -> None:
        self.left = left

    def next_splits(self, subtask: int) -> list[hg.Split] | None:
        return [hg.Split(self.left.pop())] if self.left else None

    def snapshot(self) -> Any:
        return list(self.left)


class _SlowReader(hg.SourceReader[Any]):
    def __init__(self, folder: Path) -> None:
        self.folder, self.bad_records, self.splits, self.final = folder, [], [], False

    def add_splits(self, splits: Sequence[hg.Split]) -> None:
        self.splits += [[split.id, split.position or 0] for split in splits]

    def no_more_splits(self) -> None:
        self.final = True

    def poll(self, max_records: int) -> Any:
        if not self.splits:
            return hg.END_OF_INPUT if self.final else hg.NOTHING_AVAILABLE
        start = self.splits[0][1]
        if not (self.folder / "rest").exists():
            max_records = 1
            time.sleep(0.002)
        found = list(range(start, min(start + max_records, RECORDS)))
        self.splits[0][1] += len(found)
        if self.splits[0][1] == RECORDS:
            self.splits.pop()
        return found

    def snapshot(self) -> list[hg.Split]:
        return [hg.Split(name, position) for name, position in self.splits]


class Place(hg.KeyedProcessFunction[int, int, Any]):
    """Counts the records of a key; with a file `stuck` it stands still."""

    count: hg.ValueState[int] = hg.value_state(default=0)

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def process(self, record: int, ctx: hg.KeyedContext[int]) -> Any:
        (self.folder / "begun").touch()
        while (self.folder / "stuck").exists():
            time.sleep(0.01)
        self.count.value += 1
        yield [record, self.count.value]


def environment(folder: Path, cluster: str, settings: dict[str, Any]) -> hg.Environment:
    """With a job that is not begun."""
    folder.mkdir(exist_ok=True)
    config = {"execution.checkpointing.savepoint-dir": str(folder / "savepoints"), **settings}
    env = hg.Environment(parallelism=1, executor=cluster, config=config)
    env.checkpoints(every="1min", storage=str(folder / "checkpoints"))
    keyed = env.from_source(Slow(folder), uid="in").key_by(lambda n: n % 7)
    keyed.process(Place(folder), uid="place").write_json(str(folder / "out"), uid="out")
    return env


def execute(folder: Path, *where: Any) -> None:
    """In the main thread."""
    environment(folder, *where).execute("slow")
    print("after the job", flush=True)


def background(folder: Path, *where: Any) -> None:
    """In the background of a loop."""
    job = environment(folder, *where).execute_async("slow")
    while not job.done:
        time.sleep(0.01)
    print("after the job", flush=True)


def left(folder: Path, *where: Any) -> None:
    """In the background of nothing: the main thread is over before the job."""
    environment(folder, *where).execute_async("slow")


def survives(folder: Path, *where: Any) -> None:
    """One job, and another one after the signal."""
    with contextlib.suppress(KeyboardInterrupt):
        environment(folder, *where).execute_async("slow").result()
    background(folder / "other", *where)


def both(folder: Path, *where: Any) -> None:
    """One in the background of another one."""
    environment(folder / "other", *where).execute_async("slow")
    execute(folder, *where)


def within(folder: Path, *where: Any) -> None:
    """One in a block that waits for another one."""
    with environment(folder / "other", *where).execute_async("slow"):
        execute(folder, *where)


WAYS = {each.__name__: each for each in (execute, background, left, survives, both, within)}

if __name__ == "__main__":
    WAYS[sys.argv[3]](Path(sys.argv[1]), sys.argv[2], json.loads(sys.argv[4]))
