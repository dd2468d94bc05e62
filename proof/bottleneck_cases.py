"""Jobs with one planted cause each that holds them up, at random places and strengths, by kind and seed.

A case is made so that its cause dominates: several times as much work as there is time, or several times as
many records as elsewhere. The healthy ones have the same shapes and parts, and time left.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import headgate as hg
from headgate.connectors.generator import generator_source
from headgate.core.bottleneck.findings import Kind
from proof.bottleneck_jobs import (
    Cost,
    Count,
    Hog,
    KeyOf,
    Litter,
    LongWay,
    Nowhere,
    Numbers,
    SlowInput,
    Work,
)

HEALTHY: Final = "none"
FAST: Final = 100_000.0
"""Records per second that no job here gets through."""


@dataclass
class Shape:
    """A job: a source, functions with exchanges between them, and a sink.

    Attributes:
        rng: decides what the cause leaves open.
        parallelism: number of workers.
        rate: records per second of the source.
        first: chained to the source; None: nothing is.
        middle: behind the first exchange.
        last: behind a second exchange; None: there is none.
        keyed: whether the first exchange is by key.
        hot: how many of a thousand records have one key.
        keys: how many others there are.
        size: numbers in the state of each key, if it is large.
        sink_s: cost of a record in the sink.
        source: in place of the generator.
        record: in place of numbers.
        before: chained before all else.
        aside: a function that waits, in a second stream which is united with the first; None: there is none.
        aside_rate: records per second of the second stream.
        checkpoints: their interval; None: there are none.
        config: options of the job.
    """

    rng: random.Random
    parallelism: int = 2
    rate: float = FAST
    first: Work | None = None
    middle: Work = field(default_factory=Work)
    last: Work | None = None
    keyed: bool = True
    hot: int = 0
    keys: int = 997
    size: int = 0
    sink_s: Cost = field(default_factory=Cost)
    source: hg.Source[Any] | None = None
    record: Any = None
    before: hg.ProcessFunction[Any, Any] | None = None
    aside: Work | None = None
    aside_rate: float = 0.0
    checkpoints: str | None = None
    config: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def any(cls, rng: random.Random) -> Shape:
        """A shape without a cause."""
        return cls(
            rng,
            parallelism=rng.choice((2, 2, 3)),
            first=rng.choice((None, Work())),
            last=rng.choice((None, Work())),
            keyed=rng.random() < 0.6,
        )

    def build(self, executor: hg.Executor, folder: Path) -> hg.Environment:
        """The program; checkpoints, if it takes any, are in `folder`."""
        env = hg.Environment(self.parallelism, self.config, executor=executor)
        if self.checkpoints is not None:
            env.checkpoints(self.checkpoints, storage=folder)
        source = self.source or generator_source(Numbers(self.record), rate_per_s=self.rate, batch=True)
        stream: Any = env.from_source(source, uid="read")
        if self.before is not None:
            stream = stream.process(self.before, uid="way")
        if self.first is not None:
            stream = stream.map(self.first, uid="first")
        if self.aside is not None:
            source = generator_source(Numbers(), rate_per_s=self.aside_rate, batch=True)
            calls = env.from_source(source, uid="ask").rebalance().map(hg.blocking(self.aside), uid="call")
            stream = stream.union(calls)
        if self.keyed:
            stream = stream.key_by(KeyOf(self.hot, self.keys)).process(
                Count(self.middle, self.size), uid="middle"
            )
        else:
            stream = stream.rebalance().map(self.middle, uid="middle")
        if self.last is not None:
            stream = stream.rebalance().map(self.last, uid="last")
        stream.sink_to(Nowhere(self.sink_s), uid="write")
        return env

    def place(self, work: Work) -> str:
        """Put a function at some place; return its uid."""
        uid = self.rng.choice(("first", "middle", "last"))
        setattr(self, uid, work)
        return uid


@dataclass
class Case:
    """A job and what `headgate why` has to say of it.

    Attributes:
        kind: of the cause, or "none".
        seed: of the case.
        shape: of the job.
        uids: of operators of which one is to be named; empty: any.
        workers: of which one is to be named; empty: any.
        pauses: worker that is stopped again and again, and shares of time in which it runs and stands, in s.
        strength: for people.
    """

    kind: str
    seed: int
    shape: Shape
    uids: tuple[str, ...] = ()
    workers: tuple[int, ...] = ()
    pauses: tuple[int, float, float] | None = None
    strength: str = ""

    @property
    def name(self) -> str:
        """Of the job."""
        return f"{self.kind.replace(' ', '-')}-{self.seed}"

    def right(self, answer: Mapping[str, Any]) -> bool:
        """Whether an answer of `GET /v1/why` names kind and place."""
        return (
            answer["kind"] == self.kind
            and (not self.uids or answer["uid"] in self.uids)
            and (not self.workers or answer["worker"] in self.workers)
        )


def case_of(kind: str, seed: int) -> Case:
    """The case of a kind and seed: always the same one."""
    return MAKERS[kind](random.Random(f"{kind} {seed}"), seed)


def _cost(rng: random.Random, low_ms: float, high_ms: float, burns: float = 0.25) -> Cost:
    return Cost(round(rng.uniform(low_ms, high_ms) / 1000, 5), rng.random() < burns)


def _function(rng: random.Random, seed: int) -> Case:
    shape, cost = Shape.any(rng), _cost(rng, 1.0, 20.0)
    shape.rate = rng.uniform(2.0, 5.0) * shape.parallelism / cost.seconds
    return Case(Kind.FUNCTION, seed, shape, (shape.place(Work(cost)),), strength=f"{cost}")


def _sink(rng: random.Random, seed: int) -> Case:
    shape, cost = Shape.any(rng), _cost(rng, 1.0, 20.0)
    shape.sink_s, shape.rate = cost, rng.uniform(2.0, 5.0) * shape.parallelism / cost.seconds
    return Case(Kind.SINK, seed, shape, ("write",), strength=f"{cost}")


def _source(rng: random.Random, seed: int) -> Case:
    shape, cost, lot = Shape.any(rng), _cost(rng, 2.0, 40.0), rng.randint(1, 10)
    shape.source = SlowInput(cost, lot)
    return Case(Kind.SOURCE, seed, shape, ("read",), strength=f"{cost}, {lot} a poll")


def _skew(rng: random.Random, seed: int) -> Case:
    shape, cost = Shape.any(rng), _cost(rng, 1.0, 8.0, burns=0.0)
    shape.parallelism, shape.keyed, shape.middle = rng.choice((2, 3)), True, Work(cost)
    shape.hot = rng.randint(800, 960)
    shape.rate = rng.uniform(2.0, 4.0) / cost.seconds
    return Case(Kind.SKEW, seed, shape, ("middle",), strength=f"{cost}, {shape.hot} of 1000")


def _worker(rng: random.Random, seed: int) -> Case:
    shape = Shape.any(rng)
    shape.first, shape.parallelism = None, rng.choice((2, 3))
    slow, cost = rng.randrange(shape.parallelism), Cost(0.001)
    shape.place(Work(cost))
    shape.rate = rng.uniform(0.35, 0.45) * shape.parallelism / cost.seconds
    if rng.random() < 0.3:
        shape.before = Hog(slow)
        return Case(Kind.WORKER, seed, shape, workers=(slow,), strength="a thread that computes")
    runs = rng.uniform(0.1, 0.2)
    period = rng.uniform(0.08, 0.2)
    pauses = slow, runs * period, (1 - runs) * period
    return Case(Kind.WORKER, seed, shape, workers=(slow,), pauses=pauses, strength=f"runs {runs:.0%}")


def _garbage(rng: random.Random, seed: int) -> Case:
    shape = Shape.any(rng)
    collects = rng.random() < 0.4
    kept = rng.randint(20_000, 60_000) if collects else rng.randint(60_000, 150_000)
    litter = Litter(rng.randint(50, 400), kept, collects)
    shape.parallelism = 2
    shape.place(Work(garbage=litter))
    strength = "collects for each record" if collects else f"{litter.per_record} for each record"
    return Case(Kind.GARBAGE, seed, shape, strength=f"{strength}, {kept} kept")


def _state(rng: random.Random, seed: int) -> Case:
    shape = Shape.any(rng)
    shape.keyed, shape.size, shape.parallelism = True, rng.randint(300, 1_500), 2
    shape.keys = rng.randint(40_000, 200_000)  # many more than are cached
    shape.config["state.backend.type"] = "rocksdb"
    return Case(Kind.STATE, seed, shape, ("middle",), strength=f"{shape.keys} keys of {shape.size} numbers")


def _serialization(rng: random.Random, seed: int) -> Case:
    shape = Shape.any(rng)
    width, depth = rng.randint(20, 120), rng.randint(1, 10)
    shape.record = {f"field {number}": [{"n": number, "t": "x" * depth}] * depth for number in range(width)}
    shape.keyed, shape.parallelism = False, 2
    return Case(Kind.SERIALIZATION, seed, shape, strength=f"{width} fields of {depth} records")


def _credit(rng: random.Random, seed: int) -> Case:
    shape = Shape.any(rng)
    delay_s, credit = rng.uniform(0.02, 0.08), rng.choice((1, 1, 2))
    shape.before = LongWay(delay_s)
    shape.config["taskmanager.network.credit-initial"] = credit
    uids = ("middle", "last") if shape.last else ("middle",)
    return Case(Kind.CREDIT, seed, shape, uids, strength=f"{delay_s * 1000:.0f} ms, credit {credit}")


def _alignment(rng: random.Random, seed: int) -> Case:
    shape = Shape.any(rng)
    shape.keyed = False  # the batches go on as they are, which costs next to nothing
    call = Cost(rng.uniform(0.5, 1.0))
    shape.aside, used = Work(call), rng.uniform(0.4, 0.55)
    shape.aside_rate = used * shape.parallelism / call.seconds
    shape.checkpoints = "50ms"
    strength = f"calls of {call.seconds:.1f} s beside it, {used:.0%} of the time"
    return Case(Kind.ALIGNMENT, seed, shape, ("middle",), strength=strength)


def _healthy(rng: random.Random, seed: int) -> Case:
    shape, cost = Shape.any(rng), _cost(rng, 0.5, 5.0, burns=0.2)
    load = rng.uniform(0.1, 0.4)
    shape.rate = load * shape.parallelism / cost.seconds
    shape.place(Work(cost))
    shape.hot = rng.choice((0, 0, 100)) if shape.keyed else 0
    if rng.random() < 0.3:
        shape.config["state.backend.type"] = "rocksdb"
    if rng.random() < 0.3:
        shape.config["taskmanager.network.credit-initial"] = 1
    if rng.random() < 0.4:
        shape.checkpoints = "500ms"
    return Case(HEALTHY, seed, shape, strength=f"{load:.0%} of the time, {cost}")


MAKERS: Final[Mapping[str, Callable[[random.Random, int], Case]]] = {
    Kind.FUNCTION: _function,
    Kind.SKEW: _skew,
    Kind.SINK: _sink,
    Kind.CREDIT: _credit,
    Kind.SERIALIZATION: _serialization,
    Kind.STATE: _state,
    Kind.ALIGNMENT: _alignment,
    Kind.SOURCE: _source,
    Kind.GARBAGE: _garbage,
    Kind.WORKER: _worker,
    HEALTHY: _healthy,
}
"""By kind: makes the case of a seed."""
