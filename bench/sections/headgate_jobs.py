"""The sections in which Headgate runs alone: checkpoint cost, memory, backpressure, latency."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from bench.machine import import_path
from bench.measure import SAMPLE_S, Run, run
from bench.plan import Plan
from bench.sections import engines as g
from bench.stats import middle, ratios, slope_per_minute

Say = Callable[[str], None]

FLAT_MB_PER_MINUTE = 1.0
SLOW_SINK_US = 20.0
"""50,000 records/s in each of two writers: a small part of what the source can give."""
DELAY_RATE = 10_000


def _job(
    module: str, plan: Plan, *arguments: object, length_s: float = 0.0, sample_s: float = SAMPLE_S
) -> Run:
    command = [sys.executable, "-m", f"bench.jobs.{module}", *map(str, arguments)]
    return run(module, command, plan.timeout_s + length_s, import_path(), sample_s)


def _section(done: Run, **more: Any) -> dict[str, Any]:
    failed = [] if done.failure is None else [f"{done.name}: {done.failure}"]
    if done.result.get("failures"):
        failed.append(f"{done.name}: an attempt failed: {done.result['failures']}")
    return {"failed": failed, **done.facts(), **more}


def checkpoint_cost(plan: Plan, say: Say) -> dict[str, Any]:
    """CPU time of the workers per event, with checkpoints every second and without, in turn."""
    say(f"{plan.pairs} pairs of jobs with and without checkpoints")
    data = g.data_for(g.HEADGATE, plan)
    # Every other pair begins with the other half, so that a drift of the machine falls on both.
    modes = [mode for pair in range(plan.pairs) for mode in (("on", "off") if pair % 2 else ("off", "on"))]
    order = ["on"] * plan.warm_jobs + modes
    done = _job(
        "running_count", plan, data.layout("parquet_p2"), *order, length_s=plan.events / 100_000 * len(order)
    )
    counted = done.result.get("runs", [])[plan.warm_jobs :]
    wrong = [text for job in counted if (text := g.difference(job, data)) is not None]
    on, off = (
        [job["workers_cpu_us"] for job in counted if job["checkpoints_on"] is want] for want in (True, False)
    )
    costs = ratios(on, off) if len(on) == len(off) else []
    section = _section(
        done,
        events=plan.events,
        cpu_us_on=middle(on),
        cpu_us_off=middle(off),
        cost=None if not costs else middle(costs) - 1,  # type: ignore[operator]
        costs=[round(ratio - 1, 4) for ratio in costs],
    )
    section["failed"] += wrong
    return section


def memory(plan: Plan, say: Say) -> dict[str, Any]:
    """Resident memory of each worker during a steady stream."""
    say(f"a steady stream for {plan.memory_s} s")
    rate = ("--rate", plan.memory_rate, "--seconds", plan.memory_s)
    done = _job("steady", plan, *rate, length_s=plan.memory_s, sample_s=1.0)
    slopes = {
        pid: slope_per_minute(series, plan.memory_warm_up_s) for pid, series in sorted(done.memory.items())
    }
    known = [slope for slope in slopes.values() if slope is not None]
    section = _section(
        done,
        slope_mb_per_minute=max(known, default=None),
        # A few seconds say nothing about minutes.
        flat=max(known) <= FLAT_MB_PER_MINUTE if known and not plan.smoke else None,
        workers=[
            {
                "slope_mb_per_minute": slopes[pid],
                "rss_mb": [[round(at, 1), round(mb, 1)] for at, mb in series],
            }
            for pid, series in sorted(done.memory.items())
        ],
    )
    if done.failure is None and not done.result.get("verified"):
        section["failed"].append(f"steady: the answer is {done.result.get('answer')}")
    return section


def backpressure(plan: Plan, say: Say) -> dict[str, Any]:
    """Records on their way, and memory, while the sink is slower than the source by far."""
    say("a sink that sleeps")
    records = int(plan.blocked_s * 2 * 1e6 / SLOW_SINK_US)
    done = _job(
        "slow_sink", plan, "--records", records, "--sleep-us", SLOW_SINK_US, length_s=plan.blocked_s * 2
    )
    slopes = [slope_per_minute(series, plan.blocked_s / 6) for series in done.memory.values()]
    known = [slope for slope in slopes if slope is not None]
    section = _section(done, slope_mb_per_minute=None if plan.smoke else max(known, default=None))
    if done.failure is None:
        seen, bound = done.result["in_flight_seen_max"], done.result["in_flight_bound"]
        if seen > bound:
            section["failed"].append(f"{seen} records were on their way, the bound is {bound}")
        if done.result["records_lost"]:
            section["failed"].append(f"{done.result['records_lost']} records were lost")
    return section


def latency(plan: Plan, say: Say) -> dict[str, Any]:
    """From a record's birth in the source to the sink, at a low rate."""
    say(f"{DELAY_RATE:,} records/s for {plan.delay_s:g} s")
    done = _job(
        "delay",
        plan,
        *("--rate", DELAY_RATE, "--seconds", plan.delay_s, "--warm-up-s", plan.delay_warm_up_s),
        length_s=plan.delay_s,
    )
    section = _section(done, rate=DELAY_RATE)
    if done.failure is None and done.result["counted"] != done.result["expected"]:
        section["failed"].append(f"{done.result['counted']} of {done.result['expected']} records arrived")
    return section
