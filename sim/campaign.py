"""Many seeds in several processes: what each part gave, added up, and the stories of those that failed.

Each seed stands for two simulations: one of the known jobs, whose every cut is checked record by record,
and one of a random topology under one of the ways of taking checkpoints. Every other seed also stands for one
of a random topology with tables, every fourth for one of a random plan of tables whose rows are corrected.
"""

from __future__ import annotations

import gc
import logging
import multiprocessing
import random
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

from headgate.testing.simulation.faults import MIXES
from headgate.testing.simulation.world import Outcome
from sim.plans.whole_jobs import run_marks
from sim.runs import run_seed
from sim.tables_runs import run_tables
from sim.topology_runs import TopologyOutcome, run_topology

PART: Final = 10
"""Seeds that a process takes at a time."""
TABLES_EVERY: Final = 2
"""Of all seeds, every so many-th also stands for a topology with tables."""
MARKS_EVERY: Final = 4
"""Of all seeds, every so many-th, from the second on, also stands for a plan of corrected tables."""
STORY: Final = 60
"""Last lines of a simulation that failed."""
_DRAWN: Final = ("default", "default", "coordinator", "storage", "messages")


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which simulations.

    Attributes:
        jobs: "known", "random", "tables", "marks" or "all".
        mode: how random topologies take checkpoints; None: as the seed draws.
        mix: name of the mix of faults; None: as the seed draws.
    """

    jobs: str = "all"
    mode: str | None = None
    mix: str | None = None


@dataclass(frozen=True, slots=True)
class Run:
    """One simulation.

    Attributes:
        outcome: how it ended.
        again: the command that shows it again.
        mix: its mix of faults.
        what: the job in words, where the seed drew it.
        mode: of a random topology, the way of taking checkpoints.
    """

    outcome: Outcome
    again: str
    mix: str
    what: str = ""
    mode: str = ""

    def tell(self) -> str:
        """A failure with everything that is needed to look into it."""
        outcome = self.outcome
        return "\n".join(
            [
                *outcome.story,
                self.what,
                *outcome.checkpoint_story,
                f"seed {outcome.seed}, mix {self.mix}, after {'; '.join(outcome.faults) or 'no fault'}:",
                f"  {outcome.violation}",
                f"again: {self.again}",
            ]
        )


@dataclass(slots=True)
class Tally:
    """What simulations went through, added up.

    Attributes:
        seeds: how many.
        counts: faults, restarts, drivers, checkpoints, events, and simulations by mode and mix.
        failures: seed and story of each that failed.
    """

    seeds: int = 0
    counts: Counter[str] = field(default_factory=Counter)
    failures: list[tuple[int, str]] = field(default_factory=list)

    def take(self, run: Run) -> None:
        """One simulation more."""
        outcome = run.outcome
        self.counts["simulations"] += 1
        for name in ("restarts", "drivers", "checkpoints", "events"):
            self.counts[name] += getattr(outcome, name)
        self.counts["faults"] += len(outcome.faults)
        self.counts[f"mix {run.mix}"] += 1
        if run.mode:
            self.counts[f"mode {run.mode}"] += 1
        if outcome.violation is not None:
            self.failures.append((outcome.seed, run.tell()))

    def add(self, other: Tally) -> None:
        """What other simulations gave."""
        self.seeds += other.seeds
        self.counts += other.counts
        self.failures += other.failures

    def figures(self) -> dict[str, Any]:
        """For machines and people."""
        return {
            "seeds": self.seeds,
            "failed": sorted({seed for seed, _ in self.failures}),
            **dict(sorted(self.counts.items())),
        }


def mix_of(seed: int) -> str:
    """The mix of faults that a seed draws."""
    return random.Random(f"{seed} mix").choice(_DRAWN)


def runs_of(seed: int, wanted: Wanted, story_max: int | None = STORY) -> Iterator[Run]:
    """The simulations that a seed stands for."""
    name = wanted.mix or mix_of(seed)
    mix = MIXES[name]
    if wanted.jobs in ("known", "all"):
        again = f"python -m sim --jobs known --mix {name} --seed {seed} --story"
        yield Run(run_seed(seed, mix, story_max), again, name)
    if wanted.jobs in ("random", "all"):
        yield _drawn(run_topology(seed, wanted.mode, mix, story_max), name)
    if wanted.jobs == "tables" or (wanted.jobs == "all" and seed % TABLES_EVERY == 0):
        yield _drawn(run_tables(seed, wanted.mode, mix, story_max), name)
    if wanted.jobs == "marks" or (wanted.jobs == "all" and seed % MARKS_EVERY == 1):
        yield _drawn(run_marks(seed, wanted.mode, mix, story_max), name)


def _drawn(drawn: TopologyOutcome, mix: str) -> Run:
    seed = f"--seed {drawn.outcome.seed}"
    again = f"python -m sim --jobs {drawn.jobs} --mode {drawn.mode} --mix {mix} {seed} --story"
    return Run(drawn.outcome, again, mix, drawn.topology.describe(), drawn.mode)


def run_part(seeds: range, wanted: Wanted) -> Tally:
    """Simulate some seeds, one after the other; stops behind the first that fails."""
    tally = Tally()
    with garbage_kept():
        for seed in seeds:
            for run in runs_of(seed, wanted):
                tally.take(run)
            tally.seeds += 1
            if tally.failures:
                break
    return tally


@contextmanager
def garbage_kept() -> Iterator[None]:
    """What a few simulations leave is cheap to keep, and dear to look for while they run."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        gc.collect()
        if enabled:
            gc.enable()


def be_quiet() -> None:
    """Disks fail here by design, thousands of times: nothing of that is logged."""
    logging.getLogger("headgate").setLevel(logging.CRITICAL)


@contextmanager
def quiet() -> Iterator[None]:
    """The same for a while."""
    logger = logging.getLogger("headgate")
    level = logger.level
    be_quiet()
    try:
        yield
    finally:
        logger.setLevel(level)


def parts_of(spans: Iterable[range]) -> Iterator[range]:
    """Spans of seeds in parts for processes."""
    for span in spans:
        for first in range(span.start, span.stop, PART):
            yield range(first, min(first + PART, span.stop))


def campaign(
    spans: Iterable[range], wanted: Wanted, processes: int, seconds: float | None = None
) -> Iterator[tuple[range, Tally]]:
    """Simulate seeds; gives each part as it is done, in any order, until nothing is left or time is over.

    Args:
        spans: which seeds.
        wanted: which simulations of them.
        processes: how many at once; 1 is this one.
        seconds: after which nothing new is begun.
    """
    deadline = None if seconds is None else time.monotonic() + seconds
    parts = (part for part in parts_of(spans) if deadline is None or time.monotonic() < deadline)
    if processes == 1:
        yield from ((part, run_part(part, wanted)) for part in parts)
        return
    with ProcessPoolExecutor(processes, multiprocessing.get_context("spawn"), be_quiet) as pool:
        waiting: dict[Future[Tally], range] = {}
        for part in parts:
            waiting[pool.submit(run_part, part, wanted)] = part
            if len(waiting) > processes:
                yield from _done(waiting)
        while waiting:
            yield from _done(waiting)


def _done(waiting: dict[Future[Tally], range]) -> Iterator[tuple[range, Tally]]:
    done, _ = wait(waiting, return_when=FIRST_COMPLETED)
    for future in done:
        yield waiting.pop(future), future.result()
