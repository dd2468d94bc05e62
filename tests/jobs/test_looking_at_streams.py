"""Looks at a stream while a program is written: what runs, what comes, and what is left alone."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import headgate as hg
from headgate.testing import MiniCluster


class Commit(NamedTuple):
    """A record of a declared type."""

    author: str
    lines: int


def longer(commit: Commit) -> Commit:
    """A function whose annotations tell the type."""
    return commit._replace(lines=commit.lines + 1)


def environment(parallelism: int = 2, **config: Any) -> hg.Environment:
    """A program for the mini cluster."""
    return hg.Environment(parallelism=parallelism, config=config, executor=MiniCluster())


def test_a_look_runs_no_sink_and_draws_no_checkpoint(tmp_path: Path) -> None:
    """Only what feeds the stream runs; the program is then executed as if nobody had looked."""
    env = environment().checkpoints("100ms", storage=str(tmp_path / "checkpoints"))
    numbers = env.from_collection(range(20), uid="numbers")
    numbers.map(lambda n: {"n": n}).write_json(str(tmp_path / "out"))
    squares = numbers.map(lambda n: n * n)
    assert sorted(squares.collect()) == [n * n for n in range(20)]
    assert len(squares.take(3)) == 3
    assert len(squares.preview(4)) == 4
    assert not (tmp_path / "checkpoints").exists()
    assert not (tmp_path / "out").exists() or not list((tmp_path / "out").glob("*.json*"))
    env.execute("all")
    lines = [line for file in (tmp_path / "out").glob("part-*") for line in file.read_text().splitlines()]
    assert len(lines) == 20
    assert sorted(squares.collect()) == [n * n for n in range(20)]


@pytest.mark.parametrize("parallelism", [1, 3])
def test_the_first_records_of_an_endless_stream(parallelism: int) -> None:
    """The job ends as soon as there are enough, and the next one finds its slots at once."""
    env = hg.Environment(parallelism=parallelism, executor=MiniCluster(slots=parallelism))
    numbers = env.generate(lambda n: n, rate_per_s=20_000)
    for _ in range(3):
        began = time.monotonic()
        assert len(numbers.map(lambda n: n + 1).take(5)) == 5
        assert time.monotonic() - began < 10
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("headgate-worker")]


@pytest.mark.parametrize("verb", ["collect", "to_dataframe"])
def test_all_records_of_an_endless_stream_are_refused(verb: str) -> None:
    """It would wait for ever; the sentence names the source, and what does end."""
    env = environment()
    numbers = env.generate(lambda n: n).map(lambda n: n + 1)
    with pytest.raises(hg.PlanError) as refused:
        getattr(numbers.union(env.from_collection([1])), verb)()
    said = str(refused.value)
    assert said.startswith(f"{verb}() (test_looking_at_streams.py:")
    assert "would never end: generate() (test_looking_at_streams.py:" in said
    assert "preview(n) or take(n)" in said
    assert len(env.from_collection([1, 2]).collect()) == 2


def test_a_look_ends_when_its_time_is_over() -> None:
    """What has come by then is shown."""
    env = environment()
    stream = env.generate(lambda n: n, rate_per_s=1_000).filter(lambda n: n == 3)
    began = time.monotonic()
    assert stream.take(5, timeout_s=1.5) == [3]
    assert 1.4 < time.monotonic() - began < 15


def test_fewer_records_than_asked_for_are_all_there_are() -> None:
    """The job ends with its input."""
    assert sorted(environment().from_collection([3, 1, 2]).take(10)) == [1, 2, 3]


def test_records_keep_their_declared_type() -> None:
    """As with collect."""
    commits = environment(1).from_collection([Commit("ada", 3), Commit("bob", 12)])
    typed = commits.map(longer)
    assert typed.take(2) == [Commit("ada", 4), Commit("bob", 13)]
    assert typed.preview()[1].lines == 13


def test_a_mistake_shows_at_once_and_the_program_goes_on() -> None:
    """A look is not tried again, whatever the job's strategy; the mended stream is looked at next."""
    env = environment(2, **{"restart-strategy.type": "exponential-delay"})
    words = env.from_collection(["ada", "bob"])

    def wrong(word: str) -> int:
        return int(word)

    with pytest.raises(hg.UserFunctionError, match="invalid literal"):
        words.map(wrong).preview()
    assert sorted(words.map(len).take(2)) == [3, 3]


def test_two_jobs_of_one_program(tmp_path: Path) -> None:
    """Each collects its own."""
    env = environment()
    numbers = env.from_collection([1, 2, 3])
    first = numbers.collect_later()
    env.execute("one")
    second = numbers.map(str).collect_later()
    result = env.execute("two")
    assert (sorted(first.records), sorted(second.records)) == ([1, 2, 3], ["1", "2", "3"])
    assert list(result.collected) == ["collect-2"]


def test_print_prints_every_record(capsys: pytest.CaptureFixture[str]) -> None:
    """It is a sink: it runs with execute()."""
    env = environment(1)
    env.from_collection(["ada", "bob"]).print()
    assert "ada" not in capsys.readouterr().out
    env.execute()
    shown = capsys.readouterr()
    assert "ada" in shown.out + shown.err
    assert "bob" in shown.out + shown.err


def test_after_cancel_the_next_job_finds_its_slots(tmp_path: Path) -> None:
    """The call returns when the workers are gone."""
    env = hg.Environment(parallelism=2, executor=MiniCluster(slots=2))
    env.generate(lambda n: {"n": n}, rate_per_s=1_000).write_json(str(tmp_path / "endless"))
    job = env.execute_async("endless")
    while job.status().state != "running":
        time.sleep(0.01)
    shown = repr(job)
    job.cancel()
    assert shown == "<JobHandle 'endless': running, attempt 1, restarts 0>"
    assert repr(job) == "<JobHandle 'endless': cancelled, attempt 1, restarts 0>"
    assert "records out" in job._repr_html_()
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("headgate-worker")]
    assert sorted(env.from_collection([2, 1]).collect()) == [1, 2]
