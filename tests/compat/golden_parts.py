"""What golden checkpoints are made with: a source that halts, a sink that keeps lines, formats, the restore.

Nothing here may change what the stored bytes say: names of classes and fields are part of them. It also runs
under older code, from the time before the formats were numbered as they are now.
"""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import headgate as hg
from headgate.testing.mini_cluster import MiniCluster

FORMATS = {
    # what is called here -> the module and name that hold the number which is written now
    "metadata": ("headgate.checkpoint.metadata.metadata_bytes", "OF_CHECKPOINTS"),
    "metadata of savepoints": ("headgate.checkpoint.metadata.metadata_bytes", "OF_SAVEPOINTS"),
    "log": ("headgate.checkpoint.store.entries", "VERSION"),
    "keyed state": ("headgate.state.stored.blob_format", "VERSION"),
    "operator state": ("headgate.state.operator_state", "VERSION"),
    "records in flight": ("headgate.runtime.worker.in_flight.stored_parts", "VERSION"),
    "values in RocksDB": ("headgate.state.rocksdb.value_layout", "VERSIONED_VALUES"),
    "maps in RocksDB": ("headgate.state.rocksdb.map_layout", "MAP_ENTRIES"),
    "timers in RocksDB": ("headgate.state.rocksdb.timer_queue", "TIMERS"),
    "logs of columns": ("headgate.state.chunk_log.log_file", "VERSION"),
    "serializers' snapshots": ("headgate.serde.snapshots.snapshot_views", "FORM_VERSION"),
    "tables of state": ("headgate.state.canonical.table_layout", "VERSION"),
}


FORMERLY = {
    "metadata": ("headgate.checkpoint.metadata.v1", "VERSION"),
    "metadata of savepoints": ("headgate.checkpoint.metadata.v2", "VERSION"),
    "keyed state": ("headgate.state.stored.blob_format", "VERSION"),
    "operator state": ("headgate.state.operator_blob", "VERSION"),
    "timers in RocksDB": ("headgate.state.rocksdb.timer_sections", "TIMERS"),
    "serializers' snapshots": ("headgate.serde.snapshots.snapshot_writing", "FORM_VERSION"),
    "values in RocksDB": ("headgate.state.rocksdb.native_files", "VALUE_FORMAT"),
}
"""Where older code has them."""


def current_formats() -> dict[str, int]:
    """Every number that says how bytes of a checkpoint are laid out; those that this code has."""
    found = {}
    for name, (module, attribute) in [*FORMERLY.items(), *FORMATS.items()]:
        try:
            found[name] = int(getattr(importlib.import_module(module), attribute))
        except (ImportError, AttributeError):
            continue
    return found


class Stopped(RuntimeError):
    """The job is where its golden checkpoint is to be taken from."""


class GoldenSource(hg.Source[Any]):
    """Lists of records, one per split.

    Args:
        splits: the records.
        at: a reader waits there until checkpoints that hold the position are complete, then ends the job;
            None: it reads on.
        portion: records behind which a reader waits for some checkpoint to be complete on its way there.
    """

    def __init__(self, splits: Sequence[Sequence[Any]], at: int | None, portion: int = sys.maxsize) -> None:
        self.splits, self.at, self.portion = [list(split) for split in splits], at, portion

    def create_enumerator(self, restored: Any) -> hg.SplitEnumerator:
        return GoldenEnumerator(list(range(len(self.splits))) if restored is None else restored)

    def create_reader(self, context: hg.SourceReaderContext) -> hg.SourceReader[Any]:
        return GoldenReader(self)


class GoldenEnumerator(hg.SplitEnumerator):
    def __init__(self, left: list[int]) -> None:
        self.left = list(left)

    def next_splits(self, subtask: int) -> list[hg.Split] | None:
        return [hg.Split(str(self.left.pop(0)))] if self.left else None

    def snapshot(self) -> Any:
        return list(self.left)


class GoldenReader(hg.SourceReader[Any]):
    def __init__(self, source: GoldenSource) -> None:
        self.bad_records = []
        self.source, self.splits, self.final, self.completed = source, [], False, 0
        self.left = source.portion

    def add_splits(self, splits: Sequence[hg.Split]) -> None:
        self.splits += [[split.id, split.position or 0] for split in splits]

    def no_more_splits(self) -> None:
        self.final = True

    def poll(self, max_records: int) -> Any:
        if not self.splits:
            return hg.END_OF_INPUT if self.final else hg.NOTHING_AVAILABLE
        name, position = self.splits[0]
        records, at = self.source.splits[int(name)], self.source.at
        stop = min(len(records), position + max_records, len(records) if at is None else at)
        if stop == at == position:
            if self.completed > 2:
                raise Stopped(f"split {name} halts at {position}")
            return hg.NOTHING_AVAILABLE
        if at is not None:
            stop = min(stop, position + self.left)
            self.left -= stop - position
        if stop == position:
            return hg.NOTHING_AVAILABLE
        self.splits[0][1] = stop
        if stop == len(records):
            self.splits.pop(0)
        return records[position:stop]

    def snapshot(self) -> list[hg.Split]:
        return [hg.Split(name, position) for name, position in self.splits]

    def checkpoint_complete(self, checkpoint_id: int) -> None:
        self.left = self.source.portion
        # The first one may have been drawn before it halted; those behind it were not.
        self.completed += bool(self.splits) and self.splits[0][1] == self.source.at


