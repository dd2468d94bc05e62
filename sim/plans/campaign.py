"""Many random plans, in one process or several: what all runs gave, and the stories of those that failed."""

from __future__ import annotations

import multiprocessing
import traceback
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from itertools import islice
from typing import Any, Final

from sim.campaign import garbage_kept, quiet
from sim.plans.runs import run_plan

PART: Final = 20
"""Seeds that a process takes at a time."""
PARTS_OF_A_POOL: Final = 50
"""For each of its processes."""


@dataclass(slots=True)
class Figures:
    """What some runs gave.

    Attributes:
        plans: how many ran.
        marks: answers of DuckDB that what a sink showed was compared with.
        different: of those, the ones that differed from the answer before.
        restores: how often jobs began anew from a checkpoint, mostly at another parallelism.
        checkpoints: how many completed.
        failed: seeds of plans that did not hold.
        stories: what was wrong with each.
    """

    plans: int = 0
    marks: int = 0
    different: int = 0
    restores: int = 0
    checkpoints: int = 0
    failed: list[int] = field(default_factory=list)
    stories: list[str] = field(default_factory=list)

    def add(self, more: Figures) -> None:
        """Add what other runs gave."""
        self.plans += more.plans
        self.marks += more.marks
        self.different += more.different
        self.restores += more.restores
        self.checkpoints += more.checkpoints
        self.failed += more.failed
        self.stories += more.stories

    def record(self) -> dict[str, Any]:
        """The figures for a record of the proof."""
        return asdict(self) | {"findings": len(self.failed)}

    def __str__(self) -> str:
        return (
            f"{self.plans:,} plans, {self.marks:,} answers at marks, "
            f"{self.different:,} of them other than the one before, "
            f"{self.checkpoints:,} checkpoints, {self.restores:,} restores, {len(self.failed)} violations"
        )


def run_plans(seeds: Iterable[int]) -> Figures:
    """Run the plans of seeds, one after the other."""
    figures = Figures()
    left = iter(seeds)
    with quiet():
        while part := list(islice(left, PART)):
            with garbage_kept():
                for seed in part:
                    figures.add(_run(seed))
    return figures


def _run(seed: int) -> Figures:
    try:
        outcome = run_plan(seed)
    except Exception:
        return Figures(1, failed=[seed], stories=[f"seed {seed}: {traceback.format_exc()}"])
    counts = outcome.marks, outcome.different, outcome.restores, outcome.checkpoints
    if outcome.violation is None:
        return Figures(1, *counts)
    return Figures(1, *counts, [seed], [outcome.tell()])


def campaign(first: int, count: int, processes: int) -> Iterator[Figures]:
    """Run `count` plans from seed `first` on, in so many processes; yields the figures of each part."""
    parts = [range(at, min(at + PART, first + count)) for at in range(first, first + count, PART)]
    if processes == 1:
        yield from map(run_plans, parts)
        return
    spawn, left = multiprocessing.get_context("spawn"), iter(parts)
    # Plans hold memory of Arrow and DuckDB, so processes are replaced now and then: all at once, since a pool
    # that replaces each after so many tasks (`max_tasks_per_child`) may stand still for ever in Python 3.11.
    while some := list(islice(left, PARTS_OF_A_POOL * processes)):
        with ExitStack() as stack:
            pool = stack.enter_context(ProcessPoolExecutor(processes, spawn))
            stack.callback(pool.shutdown, wait=False, cancel_futures=True)
            yield from pool.map(run_plans, some)
