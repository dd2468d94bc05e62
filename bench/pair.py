"""`python -m bench pair OLD NEW`: is one checkout slower than another?

The job files of NEW run against both packages, and each pair gives one ratio of every number that the job
measures, as the workers' CPU time per event. The two runs of a pair of which CPU time is measured go on at
once and take turns of a quarter of a second, so that both meet the same disturbances; of the others one runs
after the other. Pairs are added until the 95 % interval of each median ratio is narrow enough. A limit on the
slowdown is held against the upper end of that interval.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any, Final

from bench.data import DataSet, data_set
from bench.measure import Run, Turns, run

PAIRS_LEAST: Final = 20
PAIRS_FOR_INTERVAL: Final = 6
"""Of fewer pairs no interval holds the true median with 95 % confidence."""
PAIRS_MOST: Final = 100
WIDTH_WANTED: Final = 0.02
LAYOUT: Final = "parquet_p2"
_TIMEOUT_S: Final = 600.0


@dataclass(frozen=True, slots=True)
class Measure:
    """A number that a job gives, the less the better.

    Attributes:
        key: in its RESULT line.
        title: in the table.
    """

    key: str
    title: str


@dataclass(frozen=True, slots=True)
class Job:
    """What is run against both packages.

    Attributes:
        arguments: after the interpreter, given the folder of the bids and their number.
        measures: what it gives.
        needs_bids: whether it reads them.
        limit: slowdown that is allowed.
        in_turns: whether both runs of a pair go on at once, in turns; for what counts CPU time alone.
    """

    arguments: Callable[[str, int], list[str]]
    measures: tuple[Measure, ...]
    needs_bids: bool = False
    limit: float = 0.03
    in_turns: bool = True


def _module(name: str, *arguments: str) -> list[str]:
    return ["-m", f"bench.jobs.{name}", *arguments]


def _cpu_of(title: str) -> tuple[Measure, ...]:
    return (Measure("workers_cpu_us", f"{title}: workers' CPU us per event"),)


JOBS: Final = {
    "j0": Job(
        lambda folder, _: _module("read_only", folder), _cpu_of("J0, read and dropped"), needs_bids=True
    ),
    "j2": Job(
        lambda folder, _: _module("running_count", folder, "on"),
        _cpu_of("J2, checkpoints every second"),
        needs_bids=True,
    ),
    "wire": Job(lambda _, rows: _module("wire_rows", str(rows)), _cpu_of("rows through an exchange's codec")),
    "loop": Job(
        lambda _, rows: _module("loop_cost", str(rows)),
        _cpu_of("rows through a chain that does nothing"),
        limit=0.01,
    ),
    "checkpoints": Job(
        lambda _, __: _module("checkpoint_time"),
        (
            Measure("checkpoint_ms", "a checkpoint: ms"),
            Measure("checkpoint_cpu_ms", "a checkpoint: CPU ms of all processes"),
        ),
        limit=0.10,
        in_turns=False,
    ),
    "recovery": Job(
        lambda _, __: _module("recovery_time"),
        (
            Measure("recovery_s", "a killed worker to all running: s"),
            Measure("recovery_cpu_s", "a killed worker to all running: CPU s of all processes"),
        ),
        limit=0.10,
        in_turns=False,
    ),
    "start-up": Job(
        lambda _, __: _module("start_up"),
        (
            Measure("script_s", "a script's start to the first record: s"),
            Measure("command_s", "`headgate run` to the first record: s"),
        ),
        limit=0.10,
        in_turns=False,
    ),
    "start-up-cpu": Job(
        lambda _, __: _module("start_up"),
        (
            Measure("script_cpu_s", "a script with one record: CPU s of all processes"),
            Measure("command_cpu_s", "`headgate run` of it: CPU s of all processes"),
        ),
        limit=0.10,
    ),
}


@dataclass(frozen=True, slots=True)
class Interval:
    """The median of ratios, and the interval that holds the true one with 95 % confidence."""

    middle: float
    low: float
    high: float

    @property
    def width(self) -> float:
        """High minus low."""
        return self.high - self.low


def interval(ratios: Sequence[float]) -> Interval:
    """The interval of the median by order statistics: it assumes nothing about how the noise is spread.

    Args:
        ratios: at least six of them.

    Example:
        >>> interval([0.98, 0.99, 1.0, 1.0, 1.01, 1.02, 1.5])
        Interval(middle=1.0, low=0.98, high=1.5)
    """
    ordered, count = sorted(ratios), len(ratios)
    outside, rank = 0.0, 0
    # The true median lies below the k-th smallest of n with the chance of fewer than k heads in n throws.
    while rank < count // 2:
        outside += math.comb(count, rank) / 2**count
        if outside > 0.025:
            break
        rank += 1
    return Interval(median(ordered), ordered[max(rank - 1, 0)], ordered[count - max(rank, 1)])


def variables(package: Path, jobs: Path) -> dict[str, str]:
    """The environment in which the job files of one checkout import the package of another."""
    paths = [package / "src", jobs]
    return {"PYTHONPATH": os.pathsep.join(map(str, paths)), "PYSPARK_PYTHON": sys.executable}


def check_package(package: Path, jobs: Path) -> None:
    """Make sure that the package of a checkout is the one that is imported.

    Raises:
        SystemExit: there is no package in it.
    """
    code = "import headgate; print(headgate.__file__)"
    environment = {**os.environ, **variables(package, jobs)}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True)
    found = done.stdout.strip()
    if not found.startswith(f"{package / 'src'}{os.sep}"):
        raise SystemExit(
            f"bench pair: {package} is no checkout of Headgate: its package is {found or 'absent'}"
        )


def measure(
    job: Job, old: Path, new: Path, asked: argparse.Namespace, say: Callable[[str], None]
) -> list[dict[str, Any]]:
    """Pairs of runs until the intervals are narrow enough; the order within a pair alternates.

    Returns:
        A row of the table for each number that the job measures.
    """
    data = data_set(asked.events, (LAYOUT,)) if job.needs_bids else None
    pairs: list[tuple[Run, Run]] = []
    lost: list[str] = []
    while len(pairs) < asked.most:
        if len(pairs) >= max(asked.least, PAIRS_FOR_INTERVAL) and all(
            interval(_ratios(pairs, each)).width < asked.width for each in job.measures
        ):
            break
        sides = [old, new] if (len(pairs) + len(lost)) % 2 == 0 else [new, old]
        turns = Turns() if job.in_turns else None
        with ThreadPoolExecutor(len(sides) if job.in_turns else 1) as pool:
            runs = [pool.submit(_run_once, job, side, new, data, asked.events, turns) for side in sides]
            done = {side: each.result() for side, each in zip(sides, runs, strict=True)}
        failed = [f"{side}: {each.failure}" for side, each in done.items() if each.failure is not None]
        if failed:
            lost += failed
            if len(lost) > 3:
                break
            continue
        pairs.append((done[old], done[new]))
        for each in job.measures:
            ratios = _ratios(pairs, each)
            say(f"pair {len(pairs)}: {each.key} {ratios[-1]:.3f}, median {median(ratios):.3f}")
    limit = job.limit if asked.limit is None else asked.limit
    return [_row(each, pairs, limit, lost) for each in job.measures]


def _ratios(pairs: Sequence[tuple[Run, Run]], each: Measure) -> list[float]:
    return [new.result[each.key] / old.result[each.key] for old, new in pairs]


def _row(
    each: Measure, pairs: Sequence[tuple[Run, Run]], limit: float, lost: Sequence[str]
) -> dict[str, Any]:
    ratios = _ratios(pairs, each)
    found = interval(ratios) if len(ratios) >= PAIRS_FOR_INTERVAL else None
    return {
        "job": each.title,
        "pairs": len(pairs),
        "old": median([old.result[each.key] for old, _ in pairs]) if pairs else None,
        "new": median([new.result[each.key] for _, new in pairs]) if pairs else None,
        "ratios": [round(ratio, 4) for ratio in ratios],
        "median": found and round(found.middle, 4),
        "low": found and round(found.low, 4),
        "high": found and round(found.high, 4),
        "limit": limit,
        "failed": list(lost),
    }


def _run_once(
    job: Job, package: Path, jobs: Path, data: DataSet | None, events: int, turns: Turns | None
) -> Run:
    folder = "" if data is None else str(data.layout(LAYOUT))
    command = [sys.executable, *job.arguments(folder, events)]
    done = run(job.measures[0].title, command, _TIMEOUT_S, variables(package, jobs), turns=turns)
    if done.failure is None and done.result.get("failures"):
        done.failure = f"an attempt failed: {done.result['failures']}"
    return done


def table(found: Sequence[dict[str, Any]], old: str, new: str) -> str:
    """The result as Markdown, to be kept."""
    lines = [
        f"{new} against {old}: medians, and the ratio of the pairs.",
        "",
        "| measured | pairs | old | new | ratio | 95 % interval | upper end within the limit |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for each in found:
        if each["median"] is None:
            lines.append(f"| {each['job']} | {each['pairs']} | | | too few pairs | | no |")
            continue
        within = "yes" if each["high"] <= 1 + each["limit"] else "no"
        lines.append(
            f"| {each['job']} | {each['pairs']} | {each['old']:.4f} | {each['new']:.4f} | "
            f"{each['median']:.4f} | {each['low']:.4f} to {each['high']:.4f} | "
            f"{within} ({1 + each['limit']:.2f}) |"
        )
    return "\n".join(lines) + "\n"


def arguments(given: Sequence[str]) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m bench pair", description=__doc__)
    parser.add_argument("old", type=Path, help="checkout to compare with")
    parser.add_argument("new", type=Path, help="checkout whose job files run against both packages")
    parser.add_argument("--job", choices=[*JOBS], action="append", help="default: all")
    parser.add_argument("--events", type=int, default=5_000_000, help="bids of J2, and rows of the codec")
    parser.add_argument(
        "--least", type=int, default=PAIRS_LEAST, help=f"pairs at least ({PAIRS_FOR_INTERVAL} or more)"
    )
    parser.add_argument("--most", type=int, default=PAIRS_MOST, help="pairs at most")
    parser.add_argument("--width", type=float, default=WIDTH_WANTED, help="wanted width of the interval")
    parser.add_argument(
        "--limit",
        type=float,
        help="slowdown that is still allowed; default: 0.03 for CPU per event, 0.1 for the others",
    )
    parser.add_argument("--table", type=Path, metavar="FILE", help="where the table is kept")
    return parser.parse_args(given)


def main(given: Sequence[str]) -> int:
    """Measure, print and keep the table; 1 if a job is slower than the limit allows, or did not run."""
    asked = arguments(given)
    old, new = asked.old.resolve(), asked.new.resolve()
    for side in (old, new):
        check_package(side, new)
    began = time.monotonic()
    found: list[dict[str, Any]] = []
    for key in asked.job or JOBS:

        def say(text: str, key: str = key) -> None:
            print(f"{time.monotonic() - began:6.0f} s  {key}: {text}", file=sys.stderr, flush=True)

        found += measure(JOBS[key], old, new, asked, say)
    text = table(found, _commit(old), _commit(new))
    print(text)
    for each in found:
        for failure in each["failed"]:
            print(f"failed: {each['job']}: {failure}")
    if asked.table is not None:
        asked.table.parent.mkdir(parents=True, exist_ok=True)
        asked.table.write_text(text)
        asked.table.with_suffix(".json").write_text(json.dumps(found, indent=1) + "\n")
    held = all(each["high"] is not None and each["high"] <= 1 + each["limit"] for each in found)
    return 0 if held else 1


def _commit(checkout: Path) -> str:
    done = subprocess.run(
        ["git", "describe", "--always", "--dirty"], cwd=checkout, capture_output=True, text=True
    )
    return done.stdout.strip() or checkout.name
