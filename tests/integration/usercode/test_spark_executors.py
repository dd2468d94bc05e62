"""User code on executors of a cluster: files travel, each executor unpacks them below its own folder."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from test_spark_own_workers import FRAMES, OWN
from user_tasks import program, told

from headgate.deploy.spark.user_code.opening_code import OpenedCode
from headgate.deploy.spark.user_code.running_jobs import UserCodeJobs
from proof.standalone import StandaloneCluster

pytestmark = [pytest.mark.spark, pytest.mark.ci, pytest.mark.timeout(900)]

ATTRS = "import attr\ndef go(): return attr.__version__, attr.__file__"


@pytest.fixture(scope="module")
def context(open_spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Of a cluster with two executors of one slot each."""
    cluster = StandaloneCluster(tmp_path_factory.mktemp("cluster"))
    cluster.start_worker("127.0.0.1", cores=2)
    cluster.await_workers()
    settings = {"spark.executor.cores": "1", "spark.executor.memory": "512m"}
    yield open_spark(cluster.url, settings).sparkContext
    cluster.stop()


def placed(code: OpenedCode, rows: Iterable[Any]) -> Iterator[Any]:
    """The executor's folder, the worker's process, and what the job says."""
    said = code.call(code.import_module("program").go)
    yield os.environ["SPARK_LOCAL_DIRS"], os.getpid(), said


@pytest.mark.proof
def test_executors_unpack_what_they_are_sent(
    context: Any, jobs: UserCodeJobs, wheels: dict[str, Path], tmp_path: Path
) -> None:
    """Each below its own folder, for pure packages and for workers of the job's own, in barrier stages."""
    own = program(tmp_path / "code", ATTRS)
    versions = {"a": "21.4.0", "b": "24.2.0"}
    codes = {job: jobs.begin(job, [own, wheels[f"attrs-{version}"]]) for job, version in versions.items()}
    pids: set[int] = set()
    for job in "abab":
        found = told(context, jobs, codes[job], placed, tasks=2, barrier=True)
        assert [said[0] for _, _, said in found] == [versions[job]] * 2
        assert all(said[1].startswith(folder) for folder, _, said in found)
        assert len({folder for folder, _, _ in found}) == 2
        pids |= {pid for _, pid, _ in found}
    assert len(pids) == 2
    frames = program(tmp_path / "frames", FRAMES)
    code = jobs.begin("own", [frames, *(wheels[name] for name in OWN)])
    found = told(context, jobs, code, placed, tasks=2, barrier=True)
    assert [said[0] for _, _, said in found] == [("24.2.0", "2.1.3", "2.2.3", "20.0.0")] * 2
    assert pids.isdisjoint(pid for _, pid, _ in found)
