"""What a topology must give, computed over whole streams by plain Python: no Headgate in here."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from sim.topology import ASIDE, GAP_MS, JUDGE, ROWS, SUMS, TABLES, Feed, Item, Step, Topology, key_of

Lane = tuple[object, ...]
Fact = tuple[str, str, int]
"""Ident, key and value: what is compared. The event time of a numbered record depends on the order."""


class Told(NamedTuple):
    """A record of a stream, and its place in the orders that Headgate keeps.

    Attributes:
        item: the record.
        lane: records of one lane pass through one subtask of each step, one after the other.
        rank: its place in the lane.
        sure: whether at-least-once delivers it; notes of timers depend on what was repeated.
    """

    item: Item
    lane: Lane
    rank: tuple[int, ...]
    sure: bool = True

    @property
    def fact(self) -> Fact:
        """What is compared."""
        return self.item.ident, self.item.key, self.item.value


@dataclass(frozen=True)
class Stream:
    """A whole stream.

    Attributes:
        told: its records in any order.
        ordered: whether each lane arrives in order of rank.
        origins: sources, and keyed steps that made new records; streams without a common one share no ident.
        free: whether no alignment happens on the way here (row A15).
    """

    told: tuple[Told, ...]
    ordered: bool = True
    origins: frozenset[str] = frozenset()
    free: bool = True

    @property
    def facts(self) -> Counter[Fact]:
        """Every record and how often."""
        return Counter(told.fact for told in self.told)


@dataclass
class Answer:
    """What must come out.

    Attributes:
        sinks: uid -> what it must get; running sums apart, of which only the last are known.
        counted: uid of a counting step -> key -> number of records and sum of their values.
        noted: uid of a noting map -> the idents of the records that it takes.
        sums: uid of a sink of running sums -> uid of the counting step.
        free: steps with state that no alignment happens before.
        streams: all streams, of which tables read some.
    """

    sinks: dict[str, Stream] = field(default_factory=dict)
    counted: dict[str, dict[str, tuple[int, int]]] = field(default_factory=dict)
    noted: dict[str, Counter[str]] = field(default_factory=dict)
    sums: dict[str, str] = field(default_factory=dict)
    free: set[str] = field(default_factory=set)
    streams: dict[Feed, Stream] = field(default_factory=dict)


def answer_of(topology: Topology) -> Answer:
    """The answer to a topology, but for its tables."""
    answer = Answer()
    streams = answer.streams
    for step in topology.steps:
        if step.verb in (*TABLES, ROWS):
            continue
        if step.verb == "source":
            told = [
                Told(item, (step.uid, index // topology.split_size), (index,))
                for index, item in enumerate(topology.events[step.uid])
            ]
            streams[Feed(step.uid)] = Stream(tuple(told), origins=frozenset((step.uid,)))
            continue
        # Rules only say when a judge begins; that it passes them on is not among what is compared here.
        feeds = [feed for feed in step.feeds if step.verb != JUDGE or feed.travel != "broadcast"]
        taken = _united([_travelled(topology, streams, feed, step) for feed in feeds])
        taken = _aligned(topology, step, taken)
        if step.verb == "sink":
            answer.sinks[step.uid] = taken
            if step.feeds[0].tag == SUMS:
                answer.sums[step.uid] = step.feeds[0].step
        elif step.verb == "split":
            streams[Feed(step.uid)] = _kept(taken, [t for t in taken.told if t.item.value % step.number])
            aside = [t for t in taken.told if not t.item.value % step.number]
            streams[Feed(step.uid, ASIDE)] = _kept(taken, aside)
        elif step.keyed:
            _keyed(answer, streams, step, taken)
        else:
            streams[Feed(step.uid)] = _kept(taken, _per_record(step, taken.told))
            if step.notes:
                _noted(answer, step, taken)
    return answer


def is_forward(topology: Topology, feed: Feed, step: Step) -> bool:
    """Whether a step's subtasks read from one subtask each by this input, or are called by it."""
    return not step.keyed and not feed.travel and topology.step(feed.step).parallelism == step.parallelism


