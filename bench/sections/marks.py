"""Tables whose rows are corrected: how fresh they are, what their marks cost, and the memory of open rows."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any, Final

from bench.measure import Run
from bench.plan import Plan
from bench.sections.headgate_jobs import job, section_of
from bench.stats import middle, ratios

Say = Callable[[str], None]

P50_MS: Final = 50.0
P99_MS: Final = 200.0
QUIET: Final = 0.1
"""Latencies count where other programs used less of the machine than this share."""
FRESH: Final = "20ms"
USUAL: Final = "100ms"
SELDOM: Final = "1s"
INTERVALS: Final = (SELDOM, USUAL, FRESH)
RATIO: Final = 1.10
OPEN_MIB: Final = 2_048.0
_RATE_LEAST: Final = 100_000
"""Events per second of a job that is still thought to work."""


def latency(plan: Plan, say: Say) -> dict[str, Any]:
    """From a record's arrival until the sink has the whole mark that contains it."""
    say(f"{plan.mark_rate:,} records/s for {plan.delay_s:g} s, a mark every {FRESH}")
    run, failed = _paced(plan, FRESH)
    rows = [_late(name, run, wanted) for name, wanted in (("p50", P50_MS), ("p99", P99_MS))]
    between = run.get("between_marks_ms")
    shown = "-" if between is None else f"{between:.1f} ms, {run['marks']:,} marks"
    rows.append({"what": "median time between marks", "shown": shown, "wanted": "", "met": None})
    return {"rows": rows, "absent": {}, "failed": failed, "runs": [run]}


def _paced(plan: Plan, interval: str) -> tuple[dict[str, Any], list[str]]:
    """A job at a steady rate; what it tells, and what went wrong."""
    done = job(
        "mark_delay",
        plan,
        *("--rate", plan.mark_rate, "--seconds", plan.delay_s, "--warm-up-s", plan.delay_warm_up_s),
        *("--interval", interval),
        length_s=plan.delay_s,
    )
    run = section_of(done, interval=interval, load=os.getloadavg()[0])
    failed: list[str] = run.pop("failed")
    if done.failure is None and run["missing"]:
        failed.append(f"mark_delay: {run['missing']} records are in no mark that the sink received")
    return run, failed + _wrong(done)


def _wrong(done: Run) -> list[str]:
    """What to tell of a job whose answer is not right."""
    right = done.failure is not None or done.result.get("verified")
    return [] if right else [f"{done.name}: the answer is wrong"]


def _late(name: str, run: dict[str, Any], wanted: float) -> dict[str, Any]:
    found, others = run.get(f"{name}_ms"), run["others"]
    shown = "-" if found is None else f"{found:.1f} ms, others used {others:.0%}"
    met = None if found is None or others > QUIET else found <= wanted
    return {
        "what": f"{name} until the mark is there",
        "shown": shown,
        "wanted": f"<= {wanted:g} ms",
        "met": met,
    }


def cost(plan: Plan, say: Say) -> dict[str, Any]:
    """CPU time of the workers by how often marks come, at full speed and at a steady rate."""
    section: dict[str, Any] = {"rows": [], "absent": {}, "failed": [], "runs": []}
    say(f"q4 on {plan.mark_events:,} events, {plan.mark_rounds} rounds of {len(INTERVALS)} intervals")
    order = intervals_in_order(plan.mark_rounds)
    length_s = plan.mark_events / _RATE_LEAST * len(order)
    done = job("mark_cost", plan, plan.mark_events, *order, length_s=length_s)
    section["failed"] += section_of(done)["failed"] + wrong_runs(done.result)
    runs = done.result.get("runs", [])[1:]  # the first one warms up
    section["runs"].append(done.facts())
    section["rows"] += [ratio_row(runs, interval, plan.smoke) for interval in (USUAL, FRESH)]
    paced: list[dict[str, Any]] = []
    for number in range(plan.mark_pairs):
        for interval in (SELDOM, FRESH)[:: 1 if number % 2 == 0 else -1]:
            say(f"{plan.mark_rate:,} records/s, a mark every {interval}, pair {number + 1}")
            run, failed = _paced(plan, interval)
            section["failed"] += failed
            paced.append(run)
    section["runs"] += paced
    section["rows"].append(mark_row(paced))
    return section


