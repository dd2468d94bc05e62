"""A running job's newest checkpoint is damaged: what is said, and what becomes of output committed since."""

from __future__ import annotations

import shutil
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any, ClassVar

import pytest
from mini_jobs import RESTART_AT_ONCE, TINY, Count, json_lines, running_counts
from running_jobs import Valve, wait_until

import headgate as hg
from headgate.common.errors import DamagedFileError, UsageError
from headgate.connectors.files.committer import FilesCommitter
from headgate.runtime.job.listener import JobListener
from headgate.testing.mini_cluster import MiniCluster

WORDS = [f"w{n % 7}" for n in range(60)]
NUMBERS = count(152_000)
OLDER = "execution.sinks.older-snapshot"
BACK = {"execution.state-recovery.fallback-to-older": True}
LED = {"high-availability.type": "filesystem", "high-availability.lease": "4s"}


class Breaking(Valve):
    """A valve whose readers raise what is left to be raised."""

    left: ClassVar[list[str]] = []

    def create_reader(self, context: hg.SourceReaderContext) -> hg.SourceReader[Any]:
        reader = super().create_reader(context)
        poll = reader.poll

        def breaking(max_records: int) -> Any:
            if Breaking.left:
                raise LookupError(Breaking.left.pop())
            return poll(max_records)

        reader.poll = breaking  # type: ignore[method-assign]
        return reader


class Heard(JobListener):
    """Remembers what a person is told."""

    def __init__(self) -> None:
        self.notes: list[str] = []

    def note(self, text: str) -> None:
        self.notes.append(text)


class Job:
    """Counts words behind a valve into files; a checkpoint is taken when it is asked for."""

    def __init__(self, folder: Path, limit: float = 10, function: type = Count, **config: Any) -> None:
        self.folder, self.heard = folder, Heard()
        self.valve = Breaking(next(NUMBERS), limit, WORDS)
        settings = {
            **TINY,
            **({} if "restart-strategy.type" in config else RESTART_AT_ONCE),
            "heartbeat.interval": "20ms",
            "execution.checkpointing.num-retained": 5,
            "execution.checkpointing.data-inline-threshold": "0b",
            **config,
        }
        self.env = hg.Environment(parallelism=2, executor=MiniCluster(self.heard), config=settings)
        self.env.checkpoints(every="1h", storage=str(folder / "checkpoints"))
        counted = self.env.from_source(self.valve, uid="in").key_by(lambda word: word)
        counted.process(function(), uid="counts").write_json(str(folder / "out"), uid="out")

    def checkpoints(self, handle: hg.JobHandle, number: int) -> None:
        """Take so many, each behind ten more records whose output it commits."""
        for limit in range(10, 10 * number + 1, 10):
            self.valve.open_to(limit)
            wait_until(partial(self._counted, handle, limit), f"{limit} records are counted")
            handle.checkpoint()
            wait_until(partial(self._committed, handle, limit), f"{limit} records are committed")

    @staticmethod
    def _counted(handle: hg.JobHandle, limit: int) -> bool:
        vertices = (each for each in handle.status().vertices if "counts" in each.uids)
        return handle.done or sum(each.records_in for each in vertices) == limit

    def _committed(self, handle: hg.JobHandle, limit: int) -> bool:
        return handle.done or len(published(self.folder)) == limit


def published(folder: Path) -> list[tuple[Any, ...]]:
    """What the sink has committed."""
    return sorted(tuple(line) for line in json_lines(folder / "out"))


def folders(folder: Path) -> list[Path]:
    """Of the checkpoints, the newest first."""
    found = (folder / "checkpoints").glob("*/chk-*/_metadata")
    return sorted((path.parent for path in found), key=lambda path: -int(path.name[4:]))


def damage(checkpoint: Path, what: str) -> Path:
    """Flip a bit of one of its files, or of the newest entry of the log."""
    if what == "metadata":
        path = checkpoint / "_metadata"
    elif what == "data":
        path = max(p for p in checkpoint.iterdir() if p.is_file() and p.name != "_metadata")
    else:
        path = max((checkpoint.parent / "log").iterdir())
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    return path


