"""Nexmark's queries on local Spark, their workers killed and their parallelism changed at random moments:
exactly the rows of DuckDB.

    python -m proof nexmark                            # 10,000,000 events, fewer for some queries
    python -m proof nexmark --smoke                    # few events, and four of the runs
    python -m proof nexmark --seed 7 --run "run 3"     # one run of an earlier proof again
    python -m proof nexmark --query q9 --query q18     # all runs of some queries

Runs are an all-pairs design: every two of query, parallelism, rescaling, state backend and kind of checkpoint
meet.
Exit code 1 on any violation, and if the time was over before all runs were made.
"""

from __future__ import annotations

import argparse
import random
import shutil
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from rich.console import Console

from headgate.nexmark import Dataset, NexmarkSettings, generate_files
from headgate.nexmark.queries import QUERIES
from proof.modes import ALIGNED, MODES, UNALIGNED, Restored, unproved
from proof.nexmark_answers import Answers
from proof.nexmark_plans import BACKENDS, DOWN, NONE, RESCALES, UP, NexmarkPlan, kills_of
from proof.nexmark_runs import NexmarkResult, NexmarkRun
from proof.pairwise import covering
from proof.record import times, write_json
from proof.surroundings import prepare

EVENTS: Final = 10_000_000
SMOKE_EVENTS: Final = 300_000
SMOKE_RUNS: Final = {"q1": NONE, "q5": DOWN, "q9": UP, "q11": NONE}
"""Query -> what the first of its runs that is chosen does with its parallelism. q9 writes a changelog."""

FEWER_EVENTS: Final = {
    "q23": 2_000_000,
    "cep0": 2_000_000,
    "cep1": 2_000_000,
    "cep2": 2_000_000,
    "cep3": 2_000_000,
}
"""Queries that get no more events than that: the join of all three tables has more rows than there are
events, and the answers to patterns are plain Python's, which takes minutes.
"""

EVENTS_PER_FILE: Final = 250_000
MINUTES: Final = 100.0
"""After which no further run is begun: a section of the proof has two hours."""

PARALLELISM: Final = (1, 2, 4)


def plans(seed: int, smoke: bool = False) -> list[NexmarkPlan]:
    """The runs of a seed.

    Example:
        >>> runs = plans(7)
        >>> {(run.query, run.parallelism) for run in runs} == {(q, n) for q in QUERIES for n in PARALLELISM}
        True
    """
    chance = random.Random(seed)
    design = covering(
        {
            "query": list(QUERIES),
            "parallelism": PARALLELISM,
            "backend": list(BACKENDS),
            "mode": [ALIGNED.name, UNALIGNED.name],
            "rescale": RESCALES,
        },
        chance,
    )
    runs = []
    for number, each in enumerate(design, 1):
        own = chance.randrange(2**32)
        runs.append(NexmarkPlan(f"run {number}", own, kills=kills_of(own), **each))
    if smoke:
        first = {(run.query, run.rescale): run for run in reversed(runs)}
        return [first[chosen] for chosen in SMOKE_RUNS.items()]
    return runs


