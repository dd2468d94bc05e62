"""The jobs whose checkpoints are kept for ever. Names of classes, fields, uids and states are part of them.

A kind is changed by adding another one: its old folders go on being restored by the program that is here.
"""

from __future__ import annotations

import datetime as dt
import enum
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from decimal import Decimal
from hashlib import sha256
from typing import Annotated, Any, NamedTuple, TypedDict
from uuid import UUID

import golden_parts as parts
import msgspec
import numpy as np
import pyarrow as pa

import headgate as hg
import headgate.functions as F  # noqa: N812  # as PySpark's users write it

UNALIGNED = {
    "execution.checkpointing.unaligned.enabled": True,
    "taskmanager.network.credit-initial": 4,
}
ROCKSDB = {
    "state.backend.type": "rocksdb",
    "execution.checkpointing.incremental": True,
    "state.backend.rocksdb.memory.fixed-per-slot": "16mb",
}
CHANGELOG = {"state.changelog.enabled": True}
TOLD_EVERY = 15
"""Records after which all of a key's state is part of the output."""
CENTURY_MS = 100 * 365 * 86_400_000


class Colour(enum.Enum):
    RED = 1
    BLUE = 2


class Rights(enum.Flag):
    READ = 1
    WRITE = 2


class Point(NamedTuple):
    x: int
    y: float = 0.0


class Labels(TypedDict, total=False):
    name: str
    size: int


class Item(msgspec.Struct):
    name: str
    amount: int = 1


@dataclass
class Visit:
    page: str
    at: dt.datetime
    day: dt.date
    took: dt.timedelta
    price: Decimal
    user: UUID
    colour: Colour
    rights: Rights
    where: Point | None
    labels: Labels
    items: list[Item] = field(default_factory=list)
    tags: frozenset[str] = frozenset()
    either: int | str = 0
    extra: Any = None


@dataclass
class Note:
    page: str
    price: Decimal
    where: Point | None
    days: dict[str, dt.date] = field(default_factory=dict)


class Celsius(hg.TypeSerializer[float]):
    """A serializer of the user's, in tenths of a degree."""

    immutable = True

    def encode(self, value: float) -> bytes:
        return round(value * 10).to_bytes(2, "big", signed=True)

    def decode(self, data: bytes) -> float:
        return int.from_bytes(data, "big", signed=True) / 10

    def snapshot(self) -> hg.TypeSerializerSnapshot[float]:
        return CelsiusSnapshot()


class CelsiusSnapshot(hg.SimpleTypeSerializerSnapshot[float]):
    def __init__(self) -> None:
        super().__init__(Celsius)


class Mean(hg.AggregateFunction[float, tuple[int, float], float]):
    def create_accumulator(self) -> tuple[int, float]:
        return 0, 0.0

    def add(self, value: float, accumulator: tuple[int, float]) -> tuple[int, float]:
        return accumulator[0] + 1, accumulator[1] + value

    def get_result(self, accumulator: tuple[int, float]) -> float:
        return accumulator[1] / accumulator[0]


WARSAW = dt.timezone(dt.timedelta(hours=2), "CEST")


def visit(n: int) -> Visit:
    """Something of every type."""
    return Visit(
        f"/{n}", dt.datetime(2024, 5, 6, 12, n % 60, tzinfo=WARSAW), dt.date(2024, 5, 1 + n % 28),
        dt.timedelta(seconds=-n), Decimal(n).scaleb(-2), UUID(int=n), list(Colour)[n % 2],
        Rights.READ | Rights.WRITE, Point(n, n / 4) if n % 2 else None, {"size": n},
        [Item(f"i{n}", n)], frozenset({f"t{n}"}), n if n % 2 else f"e{n}", [(n, 2**70), {"k": {n}}, "\ud800"],
    )  # fmt: skip