def intervals_in_order(rounds: int) -> list[str]:
    """Intervals of the jobs: one that does not count, then round by round each, in rotated order.

    Example:
        >>> intervals_in_order(2)
        ['100ms', '1s', '100ms', '20ms', '100ms', '20ms', '1s']
    """
    turned = [INTERVALS[at % 3 :] + INTERVALS[: at % 3] for at in range(rounds)]
    return [USUAL, *(interval for each in turned for interval in each)]


def wrong_runs(told: dict[str, Any]) -> list[str]:
    """What went wrong in the jobs at full speed."""
    failed = []
    for run in told.get("runs", []):
        if run["failures"]:
            failed.append(f"q4, marks every {run['interval']}: an attempt failed: {run['failures']}")
        if run["answer"] != told["right"]:
            failed.append(f"q4, marks every {run['interval']}: {run['answer']} instead of {told['right']}")
    return failed


def ratio_row(runs: Sequence[dict[str, Any]], interval: str, smoke: bool) -> dict[str, Any]:
    """CPU time with marks at an interval, against marks every second, round by round."""
    ours, theirs = (
        [None if run["failures"] else run["workers_cpu_us"] for run in runs if run["interval"] == each]
        for each in (interval, SELDOM)
    )
    found = ratios(ours, theirs)
    ratio = middle(found)
    marks = middle([run["marks"] for run in runs if run["interval"] == interval])
    shown = "-"
    if ratio is not None:
        spread = f"{min(found):.2f} to {max(found):.2f}"
        cpu_us = middle([cpu for cpu in ours if cpu])
        shown = f"{ratio:.2f} times ({spread}), {cpu_us:.3f} us/event, {marks:g} marks"
    judged = interval == USUAL and ratio is not None and not smoke
    return {
        "what": f"CPU of q4, marks every {interval} to {SELDOM}",
        "shown": shown,
        "wanted": f"< {RATIO:.2f} times" if interval == USUAL else "",
        "met": ratio < RATIO if judged and ratio is not None else None,
    }


def mark_row(paced: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """What one mark costs: the more of CPU time, divided by the more of marks, pair by pair."""
    fresh, seldom = (
        [run for run in paced if run["interval"] == each and "workers_cpu_us" in run]
        for each in (FRESH, SELDOM)
    )
    costs = [
        (often["workers_cpu_us"] * often["events"] - rare["workers_cpu_us"] * rare["events"])
        / (often["marks"] - rare["marks"])
        / 1_000
        for often, rare in zip(fresh, seldom, strict=False)
        if often["marks"] > rare["marks"]
    ]
    shown = "-"
    if costs:
        marks = middle([run["marks"] for run in fresh])
        shown = (
            f"{middle(costs):.2f} ms of CPU in all ({min(costs):.2f} to {max(costs):.2f}), {marks:g} marks"
        )
    return {
        "what": f"one mark, every {FRESH} to {SELDOM}, steady rate",
        "shown": shown,
        "wanted": "",
        "met": None,
    }


def open_rows(plan: Plan, say: Say) -> dict[str, Any]:
    """Resident memory of a worker where the tables of a join have many rows, on RocksDB."""
    say(f"{plan.open_rows:,} open rows")
    done = job("open_rows", plan, "--rows", plan.open_rows, length_s=300.0)
    run = section_of(done, load=os.getloadavg()[0])
    failed = run.pop("failed") + _wrong(done)
    return {"rows": [_held(run, plan)], "absent": {}, "failed": failed, "runs": [run]}


def _held(run: dict[str, Any], plan: Plan) -> dict[str, Any]:
    peak, times = run.get("peak_mib"), run.get("checkpoints_ms", [])
    shown = "-"
    if peak is not None:
        took = f"checkpoints {middle(times):,.0f} ms, {max(times):,} at most" if times else "no checkpoints"
        shown = f"{peak:,.0f} MiB at most, {took}"
    met = None if peak is None or plan.smoke else peak <= OPEN_MIB
    what = f"a worker of two, {plan.open_rows:,} open rows"
    return {"what": what, "shown": shown, "wanted": f"<= {OPEN_MIB:,.0f} MiB", "met": met}
