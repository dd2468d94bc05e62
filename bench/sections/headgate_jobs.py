"""The sections in which a single Headgate job runs: memory, backpressure, latency."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from bench.machine import import_path
from bench.measure import SAMPLE_S, Run, run
from bench.plan import Plan
from bench.stats import slope_per_minute

Say = Callable[[str], None]

FLAT_MB_PER_MINUTE = 1.0
SLOW_SINK_US = 20.0
"""50,000 records/s in each of two writers: a small part of what the source can give."""
DELAY_RATE = 10_000


def job(
    module: str, plan: Plan, *arguments: object, length_s: float = 0.0, sample_s: float = SAMPLE_S
) -> Run:
    """Run one of `bench.jobs` and watch it.

    Args:
        module: its name there.
        plan: says how long any job may take.
        arguments: for its command line.
        length_s: its intended length, which comes on top.
        sample_s: between two looks at its processes.
    """
    command = [sys.executable, "-m", f"bench.jobs.{module}", *map(str, arguments)]
    return run(module, command, plan.timeout_s + length_s, import_path(), sample_s)


def section_of(done: Run, **more: Any) -> dict[str, Any]:
    """A section made of one run, with what went wrong in it."""
    failed = [] if done.failure is None else [f"{done.name}: {done.failure}"]
    if done.result.get("failures"):
        failed.append(f"{done.name}: an attempt failed: {done.result['failures']}")
    return {"failed": failed, **done.facts(), **more}


def memory(plan: Plan, say: Say) -> dict[str, Any]:
    """Resident memory of each worker during a steady stream."""
    say(f"a steady stream for {plan.memory_s} s")
    rate = ("--rate", plan.memory_rate, "--seconds", plan.memory_s)
    done = job("steady", plan, *rate, length_s=plan.memory_s, sample_s=1.0)
    slopes = {
        pid: slope_per_minute(series, plan.memory_warm_up_s) for pid, series in sorted(done.memory.items())
    }
    known = [slope for slope in slopes.values() if slope is not None]
    section = section_of(
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
    done = job(
        "slow_sink", plan, "--records", records, "--sleep-us", SLOW_SINK_US, length_s=plan.blocked_s * 2
    )
    slopes = [slope_per_minute(series, plan.blocked_s / 6) for series in done.memory.values()]
    known = [slope for slope in slopes if slope is not None]
    section = section_of(done, slope_mb_per_minute=None if plan.smoke else max(known, default=None))
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
    done = job(
        "delay",
        plan,
        *("--rate", DELAY_RATE, "--seconds", plan.delay_s, "--warm-up-s", plan.delay_warm_up_s),
        length_s=plan.delay_s,
    )
    section = section_of(done, rate=DELAY_RATE)
    if done.failure is None and done.result["counted"] != done.result["expected"]:
        section["failed"].append(f"{done.result['counted']} of {done.result['expected']} records arrived")
    return section
