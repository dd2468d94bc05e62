"""What is raised in a program's function and is no ``Exception`` fails the job at once, as any error does."""

from __future__ import annotations

import asyncio
import re
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar

import pytest
from mini_jobs import ListEnumerator, ListReader

import headgate as hg
from headgate.connectors.discard import discard_sink
from headgate.testing import MiniCluster, OperatorHarness

pytestmark = pytest.mark.timeout(30)


class OwnBase(BaseException):
    """An exception of the program's own that is no ``Exception``."""


KINDS: dict[str, Callable[[], BaseException]] = {
    "SystemExit": lambda: SystemExit(7),
    "KeyboardInterrupt": KeyboardInterrupt,
    "GeneratorExit": GeneratorExit,
    "CancelledError": lambda: asyncio.CancelledError("the client went away"),
    "OwnBase": lambda: OwnBase("beyond"),
}

STRIKES: dict[str, str] = {}
"""Where to raise -> the name of what; read by the functions below, whose workers are threads."""


def strike(place: str, value: Any = None) -> Any:
    """Raise if it was ordered for `place`."""
    if place in STRIKES:
        raise KINDS[STRIKES[place]]()
    return value


class Plain(hg.ProcessFunction[Any, Any]):
    """Strikes in every method."""

    def open(self, context: hg.RuntimeContext) -> None:
        strike("open")

    def process(self, record: Any, ctx: Any) -> Iterator[Any]:
        strike("process")
        yield record
        strike("process after its output")


class Keyed(hg.KeyedProcessFunction[str, Any, Any]):
    """Has timers of both kinds."""

    count: hg.ValueState[int] = hg.value_state(default=0)

    def open(self, context: hg.RuntimeContext) -> None:
        strike("keyed open")

    def process(self, record: Any, ctx: hg.KeyedContext[str]) -> Iterator[Any]:
        strike("keyed process")
        self.count.value += 1
        ctx.timers.register_event_time(record["t"] + 5)
        if "on_timer by the wall clock" in STRIKES:
            ctx.timers.register_processing_time(ctx.timers.now_ms())
        yield record

    def on_timer(self, timestamp: int, ctx: Any) -> Any:
        if ctx.time_domain == "processing":
            strike("on_timer by the wall clock")
        strike("on_timer")


class Mean(hg.AggregateFunction[int, int, int]):
    """Adds up."""

    def create_accumulator(self) -> int:
        return strike("create_accumulator", 0)

    def add(self, value: int, accumulator: int) -> int:
        return strike("add", accumulator + value)

    def get_result(self, accumulator: int) -> int:
        return strike("get_result", accumulator)


class Folding(hg.KeyedProcessFunction[str, Any, Any]):
    """Uses both kinds of folding state."""

    least: hg.ReducingState[int] = hg.reducing_state(lambda a, b: strike("reduce", min(a, b)))
    mean: hg.AggregatingState[int, int] = hg.aggregating_state(Mean())

    def process(self, record: Any, ctx: hg.KeyedContext[str]) -> Iterator[Any]:
        self.least.add(record["t"])
        self.mean.add(record["t"])
        yield self.mean.get()


class OneSided(hg.BroadcastProcessFunction[Any, Any, Any]):
    """Both sides without keys."""

    def process(self, record: Any, ctx: Any) -> Any:
        strike("beside a broadcast")

    def process_broadcast(self, record: Any, ctx: Any) -> Any:
        strike("broadcast side")


class KeyedSided(hg.KeyedBroadcastProcessFunction[str, Any, Any, Any]):
    """Both sides with keys."""

    seen: hg.ValueState[int] = hg.value_state(default=0)

    def process(self, record: Any, ctx: Any) -> Any:
        self.seen.value += 1
        strike("keyed beside a broadcast")

    def process_broadcast(self, record: Any, ctx: Any) -> Any:
        strike("keyed broadcast side")


@hg.blocking
def waits(record: Any) -> Any:
    """A function with a thread of its own."""
    return strike("blocking", record)


class Lists(hg.Source[Any]):
    """A source of the program's own."""

    def create_enumerator(self, restored: Any) -> hg.SplitEnumerator:
        strike("create_enumerator")
        return Enumerator([0, 1])

    def create_reader(self, context: hg.SourceReaderContext) -> hg.SourceReader[Any]:
        strike("create_reader")
        return Reader(self)


