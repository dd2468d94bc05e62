"""Which faults go into which runs: the full counts, and the smoke form."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence

from proof.drivers import Chain, fault_name
from proof.faults import DRIVER_PLACES, FAULTS, Fault
from proof.record import RunResult
from proof.runs import Plan

TIMES = 3
"""How often each fault strikes in the full proof."""

PER_RUN = 4
PARALLELISM = (2, 4, 2, 1)
"""Of the runs, in turn."""

INTERVALS_MS = (300, 500)
CHAINS = ((2, 2, 2, 2), (1, 2, 4, 4), (4, 4, 4, 4))
"""Parallelism of the drivers of each chain; in one it grows with every restore."""


def full(seed: int, only: str | None = None) -> list[Plan | Chain]:
    """Every fault several times, in random company."""
    chance = random.Random(seed)
    faults = [fault for fault in FAULTS if only is None or _wanted(fault, only)] * TIMES
    chance.shuffle(faults)
    runs: list[Plan | Chain] = list(_plans(faults, chance, PER_RUN))
    if only is None or "f" in only:
        runs += [
            Chain(f"chain {number}", chance.randrange(2**32), parallelism, 300)
            for number, parallelism in enumerate(CHAINS, 1)
        ]
    return runs


def smoke(seed: int, only: str | None = None) -> list[Plan | Chain]:
    """Every fault once, and one driver killed."""
    chance = random.Random(seed)
    faults = [fault for fault in FAULTS if only is None or _wanted(fault, only)]
    chance.shuffle(faults)
    runs: list[Plan | Chain] = list(_plans(faults, chance, 5))
    if only is None or "f" in only:
        place = chance.choice(DRIVER_PLACES)
        runs.append(Chain("chain 1", chance.randrange(2**32), (2, 2), 300, (place,)))
    return runs


def missing(plans: Sequence[Plan | Chain], results: Sequence[RunResult]) -> Counter[str]:
    """Faults that did not strike as often as planned, for instance because a job ended first."""
    planned: Counter[str] = Counter()
    for plan in plans:
        faults = map(fault_name, plan.places) if isinstance(plan, Chain) else (f.name for f in plan.faults)
        planned.update(faults)
    planned.subtract(fault.fault for run in results for fault in run.faults if fault.struck)
    return +planned


def repeat(plans: Sequence[Plan | Chain], results: Sequence[RunResult], seed: int) -> Plan | None:
    """A further run with the faults of workers that are missing; None when there are none."""
    short = missing(plans, results)
    faults = tuple(fault for fault in FAULTS for _ in range(short[fault.name]))
    return Plan("repeat", seed, 2, INTERVALS_MS[0], faults) if faults else None


def shortfall(plans: Sequence[Plan | Chain], results: Sequence[RunResult]) -> str | None:
    """What a proof that struck too rarely says of itself: it proves less than it claims."""
    short = missing(plans, results)
    return f"faults that did not strike: {dict(short)}" if short else None


def _wanted(fault: Fault, only: str) -> bool:
    return fault.group in only


def _plans(faults: list[Fault], chance: random.Random, per_run: int) -> list[Plan]:
    # Apart from those that want a source with fewer subtasks, any faults may meet in a run.
    special = [fault for fault in faults if fault.one_source]
    others = [fault for fault in faults if not fault.one_source]
    plans: list[Plan] = []
    for group, several in ((others, PARALLELISM), (special, (2,))):
        for start in range(0, len(group), per_run):
            plans.append(
                Plan(
                    name=f"run {len(plans) + 1}",
                    seed=chance.randrange(2**32),
                    parallelism=several[len(plans) % len(several)],
                    interval_ms=chance.choice(INTERVALS_MS),
                    faults=tuple(group[start : start + per_run]),
                    late=chance.random() < 0.5,
                )
            )
    return plans