@pytest.mark.parametrize(
    ("what", "several"),
    [
        ("data", 1),
        *(
            pytest.param(*each, marks=pytest.mark.ci)
            for each in [
                ("metadata", 1),
                ("log", 1),
                ("data", 2),
                ("metadata", 2),
                ("metadata", 3),
            ]
        ),
    ],
)
def test_a_running_job_names_the_file_and_the_next_one_that_is_whole(
    tmp_path: Path, what: str, several: int
) -> None:
    """Whatever of the newest is damaged: the job's error says where, and what to restore instead."""
    job = Job(tmp_path)
    with job.env.execute_async("words") as handle:
        job.checkpoints(handle, 3)
        chk = folders(tmp_path)
        path, *_ = [damage(each, what) for each in chk[:several]]
        Breaking.left.append("broken")
        with pytest.raises(DamagedFileError) as caught:
            handle.result()
    text = str(caught.value)
    assert path.as_uri() in text
    assert " to " in text.partition("bytes ")[2] or "byte " in text
    if several < 3:
        assert text.endswith(f"the next older checkpoint that is complete: --from {chk[several].as_uri()}")
    else:
        assert text.endswith("none of the older checkpoints (2) is complete")
    assert folders(tmp_path) == chk
    again = Job(tmp_path, float("inf"), **{OLDER: "take-back"})
    if several < 3:
        again.env.execute("words", restore_from=text.rpartition("--from ")[2])
        assert published(tmp_path) == running_counts(WORDS)


@pytest.mark.parametrize(
    ("choice", "several"),
    [
        ("refuse", 1),
        ("take-back", 1),
        *(
            pytest.param(*each, marks=pytest.mark.ci)
            for each in [("take-back", 2), ("new-lineage", 1), ("new-lineage", 2)]
        ),
    ],
)
def test_with_leave_to_go_back_the_user_says_what_becomes_of_output(
    tmp_path: Path, choice: str, several: int
) -> None:
    """Refused by default; taken back the output is that of one history; else it stays beside."""
    job = Job(tmp_path, **BACK, **{OLDER: choice})
    with job.env.execute_async("words") as handle:
        job.checkpoints(handle, 3)
        chk = folders(tmp_path)
        for each in chk[:several]:
            damage(each, "data")
        job.valve.open_to()
        Breaking.left.append("broken")
        if choice == "refuse":
            with pytest.raises(UsageError, match=rf"sink 'out' holds more than .*{OLDER}.*take-back"):
                handle.result()
        else:
            handle.result()
    told = [line for line in job.heard.notes if "going back to" in line]
    assert len(told) == several
    assert all("bytes " in line and path.as_uri() in line for line, path in zip(told, chk, strict=False))
    demand_output(tmp_path, choice, 10 * several)


def demand_output(folder: Path, choice: str, since: int) -> None:
    """What is published after the job went back by `since` records, of 30 that were committed."""
    if choice == "refuse":
        assert published(folder) == running_counts(WORDS[:30])
    elif choice == "take-back":
        assert published(folder) == running_counts(WORDS)
        assert [*folder.glob("out/_taken_back/*/part-*")]
    else:
        assert len(published(folder)) == len(WORDS) + since
        assert set(published(folder)) == set(running_counts(WORDS))
        assert not [*folder.glob("out/_taken_back/*/part-*")]


@pytest.mark.parametrize(
    "choice", [*(pytest.param(each, marks=pytest.mark.ci) for each in ("refuse", "new-lineage")), "take-back"]
)
def test_a_driver_that_is_started_again_goes_back_too(tmp_path: Path, choice: str) -> None:
    """With high availability: it finds its job's newest checkpoint damaged, and the same rules hold."""
    first = Job(tmp_path, **LED, **{"restart-strategy.type": "none"})
    with first.env.execute_async("words") as handle:
        first.checkpoints(handle, 2)
        Breaking.left.append("broken")
        with pytest.raises(hg.HeadgateError, match="broken"):
            handle.result()
    damage(folders(tmp_path)[0], "data")
    again = Job(tmp_path, float("inf"), **LED, **BACK, **{OLDER: choice})
    if choice == "refuse":
        with pytest.raises(UsageError, match=OLDER):
            again.env.execute("words")
        assert published(tmp_path) == running_counts(WORDS[:20])
        return
    again.env.execute("words")
    assert any("going back to" in line for line in again.heard.notes)
    demand_output(tmp_path, choice, 10)


