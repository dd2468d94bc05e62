# ruff: noqa: T201 - a command line prints
"""Command line of random plans: `python -m sim.plans --seeds 1000`, or one seed with its plan."""

from __future__ import annotations

import argparse
import sys
import time
import traceback

from sim.campaign import be_quiet
from sim.plans.runs import run_plan


def main() -> int:
    """Run what was asked for; the exit code says whether all held."""
    parser = argparse.ArgumentParser(prog="python -m sim.plans", description=__doc__)
    parser.add_argument("--seeds", type=int, default=100, help="how many seeds")
    parser.add_argument("--first", type=int, default=0, help="the first of them")
    parser.add_argument("--seed", type=int, help="only this one, with its plan")
    parser.add_argument("--keep-going", action="store_true", help="do not stop at the first violation")
    options = parser.parse_args()
    be_quiet()
    if options.seed is not None:
        outcome = run_plan(options.seed)
        print(outcome.plan.describe() if outcome.violation is None else outcome.tell())
        return int(outcome.violation is not None)
    began, failed, marks, different, restores = time.monotonic(), 0, 0, 0, 0
    for seed in range(options.first, options.first + options.seeds):
        try:
            outcome = run_plan(seed)
        except Exception:
            print(f"seed {seed}", traceback.format_exc())
            failed += 1
            continue
        marks, different, restores = (
            marks + outcome.marks,
            different + outcome.different,
            restores + outcome.restores,
        )
        if outcome.violation is not None:
            failed += 1
            print(outcome.tell(), flush=True)
            if not options.keep_going:
                break
    seconds = time.monotonic() - began
    print(
        f"{marks} answers at marks, {different} different ones, {restores} restores, {failed} violations, "
        f"{seconds:.0f} s"
    )
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
