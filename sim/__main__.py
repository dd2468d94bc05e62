# ruff: noqa: T201 - a command line prints
"""Command line of the simulator: `python -m sim --seeds 500`, or one seed with its story.

Each seed stands for two simulations: one of the known jobs, whose every cut is checked record by record,
and one of a random topology under one of the ways of taking checkpoints.
"""

from __future__ import annotations

import argparse
import json
import logging
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass

from headgate.testing.simulation.world import Outcome
from sim.runs import run_seed
from sim.topology_runs import MODES, run_topology


@dataclass(frozen=True)
class Run:
    """One simulation.

    Attributes:
        outcome: how it ended.
        again: the command that shows it again.
        what: the job in words, where the seed drew it.
        mode: of a random topology, the way of taking checkpoints.
    """

    outcome: Outcome
    again: str
    what: str = ""
    mode: str = ""


def main() -> int:
    """Run seeds; the exit code says whether all held."""
    parser = argparse.ArgumentParser(prog="python -m sim", description=__doc__)
    parser.add_argument("--seeds", type=int, default=100, help="how many seeds")
    parser.add_argument("--first", type=int, default=0, help="the first of them")
    parser.add_argument("--seed", type=int, help="only this one")
    parser.add_argument("--jobs", choices=("all", "known", "random"), default="all", help="which jobs")
    parser.add_argument("--mode", choices=list(MODES), help="how random jobs take checkpoints; else by seed")
    parser.add_argument("--story", action="store_true", help="tell everything that happened")
    parser.add_argument("--keep-going", action="store_true", help="do not stop at the first violation")
    parser.add_argument("--json", action="store_true", help="one line for machines at the end")
    arguments = parser.parse_args()
    # Disks fail here by design, thousands of times.
    logging.getLogger("headgate").setLevel(logging.ERROR)
    seeds = range(arguments.first, arguments.first + arguments.seeds)
    if arguments.seed is not None:
        seeds = range(arguments.seed, arguments.seed + 1)
    began, runs = time.monotonic(), []
    for run in _runs(seeds, arguments.jobs, arguments.mode, None if arguments.story else 60):
        runs.append(run)
        _tell(run, arguments.story)
        if run.outcome.violation is not None and not arguments.keep_going:
            break
    return _summary(runs, time.monotonic() - began, arguments.json)


def _runs(seeds: range, jobs: str, mode: str | None, story_max: int | None) -> Iterator[Run]:
    for seed in seeds:
        if jobs != "random":
            yield Run(
                run_seed(seed, story_max=story_max), f"python -m sim --jobs known --seed {seed} --story"
            )
        if jobs != "known":
            drawn = run_topology(seed, mode, story_max=story_max)
            yield Run(drawn.outcome, drawn.again, drawn.topology.describe(), drawn.mode)


def _tell(run: Run, everything: bool) -> None:
    outcome = run.outcome
    if everything or outcome.violation is not None:
        print("\n".join(outcome.story))
        print(run.what)
    if outcome.violation is not None:
        print(f"seed {outcome.seed} after {'; '.join(outcome.faults) or 'no fault'}:\n  {outcome.violation}")
        print(f"again: {run.again}")
    elif everything:
        print(f"seed {outcome.seed}: trace {outcome.digest}")


def _summary(runs: list[Run], seconds: float, machine: bool) -> int:
    outcomes = [run.outcome for run in runs]
    seeds = len({outcome.seed for outcome in outcomes})
    failed = [run.outcome.seed for run in runs if run.outcome.violation is not None]
    figures = {
        "seeds": seeds,
        "failed": failed,
        "faults": sum(len(outcome.faults) for outcome in outcomes),
        "restarts": sum(outcome.restarts for outcome in outcomes),
        "checkpoints": sum(outcome.checkpoints for outcome in outcomes),
        "events": sum(outcome.events for outcome in outcomes),
        "modes": {mode: sum(run.mode == mode for run in runs) for mode in MODES},
        "seeds_per_minute": round(seeds / max(seconds, 1e-9) * 60),
    }
    if machine:
        print(json.dumps(figures | {"last": asdict(outcomes[-1]) | {"story": []}}))
    else:
        print(", ".join(f"{name} {value}" for name, value in figures.items()))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
