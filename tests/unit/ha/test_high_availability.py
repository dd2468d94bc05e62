"""Drivers that die, by configuration, on files: found by name, one leads, the others wait or stop."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from headgate.checkpoint.service import CheckpointService
from headgate.checkpoint.storage.local import LocalDisk
from headgate.checkpoint.storage.uris import open_disk
from headgate.checkpoint.store.log import CompletedCheckpointLog
from headgate.common.errors import ConfigError, FencedError, StorageError
from headgate.common.format_config import fingerprint
from headgate.common.ids import CheckpointId, JobId
from headgate.common.process.system import SystemClock
from headgate.common.settings.config import Config, validate
from headgate.ha.files.file_election import ENDED, FileElection
from headgate.ha.high_availability import (
    LEADERS,
    HighAvailability,
    LedJob,
    job_id,
    open_leadership,
    where_to_begin,
    zookeeper_root,
)
from headgate.ha.leading import Leadership
from headgate.restore.point import RestorePoint
from headgate.state.snapshots import CheckpointMetadata

WAIT_S = 20.0
FILES = {"high-availability.type": "filesystem", "high-availability.lease": "4s"}

Open = Callable[..., HighAvailability]


class BreakableDisk(LocalDisk):
    """A folder that can be cut off."""

    broken = False

    def create(self, name, parts):
        if self.broken:
            raise StorageError(f"cannot write {name}: the server does not answer")
        super().create(name, parts)


class NoEndings(LocalDisk):
    """A folder in which no end can be recorded."""

    def create_if_absent(self, name, data):
        if name.endswith(ENDED):
            raise StorageError(f"cannot write {name}: the server does not answer")
        return super().create_if_absent(name, data)


@pytest.fixture
def drivers(tmp_path: Path) -> Iterator[Open]:
    """Opens drivers' parts in the high availability of a job; they end with the test."""
    opened: list[HighAvailability] = []

    def open_one(name: str = "clicks", disk: LocalDisk | None = None, **settings: str) -> HighAvailability:
        more = {key.replace("_", "-"): value for key, value in settings.items()}
        config = Config().with_program(FILES | {f"high-availability.{key}": v for key, v in more.items()})
        part = open_leadership(config, name, disk or LocalDisk(tmp_path), SystemClock())
        assert part is not None
        opened.append(part)
        return part

    yield open_one
    for part in opened:
        part.close(ended=False)


def lead(part: HighAvailability) -> LedJob:
    """Wait until it leads; it must."""
    led = part.wait(lambda text: None)
    assert led is not None
    return led


def may_commit(part: HighAvailability) -> bool:
    """Whether a commit may begin."""
    try:
        part.require()
    except StorageError:
        return False
    return True


def metadata_of(job: JobId, checkpoint: int, generation: int) -> CheckpointMetadata:
    """A checkpoint without state."""
    return CheckpointMetadata(
        job=job,
        job_name="clicks",
        checkpoint=checkpoint,
        generation=generation,
        attempt=1,
        trigger_ms=0,
        max_parallelism=128,
        format_fingerprint=fingerprint(),
        parallelism={},
        operators={},
        enumerators={},
        state_types={},
    )


def test_without_it_every_start_is_a_job_of_its_own(tmp_path: Path) -> None:
    """Nothing is opened where it is off, or where there are no checkpoints to go on from."""
    disk, clock = LocalDisk(tmp_path), SystemClock()
    assert open_leadership(Config(), "clicks", disk, clock) is None
    assert open_leadership(Config().with_program(FILES), "clicks", None, clock) is None
    assert list(disk.list("")) == []


