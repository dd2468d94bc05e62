"""A key replayed from a checkpoint to the next one gets that checkpoint's state, byte for byte."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path

import pytest
from replayed_jobs import Visits, environment, kept, replay_here, sink, visit

import headgate as hg
from headgate.connectors.generator import generator_source

COUNT = 900


def generated(folder: Path, function: hg.KeyedProcessFunction | None = None) -> hg.Environment:
    """Visits at 3,000 a second, from one reader."""
    env = environment(folder)
    visits = env.from_source(generator_source(visit, COUNT, 900, splits=1), uid="in")
    sink(visits.with_event_time("t").key_by("user").process(function or Visits(), uid="visits"))
    return env


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a job that has run."""
    folder = tmp_path_factory.mktemp("replayed")
    generated(folder).execute("visits")
    return folder


def test_each_checkpoint_follows_from_the_one_before(job: Path) -> None:
    """For each key and each two checkpoints, also across the end of the input; nothing is named inexact."""
    pairs = list(pairwise(kept(job)))
    assert len(pairs) > 1
    for before, after in pairs:
        for key in "abc":
            report = replay_here(generated(job), "visits", key, before, after)
            assert report.differences == []
            assert report.inexact == []
            assert report.ended == "stopped where the snapshot was taken"


def test_a_replay_over_several_checkpoints_takes_each_record_once(job: Path) -> None:
    """From the first checkpoint to the last, the count rises by one with each record."""
    first, *_, last = kept(job)
    report = replay_here(generated(job), "visits", "b", first, last)
    assert report.differences == []
    counts = [change for step in report.steps for change in step.changes if change.state == "count"]
    begun = [int(change.after or 0) for change in report.state if change.state == "count"]
    start = begun[0] if begun else 0
    assert [int(change.after or 0) for change in counts] == list(range(start + 1, COUNT // 3 + 1))


def test_a_step_shows_what_one_record_did(job: Path) -> None:
    """State before and after, timers, main and side output."""
    first, *_, last = kept(job)
    report = replay_here(generated(job), "visits", "b", first, last)
    fifth = next(step for step in report.steps if step.side_output)
    now = int(fifth.timestamp or 0)
    assert fifth.kind == "record"
    assert fifth.sender == "in-event-time[0]"
    assert fifth.what == repr(visit(now))
    assert [(each.state, each.after) for each in fifth.changes if each.state == "last"] == [("last", None)]
    assert fifth.timers_set == [f"event {now + 50}"]
    assert fifth.side_output == [("fifth", str(now))]
    assert fifth.output == [f"'b {(now - 1) // 3 + 1}'"]
    fired = next(step for step in report.steps if step.kind == "timer" and step.what == str(now + 50))
    assert fired.timers_gone == [f"event {now + 50}"]
    assert fired.output == [f"'b timer {now + 50}'"]


def test_without_an_end_all_input_is_replayed(job: Path) -> None:
    """And the last timers fire, as at the end of the job."""
    report = replay_here(generated(job), "visits", "c", kept(job)[0])
    assert report.ended == "the input ended"
    assert report.differences is None
    assert report.steps[-1].what == str(COUNT - 1 + 50)


def test_a_count_ends_a_replay(job: Path) -> None:
    """After so many records of the key."""
    report = replay_here(generated(job), "visits", "c", kept(job)[0], count=2)
    assert [step.kind for step in report.steps].count("record") == 2
    assert report.ended == "stopped after 2 records"


def test_a_key_without_state_begins_empty(job: Path) -> None:
    """It gets no record here, and the recorded state is none either."""
    first, second, *_ = kept(job)
    report = replay_here(generated(job), "visits", "nobody", first, second)
    assert (report.state, report.steps, report.differences) == ([], [], [])
    assert report.records_read > 0


class Twice(Visits):
    """Counts each visit twice."""

    def process(self, record: dict, ctx: hg.KeyedContext[str]) -> Iterator[str]:
        self.count.value += 1
        yield from super().process(record, ctx)


def test_another_program_gets_another_state(job: Path) -> None:
    """The report shows the value that was recorded, and the one that the program comes to."""
    first, second, *_ = kept(job)
    report = replay_here(generated(job, Twice()), "visits", "a", first, second)
    found = {each.state: each for each in report.differences or []}
    steps = [step for step in report.steps if step.kind == "record"]
    begun = {each.state: each.after for each in report.state}
    start = int(begun.get("count") or 0)
    assert found["count"].recorded == str(start + len(steps))
    assert found["count"].replayed == str(start + 2 * len(steps))


class Picky(Visits):
    """Raises at one record."""

    def process(self, record: dict, ctx: hg.KeyedContext[str]) -> Iterator[str]:
        if record["t"] >= COUNT // 2:
            raise ValueError(f"no {record['t']}")
        yield from super().process(record, ctx)


def test_a_replay_ends_where_the_function_raises(job: Path) -> None:
    """The last step is the record, with the error; the user's traceback is in the report."""
    report = replay_here(generated(job, Picky()), "visits", "a", kept(job)[0])
    last = report.steps[-1]
    assert report.ended == "user code raised"
    assert last.what == repr(visit(COUNT // 2))
    assert "ValueError" in (last.error or "")
    assert f"no {COUNT // 2}" in (report.failure or "")
    assert [step.error for step in report.steps[:-1]] == [None] * (len(report.steps) - 1)


def lines(folder: Path, parts: int = 3) -> None:
    folder.mkdir(exist_ok=True)
    for part, first in enumerate(range(0, 9_000, 9_000 // parts)):
        text = "".join(json.dumps(visit(n)) + "\n" for n in range(first, first + 9_000 // parts))
        (folder / f"{part}.jsonl.gz").write_bytes(gzip.compress(text.encode()))


def collected(folder: Path, parallelism: int) -> hg.Environment:
    env = environment(folder, parallelism)
    visits = env.from_collection([visit(n) for n in range(20_000)], uid="in")
    sink(visits.key_by("user").process(Visits(), uid="visits"))
    return env


def from_files(folder: Path, parallelism: int) -> hg.Environment:
    env = environment(folder, parallelism)
    visits = env.read_json(str(folder / "input"), uid="in")
    sink(visits.with_event_time("t", "1s").key_by("user").process(Visits(), uid="visits"))
    return env


@pytest.mark.parametrize("made", [collected, from_files])
def test_sources_go_back_to_where_they_were(
    tmp_path: Path, made: Callable[[Path, int], hg.Environment]
) -> None:
    """Compressed files and a collection, read by one reader, at any checkpoint of the job."""
    lines(tmp_path / "input")
    made(tmp_path, 1).execute("visits")
    pairs = list(pairwise(kept(tmp_path)))
    assert pairs
    for before, after in pairs:
        report = replay_here(made(tmp_path, 1), "visits", "b", before, after)
        assert (report.differences, report.inexact) == ([], [])


def test_several_senders_are_named(tmp_path: Path) -> None:
    """Their order is not recorded, and that is said of a key to which it mattered."""
    lines(tmp_path / "input", 60)  # so many that neither reader is through before the first checkpoint
    from_files(tmp_path, 2).execute("visits")
    first, *_, last = kept(tmp_path)
    report = replay_here(from_files(tmp_path, 2), "visits", "b", first, last)
    assert any("senders" in why for why in report.inexact)


def test_a_job_that_was_begun_from_a_checkpoint_goes_on_from_it(tmp_path: Path) -> None:
    """A checkpoint of a run that descends from the first is a later one; the other way round it is none."""
    generated(tmp_path / "first").execute("visits")
    first = kept(tmp_path / "first")[1]
    generated(tmp_path / "second").execute("visits", restore_from=first)
    later = kept(tmp_path / "second")[-1]
    report = replay_here(generated(tmp_path), "visits", "a", first, later)
    assert (report.differences, report.inexact) == ([], [])
    assert report.steps
    with pytest.raises(hg.UsageError, match="expected a later one of the same run, or of one that was begun"):
        replay_here(generated(tmp_path), "visits", "a", later, first)
