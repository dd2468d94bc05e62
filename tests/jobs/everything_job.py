"""A job that keeps something in every kind of state, for tests of what is done to its snapshots."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from mini_jobs import TINY, environment, json_lines
from running_jobs import Valve, wait_until

import headgate as hg

WORDS = [[f"w{(n + 3 * split) % 11}" for n in range(60)] for split in range(4)]
ALL = [word for split in WORDS for word in split]
RULES = [[(f"r{n}", n) for n in range(6)]]
LIMIT = 20
"""Words of each split that come before the valve is opened; of four splits two are begun then."""

WIDE = 40
"""Entries of the map that is large: it lies entry by entry."""

LATER = 10**12
NUMBERS = count(7700)
BACKENDS: dict[str, dict[str, Any]] = {
    "heap": {},
    "changelog": {"state.changelog.enabled": True},
    "rocksdb": {"state.backend.type": "rocksdb"},
    "incremental": {"state.backend.type": "rocksdb", "execution.checkpointing.incremental": True},
}


class Decimals(hg.TypeSerializer[int]):
    """Counts in decimals: a format that nobody else can take apart."""

    immutable = True

    def encode(self, value: int) -> bytes:
        return str(value).encode()

    def decode(self, data: bytes) -> int:
        return int(data)

    def snapshot(self) -> DecimalsSnapshot:
        return DecimalsSnapshot()


class DecimalsSnapshot(hg.SimpleTypeSerializerSnapshot[int]):
    def __init__(self) -> None:
        super().__init__(Decimals)


class Dripping(Valve):
    """Gives few records at a time, so that there are many frames on their way."""

    def create_reader(self, context: hg.SourceReaderContext) -> hg.SourceReader[Any]:
        reader: Any = super().create_reader(context)
        poll = reader.poll
        reader.poll = lambda max_records: poll(min(max_records, 2))
        return reader


class Listing(hg.ProcessFunction[str, str]):
    """Passes words on and keeps lists that are dealt out, and lists that all get."""

    seen: Any
    told: Any

    def process(self, record: str, ctx: Any) -> Iterator[str]:
        self.seen.add(record)
        if not self.told.get():
            self.told.add("here")
        yield record


class Lists(Listing):
    """As it began."""

    seen: hg.OperatorListState[str] = hg.operator_list_state()
    told: hg.OperatorListState[str] = hg.operator_list_state(redistribution="union")


class WiderLists(Listing):
    """The elements are of other types."""

    seen: hg.OperatorListState[str | None] = hg.operator_list_state()
    told: hg.OperatorListState[str | None] = hg.operator_list_state(redistribution="union")


class Keeping(hg.KeyedBroadcastProcessFunction[str, Any, Any, Any]):
    """Counts a key in every kind of state, and says whether they agree; rules come to all."""

    rules: hg.BroadcastState[str, int] = hg.broadcast_state()
    value: Any
    seen: Any
    wide: Any
    total: Any

    def process(self, record: str, ctx: Any) -> Iterator[Any]:
        if not self.value.value:
            for place in range(WIDE):
                self.wide.put((ctx.key, place), 0)
        self.value.value += 1
        n = self.value.value
        self.seen.add(int(n))
        place = ctx.key, n % WIDE
        self.wide.put(place, self.wide.get(place) + 1)
        self.total.add(1)
        ctx.timers.register_event_time(LATER)
        ctx.timers.register_processing_time(2**50)
        wide = sum(times for _, times in self.wide.items())
        same = len(self.seen.get()) == wide == self.total.get() == n
        yield [ctx.key, n, same and self.more(n)]

    def more(self, n: int) -> bool:
        """What only some of the programs keep."""
        return True

    def process_broadcast(self, record: Any, ctx: Any) -> Iterator[Any]:
        self.rules.put(record[0], record[1])
        yield from ()

    def on_timer(self, timestamp: int, ctx: Any) -> Iterator[Any]:
        yield [ctx.key, -self.value.value, len(self.rules) == len(RULES[0])]


def summed(left: Any, right: Any) -> Any:
    """Both together."""
    return left + right


class Expiring(Keeping):
    """With one more state, whose entries end."""

    late: Any

    def more(self, n: int) -> bool:
        self.late.value += 1
        return self.late.value == n


class Plain(Expiring):
    """As it began."""

    value: hg.ValueState[int] = hg.value_state(default=0)
    seen: hg.ListState[int] = hg.list_state()
    wide: hg.MapState[tuple[str, int], int] = hg.map_state()
    total: hg.ReducingState[int] = hg.reducing_state(summed)
    late: hg.ValueState[int] = hg.value_state(default=0, ttl=hg.StateTtl("1h"))


class Wider(Expiring):
    """With other types."""

    value: hg.ValueState[float] = hg.value_state(default=0.0)
    seen: hg.ListState[int | None] = hg.list_state()
    wide: hg.MapState[tuple[str, int], float] = hg.map_state()
    total: hg.ReducingState[float] = hg.reducing_state(summed)
    late: hg.ValueState[float] = hg.value_state(default=0.0, ttl=hg.StateTtl("1h"))


class WithCustom(Plain):
    """With a serializer of the program's own."""

    own: hg.ValueState[int] = hg.value_state(default=0, serializer=Decimals())

    def more(self, n: int) -> bool:
        self.own.value += 1
        return super().more(n) and self.own.value == n


