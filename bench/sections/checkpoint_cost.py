"""What checkpoints every second cost in CPU time, of a stateless job and of J2, while nothing is blocked.

A round runs each program without checkpoints, with aligned ones, and with unaligned ones; a ratio is
of two runs of one round.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import pyarrow.compute as pc
import pyarrow.parquet as pq

from bench.data import DataSet
from bench.plan import Plan
from bench.sections import engines as g
from bench.sections.headgate_jobs import Say, job, section_of
from bench.stats import middle, ratios

_RATE_LEAST = 100_000
"""Records per second of a job that is still thought to work."""


@dataclass(frozen=True, slots=True)
class Cost:
    """One row: a program with one kind of checkpoint, against itself without.

    Attributes:
        program: of `bench.jobs.checkpoint_cost`.
        mode: of its checkpoints.
        title: in the table.
        wanted: share of the workers' CPU time; None where nothing is asked.
    """

    program: str
    mode: str
    title: str
    wanted: float | None = None


COSTS = (
    Cost("stateless", "on", "stateless, aligned", 0.03),
    Cost("stateless", "unaligned", "stateless, unaligned"),
    Cost("j2", "on", "J2, aligned", 0.15),
    Cost("j2", "unaligned", "J2, unaligned"),
)
_PROGRAMS = tuple(dict.fromkeys(cost.program for cost in COSTS))
_MODES = ("off", "on", "unaligned")


def measure(plan: Plan, say: Say) -> dict[str, Any]:
    """CPU time of the workers per event, by kind of checkpoint."""
    say(f"{plan.pairs} rounds of {len(_PROGRAMS)} programs, each without checkpoints and with two kinds")
    data = g.data_for(g.HEADGATE, plan)
    order = jobs_in_order(plan.warm_jobs, plan.pairs)
    done = job(
        "checkpoint_cost",
        plan,
        data.layout("parquet_p2"),
        *order,
        length_s=plan.events / _RATE_LEAST * len(order),
    )
    answers = {"j2": data, "stateless": stateless(data)}
    # Not by number: a job may have failed, and then the runs are fewer than were asked for.
    runs = done.result.get("runs", [])[plan.warm_jobs * len(_PROGRAMS) :]
    wrong = [
        f"{run['program']}:{run['mode']}: {text}"
        for run in runs
        if (text := g.difference(run, answers[run["program"]])) is not None
    ]
    section = section_of(done, events=plan.events, rows=[row(cost, runs, plan.smoke) for cost in COSTS])
    section["failed"] += wrong
    return section


def jobs_in_order(warm_jobs: int, rounds: int) -> list[str]:
    """What is run: the warm-up, then round by round each program in each mode.

    The modes rotate, so that a drift of the machine, and whatever a first job of a program pays, falls
    on all of them.

    Example:
        >>> jobs_in_order(0, 2)[:3]
        ['stateless:off', 'stateless:on', 'stateless:unaligned']
        >>> jobs_in_order(0, 2)[6:9]
        ['stateless:on', 'stateless:unaligned', 'stateless:off']
    """
    warm = [f"{program}:on" for program in _PROGRAMS for _ in range(warm_jobs)]
    rotated = [_MODES[at % 3 :] + _MODES[: at % 3] for at in range(rounds)]
    return warm + [f"{program}:{mode}" for modes in rotated for program in _PROGRAMS for mode in modes]


def row(cost: Cost, runs: list[dict[str, Any]], smoke: bool) -> dict[str, Any]:
    """The measured row of `cost`, from the runs behind the warm-up."""
    with_them, without = (
        [
            None if run["failures"] else run["workers_cpu_us"]
            for run in runs
            if run["program"] == cost.program and run["mode"] == mode
        ]
        for mode in (cost.mode, "off")
    )
    costs = [ratio - 1 for ratio in ratios(with_them, without)] if len(with_them) == len(without) else []
    return {
        "program": cost.program,
        "mode": cost.mode,
        "title": cost.title,
        "cpu_us_on": middle([cpu for cpu in with_them if cpu is not None]),
        "cpu_us_off": middle([cpu for cpu in without if cpu is not None]),
        "cost": middle(costs),
        "least": min(costs, default=None),
        "most": max(costs, default=None),
        "costs": [round(share, 4) for share in costs],
        # A few seconds say nothing about a few per cent.
        "wanted": None if smoke else cost.wanted,
    }


def stateless(data: DataSet) -> DataSet:
    """The same bids, with what the stateless job must come to: every price with a fee of one."""
    prices = pq.read_table(data.layout("parquet_p2"), columns=["price"])["price"]
    records = len(prices)
    total, highest = pc.sum(prices).as_py() + records, pc.max(prices).as_py() + 1
    return replace(data, answer=replace(data.answer, records=records, total=total, highest=highest))
