"""A job that is started while another does the same is refused, unless that is what its user wants."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from mini_jobs import TINY, Count, environment, json_lines, running_counts
from running_jobs import Valve, wait_until
from test_savepoints import published

import headgate as hg
from headgate.common.errors import UsageError

WORDS = [f"w{n % 7}" for n in range(60)]
ALL = float("inf")
NUMBERS = count(188_000)
SECOND = {"execution.allow-second": True}
CLAIM = {"execution.state-recovery.claim-mode": "CLAIM"}


class Job:
    """Counts words behind a valve into files."""

    def __init__(self, storage: Path | None, out: Path, limit: float = 10, **config: Any) -> None:
        self.valve = Valve(next(NUMBERS), limit, WORDS)
        self.env = environment(config={**TINY, **config})
        if storage is not None:
            self.env.checkpoints(every="20ms", storage=str(storage))
        counted = self.env.from_source(self.valve, uid="in").key_by(lambda word: word)
        counted.process(Count(), uid="counts").write_json(str(out), uid="out")

    @contextmanager
    def running(self, name: str = "words") -> Iterator[hg.JobHandle]:
        """It has completed a checkpoint, and goes on."""
        with self.env.execute_async(name) as handle:
            wait_until(lambda: handle.done or handle.status().state == "running", "the job runs")
            handle.checkpoint()
            yield handle


def ended(job: Job, handle: hg.JobHandle) -> None:
    """Let it come to its end."""
    job.valve.open_to()
    handle.result()


@pytest.mark.parametrize("led", [False, pytest.param(True, marks=pytest.mark.ci)])
def test_the_same_name_on_the_same_storage_is_refused_while_it_runs(tmp_path: Path, led: bool) -> None:
    """Whatever it writes; the message names the driver and the ways out, and nothing was started."""
    config = {"high-availability.type": "filesystem"} if led else {}
    first = Job(tmp_path / "cp", tmp_path / "one", **config)
    with first.running() as handle:
        with pytest.raises(UsageError) as caught:
            Job(tmp_path / "cp", tmp_path / "two", ALL).env.execute("words")
        text = str(caught.value)
        for part in ("process", str(tmp_path / "cp"), "headgate stop", "--allow-second", "execute(name)"):
            assert part in text
        assert not (tmp_path / "two").exists()
        ended(first, handle)
    assert sorted(map(tuple, json_lines(tmp_path / "one"))) == running_counts(WORDS)
    Job(tmp_path / "cp", tmp_path / "two", ALL).env.execute("words")


def test_other_names_share_a_storage_and_the_same_name_another(tmp_path: Path) -> None:
    """As before."""
    first = Job(tmp_path / "cp", tmp_path / "one")
    with first.running() as handle:
        Job(tmp_path / "cp", tmp_path / "two", ALL).env.execute("others")
        Job(tmp_path / "cp2", tmp_path / "three", ALL).env.execute("words")
        ended(first, handle)


@pytest.mark.parametrize("how", ["link", "dots"])
def test_the_same_output_is_refused_whatever_name_it_and_the_job_have(tmp_path: Path, how: str) -> None:
    """The place counts; without checkpoints too."""
    out = tmp_path / "out"
    first = Job(tmp_path / "cp", out)
    with first.running() as handle:
        if how == "link":
            other = tmp_path / "linked"
            other.symlink_to(out)
        else:
            other = tmp_path / "cp" / ".." / "out"
        for storage in (tmp_path / "cp2", None):
            with pytest.raises(UsageError, match=r"sink 'out' writes to .* is writing"):
                Job(storage, other, ALL).env.execute("others")
        ended(first, handle)
    assert published(tmp_path) == running_counts(WORDS)
    assert not [*out.glob(".headgate-writing")]


def test_who_wants_a_second_one_gets_it(tmp_path: Path) -> None:
    """Then all is written twice."""
    first = Job(tmp_path / "cp", tmp_path / "out")
    with first.running() as handle:
        Job(tmp_path / "cp", tmp_path / "out", ALL, **SECOND).env.execute("words")
        ended(first, handle)
    assert published(tmp_path) == sorted(2 * running_counts(WORDS))


@pytest.mark.parametrize("config", [{}, CLAIM], ids=["not claimed", "claimed"])
@pytest.mark.parametrize("older", ["refuse", "take-back", "new-lineage"])
def test_a_checkpoint_of_a_running_job_is_not_begun_from(
    tmp_path: Path, config: dict[str, Any], older: str
) -> None:
    """In no claim mode and whatever shall become of output; the running job notices nothing."""
    first = Job(tmp_path / "cp", tmp_path / "out", **{"execution.checkpointing.num-retained": 1000})
    with first.running() as handle:
        (job,) = [each for each in (tmp_path / "cp").iterdir() if each.name[0] != "."]
        oldest = min(job.glob("chk-*/_metadata"), key=lambda path: int(path.parent.name[4:]))
        settings = {**config, "execution.sinks.older-snapshot": older}
        second = Job(tmp_path / "cp2", tmp_path / "out", ALL, **settings)
        with pytest.raises(UsageError, match=rf"job '{job.name}' cannot be .* the job is running") as caught:
            second.env.execute("other", str(oldest.parent))
        assert "headgate savepoint" in str(caught.value)
        assert "NO_CLAIM" not in str(caught.value)
        ended(first, handle)
    assert published(tmp_path) == running_counts(WORDS)
    assert not [*tmp_path.glob("out/_taken_back/*")]