class Everything(hg.KeyedProcessFunction[str, Any, Any]):
    """Every kind of state, some with a time to live or a serializer of its own, and both kinds of timers."""

    last: hg.ValueState[Visit | None] = hg.value_state(default=None)
    recent: hg.ListState[Point] = hg.list_state()
    by_colour: hg.MapState[Colour, list[int]] = hg.map_state()
    most: hg.ReducingState[int] = hg.reducing_state(max)
    mean: hg.AggregatingState[float, float] = hg.aggregating_state(Mean())
    free: hg.ValueState[Any] = hg.value_state()
    array: hg.ValueState[np.ndarray | None] = hg.value_state(default=None)
    text: hg.ValueState[Annotated[Note, hg.json] | None] = hg.value_state(default=None)
    warm: hg.ValueState[float] = hg.value_state(default=0.0, serializer=Celsius())
    warmer: hg.ListState[float] = hg.list_state(serializer=Celsius())
    count: hg.ValueState[int] = hg.value_state(default=0, ttl=hg.StateTtl(CENTURY_MS))
    times: hg.ListState[int] = hg.list_state(ttl=hg.StateTtl(CENTURY_MS, time="event"))

    def process(self, record: Any, ctx: Any) -> Iterator[Any]:
        n = record["n"]
        made = visit(n)
        self.last.value = made
        self.recent.update([*self.recent.get()[-2:], Point(n)])
        self.by_colour.put(made.colour, [*(self.by_colour.get(made.colour) or [])[-1:], n])
        self.most.add(n % 17)
        self.mean.add(n / 2)
        self.free.value = (n, {"n": [n]})
        self.array.value = np.arange(n % 3, dtype=np.int16)
        self.text.value = Note(made.page, made.price, made.where, {"day": made.day})
        self.warm.value += 0.5
        self.warmer.update([*self.warmer.get()[-1:], float(n)])
        self.count.value += 1
        self.times.update([*self.times.get()[-2:], n])
        ctx.timers.register_event_time(parts.AT_THE_END + n % 2)
        ctx.timers.register_processing_time(4_000_000_000_000)
        ctx.timers.delete_processing_time(4_000_000_000_000 if n >= parts.HALTS else 0)
        yield {"key": ctx.key, "n": n, **({"state": self.told()} if n % TOLD_EVERY == 0 else {})}

    def on_timer(self, timestamp: int, ctx: Any) -> Iterator[Any]:
        yield {"key": ctx.key, "timer": timestamp, "state": self.told()}

    def told(self) -> str:
        """All of it as text that tells classes apart."""
        array = self.array.value
        return repr(
            [
                self.last.value, self.recent.get(), sorted(self.by_colour.items(), key=str), self.most.get(),
                self.mean.get(), self.free.value, array is not None and (array.dtype.str, array.tolist()),
                self.text.value, self.warm.value, self.warmer.get(), self.count.value, self.times.get(),
            ]
        )  # fmt: skip


class Waiting(hg.ProcessFunction[Any, Any]):
    """Keeps a list that is dealt out and one that all are given; tells what it was restored with."""

    numbers: hg.OperatorListState[Point] = hg.operator_list_state()
    counts: hg.OperatorListState[int] = hg.operator_list_state(redistribution="union")

    def open(self, context: hg.RuntimeContext) -> None:
        self.restored = [point.x for point in self.numbers.get()]
        self.totals = sum(self.counts.get())
        self.counts.update([self.totals if context.subtask == 0 else 0])
        self.told = False

    def process(self, record: Any, ctx: Any) -> Iterator[Any]:
        if not self.told:
            self.told = True
            yield from ({"kept": number} for number in self.restored)
            yield {"total": self.totals}
        self.numbers.add(Point(record.get("n", -1), 0.5))
        self.counts.update([self.counts.get()[0] + 1])
        yield record


def whole(env: hg.Environment, out: str, at: int | None) -> None:
    """Keyed state, operator state, timers, time to live, a serializer of the user's."""
    read = env.from_source(parts.GoldenSource(parts.SPLITS, at), uid="read")
    timed = read.with_event_time("at", out_of_orderness=0)
    everything: Any = timed.key_by("key").process(Everything(), uid="everything")
    everything.process(Waiting(), uid="waiting").sink_to(parts.GoldenSink(out), uid="out")


