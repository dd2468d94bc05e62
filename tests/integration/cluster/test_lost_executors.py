"""Executors and machines die under a running job: it recovers exactly once, or goes on with fewer slots."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from running import Run, headgate, own_session, program

import headgate as hg
from proof.standalone import PATIENCE_S, StandaloneCluster

pytestmark = [pytest.mark.ci, pytest.mark.spark, pytest.mark.timeout(900)]

PROGRAM = Path(__file__).parent / "programs" / "counting_on_cluster.py"
KEYS = 7
RECORDS = 40_000


def counting(cluster: StandaloneCluster, folder: Path, parallelism: int) -> Any:
    """The program; it goes slowly until it is let go."""
    arguments = [str(folder), cluster.url, str(parallelism), str(RECORDS)]
    return program([sys.executable, str(PROGRAM), *arguments], variables=own_session())


def published(folder: Path) -> list[str]:
    """Lines of all published files."""
    files = [file for file in (folder / "out").rglob("*.jsonl") if not file.name.startswith((".", "_"))]
    return sorted(line for file in files for line in file.read_text().splitlines())


def batch_answer() -> list[str]:
    """What a run without failures publishes."""
    counts = [len(range(key, RECORDS, KEYS)) for key in range(KEYS)]
    return sorted(f"[{key},{n}]" for key, most in enumerate(counts) for n in range(1, most + 1))


def let_go(run: Run, folder: Path) -> list[str]:
    """To the end, as fast as it can; gives what the program said."""
    (folder / "hurry").touch()
    return run.ended()


def running_again(run: Run) -> int:
    """Pid of a worker of the next attempt, once that runs and has a checkpoint."""
    pid = int(run.wait_for("worker 0 "))
    run.wait_for("running ")
    run.wait_for("checkpoint ")
    return pid


def test_a_killed_executor_and_a_killed_worker(cluster: StandaloneCluster, tmp_path: Path) -> None:
    """The job goes on exactly once on executors that Spark replaces; Spark works beside it, and shows it."""
    with counting(cluster, tmp_path, 2) as run:
        running_again(run)
        assert_recognisable()
        (executor, *_) = cluster.workers[0].executors()
        executor.kill()
        run.wait_for("failed 1: ")
        pid = running_again(run)
        os.kill(pid, signal.SIGKILL)
        run.wait_for("failed 2: ")
        lines = let_go(run, tmp_path)
    assert f"fed {sum(range(0, 2000, 2))}" in lines
    assert "restarts 2" in lines
    assert published(tmp_path) == batch_answer()


def assert_recognisable() -> None:
    """Spark's own pages, which the status links to, name the job."""
    status = json.loads(headgate("status", "counting-on-cluster", "--json"))
    pages = status["links"]["spark_ui"]
    assert f"spark ui: {pages}" in headgate("status", "counting-on-cluster")
    gang, deadline = gang_on(pages), time.monotonic() + PATIENCE_S
    # Spark's pages lag behind its scheduler.
    while gang["numActiveTasks"] < 2 and time.monotonic() < deadline:
        time.sleep(0.2)
        gang = gang_on(pages)
    assert gang["description"] == gang["name"] == "headgate: counting-on-cluster, gang 1, 2 workers"
    assert gang["numActiveTasks"] == 2


def gang_on(pages: str) -> Any:
    """The gang, as Spark's pages have it."""
    (application,) = asked(f"{pages}/api/v1/applications")
    jobs = asked(f"{pages}/api/v1/applications/{application['id']}/jobs?status=running")
    (gang,) = [job for job in jobs if job.get("jobGroup", "").startswith("headgate-counting-on-cluster-")]
    return gang


def asked(url: str) -> Any:
    """What Spark's pages say."""
    with urllib.request.urlopen(url, timeout=PATIENCE_S) as answer:
        return json.load(answer)


def test_fewer_slots_after_a_machine_was_lost(cluster: StandaloneCluster, tmp_path: Path) -> None:
    """The job says what is missing; one command has it go on with fewer workers, another with more again."""
    with counting(cluster, tmp_path, 3) as run:
        running_again(run)
        cluster.kill_worker(cluster.workers[1])
        run.wait_for("failed 1: ")
        said = run.wait_for("the workers need 3 task slots")
        assert "has 2 now: executors were lost" in said
        assert "headgate rescale JOB --parallelism 1 --from-last" in said
        printed = headgate("rescale", "counting-on-cluster", "--parallelism", "1", "--from-last")
        assert "runs at parallelism 1" in printed
        cluster.start_worker("127.0.0.2", cores=2)
        cluster.await_workers()
        widened(3)
        let_go(run, tmp_path)
    assert published(tmp_path) == batch_answer()


def widened(parallelism: int) -> None:
    """Refused as long as the new machine's executor is not there."""
    job, deadline, refused = hg.connect("counting-on-cluster"), time.monotonic() + PATIENCE_S, ""
    while time.monotonic() < deadline:
        try:
            job.rescale(parallelism, timeout_s=PATIENCE_S)
            return
        except hg.UsageError as refusal:
            refused = str(refusal)
            time.sleep(0.3)
    raise AssertionError(refused)
