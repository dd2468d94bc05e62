"""Random topologies as data: which operators, how wide, what travels how between them, drawn from a seed.

A topology is a description only. `sim.topology_job` makes a Headgate program of it, `sim.topology_answer`
computes by plain means what must come out.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from sim.tables import Windows

LATENESS_MS = 60
"""How much earlier than a predecessor an event may be."""
GAP_MS = 150
"""Event time without a record after which a key counts as quiet."""
ASIDE = "aside"
SUMS = "sums"
KEYED = ("count", "quiet")
JUDGE = "judge"
"""As a count, but records wait until the broadcast feed has told `number` rules, which are passed on, too."""
TABLES = ("windows", "again", "join")
"""Tables of windows: of a stream, of the rows of another such table, and of two of them."""
ROWS = "rows"
"""A sink of a table."""
WIDTHS = (1, 1, 2, 2, 3, 4)


class Item(NamedTuple):
    """A record; every operator knows only these four fields.

    Attributes:
        ident: where it comes from; unique in a stream unless records were multiplied on purpose.
        key: given by the last keyed operator.
        value: what operators calculate with.
        at_ms: event time.
    """

    ident: str
    key: str
    value: int
    at_ms: int


@dataclass(frozen=True)
class Feed:
    """One input of a step.

    Attributes:
        step: uid of the step that emits.
        tag: its side output, or None.
        travel: "rebalance", "broadcast", or "" for what Headgate chooses.
    """

    step: str
    tag: str | None = None
    travel: str = ""


@dataclass(frozen=True)
class Step:
    """One operator.

    Attributes:
        uid: its name.
        verb: source, map, plain, filter, flat_map, split, count, judge, quiet or sink; one of `TABLES`; rows.
        feeds: its inputs; several are a union, or what is joined.
        parallelism: subtasks; 0: as many as the job has, of what has to do with tables.
        number: what its function calculates with.
        cost_ms: virtual time that one record costs.
        tells: of a count, whether running sums go to a side output.
        notes: of a map, whether it keeps the idents of its records in operator state.
        windows: of a table, what it computes; of one that reads tables, in which windows their rows lie.
        how: of a join, its kind.
    """

    uid: str
    verb: str
    feeds: tuple[Feed, ...] = ()
    parallelism: int = 1
    number: int = 2
    cost_ms: float = 0.0
    tells: bool = False
    notes: bool = False
    windows: Windows | None = None
    how: str = ""

    @property
    def keyed(self) -> bool:
        """Whether its input is partitioned by key."""
        return self.verb in KEYED or self.verb == JUDGE


@dataclass(frozen=True)
class Topology:
    """A job.

    Attributes:
        steps: sources first, sinks last, each after what feeds it.
        events: source uid -> its events in arrival order.
        split_size: events of one split.
        settings: options that the seed drew.
        lateness_ms: by how much events may be out of order without being late.
        width: the job's parallelism, of what has none of its own.
        drift_ms: how far its sources may be ahead of each other in event time; None: no limit.
    """

    steps: tuple[Step, ...]
    events: dict[str, list[Item]]
    split_size: int = 9
    settings: dict[str, str | int] = field(default_factory=dict)
    lateness_ms: int = LATENESS_MS
    width: int = 1
    drift_ms: int | None = None

    def step(self, uid: str) -> Step:
        """The step called `uid`."""
        return next(step for step in self.steps if step.uid == uid)

    def of(self, *verbs: str) -> list[Step]:
        """The steps with one of the verbs."""
        return [step for step in self.steps if step.verb in verbs]

    def describe(self) -> str:
        """One line per step, for whoever looks at a failure."""
        return "\n".join(_line(step) for step in self.steps) + (
            f"\n{self.settings}, parallelism {self.width}, out of order by {self.lateness_ms} ms, "
            f"drift {self.drift_ms} ms"
        )


def key_of(step: Step, value: int) -> str:
    """The key that a keyed step gives to a record of this value."""
    return f"{step.uid}-{(value * 7 + step.number) % (step.number + 2)}"


def events_of(uid: str, count: int, rng: random.Random) -> list[Item]:
    """Events in arrival order, out of order by up to `LATENESS_MS`."""
    at, events = 1_000_000, []
    for index in range(count):
        at += rng.choice((1, 3, 8, 8, 60))
        events.append(Item(f"{uid}:{index:04d}", "", rng.randrange(1000), at - rng.randrange(LATENESS_MS)))
    return events


def draw_topology(seed: int, timers: bool = True) -> Topology:
    """The topology of a seed.

    Args:
        seed: which.
        timers: whether operators may have timers.
    """
    rng = random.Random(f"{seed} topology")
    sources = [
        Step(uid, "source", parallelism=rng.choice(WIDTHS)) for uid in ("in", "also")[: rng.choice((1, 1, 2))]
    ]
    events = {step.uid: events_of(step.uid, rng.randrange(30, 70), rng) for step in sources}
    drawing = _Drawing(rng, timers, list(sources))
    for number in range(rng.randint(1, 4)):
        drawing.add_operator(f"op{number}")
    drawing.add_sinks()
    drawing.add_notes(random.Random(f"{seed} notes"))
    settings: dict[str, str | int] = {
        "taskmanager.network.credit-initial": rng.choice((1, 1, 2, 4)),
        "execution.buffer-timeout": rng.choice(("0ms", "2ms", "5ms", "20ms")),
        "execution.checkpointing.interval": rng.choice(("10ms", "25ms", "60ms")),
    }
    split_size, drift = rng.choice((5, 9, 20)), drift_of(seed)
    return Topology(tuple(drawing.steps), events, split_size, settings, drift_ms=drift)


def drift_of(seed: int) -> int | None:
    """How far the sources of a seed may be ahead of each other in event time (ms); None: no limit."""
    return random.Random(f"{seed} drift").choice((None, None, 20, 200))


class _Drawing:
    """A topology while it is drawn."""

    def __init__(self, rng: random.Random, timers: bool, steps: list[Step]) -> None:
        self._rng, self.steps = rng, steps
        # "count" twice: state is what most of this is about.
        verbs = ("map", "plain", "filter", "flat_map", "split", "count", "count")
        self._verbs = (*verbs, "quiet") if timers else verbs
        self._plain: set[str] = set()
        self._timeless: set[str] = set()
        self._used: set[Feed] = set()

    def add_operator(self, uid: str) -> None:
        """One more operator behind some of what is there."""
        rng = self._rng
        feeds = self._some_feeds()
        verb = rng.choice(self._verbs)
        if verb == "quiet" and any(feed.step in self._timeless for feed in feeds):
            verb = "count"
        width = rng.choice(WIDTHS)
        if rng.random() < 0.4:
            width = self._step(feeds[0].step).parallelism  # so that something goes forward, or is chained
        travels = [""] if verb in KEYED else ["", "", "rebalance", "broadcast"]
        step = Step(
            uid,
            verb,
            tuple(Feed(feed.step, feed.tag, rng.choice(travels)) for feed in feeds),
            width,
            number=rng.randint(2, 6),
            cost_ms=rng.choice((0, 0, 0, 0.5, 4)),
            tells=rng.random() < 0.5,
        )
        self._note_kinds(step)
        self.steps.append(step)

    def add_sinks(self) -> None:
        """A sink for every stream that nobody reads, and for some that somebody reads."""
        rng = self._rng
        for feed in list(self._streams()):
            if feed in self._used and rng.random() < 0.8:
                continue
            width = rng.choice((self._step(feed.step).parallelism, rng.choice(WIDTHS)))
            uid = f"out-{feed.step}" + (f"-{feed.tag}" if feed.tag else "")
            slow = rng.choice((0, 0, 0.5, 4))
            self.steps.append(Step(uid, "sink", (feed,), width, cost_ms=slow))

    def add_notes(self, rng: random.Random) -> None:
        """Some maps have operator state; what else is drawn does not depend on it."""
        self.steps = [
            replace(step, notes=True) if step.verb == "map" and rng.random() < 0.7 else step
            for step in self.steps
        ]

    def _some_feeds(self) -> list[Feed]:
        """One stream or two; rather such that nobody reads yet."""
        rng, streams = self._rng, [feed for feed in self._streams() if feed.tag != SUMS]
        fresh = [feed for feed in streams if feed not in self._used]
        first = rng.choice(fresh if fresh and rng.random() < 0.7 else streams)
        # A union of typed and plain records has no type, and then only pickle could carry the typed ones.
        others = [f for f in streams if f != first and (f.step in self._plain) == (first.step in self._plain)]
        feeds = [first, rng.choice(others)] if others and rng.random() < 0.35 else [first]
        self._used.update(feeds)
        return feeds

    def _streams(self) -> Iterator[Feed]:
        for step in self.steps:
            if step.verb == "sink":
                continue
            yield Feed(step.uid)
            if step.verb == "split":
                yield Feed(step.uid, ASIDE)
            if step.verb == "count" and step.tells:
                yield Feed(step.uid, SUMS)

    def _note_kinds(self, step: Step) -> None:
        fed = {feed.step for feed in step.feeds}
        if step.verb == "plain" or (step.verb == "filter" and fed & self._plain):
            self._plain.add(step.uid)
        if step.verb == "count" or fed & self._timeless:
            self._timeless.add(step.uid)

    def _step(self, uid: str) -> Step:
        return next(step for step in self.steps if step.uid == uid)


def _line(step: Step) -> str:
    feeds = " + ".join(
        feed.step + (f"/{feed.tag}" if feed.tag else "") + (f" by {feed.travel}" if feed.travel else "")
        for feed in step.feeds
    )
    what = f"{'noting ' if step.notes else ''}{step.how}{step.verb}({step.number}) x{step.parallelism}"
    windows = f", {step.windows}" if step.windows is not None and step.verb == "windows" else ""
    return f"  {step.uid}: {what} from {feeds or 'events'}, {step.cost_ms} ms{windows}"
