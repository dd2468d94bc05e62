"""A replay that goes on from checkpoint to checkpoint, until something is wrong: where it stops, and why."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from replayed_jobs import Visits, environment, kept, replay_here, sink, visit
from typer.testing import CliRunner

import headgate as hg
from headgate.checkpoint.layout import checkpoint_number
from headgate.cli.main import app
from headgate.connectors.generator import generator_source

COUNT, LATE = 1_800, 1_201
"""So late that the first checkpoint is before it on any machine, after two seconds."""


class CountsTwice(Visits):
    """Does another thing than what was recorded, from some record on."""

    def process(self, record: dict, ctx: hg.KeyedContext[str]) -> Iterator[str]:
        self.count.value += record["t"] >= LATE
        yield from super().process(record, ctx)


class Raises(Visits):
    """Fails at some record."""

    def process(self, record: dict, ctx: hg.KeyedContext[str]) -> Iterator[str]:
        if record["t"] >= LATE:
            raise ValueError("too late")
        yield from super().process(record, ctx)


def generated(folder: Path, function: Any, count: int | None = COUNT) -> hg.Environment:
    """Visits at 600 a second, from one reader."""
    env = environment(folder)
    splits = None if count is None else 1
    visits = env.from_source(generator_source(visit, count, 600, splits=splits), uid="in")
    sink(visits.with_event_time("t").key_by("user").process(function, uid="visits"))
    return env


def numbers(folder: Path) -> list[int]:
    """Of the checkpoints that are stored."""
    return [checkpoint_number(Path(place).name) or 0 for place in kept(folder)]


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a job that has run."""
    folder = tmp_path_factory.mktemp("replayed")
    generated(folder, Visits()).execute("visits")
    return folder


def test_where_nothing_is_wrong_all_is_replayed(job: Path) -> None:
    """Checkpoint by checkpoint, and then what comes after the last one."""
    report = replay_here(generated(job, Visits()), "visits", "b", kept(job)[0], until_failure=True)
    assert report.passed == numbers(job)[1:]
    assert (report.failure, report.differences, report.ended) == (None, None, "the input ended")


def test_it_stops_after_the_stretch_in_which_the_state_deviates(job: Path) -> None:
    """Its steps have the first record with which it does; the checkpoints before are named."""
    report = replay_here(generated(job, CountsTwice()), "visits", "b", kept(job)[0], until_failure=True)
    found = numbers(job)
    assert report.passed == found[1 : found.index(report.begins) + 1]
    assert report.ends == found[found.index(report.begins) + 1]
    assert "count" in [each.state for each in report.differences or []]
    times = [step.timestamp for step in report.steps if step.kind == "record"]
    assert min(time or 0 for time in times) - 3 < LATE <= max(time or 0 for time in times)


def test_it_stops_at_the_record_on_which_the_function_fails(job: Path) -> None:
    """As every replay does; the test that is written has only what leads there from the last checkpoint."""
    report = replay_here(generated(job, Raises()), "visits", "b", kept(job)[0], until_failure=True)
    assert report.failure is not None
    assert "ValueError: too late" in report.failure
    last = report.steps[-1]
    assert (last.timestamp, last.error) == (LATE, "ValueError: too late")
    assert report.passed == [number for number in numbers(job)[1:] if number <= report.begins]


def test_the_failure_of_a_job_without_an_end_is_found(tmp_path: Path) -> None:
    """It lies after the last checkpoint, where no --to leads."""
    with pytest.raises(hg.UserFunctionError):
        generated(tmp_path, Raises(), None).execute("visits")
    first = kept(tmp_path)[0]
    with pytest.raises(hg.UsageError, match="has no end; say where the replay stops, with --to, --count or"):
        replay_here(generated(tmp_path, Raises(), None), "visits", "b", first)
    report = replay_here(generated(tmp_path, Raises(), None), "visits", "b", first, until_failure=True)
    assert report.failure is not None
    assert report.steps[-1].timestamp == LATE


@pytest.mark.parametrize("option", ["--to", "--count"])
def test_another_end_is_refused(option: str) -> None:
    """A replay has one."""
    command = ["replay", "job.py", "--uid", "u", "--key", "k", "--from", "chk-1", "--until", "failure"]
    result = CliRunner().invoke(app, [*command, option, "7"])
    assert result.exit_code == 2, result.output
    assert "leave out where else it should stop" in result.output