class Lacking(Keeping):
    """Without the state whose entries end."""

    value: hg.ValueState[int] = hg.value_state(default=0)
    seen: hg.ListState[int] = hg.list_state()
    wide: hg.MapState[tuple[str, int], int] = hg.map_state()
    total: hg.ReducingState[int] = hg.reducing_state(summed)


class OtherKind(Expiring):
    """A list became a value."""

    value: hg.ValueState[int] = hg.value_state(default=0)
    seen: hg.ValueState[int] = hg.value_state(default=0)
    wide: hg.MapState[tuple[str, int], int] = hg.map_state()
    total: hg.ReducingState[int] = hg.reducing_state(summed)
    late: hg.ValueState[int] = hg.value_state(default=0, ttl=hg.StateTtl("1h"))


class Everything:
    """The program.

    Args:
        folder: of its checkpoints and its output.
        backend: one of :data:`BACKENDS`.
        parallelism: subtasks of all but the rules.
        function: what counts.
        lists: what keeps lists.
        limit: words of each split that come at first.
        groups: number of key groups.
        uids: other uids than "words", "lists", "keep" and "out".
        more: settings.
    """

    def __init__(
        self,
        folder: Path,
        backend: str = "heap",
        parallelism: int = 2,
        function: Any = Plain,
        lists: Any = Lists,
        limit: float = float("inf"),
        groups: int = 128,
        uids: dict[str, str] | None = None,
        **more: Any,
    ) -> None:
        config = {
            **TINY,
            "restart-strategy.type": "none",
            "pipeline.max-parallelism": groups,
            "heartbeat.interval": "20ms",
            "state.backend.rocksdb.memory.fixed-per-slot": "16mb",
            "state.backend.rocksdb.localdir": str(folder / "local"),
            **BACKENDS[backend],
            **more,
        }
        called = {uid: uid for uid in ("words", "lists", "keep", "out")} | (uids or {})
        self.env = environment(parallelism, config)
        self.env.checkpoints(every="1h", storage=str(folder / "checkpoints"))
        self.valves = Dripping(next(NUMBERS), limit, *WORDS), Valve(next(NUMBERS), limit, *RULES)
        words = self.env.from_source(self.valves[0], uid=called["words"]).with_event_time(lambda _: 5)
        rules: Any = self.env.from_source(self.valves[1], uid="rules", parallelism=1)
        kept: Any = words.process(lists(), uid=called["lists"]).key_by(lambda word: word)
        kept = kept.connect(rules.broadcast()).process(function(), uid=called["keep"])
        kept.write_json(str(folder / "out"), uid=called["out"])


def stopped(folder: Path, backend: str, form: str, **more: Any) -> str:
    """The folder of the savepoint that the program was stopped with in the midst of its input."""
    job = Everything(folder, backend, limit=2, **more)
    with job.env.execute_async("everything") as handle:
        came(handle, 2 * 2 + 2)
        handle.checkpoint()
        job.valves[0].open_to(LIMIT)
        job.valves[1].open_to(3)
        came(handle, 2 * LIMIT + 3)
        uri = handle.stop(str(folder / "savepoints"), format=form)
        handle.result()
    return unquote(urlsplit(uri).path)


def came(handle: hg.JobHandle, records: int) -> None:
    """Wait until so many records went behind the sources."""

    def read() -> int:
        ends = (vertex for vertex in handle.status().vertices if {"lists", "rules"} & set(vertex.uids))
        return sum(vertex.records_in for vertex in ends)

    wait_until(lambda: handle.done or read() == records, f"{records} records came")


def demand_exact(folder: Path) -> None:
    """Every word was counted once, in states that agree; every key's timer fired once, under all rules."""
    totals = Counter(ALL)
    expected = [[word, n, True] for word, total in totals.items() for n in range(1, total + 1)]
    expected += [[word, -total, True] for word, total in totals.items()]
    assert sorted(json_lines(folder / "out")) == sorted(expected)
