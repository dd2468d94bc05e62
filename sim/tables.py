"""Random pieces of tables as data: windows of a stream, windows of windows, and joins in windows.

They are steps of a topology, behind its sources and filters. `sim.tables_job` makes Headgate tables of them,
`sim.tables_answer` computes their rows by plain means.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from typing import Final, Literal

from sim.topology import Feed, Item, Step, Topology, drift_of

Kind = Literal["tumbling", "sliding", "cumulative", "session"]

TICK_MS: Final = 10
"""Event times are multiples of it, so that sessions often touch, and windows begin at a record."""
OUT_OF_ORDER_MS: Final = 60
"""How much earlier than a predecessor an event may be, and how much the job allows: none is late."""
FAR_OUT_OF_ORDER_MS: Final = 300
"""How much earlier an event may be in jobs with late records."""
TOLERANCES_MS: Final = (0, 0, 50)
"""How much of that such a job allows."""
WIDTHS: Final = (1, 1, 2, 2, 3)
KINDS: Final[tuple[Kind, ...]] = ("tumbling", "sliding", "sliding", "cumulative", "session", "session")
HOWS: Final = ("inner", "left", "right", "full", "semi", "anti")


@dataclass(frozen=True)
class Windows:
    """What a step of windows computes of a stream.

    Attributes:
        kind: of windows.
        size_ms: how long windows are; of sessions the longest pause.
        slide_ms: how often one begins, or by how much they grow.
        keys: the key is the value modulo this; 0: there is no key.
        keeps: values that are a multiple of it are filtered out; 0: none are.
        times: what is summed up is the value so many times, and one.
    """

    kind: Kind = "tumbling"
    size_ms: int = 100
    slide_ms: int = 100
    keys: int = 3
    keeps: int = 0
    times: int = 1


def draw_tables(seed: int, late: bool = False) -> Topology:
    """The topology with tables of a seed.

    Args:
        seed: which.
        late: whether some records come behind the watermark; then there is one table, directly in a sink.
    """
    rng = random.Random(f"{seed} tables")
    sources = [
        Step(uid, "source", parallelism=rng.choice(WIDTHS)) for uid in ("in", "also")[: rng.choice((1, 1, 2))]
    ]
    back = FAR_OUT_OF_ORDER_MS if late else OUT_OF_ORDER_MS
    events = {step.uid: ticking_events(step.uid, rng.randrange(30, 60), back, rng) for step in sources}
    drawing = _Drawing(rng, sources)
    drawing.add_tables(late)
    drawing.add_sinks()
    settings = _settings(rng)
    tolerance = rng.choice(TOLERANCES_MS) if late else OUT_OF_ORDER_MS
    split_size, width = rng.choice((5, 9, 20)), rng.choice((1, 2, 3, 3))
    return Topology(drawing.used(), events, split_size, settings, tolerance, width, drift_of(seed))


def _settings(rng: random.Random) -> dict[str, str | int]:
    return {
        "taskmanager.network.credit-initial": rng.choice((1, 1, 2, 4)),
        "execution.buffer-timeout": rng.choice(("0ms", "2ms", "5ms", "20ms")),
        "execution.checkpointing.interval": rng.choice(("10ms", "25ms", "60ms")),
        "execution.checkpointing.data-inline-threshold": rng.choice(("0b", "20kb")),
    }


def ticking_events(uid: str, count: int, back_ms: int, rng: random.Random) -> list[Item]:
    """Events in arrival order, out of order by less than `back_ms`, at multiples of `TICK_MS`."""
    at, events = 1_000_000, []
    for index in range(count):
        at += rng.choice((0, 1, 1, 2, 6)) * TICK_MS
        back = rng.randrange(back_ms // TICK_MS) * TICK_MS
        events.append(Item(f"{uid}:{index:04d}", "", rng.randrange(1000), at - back))
    return events


def draw_windows(rng: random.Random) -> Windows:
    """Windows of any kind."""
    kind = rng.choice(KINDS)
    slide = rng.choice((20, 20, 50, 100))
    longer = {"sliding": (10, slide, 3 * slide), "cumulative": (slide, 3 * slide)}
    size = slide + rng.choice(longer.get(kind, (0,)))
    return Windows(
        kind,
        size,
        slide,
        keys=rng.choice((0, 2, 5, 11)),
        keeps=rng.choice((0, 0, 2, 7)),
        times=rng.choice((1, 2, 5)),
    )


class _Drawing:
    """A topology with tables while it is drawn."""

    def __init__(self, rng: random.Random, sources: list[Step]) -> None:
        self._rng, self.steps = rng, list(sources)
        self._tables: list[Step] = []

    def add_tables(self, late: bool) -> None:
        """A table, and one more step at most, as a seed's time goes to operators."""
        more = None if late else self._rng.choice((None, "join", "join", "again", "windows"))
        self.add_windows(late)
        if more == "windows":
            self.add_windows()
        elif more == "join":
            self.add_join()
        elif more == "again":
            self.add_windows_of_windows()

    def used(self) -> tuple[Step, ...]:
        """All steps but sources that nobody reads."""
        read = {feed.step for step in self.steps for feed in step.feeds}
        return tuple(step for step in self.steps if step.verb != "source" or step.uid in read)

    def add_windows(self, late: bool = False) -> None:
        """A table of windows, over a source or a filter; of `late`, windows that have each record once."""
        windows = draw_windows(self._rng)
        if late and windows.kind not in ("tumbling", "session"):
            windows = replace(windows, kind="tumbling", size_ms=windows.slide_ms)
        self._add_table(f"win{len(self._tables)}", windows)

    def add_join(self) -> None:
        """A join of a table with another one in the same windows."""
        rng, left = self._rng, self._tables[0]
        assert left.windows is not None
        keys = rng.choice((2, 5, 11)) if left.windows.keys else 0
        windows = replace(left.windows, keys=keys, keeps=rng.choice((0, 2, 3)), times=rng.choice((1, 3)))
        # Mostly later than the other one, whose rows wait for it.
        right = self._add_table("other", windows, straight=0.2)
        feeds = (Feed(left.uid), Feed(right.uid))
        self._tables.append(
            Step("join", "join", feeds, self._width(), how=rng.choice(HOWS), windows=left.windows)
        )
        self.steps.append(self._tables[-1])

    def add_windows_of_windows(self) -> None:
        """Rows of a table by their window."""
        chosen = self._tables[0]
        step = Step(
            "again",
            "again",
            (Feed(chosen.uid),),
            self._width(),
            number=self._rng.choice((0, 2)),
            windows=chosen.windows,
        )
        self._tables.append(step)
        self.steps.append(step)

    def add_sinks(self) -> None:
        """A sink for every table that nobody reads, and for some that somebody reads."""
        rng = self._rng
        used = {feed.step for step in self._tables for feed in step.feeds}
        for step in self._tables:
            if step.uid in used and rng.random() < 0.7:
                continue
            # As wide as the windows it is called by them, and holds up one subtask and not the others.
            width = rng.choice((0, 0, rng.choice(WIDTHS)))
            slow = rng.choice((0, 0.5, 4, 20))
            self.steps.append(Step(f"out-{step.uid}", "rows", (Feed(step.uid),), width, cost_ms=slow))

    def _add_table(self, uid: str, windows: Windows, straight: float = 0.6) -> Step:
        travel = self._rng.choice(("", "", "rebalance"))
        feed = Feed(self._some_stream(uid, straight), None, travel)
        self._tables.append(Step(uid, "windows", (feed,), self._width(), windows=windows))
        self.steps.append(self._tables[-1])
        return self._tables[-1]

    def _some_stream(self, uid: str, straight: float) -> str:
        """A source, with this probability, or a filter behind it, which may be slow."""
        rng = self._rng
        source = rng.choice([step for step in self.steps if step.verb == "source"])
        if rng.random() < straight:
            return source.uid
        width = rng.choice((source.parallelism, rng.choice(WIDTHS)))
        feed = Feed(source.uid, None, rng.choice(("", "rebalance")))
        cost = rng.choice((0, 0.5, 4))
        self.steps.append(Step(f"some-{uid}", "filter", (feed,), width, rng.randint(4, 9), cost))
        return f"some-{uid}"

    def _width(self) -> int:
        """Mostly the job's, so that another parallelism of the job changes it."""
        return self._rng.choice((0, 0, 0, self._rng.choice(WIDTHS)))
