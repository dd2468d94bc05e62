# ruff: noqa: T201 - a command line prints
"""Command line of the simulator: `python -m sim --seeds 500`, or one seed with its story.

Each seed stands for two simulations: one of the known jobs, whose every cut is checked record by record,
and one of a random topology under one of the ways of taking checkpoints. Every other seed also stands for one
of a random topology with tables, every fourth for one of a random plan of tables whose rows are corrected.
`docs/simulator.md` has the rest.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from pathlib import Path
from typing import Final

from headgate.testing.simulation.faults import MIXES
from sim.campaign import Tally, Wanted, be_quiet, campaign, runs_of
from sim.exhaustive import driver_crashes
from sim.ledger import Ledger, fingerprint
from sim.topology_runs import MODES

JOBS: Final = ("all", "known", "random", "tables", "marks")
TELL_S: Final = 10.0
"""How often the progress of a long run is told."""


def main() -> int:
    """Run what was asked for; the exit code says whether all held."""
    options = _parser().parse_args()
    be_quiet()
    wanted = Wanted(options.jobs, options.mode, options.mix)
    if options.exhaustive is not None:
        return _exhaustive(options.first, options.every)
    if options.seed is not None:
        return _one(options.seed, wanted, options.story)
    return _many(options, wanted)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m sim", description=__doc__)
    parser.add_argument("--seeds", type=int, default=100, help="how many seeds")
    parser.add_argument("--first", type=int, default=0, help="the first of them")
    parser.add_argument("--seed", type=int, help="only this one")
    parser.add_argument("--jobs", choices=JOBS, default="all", help="which jobs")
    parser.add_argument("--mode", choices=list(MODES), help="how random jobs take checkpoints; else by seed")
    parser.add_argument("--mix", choices=list(MIXES), help="what goes wrong mostly; else by seed")
    parser.add_argument("--story", action="store_true", help="with --seed: tell everything that happened")
    parser.add_argument("--keep-going", action="store_true", help="do not stop at the first violation")
    parser.add_argument("--processes", type=int, default=min(2, os.cpu_count() or 1), help="how many at once")
    parser.add_argument("--seconds", type=float, help="begin nothing new after so long")
    parser.add_argument("--ledger", type=Path, help="file that remembers what was done; goes on from there")
    parser.add_argument("--exhaustive", choices=("driver-crash",), help="try every step instead of seeds")
    parser.add_argument("--every", type=int, default=1, help="with --exhaustive: every so many-th step only")
    parser.add_argument("--json", action="store_true", help="one line for machines at the end")
    parser.add_argument("--results", type=Path, help="file for the figures, as JSON")
    return parser


def _one(seed: int, wanted: Wanted, everything: bool) -> int:
    held = True
    for run in runs_of(seed, wanted, None if everything else 60):
        outcome = run.outcome
        if outcome.violation is not None:
            held = False
            print(run.tell())
            continue
        if everything:
            print("\n".join(outcome.story))
            print(run.what)
        print(f"seed {seed}, mix {run.mix}: trace {outcome.digest}, {len(outcome.faults)} faults")
    return 0 if held else 1


def _many(options: argparse.Namespace, wanted: Wanted) -> int:
    seeds = range(options.first, options.first + options.seeds)
    ledger = None if options.ledger is None else Ledger(options.ledger, fingerprint())
    spans = [seeds] if ledger is None else ledger.missing(seeds)
    goal = sum(map(len, spans))
    if ledger is not None:
        print(f"{ledger.seeds:,} seeds are done on this state of the source, {goal:,} are left")
    tally, began, told = Tally(), time.monotonic(), time.monotonic()
    parts = campaign(spans, wanted, options.processes, options.seconds)
    for part, given in parts:
        tally.add(given)
        if ledger is not None:
            ledger.note(part, given)
        for _, story in given.failures:
            print(story, flush=True)
        if given.failures and not options.keep_going:
            parts.close()
            break
        if time.monotonic() - told >= TELL_S:
            told = time.monotonic()
            print(_progress(tally, goal, told - began), flush=True)
    return _summary(tally, ledger, time.monotonic() - began, options)


def _progress(tally: Tally, goal: int, seconds: float) -> str:
    return (
        f"{tally.seeds:,} of {goal:,} seeds, {tally.seeds / seconds * 60:.0f} a minute, "
        f"{tally.counts['faults']:,} faults, {len(tally.failures)} violations"
    )


def _summary(tally: Tally, ledger: Ledger | None, seconds: float, options: argparse.Namespace) -> int:
    figures = tally.figures() | {"seeds_per_minute": round(tally.seeds / max(seconds, 1e-9) * 60)}
    failed = bool(tally.failures)
    if ledger is not None:
        figures |= {"all_seeds": ledger.seeds, "all_failed": ledger.failed}
        failed = bool(ledger.failed)
    if options.results is not None:
        options.results.write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")
    print(
        json.dumps(figures) if options.json else ", ".join(f"{key} {value}" for key, value in figures.items())
    )
    return 1 if failed else 0


def _exhaustive(seed: int, every: int) -> int:
    began, done, failed = time.monotonic(), 0, 0
    for crash in driver_crashes(seed, every):
        done += 1
        if crash.outcome.violation is not None:
            failed += 1
            print(crash.tell(), flush=True)
    seconds = time.monotonic() - began
    print(f"the driver died at {done} places, {failed} violations, {seconds:.0f} s")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