class GoldenSink(hg.Sink[Any]):
    """Records as JSON lines; what waits for its commit is in the checkpoint itself.

    Args:
        folder: gets a file for each commit.
    """

    def __init__(self, folder: str) -> None:
        self.folder = folder

    def create_writer(self, context: hg.SinkWriterContext, restored: Any) -> hg.SinkWriter[Any]:
        begun = max((state["number"] for state in restored), default=0)
        return GoldenWriter(f"{context.job}-{context.attempt}-{context.subtask}", begun)

    def create_committer(self) -> hg.SinkCommitter:
        return GoldenCommitter(self.folder)


class GoldenWriter(hg.SinkWriter[Any]):
    """What it had ready last it has ready again, so that no checkpoint is without."""

    def __init__(self, name: str, number: int) -> None:
        self.name, self.number, self.lines, self.last = name, number, [], []

    def write(self, records: Any) -> None:
        self.lines += [json.dumps(record, sort_keys=True) for record in records]

    def prepare_commit(self) -> list[Any]:
        if not self.lines:
            return self.last
        before, ready = self.last, {"name": f"{self.name}-{self.number}", "lines": self.lines}
        self.number, self.lines, self.last = self.number + 1, [], [ready]
        return [*before, ready]

    def snapshot(self) -> list[Any]:
        return [{"number": self.number}]


class GoldenCommitter(hg.SinkCommitter):
    def __init__(self, folder: str) -> None:
        self.folder = Path(folder)

    def commit(self, committables: Any) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        for ready in committables:
            (self.folder / ready["name"]).write_text("\n".join(ready["lines"]))


def committed(folder: Path) -> list[str]:
    """All lines, sorted."""
    return sorted(line for file in folder.iterdir() for line in file.read_text().splitlines())


# -- the program that every version of the code could run


class Tally(hg.KeyedProcessFunction[str, Any, Any]):
    """State of the first three kinds, and a timer that is due at the end of the input."""

    count: hg.ValueState[int] = hg.value_state(default=0)
    seen: hg.ListState[int] = hg.list_state()
    sizes: hg.MapState[int, float] = hg.map_state()

    def process(self, record: Any, ctx: Any) -> Iterator[Any]:
        self.count.value += 1
        self.seen.add(record["n"])
        self.sizes.put(record["n"] % 3, record["n"] / 2)
        ctx.timers.register_event_time(AT_THE_END + len(ctx.key))
        yield {"key": ctx.key, "n": record["n"], "count": self.count.value}

    def on_timer(self, timestamp: int, ctx: Any) -> Iterator[Any]:
        yield {
            "key": ctx.key,
            "timer": timestamp,
            "seen": self.seen.get(),
            "sizes": sorted(self.sizes.items()),
        }


AT_THE_END = 10**12


def records(split: int) -> list[Any]:
    """Keys belong to one split, so their order is that of the split."""
    return [{"key": f"k{split}{n % 5}", "n": n, "at": 1000 + n} for n in range(60)]


SPLITS = [records(0), records(1)]
HALTS = 30


def environment(storage: Path, config: dict[str, Any]) -> hg.Environment:
    """Two of everything on the mini cluster."""
    settings = {
        "execution.step-target": "1ms",
        "execution.buffer-timeout": "1ms",
        "restart-strategy.type": "none",
    }
    env = hg.Environment(parallelism=2, executor=MiniCluster(), config={**settings, **config})
    env.checkpoints(every="10ms", storage=str(storage))
    return env


def basic(env: hg.Environment, out: str, at: int | None) -> None:
    """The program."""
    read = env.from_source(GoldenSource(SPLITS, at), uid="read").with_event_time("at", out_of_orderness=0)
    tally: Any = read.key_by("key").process(Tally(), uid="tally")
    tally.sink_to(GoldenSink(out), uid="out")


# -- kinds


@dataclass(frozen=True)
class Kind:
    """One kind of golden checkpoint.

    Attributes:
        build: adds the program to an environment; gets the folder of its output and where it halts.
        formats: the numbered formats that are in it.
        holds: what a checkpoint must have to be worth keeping.
        config: settings under which it is written, and restored.
        in_files: whether all state is in files; else what is small is in the metadata.
    """

    build: Callable[[hg.Environment, str, int | None], None]
    formats: tuple[str, ...]
    holds: Callable[[Any], bool]
    config: tuple[tuple[str, Any], ...] = ()
    in_files: bool = True

    def settings(self, local: Path) -> dict[str, Any]:
        """On this machine."""
        config = dict(self.config)
        if config.get("state.backend.type") == "rocksdb":
            config["state.backend.rocksdb.localdir"] = str(local)
        return config


ALWAYS = ("metadata", "log", "keyed state")


def kinds() -> dict[str, Kind]:
    """All that this code can write."""
    found = {"job-basic": Kind(basic, ALWAYS, lambda _: True, in_files=False)}
    try:
        from golden_programs import KINDS
    except (ImportError, AttributeError):  # code from before the features of the other programs
        return found
    return found | KINDS


def restored(kind: Kind, job: Path, scratch: Path) -> dict[str, list[str]]:
    """What a job emits that goes on from a checkpoint; by output."""
    env = environment(scratch / "storage-after", kind.settings(scratch / "local-after"))
    kind.build(env, str(scratch / "out"), None)
    env.execute("restored", restore_from=str(job))
    return {path.name: committed(path) for path in sorted(scratch.glob("out*"))}
