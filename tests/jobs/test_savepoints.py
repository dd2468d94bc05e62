"""Savepoints of running jobs: taken beside checkpoints, stopped with, failed, and gone on from."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar

import pytest
from mini_jobs import RESTART_AT_ONCE, TINY, Count, json_lines, running_counts
from running_jobs import Valve, wait_until

import headgate as hg
from headgate.checkpoint.opening import open_checkpoint
from headgate.checkpoint.storage.local import LocalDisk
from headgate.common.errors import StorageError
from headgate.common.files.job_files import RUNNING, known_jobs
from headgate.testing import JobListener, MiniCluster

WORDS = [[f"w{(n + 3 * split) % 7}" for n in range(60)] for split in range(3)]
ALL = [word for split in WORDS for word in split]


class Notes(JobListener):
    """Remembers attempts, and why they failed."""

    def __init__(self) -> None:
        self.failures: list[str] = []

    def failed(self, attempt: int, error: Exception, restart_in_ms: int | None) -> None:
        self.failures.append(str(error))


class Job:
    """Counts words behind a valve into files."""

    def __init__(
        self,
        folder: Path,
        number: int,
        limit: float,
        parallelism: int = 2,
        every: str | None = "20ms",
        **more: Any,
    ) -> None:
        self.valve, self.notes = Valve(number, limit, *WORDS), Notes()
        config = {
            **TINY,
            **RESTART_AT_ONCE,
            "execution.checkpointing.savepoint-dir": str(folder / "sp"),
            **more,
        }
        self.env = hg.Environment(parallelism=parallelism, executor=MiniCluster(self.notes), config=config)
        if every is not None:
            self.env.checkpoints(every=every, storage=str(folder / "checkpoints"))
        counted = self.env.from_source(self.valve, uid="in").key_by(lambda word: word)
        counted.process(Count(), uid="counts").write_json(str(folder / "out"), uid="out")

    @contextmanager
    def started(self, restore_from: str | None = None) -> Iterator[hg.JobHandle]:
        """While it runs."""
        with self.env.execute_async("words", restore_from) as handle:
            wait_until(lambda: handle.done or handle.status().state == "running", "the job runs")
            yield handle

    def run(self, restore_from: str) -> hg.JobResult:
        """From a savepoint to its end."""
        self.valve.open_to()
        return self.env.execute("words", restore_from)


def published(folder: Path) -> list[tuple[Any, ...]]:
    """What the sink has committed."""
    return sorted(tuple(line) for line in json_lines(folder / "out"))


@pytest.mark.parametrize("written", ["canonical", "native"])
def test_f25_a_savepoint_beside_checkpoints_disturbs_nobody(tmp_path: Path, written: str) -> None:
    """The job goes on and ends as ever; the savepoint is a whole of its own, also somewhere else."""
    job = Job(tmp_path, 4200 + (written == "native"), 20)
    with job.started() as handle:
        uri = handle.savepoint(format=written)
        status = handle.status()
        assert (status.state, status.savepoints_completed) == ("running", 1)
        job.valve.open_to()
        assert handle.result().restarts == 0
    assert published(tmp_path) == running_counts(ALL)
    _, savepoint = open_checkpoint(uri)
    assert (savepoint.kind, savepoint.format) == ("savepoint", written)
    moved = tmp_path / "elsewhere"
    shutil.move(uri.removeprefix("file://"), moved)
    shutil.rmtree(tmp_path / "checkpoints")
    beside = {"execution.sinks.older-snapshot": "new-lineage"}
    again = Job(tmp_path, 4202, float("inf"), parallelism=3, **beside).run(str(moved))
    assert again.records_in["in"] == len(ALL)
    # What came behind the savepoint was published by the first job too.
    assert set(published(tmp_path)) == set(running_counts(ALL))


@pytest.mark.parametrize(
    ("config", "after"),
    [({}, 1), ({"execution.checkpointing.unaligned.enabled": True}, 3), ({"every": None}, 2)],
    ids=["aligned", "unaligned", "no-checkpoints"],
)
def test_stopped_and_gone_on_from_every_record_counts_once(
    tmp_path: Path, config: dict[str, Any], after: int
) -> None:
    """The output of both jobs together is the batch answer; the first one has committed its own."""
    job = Job(tmp_path, 4210 + after, 25, **config)
    with job.started() as handle:
        uri = handle.stop()
        assert handle.result().savepoint == uri
        assert handle.status().state == "finished"
    before = published(tmp_path)
    Job(tmp_path, 4214 + after, 25, parallelism=after, **config).run(uri)
    assert published(tmp_path) == running_counts(ALL)
    assert set(before) <= set(published(tmp_path))


class Farewell(hg.KeyedProcessFunction[Any, Any, Any]):
    """Says how often a word came, when event time is over."""

    count: hg.ValueState[int] = hg.value_state(default=0)

    def process(self, record: Any, ctx: hg.KeyedContext[Any]) -> Iterator[Any]:
        self.count.value += 1
        ctx.timers.register_event_time(10**12)
        yield from ()

    def on_timer(self, timestamp: int, ctx: hg.TimerContext[Any]) -> Iterator[Any]:
        yield ctx.key, self.count.value


@pytest.mark.parametrize("drain", [False, True])
def test_drained_timers_fire_before_the_savepoint_and_otherwise_they_wait_in_it(
    tmp_path: Path, drain: bool
) -> None:
    """With drain the output of all timers is committed with the stop; without, nothing has fired."""
    words = WORDS[:2]
    valve = Valve(4220 + drain, 10, *words)
    config = {
        **TINY,
        "execution.checkpointing.savepoint-dir": str(tmp_path / "sp"),
        "heartbeat.interval": "20ms",
    }
    env = hg.Environment(parallelism=2, executor=MiniCluster(), config=config)
    env.checkpoints(every="20ms", storage=str(tmp_path / "checkpoints"))
    timed = env.from_source(valve, uid="in").with_event_time(lambda word: 5, out_of_orderness="0ms")
    timed.key_by(lambda word: word).process(Farewell(), uid="farewell").write_json(
        str(tmp_path / "out"), uid="out"
    )
    with env.execute_async("farewell") as handle:
        wait_until(lambda: records_read(handle) == 20, "all came")
        handle.stop(drain=drain)
    first = [word for split in words for word in split[:10]]
    expected = sorted((word, first.count(word)) for word in set(first))
    assert published(tmp_path) == (expected if drain else [])


def records_read(handle: hg.JobHandle) -> int:
    """By the source, as far as the driver has heard."""
    return sum(vertex.records_in for vertex in handle.status().vertices if "in" in vertex.uids)


@pytest.mark.parametrize("remote", [False, True], ids=["by its handle", "from outside"])
def test_the_next_job_begins_as_soon_as_stop_returns(
    tmp_path: Path, remote: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The driver has left the folders of checkpoints and output by then."""
    monkeypatch.setenv("HEADGATE_HOME", str(tmp_path / "home"))
    savepoint = None
    for number in range(5):
        with Job(tmp_path, 270 + number, 7, **{"rest.enabled": True}).started(savepoint) as job:
            savepoint = (hg.connect("words") if remote else job).stop()
            assert remote or job.done
            assert not known_jobs()
            assert not (tmp_path / "checkpoints" / RUNNING).exists()


