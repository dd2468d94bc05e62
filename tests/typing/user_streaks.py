"""A user's program: every record type is inferred through the chain. Checked by mypy, never run."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, assert_type

import headgate as hg


@dataclass
class Commit:
    """A typed record."""

    author: str
    author_ms: int


class Mean(hg.AggregateFunction[int, tuple[int, int], float]):
    """Types of what goes in, what is stored and what comes out."""

    def create_accumulator(self) -> tuple[int, int]:
        """Nothing yet."""
        return 0, 0

    def add(self, value: int, accumulator: tuple[int, int]) -> tuple[int, int]:
        """One more."""
        return accumulator[0] + 1, accumulator[1] + value

    def get_result(self, accumulator: tuple[int, int]) -> float:
        """The mean."""
        return accumulator[1] / accumulator[0]


class Untyped(hg.AggregateFunction):
    """No type arguments."""

    def create_accumulator(self) -> Any:
        """Nothing yet."""
        return 0, 0

    def add(self, value: Any, accumulator: Any) -> Any:
        """Widen."""
        return min(accumulator[0], value), max(accumulator[1], value)

    def get_result(self, accumulator: Any) -> Any:
        """The range."""
        return accumulator


class Streak(hg.KeyedProcessFunction[str, Commit, tuple[str, int]]):
    """State declared as typed class attributes."""

    count: hg.ValueState[int] = hg.value_state(default=0)
    quiet_at: hg.ValueState[int | None] = hg.value_state(default=None)
    days: hg.ListState[int] = hg.list_state()
    by_month: hg.MapState[str, int] = hg.map_state()
    total: hg.ReducingState[int] = hg.reducing_state(operator.add)
    latest: hg.ReducingState[int] = hg.reducing_state(max)
    longest: hg.ReducingState[str] = hg.reducing_state(lambda a, b: a if len(a) >= len(b) else b)
    mean: hg.AggregatingState[int, float] = hg.aggregating_state(Mean())
    spread: hg.AggregatingState[int, Any] = hg.aggregating_state(Untyped(), accumulator=tuple[int, int])

    def process(self, record: Commit, ctx: hg.KeyedContext[str]) -> Iterator[tuple[str, int]]:
        """Count."""
        assert_type(ctx.key, str)
        assert_type(self.count.value, int)
        assert_type(self.quiet_at.value, int | None)
        assert_type(self.days.get(), list[int])
        assert_type(self.by_month.get("may"), int | None)
        assert_type(self.total.get(), int | None)
        assert_type(self.mean.get(), float | None)
        self.longest.add(record.author)
        self.mean.add(record.author_ms)
        self.count.value += 1
        ctx.timers.register_event_time(record.author_ms + 30 * hg.DAYS)
        yield ctx.key, self.count.value

    def on_timer(self, timestamp: int, ctx: hg.OnTimerContext[str]) -> Iterator[tuple[str, int]]:
        """Quiet."""
        assert_type(ctx.time_domain, str)
        yield ctx.key, -1


class Words(hg.ProcessFunction[str, bytes]):
    """Not keyed."""

    def process(self, record: str, ctx: Any) -> Iterable[bytes]:
        """Encode."""
        return [record.encode()]


class Lengths(hg.ProcessFunction[object, int]):
    """Takes anything."""

    def process(self, record: object, ctx: Any) -> Iterable[int]:
        """Measure."""
        return [len(str(record))]


@hg.blocking
class Slow(hg.ProcessFunction[str, bytes]):
    """A marked class is the class that it was."""

    def process(self, record: str, ctx: Any) -> Iterable[bytes]:
        """Encode."""
        return [record.encode()]


@hg.blocking
def ask(name: str) -> int:
    """A marked function has the signature that it had."""
    return len(name)


def split(text: str) -> list[str]:
    """Words of a line."""
    return text.split()


def author_of(commit: Commit) -> str:
    """The key."""
    return commit.author


env = hg.Environment(parallelism=2, config={"execution.buffer-timeout": "5ms"})
env.checkpoints(every="1s", mode=hg.EXACTLY_ONCE, storage="file:///checkpoints").config(
    "parallelism.default", 3
)

commits = env.read_json("commits.jsonl.gz", schema=Commit)
assert_type(commits, hg.DataStream[Commit])
timed = commits.with_event_time("author_ms", out_of_orderness="7d", idleness="1min")
assert_type(timed, hg.DataStream[Commit])
assert_type(timed.with_event_time(lambda commit: commit.author_ms), hg.DataStream[Commit])

by_author = timed.key_by(author_of)
assert_type(by_author, hg.KeyedStream[str, Commit])
assert_type(timed.key_by(lambda commit: commit.author_ms), hg.KeyedStream[int, Commit])
assert_type(timed.key_by("author"), hg.KeyedStream[Any, Commit])
assert_type(timed.key_by("author", "author_ms"), hg.KeyedStream[Any, Commit])
assert_type(timed.group_by("author"), hg.KeyedStream[Any, Commit])

streaks = by_author.process(Streak(), uid="streaks")
assert_type(streaks, hg.DataStream[tuple[str, int]])
assert_type(timed.key_by("author").process(Streak(), uid="more"), hg.DataStream[tuple[str, int]])

names = streaks.map(lambda pair: pair[0])
assert_type(names, hg.DataStream[str])
assert_type(names.flat_map(split), hg.DataStream[str])
assert_type(names.flat_map(lambda name: (len(name), 1)), hg.DataStream[int])
assert_type(names.map(len).filter(lambda n: n > 3), hg.DataStream[int])
assert_type(names.where(lambda name: name != ""), hg.DataStream[str])
assert_type(names.process(Words()), hg.DataStream[bytes])
assert_type(names.process(Slow()), hg.DataStream[bytes])
assert_type(names.map(ask), hg.DataStream[int])
assert_type(names.map(hg.blocking(len)), hg.DataStream[int])
assert_type(names.process(Lengths()), hg.DataStream[int])
assert_type(names.rebalance().broadcast().union(names), hg.DataStream[str])
assert_type(names.uid("names").name("Names").set_parallelism(2), hg.DataStream[str])
assert_type(commits.select("author"), hg.DataStream[hg.Row])

late = hg.OutputTag[Commit]("late")
assert_type(streaks.side_output(late), hg.DataStream[Commit])
assert_type(commits.side_output(hg.BAD_RECORDS), hg.DataStream[hg.BadRecord])

assert_type(env.from_collection([1, 2]), hg.DataStream[int])
assert_type(env.generate(lambda i: str(i), count=3), hg.DataStream[str])
assert_type(env.read_json("any.jsonl"), hg.DataStream[dict[str, Any]])
assert_type(env.read_csv("any.csv"), hg.DataStream[dict[str, str]])
assert_type(env.read_csv("any.csv", schema=Commit), hg.DataStream[Commit])
assert_type(env.read_parquet("any.parquet"), hg.DataStream[hg.Row])

assert_type(names.collect(), list[str])
assert_type(names.collect_later().records, list[str])
assert_type(streaks.write_json("out/"), hg.StreamSink)
assert_type(env.execute("streaks"), hg.JobResult)
assert_type(env.explain(), str)