def _travelled(topology: Topology, streams: dict[Feed, Stream], feed: Feed, step: Step) -> Stream:
    stream = streams[Feed(feed.step, feed.tag)]
    if feed.travel == "broadcast":
        ordered = stream.ordered and step.parallelism == 1
        return Stream(stream.told * step.parallelism, ordered, stream.origins, stream.free)
    keeps = step.keyed or is_forward(topology, feed, step) or step.parallelism == 1
    return Stream(stream.told, stream.ordered and keeps, stream.origins, stream.free)


def _united(streams: Sequence[Stream]) -> Stream:
    origins: list[str] = [origin for stream in streams for origin in stream.origins]
    return Stream(
        tuple(told for stream in streams for told in stream.told),
        all(stream.ordered for stream in streams) and len(origins) == len(set(origins)),
        frozenset(origins),
        all(stream.free for stream in streams),
    )


def _aligned(topology: Topology, step: Step, taken: Stream) -> Stream:
    channels = sum(
        1 if is_forward(topology, feed, step) else topology.step(feed.step).parallelism for feed in step.feeds
    )
    return Stream(taken.told, taken.ordered, taken.origins, taken.free and channels == 1)


def _kept(taken: Stream, told: Iterable[Told]) -> Stream:
    return Stream(tuple(told), taken.ordered, taken.origins, taken.free)


def _per_record(step: Step, told: Iterable[Told]) -> list[Told]:
    number, made = step.number, []
    for one in told:
        ident, key, value, at = one.item
        if step.verb == "map":
            made.append(one._replace(item=Item(ident, key, value * number + 1, at)))
        elif step.verb == "plain":
            made.append(one._replace(item=Item(ident, key, value + number, at)))
        elif step.verb == "flat_map":
            made += [
                one._replace(item=Item(f"{ident}.{copy}", key, value + copy, at), rank=(*one.rank, copy))
                for copy in range(value % number)
            ]
        elif value % number:
            made.append(one)
    return made


def _noted(answer: Answer, step: Step, taken: Stream) -> None:
    answer.noted[step.uid] = Counter(told.item.ident for told in taken.told)
    if taken.free:
        answer.free.add(step.uid)


def _keyed(answer: Answer, streams: dict[Feed, Stream], step: Step, taken: Stream) -> None:
    if taken.free:
        answer.free.add(step.uid)
    per_key: dict[str, list[Told]] = defaultdict(list)
    for told in taken.told:
        per_key[key_of(step, told.item.value)].append(told)
    if step.verb == "quiet":
        passed = [
            told._replace(item=told.item._replace(key=key), lane=(*told.lane, key))
            for key, known in per_key.items()
            for told in known
        ]
        notes = [note for key, known in per_key.items() for note in _notes(step, key, known)]
        origins = taken.origins | {step.uid}
        streams[Feed(step.uid)] = Stream((*passed, *notes), taken.ordered, origins, taken.free)
        return
    answer.counted[step.uid] = {
        key: (len(known), sum(told.item.value for told in known)) for key, known in per_key.items()
    }
    numbered = [
        Told(Item(f"{key}/{n:04d}", key, n, 0), (step.uid, key), (n,))
        for key, known in per_key.items()
        for n in range(1, len(known) + 1)
    ]
    for tag in (None, SUMS):
        streams[Feed(step.uid, tag)] = Stream(
            tuple(numbered), True, frozenset((step.uid + (tag or ""),)), taken.free
        )


def _notes(step: Step, key: str, known: Sequence[Told]) -> list[Told]:
    times = {told.item.at_ms for told in known}
    dues = {at + GAP_MS for at in times}
    return [
        Told(Item(f"{key}/quiet/{due}", key, due % 1000, due), (step.uid, key, "quiet"), (due,), sure=False)
        for due in dues
        if not any(due - GAP_MS < at <= due for at in times)
    ]
