"""Which faults go into which runs: the full counts, and the smoke form."""

from __future__ import annotations

import random

from proof.drivers import Chain
from proof.faults import DRIVER_PLACES, FAULTS, Fault
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
