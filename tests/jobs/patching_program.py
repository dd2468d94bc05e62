"""A program that breaks the standard library of its process while two jobs run in it; a test starts it.

    python patching_program.py FOLDER WHAT BACKEND

WHAT is a name of `PATCHES`, "all", "freezegun" or "nothing". One job begins before anything is broken, the
other when it is broken already; both have state, checkpoints, a savepoint and an exactly-once sink.
"""

from __future__ import annotations

import builtins
import hashlib
import importlib
import io
import json
import os
import random
import sys
import threading
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pandas as pd  # with `open` broken no library can be loaded any more, and savepoints need it
import pyarrow as pa

import headgate as hg
from headgate.testing import MiniCluster

LOADED = pa.array(pd.Series([1]))


def broken(*_: Any, **__: Any) -> Any:
    """What the function is replaced by: it fails."""
    raise RuntimeError("the program has broken this function")


def lies(value: Any) -> Callable[..., Any]:
    """Another: it says that all is well and does nothing."""
    return lambda *_, **__: value


PATCHES: dict[str, list[tuple[Any, str, Any]]] = {
    "json.dumps": [(json, "dumps", lies("{}"))],
    "json.loads": [(json, "loads", lies({}))],
    "open": [(builtins, "open", broken), (io, "open", broken)],
    "os.open": [(os, "open", broken)],
    "os.replace": [(os, "replace", lies(None))],
    "os.rename": [(os, "rename", lies(None))],
    "os.link": [(os, "link", lies(None))],
    "os.unlink": [(os, "unlink", lies(None)), (os, "remove", lies(None))],
    "os.fsync": [(os, "fsync", broken)],
    "Path.open": [(Path, "open", broken)],
    "Path.unlink": [(Path, "unlink", lies(None))],
    "Path.rename": [(Path, "rename", lies(None)), (Path, "replace", lies(None))],
    "time.time": [(time, "time", lies(0.0)), (time, "time_ns", lies(0))],
    "time.monotonic": [(time, "monotonic", lies(0.0)), (time, "monotonic_ns", lies(0))],
    "zlib.crc32": [(zlib, "crc32", lies(0))],
    "hashlib.sha256": [(hashlib, "sha256", lambda *_: hashlib.md5(b"same"))],
    "random": [
        (random, "random", lies(0.0)),
        (random, "uniform", broken),
        (random, "choice", broken),
        (random, "Random", broken),
    ],
}


def patch(what: str, scope: ExitStack) -> None:
    """Break a function, or stop the clock, as libraries for tests do."""
    if what == "freezegun":
        scope.enter_context(importlib.import_module("freezegun").freeze_time("2001-01-01"))
        return
    named = PATCHES if what == "all" else {what: PATCHES.get(what, [])}
    for owner, name, instead in (each for patches in named.values() for each in patches):
        scope.callback(setattr, owner, name, getattr(owner, name))
        setattr(owner, name, instead)


class Halves(hg.Source[Any]):
    """A hundred numbers, and a hundred more once a file is there."""

    def __init__(self, go: str) -> None:
        self.go = go

    def create_enumerator(self, restored: Any) -> hg.SplitEnumerator:
        return _OneSplit(["all"] if restored is None else restored)

    def create_reader(self, context: hg.SourceReaderContext) -> hg.SourceReader[Any]:
        return _HalvesReader(self.go)


class _OneSplit(hg.SplitEnumerator):
    def __init__(self, left: list[str]) -> None:
        self.left = left

    def next_splits(self, subtask: int) -> list[hg.Split] | None:
        return [hg.Split(self.left.pop())] if self.left else None

    def snapshot(self) -> Any:
        return list(self.left)


class _HalvesReader(hg.SourceReader[Any]):
    def __init__(self, go: str) -> None:
        self.bad_records, self.at, self.split, self.go = [], 0, "", go

    def add_splits(self, splits: Sequence[hg.Split]) -> None:
        for split in splits:
            self.split, self.at = split.id, split.position or 0

    def no_more_splits(self) -> None:
        """It ends by itself."""

    def poll(self, max_records: int) -> Any:
        end = 200 if os.path.exists(self.go) else 100
        if not self.split or self.at >= 200:
            return hg.END_OF_INPUT if self.at >= 200 or os.path.exists(self.go) else hg.NOTHING_AVAILABLE
        found = list(range(self.at, min(end, self.at + 10)))
        self.at += len(found)
        return found or hg.NOTHING_AVAILABLE

    def snapshot(self) -> list[hg.Split]:
        return [hg.Split(self.split, self.at)] if self.split else []


class Count(hg.KeyedProcessFunction[int, int, Any]):
    """Counts."""

    count: hg.ValueState[int] = hg.value_state(default=0)

    def process(self, record: int, ctx: hg.KeyedContext[int]) -> Iterator[Any]:
        """How many of a key so far."""
        self.count.value += 1
        yield {"key": ctx.key, "count": self.count.value, "n": record}


def run(folder: Path, name: str, backend: str, between: Callable[[Any], None]) -> None:
    """A job over 200 records; `between` is called in its middle."""
    go = f"{folder}/go-{name}"
    config = {"state.backend.type": backend}
    env = hg.Environment(parallelism=2, executor=MiniCluster(), config=config)
    env.checkpoints(every="50ms", storage=str(folder / "checkpoints"))
    counts = env.from_source(Halves(go), uid="in").key_by(lambda n: n % 7).process(Count(), uid="count")
    counts.write_json(str(folder / "out"), uid="out")
    with env.execute_async(name) as handle:
        try:
            between(handle)
        finally:
            os.mkdir(go)
        handle.result(timeout_s=60)


def checkpointed(handle: Any) -> None:
    """A checkpoint, as soon as the job runs."""
    while True:
        try:
            handle.checkpoint()
        except hg.OperatingError as error:
            if "NOT_ALL_REQUIRED_TASKS_RUNNING" not in str(error):
                raise
            threading.Event().wait(0.05)
        else:
            return


def main(folder: Path, what: str, backend: str) -> None:
    """Run both jobs and say that they ended."""
    with ExitStack() as scope:

        def breaking(handle: Any) -> None:
            checkpointed(handle)
            patch(what, scope)
            handle.checkpoint()
            handle.savepoint(str(folder / "savepoints"))

        def broken_already(handle: Any) -> None:
            checkpointed(handle)
            handle.savepoint(str(folder / "savepoints"))

        run(folder, "first", backend, breaking)
        run(folder, "second", backend, broken_already)
        sys.stdout.write("both ended\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
