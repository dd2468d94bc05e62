"""Windows of columns and of rows: how soon their results come, and the memory of sessions that stay open."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, Final

from bench.jobs.window_delay import KINDS as DELAYED
from bench.plan import Plan
from bench.sections.headgate_jobs import job, section_of
from bench.stats import middle

Say = Callable[[str], None]

P50_MS: Final = 25.0
P99_MS: Final = 100.0
QUIET: Final = 0.1
"""Latencies count where other programs used less of the machine than this share."""
OPEN_MIB: Final = 2_048.0
SESSIONS: Final = ("columns", "rows")


def latency(plan: Plan, say: Say) -> dict[str, Any]:
    """From the arrival of the record that ends a window to the sink's receipt of its results."""
    section: dict[str, Any] = {"rows": [], "absent": {}, "failed": [], "runs": []}
    for kind in DELAYED:
        say(f"windows, {kind}: {plan.window_rate:,} records/s for {plan.delay_s:g} s")
        done = job(
            "window_delay",
            plan,
            *("--kind", kind, "--rate", plan.window_rate),
            *("--seconds", plan.delay_s, "--warm-up-s", plan.delay_warm_up_s),
            length_s=plan.delay_s,
        )
        run = section_of(done, load=os.getloadavg()[0])
        section["failed"] += run.pop("failed")
        section["runs"].append(run)
        for name, wanted in (("p50", P50_MS), ("p99", P99_MS)):
            section["rows"].append(_late(kind, name, run, wanted))
    return section


def _late(kind: str, name: str, run: dict[str, Any], wanted: float) -> dict[str, Any]:
    found, others = run.get(f"{name}_ms"), run["others"]
    shown = "-" if found is None else f"{found:.1f} ms, others used {others:.0%}"
    met = None if found is None or others > QUIET else found <= wanted
    return {"what": f"{name}, windows of {kind}", "shown": shown, "wanted": f"<= {wanted:g} ms", "met": met}


def open_sessions(plan: Plan, say: Say) -> dict[str, Any]:
    """Resident memory of one worker that has an open session for each of many keys, on the heap."""
    section: dict[str, Any] = {"rows": [], "absent": {}, "failed": [], "runs": []}
    for kind in SESSIONS:
        say(f"{plan.session_keys:,} open sessions of {kind}")
        done = job("open_sessions", plan, "--kind", kind, "--keys", plan.session_keys, length_s=300.0)
        run = section_of(done, load=os.getloadavg()[0])
        section["failed"] += run.pop("failed")
        if done.failure is None and run.get("sessions") != plan.session_keys:
            section["failed"].append(f"{kind}: {run.get('sessions')} sessions instead of {plan.session_keys}")
        section["runs"].append(run)
        section["rows"].append(_held(kind, run, plan))
    return section


def _held(kind: str, run: dict[str, Any], plan: Plan) -> dict[str, Any]:
    peak, checkpoints = run.get("peak_mib"), middle(run.get("checkpoints_ms", []))
    shown = "-" if peak is None else f"{peak:,.0f} MiB at most, checkpoints {checkpoints:,.0f} ms"
    met = None if peak is None or plan.smoke else peak <= OPEN_MIB
    what = f"{plan.session_keys:,} sessions of {kind}"
    return {"what": what, "shown": shown, "wanted": f"<= {OPEN_MIB:,.0f} MiB", "met": met}
