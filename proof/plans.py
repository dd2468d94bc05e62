"""Which faults go into which runs: the full counts, and the smoke form."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Sequence

from proof.border import DRIVER, EXECUTOR, FEEDER, KILLS, ON_CLUSTER, WORKER, Border, Kill
from proof.drivers import Chain
from proof.faults import DRIVER_PLACES, FAULTS, Fault
from proof.modes import ALIGNED, MODES, TIMEOUT, UNALIGNED, Mode, unproved
from proof.record import RunResult
from proof.relays import RANDOM, STEPS, Relay
from proof.runs import Plan

PER_RUN = 4
PARALLELISM = (2, 4, 2, 1)
"""Of the runs, in turn."""

INTERVALS_MS = (300, 500)
CHAINS = (
    (ALIGNED, (2, 2, 2, 2), None),
    (UNALIGNED, (4, 2, 3, 2), 2),
    (TIMEOUT, (1, 2, 4, 4), None),
)
"""Mode, parallelism of the drivers, and readers: their number must not shrink, see `job.py`."""

RELAYS = (ALIGNED, UNALIGNED, TIMEOUT)
"""Modes of the relays on the mini cluster: each kills at every step, and twice at each random moment."""

ON_SPARK = ("checkpoint.metadata-written", "checkpoint.logged", "sink.commit", "sinks.committed")
"""Where leaders of the relay on Spark are killed, besides a random moment."""

BORDERS = (ALIGNED, UNALIGNED, TIMEOUT)
"""Modes of the runs with local Spark at both ends: each kills at every place."""

AnyPlan = Plan | Chain | Relay | Border

Deal = tuple[Mode, list[Fault]]
"""The faults of one run."""


def full(seed: int, only: str | None = None) -> list[AnyPlan]:
    """Every fault once in each mode, in random company."""
    chance = random.Random(seed)
    hands = {mode: _shuffled(only, chance) for mode in MODES}
    runs: list[AnyPlan] = list(_plans(_in_turn(hands), chance))
    if only is None or "f" in only:
        runs += [
            Chain(f"chain {number}", chance.randrange(2**32), mode, parallelism, 300, sources=sources)
            for number, (mode, parallelism, sources) in enumerate(CHAINS, 1)
        ]
    if only is None or "h" in only:
        runs += _relays(chance)
    if only is None or "i" in only:
        runs += _borders(chance)
    return runs


def _relays(chance: random.Random) -> Iterator[Relay]:
    for number, mode in enumerate(RELAYS, 1):
        places = [*STEPS, *RANDOM, *RANDOM]
        chance.shuffle(places)
        yield Relay(f"relay {number}", chance.randrange(2**32), mode, tuple(places))
    places = [*ON_SPARK, RANDOM[-1]]
    chance.shuffle(places)
    yield Relay("relay on Spark", chance.randrange(2**32), UNALIGNED, tuple(places), on_spark=True)


def _borders(chance: random.Random) -> Iterator[Border]:
    for number, mode in enumerate(BORDERS, 1):
        yield Border(f"border {number}", chance.randrange(2**32), _mixed(KILLS, chance), mode=mode)
    yield Border("border on a cluster", chance.randrange(2**32), _mixed(ON_CLUSTER, chance), on_cluster=True)


def _mixed(kills: Sequence[Kill], chance: random.Random) -> tuple[Kill, ...]:
    return tuple(chance.sample(kills, len(kills)))


def _borders_of_smoke(chance: random.Random) -> Iterator[Border]:
    """One of each kind; few epochs, because each takes a second when nothing is killed any more."""
    at = chance.choice([kill for kill in KILLS if kill.what == DRIVER])
    kills = (*(kill for kill in KILLS if kill.what == FEEDER), Kill(WORKER), at)
    yield Border("border 1", chance.randrange(2**32), _mixed(kills, chance), files_per_epoch=3)
    name = "border on a cluster"
    yield Border(name, chance.randrange(2**32), (Kill(EXECUTOR),), on_cluster=True, files_per_epoch=6)


def smoke(seed: int, only: str | None = None) -> list[AnyPlan]:
    """Every fault once, some drivers killed; the seed says which mode comes first."""
    chance = random.Random(seed)
    faults = _shuffled(only, chance)
    first = chance.randrange(len(MODES))
    modes = MODES[first:] + MODES[:first]
    deals = [(modes[turn % len(modes)], hand) for turn, hand in enumerate(_hands(faults, 8))]
    runs: list[AnyPlan] = list(_plans(deals, chance))
    if only is None or "f" in only:
        place = chance.choice(DRIVER_PLACES)
        mode = chance.choice((UNALIGNED, TIMEOUT))
        runs.append(Chain("chain 1", chance.randrange(2**32), mode, (2, 3), 300, (place,)))
    if only is None or "h" in only:
        places = (chance.choice(STEPS), RANDOM[-1])
        runs.append(Relay("relay 1", chance.randrange(2**32), UNALIGNED, places))
    if only is None or "i" in only:
        runs += _borders_of_smoke(chance)
    return runs


def missing(plans: Sequence[AnyPlan], results: Sequence[RunResult]) -> Counter[tuple[str, str]]:
    """(mode, fault) that did not strike as often as planned, for instance because a job ended first."""
    planned: Counter[tuple[str, str]] = Counter()
    for plan in plans:
        planned.update((plan.mode.name, fault) for fault in plan.fault_names)
    planned.subtract((run.mode, fault.fault) for run in results for fault in run.faults if fault.struck)
    return +planned


def repeat(plans: Sequence[AnyPlan], results: Sequence[RunResult], seed: int) -> list[Plan]:
    """Further runs with the faults of workers that are missing, one for each mode that lacks some."""
    short = missing(plans, results)
    runs: list[Plan] = []
    for mode in MODES:
        faults = tuple(fault for fault in FAULTS for _ in range(short[mode.name, fault.name]))
        if faults:
            runs.append(Plan(f"repeat {mode.name}", seed, mode, 2, INTERVALS_MS[0], faults))
    return runs


def shortfall(plans: Sequence[AnyPlan], results: Sequence[RunResult]) -> list[str]:
    """What a proof that did too little says of itself: it proves less than it claims."""
    short = missing(plans, results)
    told = ", ".join(f"{fault} ({mode}): {count}" for (mode, fault), count in sorted(short.items()))
    planned = {plan.mode for plan in plans}
    restored = {mode: [run.restored for run in results if run.mode == mode.name] for mode in planned}
    return [*([f"faults that did not strike: {told}"] if told else []), *unproved(restored)]


def _shuffled(only: str | None, chance: random.Random) -> list[Fault]:
    faults = [fault for fault in FAULTS if only is None or fault.group in only]
    chance.shuffle(faults)
    return faults


def _hands(faults: Sequence[Fault], per_run: int) -> list[list[Fault]]:
    """The faults by runs: any may meet, apart from those that want a source with fewer subtasks."""
    hands: list[list[Fault]] = []
    for alone in (False, True):
        group = [fault for fault in faults if fault.one_source == alone]
        hands += [group[start : start + per_run] for start in range(0, len(group), per_run)]
    return hands


def _in_turn(faults: dict[Mode, list[Fault]]) -> Iterator[Deal]:
    """One run of each mode after the other."""
    hands = {mode: _hands(each, PER_RUN) for mode, each in faults.items()}
    for turn in range(max(map(len, hands.values()))):
        for mode, mine in hands.items():
            if turn < len(mine):
                yield mode, mine[turn]


def _plans(deals: Iterator[Deal] | Sequence[Deal], chance: random.Random) -> Iterator[Plan]:
    for number, (mode, faults) in enumerate(deals):
        alone = any(fault.one_source for fault in faults)
        yield Plan(
            name=f"run {number + 1}",
            seed=chance.randrange(2**32),
            mode=mode,
            parallelism=2 if alone else PARALLELISM[number % len(PARALLELISM)],
            interval_ms=chance.choice(INTERVALS_MS),
            faults=tuple(faults),
            late=chance.random() < 0.5,
        )
