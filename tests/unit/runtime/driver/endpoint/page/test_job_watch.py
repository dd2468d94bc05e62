"""What is remembered of a job for its page, and that nothing is kept without a limit."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

import headgate as hg
from headgate.common.settings.config import Config
from headgate.runtime.driver.endpoint.page.failure_story import ATTEMPTS_MAX, NOTES_MAX
from headgate.runtime.driver.endpoint.page.job_watch import LINE_MAX, PRINTED_MAX, JobWatch
from headgate.runtime.driver.endpoint.page.rate_history import HISTORY_MAX
from headgate.runtime.driver.endpoint.page.shown_settings import MASK, ShownSettings
from headgate.runtime.job.listener import JobListener
from headgate.testing import Counters, ManualClock


class Told(JobListener):
    """Keeps the names of the reports that came."""

    def __init__(self) -> None:
        self.names: list[str] = []

    def __getattribute__(self, name: str) -> Any:
        if name in vars(JobListener) and not name.startswith("_"):
            return lambda *_: self.names.append(name)
        return super().__getattribute__(name)


def made(listener: JobListener | None = None) -> tuple[JobWatch, ManualClock]:
    """The watch of a small job, and its clock."""
    env, clock = hg.Environment(), ManualClock()
    env.from_collection(["a"], uid="in").collect_later(uid="out")
    return JobWatch(env.plan(), Config(), listener or JobListener(), clock), clock


def test_all_reports_are_passed_on() -> None:
    """Who watches takes nothing from those who listen."""
    told = Told()
    watch, _ = made(told)
    reports = [name for name in vars(JobListener) if not name.startswith("_")]
    error = hg.OperatingError("no")
    given = {
        "deploying": (1, None), "failed": (1, error, 5), "reverted": (1, error), "printed": ([], 0),
        "progress": ([],), "rescaled": (watch._plan,), "worker_registered": (0, 1, "host"), "running": (1,),
        "gang_submitted": (1, 1), "checkpoint_completed": (1, 1), "savepoint_completed": (1, "", 1),
        "told": ("", 0, b""), "logged": (0, [], 0), "note": ("",),
        "ended": ("failed",), "repeats": (_Repeating(),),
    }  # fmt: skip
    for name in reports:
        getattr(watch, name)(*given.get(name, (None,)))
    assert told.names == reports


class _Repeating:
    times, text = 3, "again"


def test_what_is_kept_has_a_limit() -> None:
    """However long the job runs, fails, notes and prints."""
    watch, clock = made()
    for number in range(1, HISTORY_MAX + ATTEMPTS_MAX + 10):
        clock.advance(1_000)
        watch.deploying(number, None)
        watch.progress([Counters(0, 0, [number] * 40, [])])
        watch.failed(number, hg.OperatingError("x" * 100_000), 10)
        watch.note("y" * 100_000)
        watch.printed(["z" * 100_000] * 3, 1)
    assert len(watch.history()["time_ms"]) == HISTORY_MAX
    story, output = watch.story(), watch.output()
    assert (len(story["attempts"]), len(story["notes"])) == (ATTEMPTS_MAX, NOTES_MAX)
    assert len(json.dumps(story)) < 500_000
    assert (len(output["lines"]), output["ever"]) == (PRINTED_MAX, 4 * (HISTORY_MAX + ATTEMPTS_MAX + 9))
    assert {len(line) for line in output["lines"]} == {LINE_MAX}


def test_a_failure_before_the_first_deployment_is_an_attempt() -> None:
    """As when the snapshot to begin from cannot be read any more."""
    watch, _ = made()
    watch.failed(1, hg.OperatingError("gone"), None)
    watch.ended("failed")
    (attempt,) = watch.story()["attempts"]
    assert (attempt["end"], attempt["error"]["message"], attempt["restart_at_ms"]) == ("failed", "gone", None)


def test_a_rescale_ends_an_attempt_and_is_no_failure() -> None:
    """The next attempt begins at once; one that fails is reverted."""
    watch, _ = made()
    watch.deploying(1, None)
    watch.deploying(2, 4)
    watch.reverted(2, hg.OperatingError("no slots"))
    watch.deploying(3, 4)
    story = watch.story()
    assert [each["end"] for each in story["attempts"]] == ["rescaled", "reverted", ""]
    assert story["failures"] == 0


def test_news_wake_the_streams() -> None:
    """What people wait for is told at once; progress is not."""
    watch, _ = made()
    woken: list[str] = []
    watch.wake = lambda: woken.append("now")
    watch.progress([])
    watch.note("nothing")
    assert woken == []
    watch.deploying(1, None)
    watch.running(1)
    watch.failed(1, hg.OperatingError("no"), 5)
    watch.ended("failed")
    assert len(woken) == 4


@pytest.mark.parametrize(
    "text",
    ['pa"ss\\word', "zażółć gęślą", "line\nbreak", "/slash/"],
    ids=["quotes", "letters", "lines", "slashes"],
)
def test_secrets_are_masked_as_json_has_them(text: str) -> None:
    """Escapes and all."""
    settings = ShownSettings(Config().with_program({"s3.secret-key": text}))
    body = settings.masked(msgspec.json.encode({"error": f"it was {text}, I think"}))
    assert msgspec.json.decode(body) == {"error": f"it was {MASK}, I think"}


def test_passwords_in_addresses_are_masked() -> None:
    """The rest of the address is shown."""
    folder = "s3://user:pa55word@bucket/checkpoints"
    settings = ShownSettings(Config().with_program({"execution.checkpointing.dir": folder}))
    (shown,) = [each["value"] for each in settings.facts() if each["key"] == "execution.checkpointing.dir"]
    assert shown == f"s3://{MASK}@bucket/checkpoints"
    assert b"pa55word" not in settings.masked(b'{"text": "no such folder: s3://user:pa55word@bucket/x"}')
