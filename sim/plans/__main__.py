# ruff: noqa: T201 - a command line prints
"""Command line of random plans: `python -m sim.plans --seeds 1000`, or one seed with its plan."""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path

from sim.campaign import be_quiet
from sim.plans.campaign import Figures, campaign
from sim.plans.runs import run_plan

TELL_EVERY_S = 60


def main() -> int:
    """Run what was asked for; the exit code says whether all held."""
    parser = argparse.ArgumentParser(prog="python -m sim.plans", description=__doc__)
    parser.add_argument("--seeds", type=int, default=100, help="how many seeds")
    parser.add_argument("--first", type=int, default=0, help="the first of them")
    parser.add_argument("--seed", type=int, help="only this one, with its plan")
    parser.add_argument("--processes", type=int, default=1, help="that share the seeds")
    parser.add_argument("--keep-going", action="store_true", help="do not stop at the first violation")
    parser.add_argument("--results", type=Path, help="file for the figures, as JSON")
    options = parser.parse_args()
    if options.seed is not None:
        return _one(options.seed)
    began = told = time.monotonic()
    figures = Figures()
    for part in campaign(options.first, options.seeds, options.processes):
        figures.add(part)
        print(*part.stories, sep="\n", end="\n" if part.stories else "", flush=True)
        if figures.failed and not options.keep_going:
            break
        if time.monotonic() - told > TELL_EVERY_S:
            told = time.monotonic()
            print(figures, flush=True)
    print(f"{figures}, {time.monotonic() - began:.0f} s")
    if options.results is not None:
        options.results.write_text(json.dumps(figures.record(), indent=2) + "\n", encoding="utf-8")
    return int(bool(figures.failed))


def _one(seed: int) -> int:
    be_quiet()
    outcome = run_plan(seed)
    print(outcome.plan.describe() if outcome.violation is None else outcome.tell())
    return int(outcome.violation is not None)


if __name__ == "__main__":
    sys.exit(main())