@pytest.mark.ci
def test_a_driver_that_is_started_again_without_leave_names_the_older_one(tmp_path: Path) -> None:
    """It does not go back by itself."""
    first = Job(tmp_path, **LED, **{"restart-strategy.type": "none"})
    with first.env.execute_async("words") as handle:
        first.checkpoints(handle, 2)
        Breaking.left.append("broken")
        with pytest.raises(hg.HeadgateError, match="broken"):
            handle.result()
    newest, older = folders(tmp_path)
    path = damage(newest, "data")
    with pytest.raises(DamagedFileError, match=rf"{path.name} is damaged: bytes .*--from {older.as_uri()}$"):
        Job(tmp_path, float("inf"), **LED).env.execute("words")
    assert published(tmp_path) == running_counts(WORDS[:20])


def lose_newest_entry(folder: Path) -> None:
    """As a disk may that was not in order."""
    max((folder / "checkpoints").glob("*/log/*")).unlink()


def dead_after(folder: Path, number: int, **config: Any) -> Job:
    """A driver that led a job, completed so many checkpoints, and ended without the job's end."""
    job = Job(folder, **LED, **{"restart-strategy.type": "none"}, **config)
    with job.env.execute_async("words") as handle:
        job.checkpoints(handle, number)
        Breaking.left.append("broken")
        with pytest.raises(hg.HeadgateError, match="broken"):
            handle.result()
    return job


@pytest.mark.parametrize("number", [2, 1])
@pytest.mark.parametrize("choice", ["refuse", "take-back", "new-lineage"])
def test_a_driver_whose_log_has_lost_its_newest_entry_publishes_nothing_twice(
    tmp_path: Path, choice: str, number: int
) -> None:
    """The output tells that there was one; the checkpoint that fits it stays, and can be begun from."""
    dead_after(tmp_path, number)
    newest = folders(tmp_path)[0]
    lose_newest_entry(tmp_path)
    again = Job(tmp_path, float("inf"), **LED, **{OLDER: choice})
    if choice == "new-lineage" or (choice == "take-back" and number > 1):
        again.env.execute("words")
        demand_output(tmp_path, choice, 10)
    else:
        with pytest.raises(UsageError, match=r"sink 'out' holds .* has lost its newest entry"):
            again.env.execute("words")
        assert published(tmp_path) == running_counts(WORDS[: 10 * number])
        Job(tmp_path, float("inf")).env.execute("others", restore_from=newest.as_uri())
        assert published(tmp_path) == running_counts(WORDS)


@pytest.mark.parametrize("choice", ["refuse", "take-back"])
def test_a_driver_that_finds_the_disk_away_does_not_begin_anew(tmp_path: Path, choice: str) -> None:
    """Its folder is empty, as of a disk that is not mounted; what the job has published tells."""
    dead_after(tmp_path, 1)
    shutil.move(tmp_path / "checkpoints", tmp_path / "away")
    with pytest.raises(UsageError, match="is the disk of the checkpoint storage mounted"):
        Job(tmp_path, float("inf"), **LED, **{OLDER: choice}).env.execute("words")
    shutil.rmtree(tmp_path / "checkpoints", ignore_errors=True)
    shutil.move(tmp_path / "away", tmp_path / "checkpoints")
    Job(tmp_path, float("inf"), **LED).env.execute("words")
    assert published(tmp_path) == running_counts(WORDS)


