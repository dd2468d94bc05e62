"""Programs that `headgate run` runs, plain and isolated in turn: their start, and a steady J2."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

from bench.data import data_set
from bench.machine import ROOT, import_path
from bench.measure import Run, run
from bench.pair import LAYOUT, interval
from bench.plan import Plan
from bench.sections.headgate_jobs import Say
from bench.sections.state import Row, failures
from bench.stats import middle

WAYS: Final = ("auto", "true")
"""Of `headgate.user-code.apart`: these programs bring nothing, so `auto` is plain."""
_JOBS: Final = ROOT / "bench" / "jobs"


def measure(plan: Plan, say: Say) -> dict[str, Any]:
    """Pairs of runs, the order within a pair alternating."""
    starts = _pairs(plan, say, plan.isolation_rounds, _JOBS / "small_job.py")
    data = data_set(plan.events, (LAYOUT,)).layout(LAYOUT)
    steady = _pairs(plan, say, plan.isolation_rounds, _JOBS / "running_count.py", str(data), "on")
    rows = [
        *rows_of(starts, _said("started_s"), "s", "a small local job, from its process to running subtasks"),
        *rows_of(starts, lambda part: part.wall_s, "s", "the same job, to the end of its process"),
        *rows_of(starts, lambda part: part.cpu_s, "s", "the same job, CPU time of all its processes"),
        *rows_of(steady, _said("workers_cpu_us"), "us", "J2, CPU time of its workers for an event"),
    ]
    parts = [part for pair in (*starts, *steady) for part in pair]
    return {
        "rows": [row.plain() for row in rows],
        "parts": [part.facts() for part in parts],
        "absent": {},
        "failed": [*failures(parts), *(f"{part.name}: {WRONG}" for part in parts if not _is_its_way(part))],
    }


Figure = Callable[[Run], float | None]
WRONG: Final = "it was isolated and should not have been, or the other way round"


def _pairs(plan: Plan, say: Say, rounds: int, file: Path, *arguments: str) -> list[tuple[Run, ...]]:
    found = []
    for number in range(rounds):
        done = {}
        for way in WAYS if number % 2 == 0 else WAYS[::-1]:
            say(f"round {number + 1} of {rounds}: {file.name}, apart={way}")
            asked = ["-D", f"headgate.user-code.apart={way}"]
            command = [sys.executable, "-m", "headgate", "run", "--quiet", *asked, str(file), *arguments]
            done[way] = run(f"{file.stem}, apart={way}", command, plan.timeout_s, import_path())
        found.append(tuple(done[way] for way in WAYS))
    return found


def _said(figure: str) -> Figure:
    return lambda part: part.result.get(figure)


def _is_its_way(part: Run) -> bool:
    return part.failure is not None or part.result.get("isolated") is part.name.endswith("true")


def rows_of(pairs: Sequence[Sequence[Run]], figure: Figure, unit: str, what: str) -> list[Row]:
    """The medians of both, and the ratio of isolated to plain with its interval.

    Args:
        pairs: plain and isolated.
        figure: of a run; less is better.
        unit: of the figure.
        what: is measured.
    """
    right = [pair for pair in pairs if all(part.failure is None for part in pair)]
    told = [tuple(figure(part) for part in pair) for pair in right]
    both = [(plain, isolated) for plain, isolated in told if plain and isolated]
    if not both:
        return []
    ratios = [isolated / plain for plain, isolated in both]
    plain, isolated = middle([one for one, _ in both]), middle([one for _, one in both])
    found = middle(ratios)
    shown = f"plain {plain:.2f} {unit}, isolated {isolated:.2f} {unit}: {found:.2f} times"
    if len(ratios) >= 6:
        among = interval(ratios)
        shown += f" ({among.low:.2f} to {among.high:.2f}, {len(ratios)} pairs)"
    return [Row(what, found, shown)]