class Limits(hg.KeyedBroadcastProcessFunction[str, Any, Any, Any]):
    """A map that all subtasks share beside counts by key."""

    limits: hg.BroadcastState[str, Point] = hg.broadcast_state()
    spent: hg.ValueState[int] = hg.value_state(default=0)

    def process(self, record: Any, ctx: Any) -> Iterator[Any]:
        self.spent.value += 1
        yield {"key": ctx.key, "spent": self.spent.value}

    def process_broadcast(self, record: Any, ctx: Any) -> Iterator[Any]:
        self.limits.put(record["key"], Point(record["n"]))
        if record["n"] % TOLD_EVERY == 0:
            yield {"limits": repr(sorted(self.limits.items()))}


def shared(env: hg.Environment, out: str, at: int | None) -> None:
    """Broadcast state."""
    records = env.from_source(parts.GoldenSource(parts.SPLITS, at), uid="read")
    rules = env.from_source(parts.GoldenSource([parts.SPLITS[0]], at), uid="rules")
    judged: Any = records.key_by("key").connect(rules.broadcast()).process(Limits(), uid="limits")
    judged.sink_to(parts.GoldenSink(out), uid="out")


@dataclass
class Step:
    key: str
    n: int
    where: Point | None = None


def step(record: Any) -> Step:
    """A record of a declared class."""
    return Step(record["key"], record["n"], Point(record["n"]) if record["n"] % 2 else None)


class Slow(hg.KeyedProcessFunction[str, Any, Any]):
    """Counts so slowly that records queue up in front of it."""

    count: hg.ValueState[int] = hg.value_state(default=0)

    def process(self, record: Any, ctx: Any) -> Iterator[Any]:
        time.sleep(PAUSE_S)
        self.count.value += 1
        yield {"key": ctx.key, "count": self.count.value, "record": repr(record)}


PAUSE_S = 0.004


def overtaken(env: hg.Environment, out: str, at: int | None) -> None:
    """Records in flight of a declared class and plain ones."""
    read = env.from_source(parts.GoldenSource([parts.records(0), parts.records(1)], at), uid="read")
    timed = read.with_event_time("at", out_of_orderness=0)
    typed: Any = (
        timed.map(step, uid="step").key_by(lambda record: record.key).process(Slow(), uid="slow-typed")
    )
    plain: Any = timed.key_by("key").process(Slow(), uid="slow-plain")
    typed.sink_to(parts.GoldenSink(out), uid="out-typed")
    plain.sink_to(parts.GoldenSink(out + "-plain"), uid="out-plain")


class Shelves(hg.KeyedProcessFunction[str, Any, Any]):
    """Maps that grow beyond what lies in RocksDB as one value, and shrink again."""

    large: hg.MapState[str, Point] = hg.map_state()
    numbers: hg.MapState[int, list[int]] = hg.map_state(ttl=hg.StateTtl(CENTURY_MS))
    small: hg.MapState[tuple[str, int], float] = hg.map_state()

    def process(self, record: Any, ctx: Any) -> Iterator[Any]:
        n = record["n"]
        for place in range(n * 8, n * 8 + 8):
            self.large.put(f"p{place}", Point(place, n / 2))
            self.numbers.put(place, [n])
        self.large.remove(f"p{(n - 5) * 8}")
        self.small.put((ctx.key, n % 2), n / 4)
        ctx.timers.register_event_time(parts.AT_THE_END + n % 2)
        yield {"key": ctx.key, "n": n, "sizes": [len(self.large), len(self.numbers), len(self.small)]}

    def on_timer(self, timestamp: int, ctx: Any) -> Iterator[Any]:
        # In the order of insertion, which is part of what is stored.
        held = [self.large.items(), self.numbers.items(), self.small.items()]
        digest = sha256(repr(held).encode()).hexdigest()
        yield {"key": ctx.key, "timer": timestamp, "state": digest, "sizes": list(map(len, held))}