def test_a_checkpoint_that_may_be_complete_stays_until_a_newer_one_is(tmp_path: Path) -> None:
    """Where no output tells whether it was: the driver's own start does not delete it."""
    job = Job(tmp_path, 10, **LED, **{"restart-strategy.type": "none"})
    with job.env.execute_async("words") as handle:
        job.checkpoints(handle, 1)
        handle.checkpoint()
        Breaking.left.append("broken")
        with pytest.raises(hg.HeadgateError, match="broken"):
            handle.result()
    newest = folders(tmp_path)[0]
    lose_newest_entry(tmp_path)
    again = Job(tmp_path, 10, **LED, **{"execution.checkpointing.num-retained": 1})
    with again.env.execute_async("words") as handle:
        wait_until(lambda: handle.done or handle.status().state == "running", "it runs")
        assert (newest / "_metadata").exists()
        handle.checkpoint()
        wait_until(lambda: not newest.exists(), "nobody needs it any more")
        again.valve.open_to()
        handle.result()
    assert published(tmp_path) == running_counts(WORDS)


def test_where_nothing_was_committed_since_nobody_is_asked(tmp_path: Path) -> None:
    """The job goes back although output that came later would be refused."""
    job = Job(tmp_path, **BACK)
    with job.env.execute_async("words") as handle:
        job.checkpoints(handle, 1)
        handle.checkpoint()
        newest = folders(tmp_path)[0]
        damage(newest, "metadata")
        Breaking.left.append("broken")
        job.valve.open_to()
        handle.result()
    assert published(tmp_path) == running_counts(WORDS)


class Refusing(Count):
    """Cannot be opened: no subtask runs from any snapshot."""

    def open(self, context: hg.RuntimeContext) -> None:
        raise RuntimeError("not today")


def test_nothing_is_taken_back_for_a_restore_that_comes_to_nothing(tmp_path: Path) -> None:
    """What was committed since stays published; the next try takes it back, once, and is whole."""
    job = Job(tmp_path)
    with job.env.execute_async("words") as handle:
        job.checkpoints(handle, 3)
        chk = folders(tmp_path)
        handle.cancel()
    before = sorted(path.name for path in tmp_path.glob("out/part-*"))
    taking = {OLDER: "take-back", "restart-strategy.type": "none"}
    with pytest.raises(hg.HeadgateError, match="not today"):
        Job(tmp_path, float("inf"), Refusing, **taking).env.execute("words", chk[-1].as_uri())
    assert sorted(path.name for path in tmp_path.glob("out/part-*")) == before
    assert not [*tmp_path.glob("out/_taken_back/*")]
    Job(tmp_path, float("inf"), **taking).env.execute("words", chk[-1].as_uri())
    assert published(tmp_path) == running_counts(WORDS)
    assert len([*tmp_path.glob("out/_taken_back/*/part-*")]) == len(before) * 2 // 3


def test_prepared_output_of_a_newer_checkpoint_stays_restorable(tmp_path: Path) -> None:
    """A job died between its log entry and the commit; another goes back to before, then a third forward."""
    job = Job(tmp_path, **{"restart-strategy.type": "none"})
    with job.env.execute_async("words") as handle:
        job.checkpoints(handle, 2)
        job.valve.open_to(30)
        wait_until(lambda: len([*tmp_path.glob("out/_pending/*/part-*")]) > 0, "output is on its way")
        older = folders(tmp_path)[-1]
        FilesCommitter.commit, real = failing_commit, FilesCommitter.commit  # type: ignore[method-assign]
        try:
            with pytest.raises(hg.HeadgateError):
                handle.checkpoint()
            with pytest.raises(hg.HeadgateError, match="the disk went away"):
                handle.result()
        finally:
            FilesCommitter.commit = real  # type: ignore[method-assign]
    newest = folders(tmp_path)[0]
    assert newest != older
    back = Job(tmp_path, float("inf"), **{OLDER: "take-back"})
    back.env.execute("words", older.as_uri())
    assert published(tmp_path) == running_counts(WORDS)
    forward = Job(tmp_path, float("inf"), **{OLDER: "take-back"})
    forward.env.execute("words", newest.as_uri())
    assert published(tmp_path) == running_counts(WORDS)


def failing_commit(*_: object) -> None:
    """In place of the sink's."""
    raise hg.OperatingError("the disk went away")
