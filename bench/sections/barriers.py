"""How long a checkpoint takes under full backpressure: barriers that wait, and barriers that overtake.

A source feeds a sink that is slower by far, over two exchanges, so the queues between them are full and
stay so. An aligned barrier stands behind all that is queued; an unaligned one takes it along.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

from bench.plan import Plan
from bench.sections.headgate_jobs import Say, job, section_of
from bench.stats import middle, percentile

P99_WANTED_MS = 1_000
FULL = 0.9
"""From this share of blocked time on, backpressure counts as full."""


@dataclass(frozen=True, slots=True)
class Mode:
    """One way to take checkpoints.

    Attributes:
        key: of `bench.jobs.barriers`.
        title: in the table.
        least: checkpoints that must be counted before anything is concluded from them.
        overtakes: whether its barriers may overtake.
        p99_wanted_ms: at most; None where nothing is asked.
    """

    key: str
    title: str
    least: int
    overtakes: bool
    p99_wanted_ms: int | None = None


MODES = (
    Mode("aligned", "aligned", 3, False),
    Mode("aligned-100ms", "aligned, timeout 100 ms", 30, True),
    Mode("unaligned", "unaligned", 30, True, P99_WANTED_MS),
)


def measure(plan: Plan, say: Say) -> dict[str, Any]:
    """Durations from the trigger to the commit, in each mode."""
    records = int(plan.barriers_s * 2 * 1e6 / plan.barriers_sleep_us)
    say(f"{records:,} records into a sink that sleeps, in {len(MODES)} modes of checkpoints")
    done = job(
        "barriers",
        plan,
        *(mode.key for mode in MODES),
        *("--records", records, "--sleep-us", plan.barriers_sleep_us),
        *("--warm-up-s", plan.barriers_warm_up_s, "--credit", plan.barriers_credit),
        length_s=plan.barriers_s * 2 * len(MODES),
    )
    runs = {run["mode"]: run for run in done.result.get("runs", [])}
    found = [(mode, runs[mode.key]) for mode in MODES if mode.key in runs]
    rows = [row(mode, run, plan.smoke) for mode, run in found]
    section = section_of(done, records=records, rows=rows, times_aligned=times_aligned(rows))
    section["failed"] += [text for mode, run in found for text in wrong(mode, run, plan.smoke)]
    return section


def row(mode: Mode, run: dict[str, Any], smoke: bool) -> dict[str, Any]:
    """What a mode's run comes to."""
    durations = Counter(run["durations_ms"])
    p99, blocked = percentile(durations, 0.99), run["source_blocked"]
    conclusive = not smoke and durations.total() >= mode.least and blocked is not None and blocked >= FULL
    return {
        "mode": mode.key,
        "title": mode.title,
        "checkpoints": durations.total(),
        "p50_ms": percentile(durations, 0.5),
        "p99_ms": p99,
        "max_ms": max(durations, default=None),
        "overtook": sum(run["overtook"]),
        "in_flight_mb": None if not durations else middle(run["bytes_in_flight"]) / 1e6,  # type: ignore[operator]
        "source_blocked": blocked,
        "times_slower": run["times_slower"],
        "waiting": run["waiting"],
        # None where nothing is asked, and where too little was seen to say.
        "met": p99 < mode.p99_wanted_ms if conclusive and p99 is not None and mode.p99_wanted_ms else None,
        "conclusive": conclusive,
    }


def times_aligned(rows: list[dict[str, Any]]) -> float | None:
    """How many times longer an aligned checkpoint takes than an unaligned one, by their medians."""
    medians = {row["mode"]: row["p50_ms"] for row in rows}
    aligned, unaligned = medians.get("aligned"), medians.get("unaligned")
    return None if aligned is None or not unaligned else aligned / unaligned


def wrong(mode: Mode, run: dict[str, Any], smoke: bool) -> list[str]:
    """Why a run does not count, in sentences."""
    found = []
    if not run["verified"]:
        found.append(f"the answer is {run['answer']}")
    found += [f"an attempt failed: {text}" for text in run["failures"]]
    found += run["checkpoints_failed"]
    if any(run["overtook"]) and not mode.overtakes:
        found.append("barriers overtook records, though they were to wait")
    # The smoke form may be over before there is backpressure.
    if not smoke and not run["durations_ms"]:
        found.append("no checkpoint was complete before the source had ended")
    elif not smoke and mode.overtakes and not any(run["overtook"]):
        found.append("no barrier overtook a record")
    return [f"{mode.key}: {text}" for text in found]