class NexmarkProof:
    """All runs of one proof.

    Args:
        root: folder for everything.
        runs: what to do.
        seed: from which `runs` follow.
        events: of the generator.
        minutes: after which no further run is begun.
        results: file for what was found, written after every run; None: none is.
        console: gets the progress.
    """

    def __init__(
        self,
        root: Path,
        runs: Sequence[NexmarkPlan],
        seed: int,
        events: int,
        minutes: float,
        results: Path | None,
        console: Console,
    ) -> None:
        self._root, self._runs, self._seed, self._events = root, runs, seed, events
        self._minutes, self._results, self._console = minutes, results, console
        self._inputs: dict[int, tuple[Dataset, Answers]] = {}
        self.done: list[NexmarkResult] = []

    def carry_out(self) -> bool:
        """One run after the other; True when all held."""
        temporary = prepare(self._root)
        began = time.monotonic()
        for plan in self._runs:
            if time.monotonic() - began > self._minutes * 60:
                break
            self._console.print(f"{plan.name}: {plan.text}", highlight=False)
            dataset, answers = self._input_of(plan.query)
            run = NexmarkRun(plan, self._root / plan.name.replace(" ", "-"), dataset, answers, temporary)
            self.done.append(run.carry_out())
            self._told(self.done[-1])
            if self._results is not None:
                write_json(self.record(), self._results)
        return not self.wrong()

    def _input_of(self, query: str) -> tuple[Dataset, Answers]:
        """The events of a query and their answers; made for the first query that wants as many."""
        events = min(self._events, FEWER_EVENTS.get(query, self._events))
        if events not in self._inputs:
            folder = self._root / f"{events}-events"
            (folder / "answers").mkdir(parents=True)
            dataset = self._dataset(folder / "events", events)
            self._inputs[events] = dataset, Answers(dataset, folder / "answers")
        return self._inputs[events]

    def _dataset(self, folder: Path, events: int) -> Dataset:
        self._console.print(f"{events:,} events", highlight=False)
        files = max(8, events // EVENTS_PER_FILE)
        # Files follow each other in time, so that any number of readers keeps event time.
        settings = NexmarkSettings(seed=self._seed, rate=max(100, min(10_000, events // 100)))
        return generate_files(folder, settings, events, files=files)

    def _told(self, result: NexmarkResult) -> None:
        say = self._console.print
        kills = ", ".join(fault.detail for fault in result.faults if fault.struck)
        say(
            f"  {result.lines:,} rows, killed {kills or 'nobody'}; {self._rescaled(result)}"
            f"{result.restarts} restarts, "
            f"{result.checkpoints} checkpoints, {result.restored.with_records} of "
            f"{result.restored.recoveries} recoveries with records in flight, {result.duration_s:.1f} s: "
            + ("exactly the answer" if not result.wrong else "VIOLATION"),
            highlight=False,
        )
        if result.wrong:
            violations = [f"  VIOLATION {text}" for text in result.wrong]
            say("\n".join([*result.story, *violations]), markup=False, highlight=False, soft_wrap=True)
            say(f"  again: {self._again(result.name)}", highlight=False, soft_wrap=True)

    def _rescaled(self, result: NexmarkResult) -> str:
        if result.rescale == NONE:
            return ""
        refusals = f" after {len(result.refusals)} refusals" if result.refusals else ""
        return f"{'rescaled' if result.rescaled else 'not rescaled'}{refusals}, "

    def _again(self, name: str) -> str:
        return f'python -m proof nexmark --events {self._events} --seed {self._seed} --run "{name}"'

    def wrong(self) -> list[str]:
        """Everything that did not hold."""
        found = [f"{result.name}: {text}" for result in self.done for text in result.wrong]
        if len(self.done) < len(self._runs):
            found.append(f"the time was over after {len(self.done)} of {len(self._runs)} runs")
        if self._events >= EVENTS and len(self.done) == len(self._runs) > 1:
            modes = [mode for mode in MODES if any(run.mode == mode.name for run in self.done)]
            found += unproved(
                {mode: [r.restored for r in self.done if r.mode == mode.name] for mode in modes}
            )
        return found

    def record(self) -> dict[str, Any]:
        """What is kept of the proof."""
        faults = [fault for result in self.done for fault in result.faults if fault.struck]
        restored = Restored()
        for result in self.done:
            restored.add(result.restored)
        return {
            "seed": self._seed,
            "events": self._events,
            "runs_planned": len(self._runs),
            "runs_made": len(self.done),
            "kills": len(faults),
            "rescaled": sum(result.rescaled for result in self.done),
            "restarts": sum(result.restarts for result in self.done),
            "checkpoints": sum(result.checkpoints for result in self.done),
            "rows_compared": sum(result.lines for result in self.done),
            "recovery": times(fault.recovery_s for fault in faults),
            "restored": asdict(restored),
            "violations": self.wrong(),
            "runs": [asdict(result) for result in self.done],
        }


def main(arguments: Sequence[str]) -> int:
    """Carry out the proof; 0 when everything held."""
    parser = argparse.ArgumentParser(prog="python -m proof nexmark", description=__doc__)
    parser.add_argument("--smoke", action="store_true", help="few events and few runs")
    parser.add_argument("--events", type=int, help=f"of the generator; default {EVENTS:,}")
    parser.add_argument("--seed", type=int, help="of an earlier proof; by default a new one")
    parser.add_argument("--run", action="append", help='carry out only this run of the seed, such as "run 3"')
    parser.add_argument("--query", action="append", help="carry out only the runs of this query, such as q9")
    parser.add_argument("--minutes", type=float, default=MINUTES, help="after which no further run is begun")
    parser.add_argument(
        "--keep", action="store_true", help="keep the folder with events, answers and failed runs"
    )
    parser.add_argument("--results", type=Path, help="file for what was found")
    options = parser.parse_args(arguments)
    seed = random.SystemRandom().randrange(2**31) if options.seed is None else options.seed
    runs = plans(seed, options.smoke and not (options.run or options.query))
    runs = [run for run in runs if run.query in (options.query or QUERIES)]
    if options.run and not (runs := [run for run in runs if run.name in options.run]):
        parser.error(f"no run {', '.join(options.run)}; there are run 1 to run {len(plans(seed))}")
    events = options.events or (SMOKE_EVENTS if options.smoke else EVENTS)
    console = Console()
    console.print(f"seed {seed}, {len(runs)} runs", highlight=False)
    root = Path(tempfile.mkdtemp(prefix="proof-nexmark-")).resolve()
    proof = NexmarkProof(root, runs, seed, events, options.minutes, options.results, console)
    try:
        held = proof.carry_out()
    finally:
        if options.keep:
            console.print(f"kept {root}", soft_wrap=True)
        else:
            shutil.rmtree(root, ignore_errors=True)
    for text in proof.wrong():
        console.print(f"VIOLATION {text}", markup=False, highlight=False, soft_wrap=True)
    return 0 if held else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
