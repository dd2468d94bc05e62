"""Replays of keys whose records are held since the function failed on one, and saved tests of them."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from replayed_jobs import Visits, environment, kept, replay_here, sink, visit

import headgate as hg
from headgate.connectors.generator import generator_source

COUNT, BAD = 1_800, 1_201
"""The bad record is one of key 'b', and after the first checkpoint on any machine: it comes after 1.3 s."""


class Fails(Visits):
    """Fails on one record."""

    def process(self, record: dict, ctx: hg.KeyedContext[str]) -> Iterator[str]:
        yield from super().process(record, ctx)
        if record["t"] == BAD:
            raise ValueError("no")


class Miscounts(Fails):
    """Does another thing than what was recorded, before the record on which it fails."""

    def process(self, record: dict, ctx: hg.KeyedContext[str]) -> Iterator[str]:
        self.count.value += record["t"] == BAD - 60
        yield from super().process(record, ctx)


def generated(folder: Path, function: Any) -> hg.Environment:
    """Visits at 900 a second, from one reader."""
    env = environment(folder)
    visits = env.from_source(generator_source(visit, COUNT, 900, splits=1), uid="in").with_event_time("t")
    policy = hg.quarantine(hold=1_000, release="1")
    sink(visits.key_by("user").process(function, uid="visits", on_error=policy))
    return env


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a job that has run, and has held records of key 'b'."""
    folder = tmp_path_factory.mktemp("held")
    generated(folder, Fails()).execute("visits")
    return folder


def test_a_held_key_is_no_deviation(job: Path) -> None:
    """When its records came is by the wall clock; a key that is free is replayed exactly."""
    held = []
    for before, after in pairwise(kept(job)):
        free = replay_here(generated(job, Fails()), "visits", "a", before, after)
        assert (free.differences, free.inexact) == ([], [])
        report = replay_here(generated(job, Fails()), "visits", "b", before, after)
        assert {each.state.partition("[")[0] for each in report.differences or []} <= {"held-records"}
        if report.differences:
            assert report.inexact == [
                "records of the key are held with the time of the wall clock, which is not recorded"
            ]
        held += [each for step in report.steps for each in step.changes if each.state == "held-under"]
    assert len(held) == len([n for n in range(BAD, COUNT) if n % 3 == 1])


def test_a_replay_until_failure_goes_on_past_what_is_held(job: Path) -> None:
    """But it finds what differs before."""
    first, *later = kept(job)
    report = replay_here(generated(job, Fails()), "visits", "b", first, until_failure=True)
    assert len(report.passed) == len(later)
    report = replay_here(generated(job, Miscounts()), "visits", "b", first, until_failure=True)
    assert "count" in [each.state for each in report.differences or []]


def test_a_key_that_is_free_is_saved_as_a_test(job: Path, tmp_path: Path) -> None:
    """It imports the class of the program, and passes."""
    saved = tmp_path / "test_key.py"
    replay_here(generated(job, Fails()), "visits", "c", kept(job)[0], save=str(saved))
    text = saved.read_text(encoding="utf-8")
    assert "from test_replay_held import Fails\n" in text
    names: dict[str, Any] = {}
    exec(text, names)
    names["test_key_is_replayed"]()


def test_a_key_that_is_held_is_not_saved_as_a_test(job: Path, tmp_path: Path) -> None:
    """Where it is held from the start, and where a record of the replay is the bad one."""
    first, *_, last = kept(job)
    for snapshot in (first, last):
        with pytest.raises(hg.UsageError, match=r"--save .* key 'b' of operator 'Fails' .* are held since"):
            saved = tmp_path / "test_key.py"
            replay_here(generated(job, Fails()), "visits", "b", snapshot, save=str(saved))
        assert not saved.exists()
