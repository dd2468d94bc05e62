"""The Headgate program of a topology: one function class per verb, found by name on every worker."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from typing_extensions import override

from headgate.api.broadcast import KeyedBroadcastProcessFunction
from headgate.api.declared.keyed_states import ListState, ValueState, list_state, value_state
from headgate.api.declared.operator_state import (
    BroadcastState,
    OperatorListState,
    broadcast_state,
    operator_list_state,
)
from headgate.api.environment import Environment
from headgate.api.functions import KeyedProcessFunction, OutputTag, ProcessFunction
from headgate.api.sink import Sink, SinkCommitter, SinkWriter, SinkWriterContext
from headgate.api.source import (
    NOTHING_AVAILABLE,
    Plain,
    PollStatus,
    Source,
    SourceReader,
    SourceReaderContext,
    SplitEnumerator,
)
from headgate.api.streams.stream_classes import DataStream
from sim.store import EventReader, EventSource, StoreCommitter, StoreWriter
from sim.topology import ASIDE, GAP_MS, JUDGE, SUMS, Feed, Item, Step, Topology, key_of
from sim.worlds import cost

LATE: list[tuple[str, str]] = []
"""(uid, what) of records that an operator with timers saw behind its watermark."""


class Function:
    """What all functions of topologies have: their step, and what a record costs."""

    def __init__(self, step: Step, spend: Callable[[float], None] = cost) -> None:
        self.step, self._spend = step, spend

    def pay(self) -> None:
        """A record is being processed."""
        self._spend(self.step.cost_ms)


class Calculating(Function):
    """Calculates with the value."""

    def __call__(self, item: Item) -> Item:
        """One record."""
        self.pay()
        return Item(item[0], item[1], item[2] * self.step.number + 1, item[3])


class Noting(Function, ProcessFunction[Item, Item]):
    """Calculates with the value, and keeps the idents of all records."""

    noted: OperatorListState[str] = operator_list_state()

    def process(self, record: Item, ctx: Any) -> Iterator[Item]:
        """One record."""
        self.pay()
        self.noted.add(record[0])
        yield Item(record[0], record[1], record[2] * self.step.number + 1, record[3])


class Plainly(Function):
    """Makes a plain tuple of a record, which travels by the self-describing codec."""

    def __call__(self, item: Any) -> Any:
        """One record."""
        self.pay()
        return (item[0], item[1], item[2] + self.step.number, item[3])


class Keeping(Function):
    """Keeps most values."""

    def __call__(self, item: Any) -> bool:
        """One record."""
        self.pay()
        return bool(item[2] % self.step.number)


class Multiplying(Function):
    """Gives none, one or several records."""

    def __call__(self, item: Item) -> list[Item]:
        """One record."""
        self.pay()
        return [
            Item(f"{item[0]}.{copy}", item[1], item[2] + copy, item[3])
            for copy in range(item[2] % self.step.number)
        ]


class Splitting(Function, ProcessFunction[Item, Item]):
    """Sends some values aside."""

    def process(self, record: Item, ctx: Any) -> Iterator[Item]:
        """One record to one of two streams."""
        self.pay()
        item = Item(*record)
        if item.value % self.step.number:
            yield item
        else:
            ctx.side_output(OutputTag[Item](ASIDE), item)


class Counting(Function, KeyedProcessFunction[str, Item, Item]):
    """Numbers the records of a key, and sums their values."""

    count: ValueState[int] = value_state(default=0)
    total: ValueState[int] = value_state(default=0)

    def process(self, record: Item, ctx: Any) -> Iterator[Item]:
        """One record."""
        self.pay()
        self.count.value += 1
        self.total.value += record[2]
        number = self.count.value
        ident = f"{ctx.key}/{number:04d}"
        if self.step.tells:
            ctx.side_output(OutputTag[Item](SUMS), Item(ident, ctx.key, self.total.value, record[3]))
        yield Item(ident, ctx.key, number, record[3])


class Judging(Function, KeyedBroadcastProcessFunction[str, Item, Item, Item]):
    """Numbers the records of a key, and sums their values, when all rules are known; earlier ones wait."""

    rules: BroadcastState[str, int] = broadcast_state()
    waiting: ListState[Item] = list_state()
    count: ValueState[int] = value_state(default=0)
    total: ValueState[int] = value_state(default=0)

    def process(self, record: Item, ctx: Any) -> Iterator[Item]:
        """One record."""
        self.pay()
        self.waiting.add(Item(*record))
        if len(self.rules) == self.step.number:
            yield from self.judged(ctx.key, self.waiting)

    def process_broadcast(self, record: Item, ctx: Any) -> Iterator[Item]:
        """One rule, which is passed on."""
        self.pay()
        self.rules.put(record[0], record[2])
        yield Item(*record)
        if len(self.rules) == self.step.number:
            yield from ctx.apply_to_all_keys(self.waiting, self.judged)

    def judged(self, key: str, waiting: ListState[Item]) -> Iterator[Item]:
        """What waits for a key waits no longer."""
        for item in waiting.get():
            self.count.value += 1
            self.total.value += item.value
            yield Item(f"{key}/{self.count.value:04d}", key, self.count.value, item.at_ms)
        waiting.clear()


class Quiet(Function, KeyedProcessFunction[str, Item, Item]):
    """Passes records on, and notes when event time passes `GAP_MS` without a record of the key."""

    times: ListState[int] = list_state()

    def process(self, record: Item, ctx: Any) -> Iterator[Item]:
        """One record."""
        self.pay()
        at = record[3]
        if ctx.timestamp != at or at <= ctx.timers.current_watermark:
            late = f"{record} at {ctx.timestamp} behind {ctx.timers.current_watermark}"
            LATE.append((self.step.uid, late))
        self.times.add(at)
        ctx.timers.register_event_time(at + GAP_MS)
        yield Item(record[0], ctx.key, record[2], at)

    def on_timer(self, timestamp: int, ctx: Any) -> Iterator[Item]:
        """Nothing at or before `timestamp` is missing any more."""
        known = self.times.get()
        if not any(timestamp - GAP_MS < at <= timestamp for at in known):
            yield Item(f"{ctx.key}/quiet/{timestamp}", ctx.key, timestamp % 1000, timestamp)
        self.times.update([at for at in known if at > timestamp - GAP_MS])


class KeyOf(Function):
    """The key of a keyed step."""

    def __call__(self, item: Any) -> str:
        """One record."""
        return key_of(self.step, item[2])


class ItemSource(Source[Item]):
    """A bounded source whose events come as fast as they are taken; their type is known.

    Args:
        events: all of them, in arrival order.
        split_size: events of one split.
    """

    def __init__(self, events: Sequence[Item], split_size: int) -> None:
        self._events = EventSource(events, split_size)

    @override
    def create_enumerator(self, restored: Plain | None) -> SplitEnumerator:
        return self._events.create_enumerator(restored)

    @override
    def create_reader(self, context: SourceReaderContext) -> SourceReader[Item]:
        return ItemReader(self._events)


class ItemReader(EventReader):
    """Reads a split to its end, with a pause now and then."""

    @override
    def poll(self, max_records: int) -> list[Any] | PollStatus:
        # Two of three polls of the reader below give nothing; here it is one of seven.
        if self._polls % 7 == 0 and self._splits:
            self._polls += 1
            return NOTHING_AVAILABLE
        self._polls += -self._polls % 3 + 2
        return super().poll(max_records)


class SlowSink(Sink[Any]):
    """A two-phase sink into the store called `name` whose records cost time.

    Args:
        step: the sink's description; its uid is the store's name.
        run: sorts before the name of the job that goes on from this one's checkpoint.
        spend: takes the time.
    """

    def __init__(self, step: Step, run: str = "", spend: Callable[[float], None] = cost) -> None:
        self.step, self.run, self.spend = step, run, spend

    @override
    def create_writer(self, context: SinkWriterContext, restored: Sequence[Plain]) -> SinkWriter[Any]:
        return SlowWriter(self, context)

    @override
    def create_committer(self) -> SinkCommitter:
        return StoreCommitter(self.step.uid)


class SlowWriter(StoreWriter):
    """Collects records, each at its price."""

    def __init__(self, sink: SlowSink, context: SinkWriterContext) -> None:
        super().__init__(sink.step.uid, context)
        self._sink, self._prefix = sink, f"{sink.run}{self._prefix}"

    @override
    def write(self, records: Any) -> None:
        rows = list(records)
        self._sink.spend(self._sink.step.cost_ms * len(rows))
        super().write(rows)


Streams = dict[str, DataStream[Any]]


def build(topology: Topology, env: Environment, run: str = "", spend: Callable[[float], None] = cost) -> None:
    """Add the program of a topology to an Environment.

    Args:
        topology: the description.
        env: gets the program.
        run: see :class:`SlowSink`.
        spend: called by functions with what a record costs, in ms.
    """
    streams: Streams = {}
    for step in topology.steps:
        if step.verb == "source":
            streams[step.uid] = source_of(topology, env, step)
        elif step.verb == "sink":
            fed(streams, step).sink_to(SlowSink(step, run, spend), uid=step.uid).set_parallelism(
                step.parallelism
            )
        else:
            streams[step.uid] = applied(streams, step, spend).set_parallelism(step.parallelism)


def source_of(topology: Topology, env: Environment, step: Step) -> DataStream[Any]:
    """The stream of a source, with event time."""
    source = ItemSource(topology.events[step.uid], topology.split_size)
    stream = env.from_source(source, uid=step.uid, parallelism=step.parallelism)
    return stream.with_event_time("at_ms", topology.lateness_ms, max_drift=topology.drift_ms)


def fed(streams: Mapping[str, DataStream[Any]], step: Step) -> DataStream[Any]:
    """What a step reads: one stream, or the union of several."""
    first, *others = (_travelling(streams, feed) for feed in step.feeds)
    return first.union(*others) if others else first


def _travelling(streams: Mapping[str, DataStream[Any]], feed: Feed) -> DataStream[Any]:
    stream = streams[feed.step]
    if feed.tag is not None:
        stream = stream.side_output(OutputTag[Item](feed.tag))
    if feed.travel:
        stream = stream.rebalance() if feed.travel == "rebalance" else stream.broadcast()
    return stream


def _judged(streams: Streams, step: Step, spend: Callable[[float], None]) -> DataStream[Any]:
    main = replace(step, feeds=tuple(feed for feed in step.feeds if feed.travel != "broadcast"))
    (rules,) = (streams[feed.step] for feed in step.feeds if feed.travel == "broadcast")
    keyed = fed(streams, main).key_by(KeyOf(step)).connect(rules.broadcast())
    return keyed.process(Judging(step, spend), uid=step.uid)


def applied(streams: Streams, step: Step, spend: Callable[[float], None]) -> DataStream[Any]:
    """The stream that an operator of records gives."""
    if step.verb == JUDGE:
        return _judged(streams, step, spend)
    stream = fed(streams, step)
    if step.notes:
        return stream.process(Noting(step, spend), uid=step.uid)
    if step.verb == "map":
        return stream.map(Calculating(step, spend), uid=step.uid)
    if step.verb == "plain":
        return stream.map(Plainly(step, spend), uid=step.uid)
    if step.verb == "filter":
        return stream.filter(Keeping(step, spend), uid=step.uid)
    if step.verb == "flat_map":
        return stream.flat_map(Multiplying(step, spend), uid=step.uid)
    if step.verb == "split":
        return stream.process(Splitting(step, spend), uid=step.uid)
    function = (Counting if step.verb == "count" else Quiet)(step, spend)
    return stream.key_by(KeyOf(step)).process(function, uid=step.uid)
