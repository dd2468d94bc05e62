"""The answer to what holds a job up says something in every state of a job, and guesses in none."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

import headgate as hg
from headgate.api.jobs.executor_contract import JobStatus
from headgate.common.settings.config import Config
from headgate.metrics import metric_table as table
from headgate.runtime.driver.endpoint.page.job_watch import JobWatch
from headgate.runtime.driver.endpoint.page.why_answer import EARLY_MS, OFTEN, why_facts
from headgate.runtime.job.listener import JobListener
from headgate.testing import Counters, ManualClock

BUSY = table.NUMBERS.index(table.BUSY.at())
IDLE = table.NUMBERS.index(table.IDLE.at())
LABEL = "operator 'map' (uid 'work')"


class Sampled:
    """A sampling that has found one stack."""

    def __init__(self, stacks: dict[int, dict[str, int]]) -> None:
        self.stacks = stacks

    def begin(self, seconds: int) -> None:
        """Nothing: it has been."""

    def found(self) -> Any:
        """Not asked."""

    def recent(self) -> dict[int, dict[str, int]]:
        """The stack."""
        return self.stacks


def status(state: str = "running", **changes: Any) -> JobStatus:
    """Of a job with everything else at nothing."""
    numbers = {field.name: 0 for field in msgspec.structs.fields(JobStatus)}
    texts = {"job_id": "j-1", "name": "j", "state": state, "last_failure": None, "repeating": None}
    return JobStatus(**{**numbers, **texts, **changes})


def made() -> tuple[JobWatch, ManualClock]:
    """The watch of a job with a function, and its clock."""
    env, clock = hg.Environment(), ManualClock()
    env.from_collection(["a"], uid="in").map(str, uid="work").collect_later(uid="out")
    watch = JobWatch(env.plan(), Config(), JobListener(), clock)
    watch.deploying(1, None)
    return watch, clock


def heard(watch: JobWatch, clock: ManualClock, busy: int) -> None:
    """The job has run for long enough, and its subtask was busy for so many of 1,000 ms."""
    watch.running(1)
    clock.advance(EARLY_MS)
    values = [0] * len(table.NUMBERS)
    values[BUSY], values[IDLE] = busy, 1_000 - busy
    watch.progress([Counters(0, 0, values, [])])


def test_what_is_found_comes_with_its_fields() -> None:
    """With the number of samples it rests on; the page's status has the cause without its samples."""
    watch, clock = made()
    heard(watch, clock, 950)
    watch.profiles = Sampled({0: {f"{LABEL};work (job.py:3)": 95, "(idle)": 5}})
    found = why_facts(watch, status())
    assert {each: found[each] for each in ("job", "name", "state", "kind", "vertex", "uid", "samples")} == {
        "job": "j-1", "name": "j", "state": "running", "kind": "slow function", "vertex": 0, "uid": "work",
        "samples": 100,
    }  # fmt: skip
    assert found["line"] == "work (job.py:3)"
    assert found["figures"]["share"] == pytest.approx(0.95)
    assert watch.snapshot(status())["bottleneck"]["kind"] == "busy"


def test_nothing_is_said_so_with_the_busiest_worker() -> None:
    """A healthy job gets an answer too."""
    watch, clock = made()
    heard(watch, clock, 250)
    found = why_facts(watch, status())
    assert (found["kind"], found["vertex"], found["figures"]) == ("none", None, {"load": 0.25})
    assert found["text"].endswith("the busiest worker works 25% of the time")
    assert watch.snapshot(status())["bottleneck"] is None


def test_a_job_that_has_just_begun_is_not_judged() -> None:
    """Neither before it runs, nor in its first seconds, nor while nothing was heard of it."""
    watch, clock = made()
    assert why_facts(watch, status("deploying"))["text"].startswith(
        "the job does not run yet, it is deploying"
    )
    watch.running(1)
    clock.advance(EARLY_MS - 1)
    found = why_facts(watch, status())
    assert (found["kind"], found["text"]) == (
        "too early",
        "the job has run for 3.0 s only; ask again in 3.0 s",
    )
    clock.advance(1)
    found = why_facts(watch, status())
    assert (found["kind"], found["text"][:24]) == ("too early", "nothing was heard of the")


def test_a_job_that_only_restarts_is_held_up_by_its_failure() -> None:
    """One failure while it runs again is no cause; one that it has not recovered from is."""
    watch, clock = made()
    error = hg.OperatingError("no")
    watch.failed(1, error, 10)
    found = why_facts(watch, status("recovering", last_failure="ValueError: no\n  at job.py:3"))
    assert (found["kind"], found["figures"]) == ("failure", {"failures": 1.0})
    assert found["text"].endswith("1 time in the last 1 min 0 s: ValueError: no")
    watch.deploying(2, None)
    heard(watch, clock, 250)
    assert why_facts(watch, status())["kind"] == "none"
    for attempt in range(2, OFTEN + 1):
        watch.failed(attempt, error, 10)
        watch.deploying(attempt + 1, None)
    watch.running(OFTEN + 1)
    found = why_facts(watch, status(last_failure="ValueError: no"))
    assert (found["kind"], found["figures"]) == ("failure", {"failures": float(OFTEN)})


def test_a_job_that_is_over_says_so_and_what_held_it_up_last() -> None:
    """Its stacks are not asked for: there are no workers any more."""
    watch, clock = made()
    heard(watch, clock, 950)
    watch.ended("failed")
    found = why_facts(watch, status("failed", last_failure="ValueError: no"))
    assert (found["kind"], found["state"], found["samples"]) == ("over", "failed", 0)
    assert found["text"].startswith("the job has ended, it is failed: ValueError: no; in its last seconds ")