def test_a_savepoint_that_cannot_be_written_fails_alone(tmp_path: Path) -> None:
    """The asker is told why, with the reason's name; the job goes on."""
    (tmp_path / "file").touch()
    job = Job(tmp_path, 4230, 20)
    with job.started() as handle:
        with pytest.raises(hg.OperatingError, match=r"the savepoint was not taken.*IO_EXCEPTION"):
            handle.savepoint(str(tmp_path / "file" / "below"))
        with pytest.raises(hg.ConfigError, match="savepoint format is 'odd'"):
            handle.savepoint(format="odd")
        job.valve.open_to()
        assert handle.result().restarts == 0
    assert published(tmp_path) == running_counts(ALL)


@pytest.mark.parametrize("below", ["", "chk-1"])
def test_no_savepoint_lies_where_the_job_cleans(tmp_path: Path, below: str) -> None:
    """In the folder of the job's own checkpoints a sweep would delete it; beside that folder it is safe."""
    job = Job(tmp_path, 4232 + len(below), 20)
    with job.started() as handle:
        storage = tmp_path / "checkpoints"
        with pytest.raises(hg.OperatingError, match="choose a folder beside it"):
            handle.savepoint(str(storage / handle.status().job_id / below))
        uri = handle.savepoint(str(storage))
        handle.rescale(1)
        job.valve.open_to()
    assert open_checkpoint(uri)[1].kind == "savepoint"


def test_nobody_says_where_to(tmp_path: Path) -> None:
    """One sentence that names the option."""
    job = Job(tmp_path, 4231, 20, **{"execution.checkpointing.savepoint-dir": None})
    with job.started() as handle:
        with pytest.raises(hg.ConfigError, match=r"execution\.checkpointing\.savepoint-dir"):
            handle.stop()
        job.valve.open_to()


@pytest.mark.parametrize("stop", [False, True])
def test_one_that_fails_when_it_is_stored(tmp_path: Path, stop: bool) -> None:
    """A savepoint's failure is the asker's alone; a stop's restarts the job, whose sources stood still."""
    job = Job(tmp_path, 4240 + stop, 20)
    with job.started() as handle:
        target = tmp_path / "sp"
        Sabotage.of(target)
        try:
            with pytest.raises(hg.OperatingError, match=r"FINALIZE_CHECKPOINT_FAILURE"):
                handle.stop() if stop else handle.savepoint()
        finally:
            Sabotage.end()
        job.valve.open_to()
        assert handle.result().restarts == stop
    assert published(tmp_path) == running_counts(ALL)
    assert [each for each in target.rglob("*") if each.is_file()] == [], "its files are gone"
    assert bool(job.notes.failures) == stop


def test_a_stop_that_failed_leaves_nothing_pending(tmp_path: Path) -> None:
    """What was prepared for it alone is read and written again; the sink must not keep it for nobody."""
    job = Job(tmp_path, 4250, 20, every="10min")
    with job.started() as handle:
        wait_until(lambda: any(tmp_path.glob("out/_pending/*/*")), "something was written")
        Sabotage.of(tmp_path / "sp")
        try:
            with pytest.raises(hg.OperatingError, match=r"FINALIZE_CHECKPOINT_FAILURE"):
                handle.stop()
        finally:
            Sabotage.end()
        job.valve.open_to()
        assert handle.result().restarts == 1
    assert published(tmp_path) == running_counts(ALL)
    assert [*tmp_path.glob("out/_pending/*/*")] == []


class Sabotage:
    """Makes the last write of a savepoint fail, as a full disk would."""

    real: ClassVar[Any] = None

    @classmethod
    def of(cls, folder: Path) -> None:
        """From now on no metadata can be created below `folder`."""
        cls.real = LocalDisk.create_if_absent

        def failing(disk: LocalDisk, name: str, data: bytes) -> bool:
            if disk.root == folder and name.endswith("/_metadata"):
                raise StorageError(f"cannot write {name}: no space left")
            done: bool = cls.real(disk, name, data)
            return done

        LocalDisk.create_if_absent = failing  # type: ignore[method-assign]

    @classmethod
    def end(cls) -> None:
        """Space was freed."""
        LocalDisk.create_if_absent = cls.real  # type: ignore[method-assign]
