"""A job that is started while another does the same is refused, unless that is what its user wants."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any, ClassVar

import pytest
from mini_jobs import TINY, Count, environment, json_lines, running_counts
from running_jobs import PATIENCE_S, Valve, wait_until
from test_savepoints import published

import headgate as hg
from headgate.common.errors import UsageError
from headgate.common.files.job_files import known_jobs

WORDS = [f"w{n % 7}" for n in range(60)]
ALL = float("inf")
NUMBERS = count(188_000)
SECOND = {"execution.allow-second": True}
CLAIM = {"execution.state-recovery.claim-mode": "CLAIM"}


class Job:
    """Counts words behind a valve into files."""

    def __init__(
        self, storage: Path | None, out: Path, limit: float = 10, every: str = "20ms", **config: Any
    ) -> None:
        self.valve = Valve(next(NUMBERS), limit, WORDS)
        self.env = environment(config={**TINY, **config})
        if storage is not None:
            self.env.checkpoints(every=every, storage=str(storage))
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


class Breaking(Valve):
    """A valve whose readers raise what is left to be raised."""

    left: ClassVar[list[str]] = []

    def create_reader(self, context: hg.SourceReaderContext) -> hg.SourceReader[Any]:
        """A reader that looks for trouble before it reads."""
        reader = super().create_reader(context)
        poll = reader.poll

        def breaking(max_records: int) -> Any:
            if Breaking.left:
                raise LookupError(Breaking.left.pop())
            return poll(max_records)

        reader.poll = breaking  # type: ignore[method-assign]
        return reader


IN_FILES = {
    "execution.checkpointing.num-retained": 2,
    "execution.checkpointing.data-inline-threshold": "0b",
    "restart-strategy.type": "fixed-delay",
    "restart-strategy.fixed-delay.attempts": 1000,
    "restart-strategy.fixed-delay.delay": "1ms",
}


class Beside:
    """A job that was begun from a running one's checkpoint on purpose, and has none of its own yet."""

    def __init__(self, folder: Path, checkpoint: Path) -> None:
        self.valve = Breaking(next(NUMBERS), 10, WORDS)
        lineage = {"execution.sinks.older-snapshot": "new-lineage"}
        env = environment(config={**TINY, **IN_FILES, **SECOND, **lineage})
        env.checkpoints(every="1h", storage=str(folder / "cp"))
        counted = env.from_source(self.valve, uid="in").key_by(lambda word: word)
        counted.process(Count(), uid="counts").write_json(str(folder / "out"), uid="out")
        self.handle = env.execute_async("beside", checkpoint.as_uri())


def test_a_checkpoint_that_is_restored_stays_until_the_new_job_has_its_own(tmp_path: Path) -> None:
    """Its job completes others, the new job fails and begins from it once more; then it goes."""
    first = Job(tmp_path / "cp", tmp_path / "out", every="1h", **IN_FILES)
    with first.running() as handle:
        (job,) = [each for each in (tmp_path / "cp").iterdir() if each.name[0] != "."]
        checkpoint = newest(job)
        first.valve.open_to(20)
        wait_until(lambda: sum(each.records_in for each in handle.status().vertices) >= 20, "more has come")
        handle.checkpoint()
        wait_until(lambda: len(published(tmp_path)) == 20, "more is committed")
        second = Beside(tmp_path, checkpoint)
        with second.handle as beside:
            wait_until(lambda: beside.done or beside.status().state == "running", "the second runs")
            for _ in range(5):
                handle.checkpoint()
            assert (checkpoint / "_metadata").exists()
            Breaking.left.append("broken")
            wait_until(lambda: beside.done or beside.status().restarts == 1, "it has failed")
            wait_until(lambda: beside.done or beside.status().state == "running", "it runs again")
            beside.checkpoint()
            wait_until(lambda: not [*job.glob("in-use/*")], "it needs the checkpoint no more")
            wait_until(
                lambda: handle.checkpoint() and not (checkpoint / "_metadata").exists(), "it is retired"
            )
            second.valve.open_to()
            beside.result()
        ended(first, handle)
    assert set(published(tmp_path)) == set(running_counts(WORDS))
    # What came behind the checkpoint came twice.
    assert 2 * len(WORDS) - 10 <= len(published(tmp_path)) <= 2 * len(WORDS)
    assert not [*(tmp_path / "cp").glob("*/in-use/*")]


def test_a_job_whose_first_checkpoint_was_deleted_ends_with_the_reason(tmp_path: Path) -> None:
    """By hand, or by a job that nobody saw: to restart for ever would help nobody."""
    with Job(tmp_path / "cp", tmp_path / "out", **IN_FILES).running() as handle:
        handle.cancel()
    (job,) = [each for each in (tmp_path / "cp").iterdir() if each.name[0] != "."]
    second = Beside(tmp_path, newest(job))
    with second.handle as beside:
        wait_until(lambda: beside.done or beside.status().state == "running", "the second runs")
        shutil.rmtree(newest(job))
        Breaking.left.append("broken")
        with pytest.raises(UsageError, match=r"which this job began from, was deleted before"):
            beside.result()


PROGRAM = Path(__file__).with_name("controlled_program.py")


@contextmanager
def run_by_command(folder: Path, *options: str) -> Iterator[subprocess.Popen[str]]:
    """The same command as before, whatever its options: `headgate run` in a process of its own."""
    command = [sys.executable, "-m", "headgate", "run", *options, str(PROGRAM), str(folder), "mini"]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


@pytest.mark.ci
def test_the_same_command_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second ends with exit code 2 and one sentence; on purpose it runs; a kill leaves nothing."""
    monkeypatch.setenv("HEADGATE_HOME", str(tmp_path / "home"))

    def running() -> int:
        return len([each for each in known_jobs() if not each.exited])

    with run_by_command(tmp_path) as first:
        wait_until(lambda: first.poll() is not None or running() == 1, "the first runs")
        for hidden in (False, True):
            if hidden:  # as from another machine, or for another user: only the storage tells
                monkeypatch.setenv("HEADGATE_HOME", str(tmp_path / "other-home"))
            with run_by_command(tmp_path) as second:
                _, err = second.communicate(timeout=PATIENCE_S)
            assert second.returncode == 2, err
            assert err.count("job 'words' is running already") == 1, err
            assert f"process {first.pid} on " in err
            assert "--allow-second" in err
            assert "Traceback" not in err
        with run_by_command(tmp_path, "--allow-second") as second:
            wait_until(lambda: second.poll() is not None or running() == 1, "the second runs")
            assert second.poll() is None
            second.kill()
        assert first.poll() is None
        first.kill()
        first.communicate(timeout=PATIENCE_S)
    with run_by_command(tmp_path) as again:
        wait_until(lambda: again.poll() is not None or running() == 1, "one begins behind the killed ones")
        assert again.poll() is None


def newest(job: Path) -> Path:
    """The folder of the newest checkpoint."""
    return max(job.glob("chk-*/_metadata"), key=lambda path: int(path.parent.name[4:])).parent
