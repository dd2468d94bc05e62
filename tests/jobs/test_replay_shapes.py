"""Replays of operators of every shape: behind others, in windows, with two inputs, on any backend."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from replayed_jobs import Visits, environment, kept, replay_here, sink, visit
from running_jobs import wait_until

import headgate as hg
from headgate.checkpoint.opening import open_checkpoint
from headgate.connectors.discard import CountingSink
from headgate.connectors.generator import generator_source
from headgate.restore.in_flight_shares import records_of

COUNT = 600

Made = Callable[[hg.Environment, Any], None]


def visits_of(env: hg.Environment, uid: str = "in") -> Any:
    return env.from_source(generator_source(visit, COUNT, 1_000, splits=1), uid=uid).with_event_time("t")


class Pages(hg.KeyedProcessFunction[str, dict, dict]):
    """Numbers the visits of each page."""

    count: hg.ValueState[int] = hg.value_state(default=0)

    def process(self, record: dict, ctx: hg.KeyedContext[str]) -> Iterator[dict]:
        self.count.value += 1
        yield record | {"number": self.count.value}


def one_after_the_other(env: hg.Environment, visits: Any) -> None:
    sink(visits.key_by("page").process(Pages(), uid="pages").key_by("user").process(Visits(), uid="it"))


def of_a_side_output(env: hg.Environment, visits: Any) -> None:
    odd = hg.OutputTag("odd")

    class Sort(hg.ProcessFunction[dict, dict]):
        def process(self, record: dict, ctx: hg.ProcessContext) -> Iterator[dict]:
            if record["t"] % 2:
                ctx.side_output(odd, record)
            yield record

    sorted_ = visits.process(Sort())
    sink(sorted_)
    sorted_.side_output(odd).key_by("user").process(Visits(), uid="it").sink_to(CountingSink(), uid="odd")


def mapped_and_filtered(env: hg.Environment, visits: Any) -> None:
    more = visits.map(lambda record: record | {"page": record["page"] * 2}).filter(lambda r: r["t"] % 4)
    sink(more.key_by(lambda record: record["user"]).process(Visits(), uid="it"))


def in_windows(env: hg.Environment, visits: Any) -> None:
    sink(visits.key_by("user").window(hg.tumbling("40ms")).aggregate(uid="it", pages=hg.count()))


def in_sessions_of_rows(env: hg.Environment, visits: Any) -> None:
    few = visits.filter(lambda record: record["t"] % 50 < 30)
    windows = few.key_by("user").window(hg.session("10ms"))
    sink(windows.process(lambda key, window, records, ctx: [(key, len(list(records)))], uid="it"))


SHAPES = [one_after_the_other, mapped_and_filtered, in_windows, in_sessions_of_rows, of_a_side_output]


@pytest.mark.parametrize("made", SHAPES)
def test_each_checkpoint_follows_from_the_one_before(tmp_path: Path, made: Made) -> None:
    """For operators of this shape."""

    def program() -> hg.Environment:
        env = environment(tmp_path)
        made(env, visits_of(env))
        return env

    program().execute("visits")
    pairs = list(pairwise(kept(tmp_path)))
    assert len(pairs) > 1
    steps = 0
    for before, after in pairs[::2]:
        for key in "ab":
            report = replay_here(program(), "it", key, before, after)
            assert report.failure is None
            assert (report.differences, report.inexact) == ([], [])
            steps += len(report.steps)
    assert steps > 3


MADE: list[int] = []
"""Numbers of the visits that `later_visit` was asked for; workers are threads here."""


def later_visit(number: int) -> dict:
    MADE.append(number)
    return visit(number + 150)


def test_the_last_records_come_before_the_time_at_which_the_replay_ends(tmp_path: Path) -> None:
    """A batch that is not full waits for the barrier; a session that its records prolong ends later."""

    def program() -> hg.Environment:
        env = environment(tmp_path, config={"execution.checkpointing.interval": "1h"})
        visits = env.from_source(generator_source(later_visit, 80, 50, splits=1), uid="in")
        in_sessions_of_rows(env, visits.with_event_time("t"))
        return env

    MADE.clear()
    with program().execute_async("visits") as handle:
        # Key a has a visit at 171, whose session ends at 181, and two more before event time is there.
        for count in (22, 33):
            wait_until(lambda count=count: handle.done or len(MADE) >= count, "the visits are made")
            handle.checkpoint()
        handle.result()
    before, after = kept(tmp_path)[:2]
    for key in "abc":
        waits = {"execution.buffer-timeout": "1min"}
        report = replay_here(program(), "it", key, before, after, settings=waits)
        assert (report.failure, report.differences) == (None, [])
        assert report.steps


def joined(env: hg.Environment, visits: Any) -> None:
    pairs = visits.join(visits_of(env, "others")).where(lambda each: each["user"]).within("-5ms", "0ms")
    sink(pairs.apply(lambda left, right: (left["t"], right["t"]), uid="it"))


class Limited(hg.KeyedBroadcastProcessFunction[str, dict, dict, str]):
    """Counts visits up to a limit of the broadcast side, and may begin anew."""

    count: hg.ValueState[int] = hg.value_state(default=0)
    limits: hg.BroadcastState[str, int] = hg.broadcast_state()

    def process(self, record: dict, ctx: Any) -> Iterator[str]:
        self.count.value += 1
        if self.count.value >= self.limits.get("most", 7):
            self.count.value = 0

    def process_broadcast(self, record: dict, ctx: Any) -> Iterator[str]:
        self.limits.put("most", 3 + record["t"] % 5)
        yield from ctx.apply_to_all_keys(self.count, self.begin)

    def begin(self, key: str, count: Any) -> Iterator[str]:
        count.value += 100
        yield key


def beside_a_broadcast(env: hg.Environment, visits: Any) -> None:
    rules = env.from_source(generator_source(visit, 60, 300, splits=1), uid="rules")
    sink(visits.key_by("user").connect(rules.broadcast()).process(Limited(), uid="it"))


@pytest.mark.parametrize("made", [joined, beside_a_broadcast])
def test_two_inputs_are_named_as_inexact(tmp_path: Path, made: Made) -> None:
    """Each came in its own order, and no snapshot has the order of both."""

    def program() -> hg.Environment:
        env = environment(tmp_path)
        made(env, visits_of(env))
        return env

    program().execute("visits")
    found = [replay_here(program(), "it", "b", *pair) for pair in pairwise(kept(tmp_path))]
    assert [report.failure for report in found] == [None] * len(found)
    assert any(report.inexact for report in found)
    assert [report.differences for report in found if not report.inexact and report.differences] == []
    assert any(report.differences == [] for report in found)


FORMS = [
    {"state.backend.type": "rocksdb"},
    {"state.backend.type": "rocksdb", "execution.checkpointing.incremental": True},
    {"state.changelog.enabled": True},
    {"execution.checkpointing.unaligned.enabled": True},
]


@pytest.mark.parametrize("more", FORMS, ids=lambda more: ",".join(map(str, more)))
def test_state_of_any_backend_is_replayed(tmp_path: Path, more: dict[str, Any]) -> None:
    """In memory, with the same result."""

    def program() -> hg.Environment:
        env = environment(tmp_path, config=more)
        sink(visits_of(env).key_by("user").process(Visits(), uid="it"))
        return env

    program().execute("visits")
    for before, after in list(pairwise(kept(tmp_path)))[::3]:
        report = replay_here(program(), "it", "c", before, after)
        assert (report.differences, report.inexact) == ([], [])


def test_records_in_flight_are_held_back(tmp_path: Path) -> None:
    """A snapshot without them follows all the same from the one before, which has others in flight."""
    more = {"execution.checkpointing.unaligned.enabled": True}

    def program() -> hg.Environment:
        env = environment(tmp_path, config=more)
        sink(visits_of(env).key_by("user").process(Slow(), uid="it"))
        return env

    program().execute("visits")
    overtaken = [sum(map(records_of, open_checkpoint(uri)[1].in_flight)) for uri in kept(tmp_path)]
    assert any(overtaken)
    for before, after in pairwise(kept(tmp_path)):
        for key in "abc":
            report = replay_here(program(), "it", key, before, after)
            assert (report.differences, report.inexact) == ([], [])


class Slow(Visits):
    """Takes a millisecond for each record."""

    def process(self, record: dict, ctx: hg.KeyedContext[str]) -> Iterator[str]:
        time.sleep(0.001)
        yield from super().process(record, ctx)


@pytest.mark.parametrize("form", ["canonical", "native"])
def test_savepoints_of_a_rescaled_job(tmp_path: Path, form: str) -> None:
    """From a savepoint at parallelism 2 to a checkpoint at 3, and from a checkpoint at 3 to the last."""

    def program(parallelism: int) -> hg.Environment:
        env = environment(tmp_path, parallelism)
        visits = env.from_source(generator_source(visit, COUNT, 400, splits=1), uid="in").set_parallelism(1)
        sink(visits.with_event_time("t").set_parallelism(1).key_by("user").process(Visits(), uid="it"))
        return env

    with program(2).execute_async("visits") as handle:
        wait_until(lambda: handle.status().checkpoints_completed > 1, "it takes checkpoints")
        uri = handle.savepoint(str(tmp_path / "savepoint"), format=form)
        handle.rescale(3)
        assert handle.result() is not None
    later = [open_checkpoint(one)[1] for one in kept(tmp_path)]
    begun = open_checkpoint(uri)[1].checkpoint
    assert {len(one.operators["it"]) for one in later} == {2, 3}
    ends = [at for at, one in zip(kept(tmp_path), later, strict=True) if one.checkpoint > begun]
    for before, after in ((uri, ends[0]), (uri, ends[-1]), *pairwise(ends)):
        for key in "abc":
            report = replay_here(program(1), "it", key, before, after)
            assert (report.differences, report.inexact) == ([], [])


class ByClock(Visits):
    """Reads the wall clock, and has a timer by it."""

    def process(self, record: dict, ctx: hg.KeyedContext[str]) -> Iterator[str]:
        ctx.timers.register_processing_time(ctx.timers.now_ms() + 10)
        yield from super().process(record, ctx)


class Forgetful(Visits):
    """Keeps a value for a second."""

    shortly: hg.ValueState[int] = hg.value_state(default=0, ttl=hg.StateTtl("1s"))

    def process(self, record: dict, ctx: hg.KeyedContext[str]) -> Iterator[str]:
        self.shortly.value += 1
        yield from super().process(record, ctx)


class Numbered(Pages):
    """Reads the clock upstream of what is replayed."""

    def process(self, record: dict, ctx: hg.KeyedContext[str]) -> Iterator[dict]:
        yield record | {"number": ctx.timers.now_ms()}


@pytest.mark.parametrize(
    ("function", "upstream", "idle", "whys"),
    [
        (ByClock, None, None, ["timers of processing time fired", "the function reads the wall clock"]),
        (Forgetful, None, None, ["entries of 'shortly' whose time to live is over"]),
        (Visits, Numbered, None, ["'Numbered' reads the wall clock"]),
        (Visits, None, "1s", ["counted as idle depends on the wall clock"]),
    ],
)
def test_what_the_wall_clock_decides_is_named(
    tmp_path: Path, function: Any, upstream: Any, idle: str | None, whys: list[str]
) -> None:
    """Timers, readings, also upstream, time to live, idleness."""

    def program() -> hg.Environment:
        env = environment(tmp_path)
        source = generator_source(visit, COUNT, 1_000, splits=1)
        stream = env.from_source(source, uid="in").with_event_time("t", idleness=idle)
        if idle is not None:
            stream = stream.union(visits_of(env, "others"))
        if upstream is not None:
            stream = stream.key_by("page").process(upstream(), uid="pages")
        sink(stream.key_by("user").process(function(), uid="it"))
        return env

    program().execute("visits")
    first, *_, last = kept(tmp_path)
    report = replay_here(program(), "it", "b", first, last)
    assert report.failure is None
    for why in whys:
        assert any(why in each for each in report.inexact), report.inexact