class Enumerator(ListEnumerator):
    def next_splits(self, subtask: int) -> list[hg.Split] | None:
        strike("next_splits")
        return super().next_splits(subtask)


class Reader(ListReader):
    def add_splits(self, splits: Sequence[hg.Split]) -> None:
        strike("add_splits")
        super().add_splits(splits)

    def poll(self, max_records: int) -> Any:
        strike("poll")
        if not self.splits:
            return hg.END_OF_INPUT if self.final else hg.NOTHING_AVAILABLE
        self.splits.pop()
        return [{"k": "a", "t": n} for n in range(3)]

    def snapshot(self) -> list[hg.Split]:
        strike("snapshot of a reader")
        return super().snapshot()


class Shop(hg.Sink[Any]):
    """A sink of the program's own."""

    def create_writer(self, context: Any, restored: Sequence[Any]) -> hg.SinkWriter[Any]:
        strike("create_writer")
        return Writer()

    def create_committer(self) -> hg.SinkCommitter:
        return Committer()


class Writer(hg.SinkWriter[Any]):
    def write(self, records: Any) -> None:
        strike("write")

    def prepare_commit(self) -> list[Any]:
        return strike("prepare_commit", ["it"])

    def snapshot(self) -> list[Any]:
        return strike("snapshot of a writer", [])


class Committer(hg.SinkCommitter):
    done: ClassVar[list[Any]] = []

    def commit(self, committables: Sequence[Any]) -> None:
        strike("commit")


class Text(hg.TypeSerializer[str]):
    """A serializer of the program's own."""

    name = "text"
    immutable = True

    def encode(self, value: str) -> bytes:
        return strike("encode", value.encode())

    def decode(self, data: bytes) -> str:
        return strike("decode", data.decode())

    def snapshot(self) -> Any:
        return TextSnapshot()


class TextSnapshot(hg.SimpleTypeSerializerSnapshot[str]):
    def __init__(self) -> None:
        super().__init__(Text)


class Stored(hg.KeyedProcessFunction[str, Any, Any]):
    """Stores by a serializer of the program's own."""

    last: hg.ValueState[str] = hg.value_state(serializer=Text())

    def process(self, record: Any, ctx: hg.KeyedContext[str]) -> Iterator[Any]:
        self.last.value = record["k"]
        yield record


PLACES = [
    "map", "filter", "flat_map", "flat_map after its output", "open", "process", "process after its output",
    "keyed open", "keyed process", "on_timer", "on_timer by the wall clock", "key selector", "timestamp",
    "create_accumulator", "add", "get_result", "reduce", "beside a broadcast", "broadcast side",
    "keyed beside a broadcast", "keyed broadcast side", "blocking", "create_enumerator", "next_splits",
    "create_reader", "add_splits", "poll", "snapshot of a reader", "create_writer", "write", "prepare_commit",
    "snapshot of a writer", "commit", "encode", "decode",
]  # fmt: skip


def flat(record: Any) -> Iterator[Any]:
    """A generator."""
    strike("flat_map")
    yield record
    strike("flat_map after its output")


def built(env: hg.Environment) -> None:
    """A program that comes through every place."""
    source = env.from_source(Lists(), uid="lists")
    plain = source.map(lambda r: strike("map", r), uid="map").filter(
        lambda r: strike("filter", True), uid="filter"
    )
    plain = plain.flat_map(flat, uid="flat").process(Plain(), uid="plain").map(waits, uid="waits")
    timed = plain.with_event_time(lambda r: strike("timestamp", r["t"]))
    keyed = timed.key_by(lambda r: strike("key selector", r["k"])).process(Keyed(), uid="keyed")
    keyed.key_by("k").process(Folding(), uid="folding").sink_to(Shop(), uid="shop")
    keyed.key_by("k").process(Stored(), uid="stored").sink_to(discard_sink(), uid="nowhere-0")
    rules = env.from_collection([{"k": "a"}], uid="rules").broadcast()
    keyed.connect(rules).process(OneSided(), uid="one-sided").sink_to(discard_sink(), uid="nowhere-1")
    both = keyed.key_by("k").connect(rules).process(KeyedSided(), uid="keyed-sided")
    both.sink_to(discard_sink(), uid="nowhere-2")