def test_a_driver_that_is_started_again_goes_on(tmp_path: Path, drivers: Open) -> None:
    """It finds the job by name, with a higher generation, and begins at its last checkpoint."""
    disk = LocalDisk(tmp_path)
    first = drivers()
    led = lead(first)
    service = CheckpointService(disk, led.job, log=led.store)
    permit = service.claim()
    explicit = RestorePoint(metadata_of(JobId("other"), 9, 1), "elsewhere")
    assert where_to_begin(service, lambda: explicit) is explicit
    assert where_to_begin(service, lambda: None) is None
    service.store(permit, metadata_of(led.job, 1, permit.generation))
    first.close(ended=False)

    again = lead(drivers())
    assert again.job == led.job
    service = CheckpointService(disk, again.job, log=again.store)
    assert service.claim().generation == permit.generation + 1
    point = where_to_begin(service, lambda: explicit)
    assert point is not None
    assert (point.checkpoint.checkpoint, point.storage) == (1, disk.describe())
    assert service.next_checkpoint_id() > 1


def test_a_job_that_has_ended_begins_anew(drivers: Open) -> None:
    """The next run has another id, so what the last one retained is not its own."""
    first = drivers()
    job = lead(first).job
    first.close(ended=True)
    second = drivers()
    following = lead(second).job
    assert following != job
    second.close(ended=False)
    assert lead(drivers()).job == following


