"""Two jobs in one driver process, each with the settings of its own storage."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from servers import S3Server

import headgate as hg
from headgate.checkpoint.opening import open_checkpoint
from headgate.checkpoint.storage.settings import StorageSettings, storage_settings_in_use
from headgate.checkpoint.storage.uris import disks_with
from headgate.testing.mini_cluster import MiniCluster

pytestmark = pytest.mark.ci

ROOT = "s3://bucket/jobs"
PATIENCE_S = 60


class Count(hg.KeyedProcessFunction):
    """Counts; raises once for each file that somebody makes."""

    count: hg.ValueState[int] = hg.value_state(default=0)

    def __init__(self, trouble: Path) -> None:
        self._trouble = trouble

    def process(self, record: str, ctx: Any) -> Iterator[Any]:
        """One more."""
        self.count.value += 1
        if self._trouble.exists():
            self._trouble.unlink()
            raise RuntimeError("once")
        yield [record, self.count.value]


@pytest.fixture(scope="module")
def servers() -> Iterator[list[S3Server]]:
    """Two, with a bucket of the same name each."""
    made = [S3Server().start(), S3Server().start()]
    yield made
    for server in made:
        server.kill()


def job(server: S3Server, folder: Path, number: int) -> hg.Environment:
    """A job whose checkpoints are on one of the servers."""
    config = {
        "s3.endpoint": server.endpoint,
        "s3.access-key": f"id-{number}",
        "s3.secret-key": "do-not-show",
        "restart-strategy.type": "fixed-delay",
        "restart-strategy.fixed-delay.attempts": 2,
        "restart-strategy.fixed-delay.delay": "1ms",
        "execution.checkpointing.data-inline-threshold": "0b",
    }
    env = hg.Environment(parallelism=2, executor=MiniCluster(), config=config)
    env.checkpoints(every="20ms", storage=ROOT)
    words = env.generate(lambda n: f"w{n % 5}", rate_per_s=200, uid="words")
    keyed = words.key_by(lambda word: word)
    keyed.process(Count(folder / f"trouble-{number}"), uid="count").write_json(
        str(folder / f"out-{number}"), uid="out"
    )
    return env


def completes(handle: hg.JobHandle, restarts: int) -> None:
    """Wait until it has completed a checkpoint after so many restarts."""
    deadline, before = time.monotonic() + PATIENCE_S, None
    while True:
        status = handle.status()
        assert not handle.done, "the job has ended"
        assert time.monotonic() < deadline, f"it is {status.state}, with {status.restarts} restarts"
        if status.restarts == restarts and status.state == "running":
            before = status.checkpoints_completed if before is None else before
            if status.checkpoints_completed > before:
                return
        time.sleep(0.01)


def test_each_job_has_the_storage_that_it_was_given(
    servers: list[S3Server], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At the same time, under one URI: checkpoints, savepoints and restarts stay on the job's own server."""
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    before = storage_settings_in_use()
    with ExitStack() as jobs:
        made = [job(server, tmp_path, n) for n, server in enumerate(servers)]
        running = [jobs.enter_context(env.execute_async(f"job-{n}")) for n, env in enumerate(made)]
        for number, handle in enumerate(running):
            completes(handle, 0)
            (tmp_path / f"trouble-{number}").touch()
        for handle in running:
            completes(handle, 1)
        taken = [handle.stop("s3://bucket/savepoints") for handle in running]
        results = [handle.result() for handle in running]
    assert storage_settings_in_use() == before
    for server, result, uri in zip(servers, results, taken, strict=True):
        disks = disks_with(StorageSettings(server.endpoint, None, "an-id", "do-not-show"))
        assert {name.split("/")[0] for name in disks(ROOT).list("")} == {result.job_id}
        assert open_checkpoint(f"{ROOT}/{result.job_id}", disks=disks)[1].job == result.job_id
        assert open_checkpoint(uri, disks=disks)[1].job == result.job_id
        assert len({name.split("/")[0] for name in disks("s3://bucket/savepoints").list("")}) == 1