def failure(tmp_path: Path, place: str, kind: str) -> BaseException:
    """How the job ends when something is raised at a place."""
    STRIKES.clear()
    STRIKES[place] = kind
    config = {"restart-strategy.type": "none", "execution.checkpointing.tolerable-failed-checkpoints": 0}
    env = hg.Environment(parallelism=2, executor=MiniCluster(), config=config)
    env.checkpoints("20ms", storage=str(tmp_path / "checkpoints"))
    built(env)
    try:
        with pytest.raises(hg.HeadgateError) as caught:
            env.execute("strikes")
    finally:
        STRIKES.clear()
    return caught.value


@pytest.mark.parametrize(("number", "place"), list(enumerate(PLACES)))
def test_it_is_told_at_once_with_the_users_line(tmp_path: Path, number: int, place: str) -> None:
    """Wherever user code is called; each kind has its turn."""
    kind = list(KINDS)[number % len(KINDS)]
    error = failure(tmp_path, place, kind)
    assert not isinstance(error, hg.InternalError), error
    assert kind in str(error)
    assert re.search(rf'File "{__file__}", line \d|{__file__}:\d', str(error)), error


@pytest.mark.parametrize("kind", KINDS)
def test_it_names_operator_and_record(tmp_path: Path, kind: str) -> None:
    """As an ordinary error does."""
    error = failure(tmp_path, "keyed process", kind)
    assert isinstance(error, hg.UserFunctionError)
    assert "(uid 'keyed')" in error.operator
    assert error.record == "{'k': 'a', 't': 0}"
    assert error.traceback_text.strip().rsplit("\n", 1)[-1].startswith((kind, "asyncio.exceptions", __name__))


def test_an_exit_in_a_function_names_operator_and_record() -> None:
    """`sys.exit` in a function is the program's error."""
    env = hg.Environment(parallelism=2, executor=MiniCluster(), config={"restart-strategy.type": "none"})
    with pytest.raises(hg.UserFunctionError, match=r"SystemExit: 7.*for record 7"):
        env.from_collection([7]).map(sys.exit, uid="leaver").collect()


# -- what comes from outside is not the function's


class Interrupting(Lists):
    """Its enumerator lives in the driver's main thread, where signals come."""

    def create_enumerator(self, restored: Any) -> hg.SplitEnumerator:
        return SignalledEnumerator([0])


class SignalledEnumerator(ListEnumerator):
    def next_splits(self, subtask: int) -> list[hg.Split] | None:
        signal.raise_signal(signal.SIGINT)
        return super().next_splits(subtask)


def exits(number: int, frame: Any) -> None:
    """A handler of signals as programs have them."""
    sys.exit(3)


@pytest.mark.parametrize(("handler", "kind"), [(None, KeyboardInterrupt), (exits, SystemExit)])
def test_a_real_signal_in_a_function_of_the_driver_ends_the_program(handler: Any, kind: Any) -> None:
    """Whatever its handler raises: it does not become an error of the source that was being asked."""
    env = hg.Environment(executor=MiniCluster())
    before = signal.signal(signal.SIGINT, handler or signal.default_int_handler)
    try:
        with pytest.raises(kind):
            env.from_source(Interrupting()).collect()
    finally:
        signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize("record", ["tidies up", "raises anew"])
def test_a_real_interrupt_in_a_function_under_test_ends_the_test(record: str) -> None:
    """The harness runs functions in the main thread, where Ctrl-C is the tester's."""

    class Signalled(hg.ProcessFunction[Any, Any]):
        def process(self, record: Any, ctx: Any) -> Any:
            try:
                signal.raise_signal(signal.SIGINT)
            except KeyboardInterrupt:
                if record == "tidies up":
                    raise
                raise KeyboardInterrupt("anew")  # noqa: B904

    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    harness = OperatorHarness(Signalled())
    try:
        with pytest.raises(KeyboardInterrupt):
            harness.process(record)
    finally:
        signal.signal(signal.SIGINT, before)
        harness.close()