def test_an_end_that_is_not_on_record_forgets_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The next driver has the same run, and its last checkpoint to go on from."""
    monkeypatch.setattr("headgate.ha.high_availability.END_PAUSES_S", (0.01,))
    log = CompletedCheckpointLog(LocalDisk(tmp_path), "log")

    def opened(disk: LocalDisk) -> HighAvailability:
        leadership = Leadership("clicks", FileElection(disk, "leaders", SystemClock(), 4_000), SystemClock())
        return HighAvailability("clicks", "", True, leadership, lambda _: log, lambda: None, forgets=True)

    first = opened(NoEndings(tmp_path))
    led = lead(first)
    permit = led.store.claim()
    led.store.append(permit, CheckpointId(7), "chk-7/_metadata", "a" * 64)
    with pytest.raises(StorageError, match="does not answer"):
        first.end()
    first.close(ended=True)
    assert "the end of job 'clicks' is not on record" in caplog.text
    second = opened(LocalDisk(tmp_path))
    again = lead(second)
    assert again.job == led.job
    assert [entry.checkpoint for entry in again.store.completed()] == [7]
    again.store.claim()
    second.close(ended=True)
    third = opened(LocalDisk(tmp_path))
    following = lead(third)
    assert (following.job != led.job, following.store.completed()) == (True, [])
    third.close(ended=False)


def test_jobs_are_told_apart_by_name_and_cluster(drivers: Open) -> None:
    """Names that look alike as folders are different jobs, and so are equal names of two clusters."""
    parts = [drivers("a b"), drivers("a-b"), drivers("a b", cluster_id="other")]
    jobs = [lead(part).job for part in parts]
    assert len(set(jobs)) == 3
    assert all(job.startswith("a-b-0-") for job in jobs)
    assert job_id("...", "default", 0).startswith("job-0-")


def test_a_standby_says_that_it_waits_and_takes_over(drivers: Open) -> None:
    """It shows for whom; when the leader gives up, it leads."""
    first, second = drivers(), drivers()
    lead(first)
    said, waits, won = list[str](), threading.Event(), list[LedJob | None]()

    def waiting(text: str) -> None:
        said.append(text)
        waits.set()

    thread = threading.Thread(target=lambda: won.append(second.wait(waiting)))
    thread.start()
    assert waits.wait(WAIT_S)
    first.close(ended=False)
    thread.join(WAIT_S)
    assert "waiting as standby: job 'clicks' is led by process" in said[0]
    assert won[0] is not None


def test_a_standby_ends_with_the_job(drivers: Open) -> None:
    """When the leader brings the job to its end, who waited has nothing to do."""
    first, second = drivers(), drivers()
    lead(first)
    waits, won = threading.Event(), list[LedJob | None]()
    thread = threading.Thread(target=lambda: won.append(second.wait(lambda text: waits.set())))
    thread.start()
    assert waits.wait(WAIT_S)
    first.close(ended=True)
    thread.join(WAIT_S)
    assert won == [None]


def test_without_standby_the_second_driver_stops(drivers: Open) -> None:
    """It says who leads and what to do."""
    lead(drivers(lease="1s"))
    with pytest.raises(FencedError, match=r"is led by process .* stop that driver first"):
        drivers(standby="false", lease="1s").wait(lambda text: None)


def test_a_leader_without_its_storage_stops_and_is_replaced(tmp_path: Path, drivers: Open) -> None:
    """It is told once; neither it nor its store does anything more, while the next one commits."""
    disk = BreakableDisk(tmp_path)
    first, second = drivers(disk=disk, lease="2s"), drivers(lease="2s")
    led = lead(first)
    permit = led.store.claim()
    led.store.append(permit, CheckpointId(1), "m", "00")
    lost, heard = list[FencedError](), threading.Event()
    first.on_lost(lambda error: (lost.append(error), heard.set()))
    disk.broken = True
    following = lead(second)
    assert heard.wait(WAIT_S)
    with pytest.raises(FencedError, match="does not lead job 'clicks' any more"):
        first.require()
    disk.broken = False
    changes = [
        led.store.claim,
        lambda: led.store.append(permit, CheckpointId(2), "m", "00"),
        lambda: led.store.check(permit),
        lambda: led.store.trim(permit, CheckpointId(1)),
        lambda: led.store.first_checkpoint_id(CheckpointId(1)),
        lambda: led.store.close(permit, terminal=True),
    ]
    for change in changes:
        with pytest.raises(FencedError):
            change()
    newer = following.store.claim()
    following.store.append(newer, CheckpointId(2), "m", "00")
    latest = led.store.latest()
    assert latest is not None
    assert (latest.checkpoint, len(led.store.completed())) == (2, 2)
    assert len(lost) == 1
    first.on_lost(lost.append)
    assert lost[0] is lost[1], "whoever asks later is told at once"


def test_nothing_is_committed_while_nobody_knows(drivers: Open) -> None:
    """A proof that failed stops commits by a plain error; with the next proof they go on."""
    part = drivers(lease="4s")
    led = lead(part)
    permit = led.store.claim()
    part._leadership.suspended()
    with pytest.raises(StorageError, match="cannot be proved at the moment"):
        led.store.append(permit, CheckpointId(1), "m", "00")
    assert led.store.completed() == []
    while not may_commit(part):
        threading.Event().wait(0.01)
    led.store.append(permit, CheckpointId(1), "m", "00")


def test_an_election_out_of_reach_is_an_error(tmp_path: Path, drivers: Open) -> None:
    """At the first look; later a standby goes on waiting."""
    (tmp_path / LEADERS).write_text("a file where a folder is needed")
    with pytest.raises(StorageError):
        drivers().wait(lambda text: None)


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"high-availability.type": "filesystem"}, "execution.checkpointing.interval"),
        ({"high-availability.type": "zookeeper", "execution.checkpointing.interval": "1s"}, "quorum"),
    ],
)
def test_what_is_missing_for_it_is_named(settings: dict[str, str], named: str) -> None:
    """High availability needs checkpoints, and ZooKeeper its address."""
    config = Config().with_program({"execution.checkpointing.dir": "/c"} | settings)
    with pytest.raises(ConfigError, match=named):
        validate(config)


def test_storage_that_dies_with_its_driver_is_refused() -> None:
    """Nobody else could ever go on from it."""
    config = Config().with_program(FILES)
    with pytest.raises(ConfigError, match=r"needs checkpoints that outlive a driver, .* is memory://here"):
        open_leadership(config, "clicks", open_disk("memory://here"), SystemClock())


def test_sparks_configuration_may_ask_for_it_for_whoever_has_checkpoints() -> None:
    """Of jobs without checkpoints nothing is asked."""
    validate(Config().with_spark({"spark.headgate.high-availability.type": "filesystem"}))


@pytest.mark.parametrize("root", ["/", "/a/../b", "/a//b", "/a b"])
def test_a_path_that_cannot_name_nodes_is_refused(root: str) -> None:
    """Before ZooKeeper is asked."""
    config = Config().with_program({"high-availability.zookeeper.path.root": root})
    with pytest.raises(ConfigError, match=r"zookeeper\.path\.root"):
        zookeeper_root(config)
