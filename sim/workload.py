"""The simulated jobs, and the answer that a batch computation gives over the same events."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

from headgate.api.declared.keyed_states import ListState, ValueState, list_state, value_state
from headgate.api.environment import Environment
from headgate.api.functions import KeyedProcessFunction
from headgate.state.snapshots import CheckpointMetadata
from sim.store import EventSource, StoreSink

GAP_MS = 400
"""Event time without a commit after which an author counts as quiet."""
LATENESS_MS = 150
"""How much earlier than a predecessor a commit may be."""
STORE = "sim"


class Commit(NamedTuple):
    """An event of the demo's kind."""

    author: str
    at_ms: int
    lines: int


def commits(count: int, seed: int, authors: int = 7) -> list[Commit]:
    """Events in arrival order, out of order by up to `LATENESS_MS`."""
    rng, at, events = random.Random(f"{seed} commits"), 1_000_000, []
    for _ in range(count):
        at += rng.choice((1, 3, 20, 20, 90))
        author = f"author-{min(rng.randrange(authors), rng.randrange(authors))}"
        events.append(Commit(author, at - rng.randrange(LATENESS_MS), rng.randrange(100)))
    return events


class Streaks(KeyedProcessFunction[str, Commit, tuple[Any, ...]]):
    """Running count and sum per author, and a note when event time passes `GAP_MS` without a commit.

    All results depend on the records alone, not on the order in which channels deliver them: the note
    is decided when the watermark has passed, and the running values are told as a set of numbers.
    """

    count: ValueState[int] = value_state(default=0)
    lines: ValueState[int] = value_state(default=0)
    times: ListState[int] = list_state()

    def process(self, record: Commit, ctx: Any) -> Iterable[tuple[Any, ...]]:
        """One commit."""
        self.count.value += 1
        self.lines.value += record.lines
        self.times.add(record.at_ms)
        ctx.timers.register_event_time(record.at_ms + GAP_MS)
        yield "count", record.author, self.count.value

    def on_timer(self, timestamp: int, ctx: Any) -> Iterable[tuple[Any, ...]]:
        """Nothing at or before `timestamp` is missing any more."""
        known = self.times.get()
        if not any(timestamp - GAP_MS < at <= timestamp for at in known):
            yield "quiet", ctx.key, timestamp
        self.times.update([at for at in known if at > timestamp - GAP_MS])


class Totals(KeyedProcessFunction[str, tuple[Any, ...], tuple[Any, ...]]):
    """Counts the outputs of the first stage by kind: a second exchange with state behind it."""

    seen: ValueState[int] = value_state(default=0)

    def process(self, record: tuple[Any, ...], ctx: Any) -> Iterable[tuple[Any, ...]]:
        """One output of the first stage."""
        self.seen.value += 1
        yield "total", ctx.key, self.seen.value


def first_letter_of_last(record: tuple[Any, ...]) -> str:
    """The second stage's key: the kind and a digit that many authors share."""
    return f"{record[0]}-{int(record[2]) % 3}"


def unchanged(record: Commit) -> Commit:
    """The commit itself."""
    return record


def shifted(record: Commit) -> Commit:
    """A commit of the second stream, under another author."""
    return Commit("b-" + record.author, record.at_ms, record.lines)


@dataclass(frozen=True)
class Workload:
    """A job and its right answer.

    Attributes:
        name: for people.
        build: adds the job to an Environment, as a program's `build` does.
        expected: every record that must come out, and how often.
        sources: uid -> each source, and what becomes of its events before they are counted.
    """

    name: str
    build: Callable[[Environment], None]
    expected: Counter[Any]
    sources: dict[str, tuple[EventSource, Callable[[Commit], Commit]]]


def streaks(seed: int, count: int = 160) -> Workload:
    """The demo: one source, key_by, state and timers, sink."""
    events = commits(count, seed)
    source = EventSource(events, 11)

    def build(env: Environment) -> None:
        (
            env.from_source(source, uid="commits")
            .with_event_time("at_ms", out_of_orderness=LATENESS_MS)
            .key_by("author")
            .process(Streaks(), uid="streaks")
            .sink_to(StoreSink(STORE), uid="out")
        )

    return Workload("streaks", build, Counter(batch_streaks(events)), {"commits": (source, unchanged)})


def two_stages(seed: int, count: int = 110) -> Workload:
    """Two sources, rebalance, union, two keyed stages."""
    left, right = commits(count // 2, seed), commits(count - count // 2, seed + 1)
    sources: dict[str, tuple[EventSource, Callable[[Commit], Commit]]] = {
        "left": (EventSource(left, 13), unchanged),
        "right": (EventSource(right, 7), shifted),
    }

    def build(env: Environment) -> None:
        one = env.from_source(sources["left"][0], uid="left").with_event_time("at_ms", LATENESS_MS)
        two = env.from_source(sources["right"][0], uid="right").with_event_time("at_ms", LATENESS_MS)
        (
            one.union(two.rebalance().map(shifted))
            .key_by("author")
            .process(Streaks(), uid="streaks")
            .key_by(first_letter_of_last)
            .process(Totals(), uid="totals")
            .sink_to(StoreSink(STORE), uid="out")
        )

    first = batch_streaks([*left, *map(shifted, right)])
    per_key = Counter(map(first_letter_of_last, first))
    totals = Counter(("total", key, n) for key, most in per_key.items() for n in range(1, most + 1))
    return Workload("two-stages", build, totals, sources)


def batch_streaks(events: Iterable[Commit]) -> list[tuple[Any, ...]]:
    """What `Streaks` must give, computed at once."""
    times: dict[str, list[int]] = defaultdict(list)
    for event in events:
        times[event.author].append(event.at_ms)
    out: list[tuple[Any, ...]] = []
    for author, known in sorted(times.items()):
        out += [("count", author, n) for n in range(1, len(known) + 1)]
        for due in sorted({at + GAP_MS for at in known}):
            if not any(due - GAP_MS < at <= due for at in known):
                out.append(("quiet", author, due))
    return out


def read_at(workload: Workload, cut: CheckpointMetadata) -> list[Commit]:
    """The events before the positions of a checkpoint, as the first stage gets them."""
    read: list[Commit] = []
    for uid, (source, change) in workload.sources.items():
        left = {
            int(split): position
            for state in cut.operators.get(uid, [])
            for split, position in state.list_state["splits"]
        }
        for split in range(cut.enumerators[uid]):
            start = split * source.split_size
            stop = left.get(split, start + source.split_size)
            read += map(change, source.events[start:stop])
    return read