def shelved(env: hg.Environment, out: str, at: int | None) -> None:
    """Maps of which each entry lies by itself."""
    read = env.from_source(parts.GoldenSource(parts.SPLITS, at), uid="read")
    timed = read.with_event_time("at", out_of_orderness=0)
    shelves: Any = timed.key_by("key").process(Shelves(), uid="shelves")
    shelves.sink_to(parts.GoldenSink(out), uid="out")


class Forgetting(hg.KeyedProcessFunction[str, Any, Any]):
    """Changes and removes what earlier records left."""

    last: hg.ValueState[int] = hg.value_state(default=0)
    note: hg.ValueState[Note | None] = hg.value_state(default=None)
    seen: hg.ListState[int] = hg.list_state()
    sizes: hg.MapState[int, float] = hg.map_state()
    most: hg.ReducingState[int] = hg.reducing_state(max)

    def process(self, record: Any, ctx: Any) -> Iterator[Any]:
        n = record["n"]
        if n // 5 % 3 == 2:
            for state in (self.note, self.seen, self.most):
                state.clear()
            self.last.value = 0
            self.sizes.remove(n - 5)
            ctx.timers.delete_event_time(parts.AT_THE_END + n - 5)
        else:
            self.last.value, self.note.value = n, Note(f"/{n}", Decimal(n), Point(n))
            self.seen.add(n)
            self.sizes.put(n, n / 2)
            self.most.add(n % 17)
            ctx.timers.register_event_time(parts.AT_THE_END + n)
        yield {"key": ctx.key, "n": n, "state": self.told()}

    def on_timer(self, timestamp: int, ctx: Any) -> Iterator[Any]:
        yield {"key": ctx.key, "timer": timestamp, "state": self.told()}

    def told(self) -> str:
        """All of it."""
        return repr([self.last.value, self.note.value, self.seen.get(), self.sizes.items(), self.most.get()])


def logged(env: hg.Environment, out: str, at: int | None) -> None:
    """Changes between checkpoints."""
    read = env.from_source(parts.GoldenSource(parts.SPLITS, at, portion=5), uid="read")
    timed = read.with_event_time("at", out_of_orderness=0)
    forgetting: Any = timed.key_by("key").process(Forgetting(), uid="forgetting")
    forgetting.sink_to(parts.GoldenSink(out), uid="out")


def told_window(key: Any, window: Any, records: Any, ctx: Any) -> Iterator[Any]:
    """All records of a window."""
    yield {"key": key, "window": list(window), "records": [record["n"] for record in records]}


def later(left: Any, right: Any) -> Any:
    """The later of two records, with the numbers of both."""
    return {**right, "n": left["n"] * 100 + right["n"]}


def windowed(env: hg.Environment, out: str, at: int | None) -> None:
    """Windows of rows that keep their records, and windows that keep one."""
    read = env.from_source(parts.GoldenSource(parts.SPLITS, at), uid="read")
    keyed = read.with_event_time("at", out_of_orderness=0).key_by("key")
    kept: Any = keyed.window(hg.tumbling(20)).process(told_window, uid="kept")
    reduced: Any = keyed.window(hg.sliding(20, 10)).reduce(later, uid="reduced")
    kept.sink_to(parts.GoldenSink(out), uid="out")
    reduced.sink_to(parts.GoldenSink(out + "-reduced"), uid="out-reduced")


def joined(env: hg.Environment, out: str, at: int | None) -> None:
    """A join of tables without windows, whose rows only come."""
    records = env.from_source(parts.GoldenSource(parts.SPLITS, at, portion=10), uid="read")
    table = records.to_table(pa.schema({"key": pa.string(), "n": pa.int64(), "at": pa.int64()}))
    some = table.filter(F.col("n") % 10 == 0).select("key", F.col("n").alias("other"))
    pairs = table.select("key", "n").join(some, "key", uid="pairs")
    pairs.to_stream().map(lambda row: dict(row)).sink_to(parts.GoldenSink(out), uid="out")


