# ruff: noqa: T201 - a command line prints
"""Command line of the simulator: `python -m sim --seeds 500`, or one seed with its story."""

from __future__ import annotations

import argparse
import json
import sys
import time
from dataclasses import asdict

from headgate.testing.simulation.world import Outcome
from sim.runs import run_seed


def main() -> int:
    """Run seeds; the exit code says whether all held."""
    parser = argparse.ArgumentParser(prog="python -m sim", description=__doc__)
    parser.add_argument("--seeds", type=int, default=100, help="how many seeds")
    parser.add_argument("--first", type=int, default=0, help="the first of them")
    parser.add_argument("--seed", type=int, help="only this one")
    parser.add_argument("--story", action="store_true", help="tell everything that happened")
    parser.add_argument("--keep-going", action="store_true", help="do not stop at the first violation")
    parser.add_argument("--json", action="store_true", help="one line for machines at the end")
    arguments = parser.parse_args()
    seeds = range(arguments.first, arguments.first + arguments.seeds)
    if arguments.seed is not None:
        seeds = range(arguments.seed, arguments.seed + 1)
    began, outcomes = time.monotonic(), []
    for seed in seeds:
        outcome = run_seed(seed, story_max=None if arguments.story else 60)
        outcomes.append(outcome)
        _tell(outcome, arguments.story)
        if outcome.violation is not None and not arguments.keep_going:
            break
    return _summary(outcomes, time.monotonic() - began, arguments.json)


def _tell(outcome: Outcome, everything: bool) -> None:
    if everything or outcome.violation is not None:
        print("\n".join(outcome.story))
    if outcome.violation is not None:
        print(f"seed {outcome.seed} after {'; '.join(outcome.faults) or 'no fault'}:\n  {outcome.violation}")
        print(f"again: python -m sim --seed {outcome.seed} --story")
    elif everything:
        print(f"seed {outcome.seed}: trace {outcome.digest}")


def _summary(outcomes: list[Outcome], seconds: float, machine: bool) -> int:
    failed = [outcome.seed for outcome in outcomes if outcome.violation is not None]
    figures = {
        "seeds": len(outcomes),
        "failed": failed,
        "faults": sum(len(outcome.faults) for outcome in outcomes),
        "restarts": sum(outcome.restarts for outcome in outcomes),
        "checkpoints": sum(outcome.checkpoints for outcome in outcomes),
        "events": sum(outcome.events for outcome in outcomes),
        "seeds_per_minute": round(len(outcomes) / max(seconds, 1e-9) * 60),
    }
    if machine:
        print(json.dumps(figures | {"last": asdict(outcomes[-1]) | {"story": []}}))
    else:
        print(", ".join(f"{name} {value}" for name, value in figures.items()))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
