"""The answer to `GET /v1/why`: what holds the job up, in a sentence that is always there, and as fields."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from headgate.api.jobs.executor_contract import JobStatus
from headgate.common.plain_data import Json
from headgate.core.bottleneck.evidence import Evidence
from headgate.core.bottleneck.judge import judge
from headgate.core.checkpoint.slowest import span
from headgate.runtime.driver.endpoint.page.job_watch import EARLY_MS, JobWatch

OFTEN: Final = 3
OFTEN_MS: Final = 60_000
"""A job that fails so often within this time does nothing but restart."""

NOTHING: Final = (
    "nothing holds the job up: no worker works nearly all the time, and no operator waits for another"
)


class Why(msgspec.Struct, frozen=True):
    """The answer. `kind` is one of `core/bottleneck`, or "none", "too early", "failure", "over"."""

    kind: str
    text: str
    vertex: int | None = None
    uid: str | None = None
    worker: int | None = None
    line: str | None = None
    figures: Mapping[str, float] = {}


def why_facts(watch: JobWatch, status: JobStatus) -> dict[str, Json]:
    """Return the answer for the job of `watch`; waits for its loop if stacks are being sampled."""
    profiles = watch.profiles
    stacks = {} if profiles is None or watch.state is not None else profiles.recent()
    samples = sum(sum(each.values()) for each in stacks.values())
    found: dict[str, Json] = msgspec.to_builtins(
        _of_story(watch, status) or _of_evidence(watch.evidence(stacks))
    )
    about: dict[str, Json] = {"job": status.job_id, "name": status.name, "state": watch.state or status.state}
    return {**about, **found, "samples": samples}


def _of_story(watch: JobWatch, status: JobStatus) -> Why | None:
    if watch.state is not None:
        failed = f": {_first_line(status.last_failure)}" if watch.state == "failed" else ""
        last = judge(watch.evidence({}))
        before = "" if last is None else f"; in its last seconds {last.text}"
        stopped = f", stopped with savepoint {status.savepoint}" if status.savepoint else ""
        return Why("over", f"the job has ended, it is {watch.state}{stopped}{failed}{before}")
    often, passed_ms = watch.failures_within(OFTEN_MS)
    if often >= OFTEN or (often and status.state != "running"):
        advice = "" if status.repeating is None else f"; {status.repeating.text}"
        return Why(
            "failure",
            f"the job fails and begins again, {often} time{'s' if often > 1 else ''} in the last "
            f"{span(OFTEN_MS)}: {_first_line(status.last_failure)}{advice}",
            figures={"failures": float(often)},
        )
    if status.state != "running" or passed_ms is None:
        return Why(
            "too early", f"the job does not run yet, it is {status.state}; ask again in {span(EARLY_MS)}"
        )
    if passed_ms < EARLY_MS:
        text = f"the job has run for {span(passed_ms)} only; ask again in {span(EARLY_MS)}"
        return Why("too early", text, figures={"runs_s": passed_ms / 1000})
    return None


def _of_evidence(seen: Evidence) -> Why:
    if not seen.subtasks:
        return Why("too early", "nothing was heard of the operators yet; ask again in some seconds")
    found = judge(seen)
    if found is None:
        busiest = max((seen.load(worker) for worker in seen.workers), default=0.0)
        text = f"{NOTHING}; the busiest worker works {busiest:.0%} of the time"
        return Why("none", text, figures={"load": busiest})
    return Why(found.kind.value, found.text, found.vertex, found.uid, found.worker, found.line, found.figures)


def _first_line(text: str | None) -> str:
    return (text or "no reason is known").splitlines()[0]