def _states(metadata: Any) -> Iterator[Any]:
    return (state for subtasks in metadata.operators.values() for state in subtasks)


def _shares_files(metadata: Any) -> bool:
    """Whether files of an earlier checkpoint are referred to."""
    here = f"/chk-{metadata.checkpoint}/"
    native = [s.keyed.native for s in _states(metadata) if s.keyed is not None and s.keyed.native is not None]
    files = [getattr(handle, "file", here) for one in native for handle in one.files.values()]
    return any(here not in name for name in files)


def _keeps_maps_apart(metadata: Any) -> bool:
    formats = [s.keyed.native.details["formats"] for s in _states(metadata) if s.keyed is not None]
    apart = parts.current_formats()["maps in RocksDB"]
    return all(each[name] == apart for each in formats for name in ("large", "numbers", "small"))


def _has_log(metadata: Any) -> bool:
    """Whether every subtask's base is followed by more than one segment."""
    return all(len(state.keyed.log) > 1 for state in _states(metadata) if state.keyed is not None)


def _has_log_on_files(metadata: Any) -> bool:
    keyed = [state.keyed for state in _states(metadata) if state.keyed is not None]
    return _has_log(metadata) and all(each.native is not None for each in keyed)


def _has_log_of_columns(metadata: Any) -> bool:
    """Whether every subtask has several files of changes, and one for what waits."""
    native = [s.keyed.native for s in _states(metadata) if s.keyed is not None]
    return all(one is not None and one.backend == "columns" and len(one.files) > 2 for one in native)


def _keeps_all(metadata: Any) -> bool:
    names = {held.name for state in _states(metadata) for held in state.operator_state}
    return names == {"numbers", "counts"} and any(state.committables for state in _states(metadata))


def _overtook(metadata: Any) -> bool:
    return {stream.receiver for stream in metadata.in_flight if stream.parts} >= {"slow-typed", "slow-plain"}


def _keeps_windows(metadata: Any) -> bool:
    return {"kept", "reduced"} <= {state.uid for state in _states(metadata) if state.keyed is not None}


def _has_broadcast(metadata: Any) -> bool:
    return any(held.mode == "broadcast" for state in _states(metadata) for held in state.operator_state)


_ROCKSDB = ("values in RocksDB", "timers in RocksDB")
_WHOLE = (*parts.ALWAYS, "operator state", "serializers' snapshots")
KINDS: dict[str, parts.Kind] = {
    "job-whole": parts.Kind(whole, _WHOLE, _keeps_all),
    "job-broadcast": parts.Kind(shared, (*parts.ALWAYS, "operator state"), _has_broadcast),
    "job-in-flight": parts.Kind(
        overtaken, (*parts.ALWAYS, "records in flight"), _overtook, tuple(UNALIGNED.items())
    ),
    "job-rocksdb": parts.Kind(whole, (*_WHOLE, *_ROCKSDB), _shares_files, tuple(ROCKSDB.items())),
    "job-rocksdb-maps": parts.Kind(
        shelved, (*parts.ALWAYS, *_ROCKSDB, "maps in RocksDB"), _keeps_maps_apart, tuple(ROCKSDB.items())
    ),
    "job-windows": parts.Kind(windowed, parts.ALWAYS, _keeps_windows),
    "job-joined": parts.Kind(joined, (*parts.ALWAYS, "logs of columns"), _has_log_of_columns),
    "job-changelog": parts.Kind(logged, parts.ALWAYS, _has_log, tuple(CHANGELOG.items())),
    "job-changelog-rocksdb": parts.Kind(
        logged, (*parts.ALWAYS, "values in RocksDB"), _has_log_on_files, tuple((ROCKSDB | CHANGELOG).items())
    ),
}
