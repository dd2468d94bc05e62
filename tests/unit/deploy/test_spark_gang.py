"""The gang without Spark: what is shipped, what is reported, and that cancelling never raises."""

from __future__ import annotations

import os
import pickle
import pickletools
import queue
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import cloudpickle
import pytest

from headgate.deploy.spark.gang import POOL, SparkGang
from headgate.deploy.spark.slots import Hold, Need
from headgate.deploy.spark.worker_main import gang_function, host_towards
from headgate.runtime.driver.driver import GangContext
from headgate.runtime.worker.worker_process import WorkerSpec

SOURCE = str(Path(__file__).parents[3] / "src")


def worker(sys_path: tuple[str, ...] = ()) -> WorkerSpec:
    """A spec that leads nowhere."""
    return WorkerSpec(
        control_address="tcp:127.0.0.1:1", secret=b"s", job="job", generation=1, heartbeat_interval_ms=1000,
        lease_ms=8000, bind_host="127.0.0.1", frame_size_max=1 << 20, sys_path=sys_path,
    )  # fmt: skip


class FakeSpark:
    """A SparkContext whose stage lasts until it is told how to end."""

    def __init__(self) -> None:
        self.ending: queue.Queue[Exception | None] = queue.Queue()
        self.submitted = threading.Event()
        self.properties: dict[str, str] = {}
        self.cancelled: list[str] = []
        self.rows: list[int] = []
        self.call_sites: list[str | None] = []
        self._jsc = self
        self.uiWebUrl: str | None = None

    def setLocalProperty(self, key: str, value: str) -> None:  # noqa: N802 - Spark's name
        self.properties[key] = value

    def setJobGroup(self, group: str, text: str, interruptOnCancel: bool) -> None:  # noqa: N802, N803
        self.properties["group"] = group
        self.properties["text"] = text

    def setCallSite(self, text: str | None) -> None:  # noqa: N802
        self.call_sites.append(text)

    def parallelize(self, rows: Any, partitions: int) -> FakeSpark:
        self.rows = list(rows)
        assert partitions == len(self.rows), "one row per task"
        return self

    def barrier(self) -> FakeSpark:
        return self

    def mapPartitions(self, function: Any) -> FakeSpark:  # noqa: N802
        cloudpickle.dumps(function)
        return self

    def collect(self) -> None:
        self.submitted.set()
        ending = self.ending.get(timeout=10)
        if ending is not None:
            raise ending

    def sc(self) -> FakeSpark:
        return self

    def cancelJobGroupAndFutureJobs(self, group: str) -> None:  # noqa: N802
        self.cancelled.append(group)
        self.ending.put(
            RuntimeError(f"[SPARK_JOB_CANCELLED] Job 1 cancelled part of cancelled job group {group}")
        )


def gang_of(spark: FakeSpark) -> tuple[SparkGang, queue.Queue[tuple[int, str | None]]]:
    """A gang on the fake, and what it reports."""
    reports: queue.Queue[tuple[int, str | None]] = queue.Queue()
    context = GangContext(worker(), lambda gang, reason: reports.put((gang, reason)))
    return SparkGang(spark, context, "job", Hold("app", Need(2, 0), "local")), reports  # type: ignore[arg-type]


def test_a_gang_that_ends_in_order_has_no_reason() -> None:
    """One task per slot in the gangs' own pool and group; the end is reported with None."""
    spark = FakeSpark()
    gang, reports = gang_of(spark)
    gang.submit(3, 2)
    spark.ending.put(None)
    assert reports.get(timeout=10) == (3, None)
    assert spark.rows == [0, 1]
    title = "headgate: job, gang 3, 2 workers"
    assert spark.properties == {"spark.scheduler.pool": POOL, "group": "headgate-job-1-3", "text": title}
    assert title in spark.call_sites, "the stage's name"
    gang.close()
    assert spark.cancelled == []


def test_spark_s_pages_are_linked_where_there_are_any() -> None:
    """The status shows them."""
    spark = FakeSpark()
    assert gang_of(spark)[0].links == {}
    spark.uiWebUrl = "http://10.0.0.1:4040"
    assert gang_of(spark)[0].links == {"spark_ui": "http://10.0.0.1:4040"}


def test_a_failed_gang_says_why() -> None:
    """Whatever Spark raises becomes one sentence."""
    spark = FakeSpark()
    gang, reports = gang_of(spark)
    gang.submit(1, 1)
    spark.ending.put(OSError("[Errno 111] Connection refused"))
    assert reports.get(timeout=10) == (1, "Spark's JVM in the driver ended")


def test_cancelling_is_reported_like_any_end() -> None:
    """Only the gang's own group is cancelled; one that is unknown or over is left alone."""
    spark = FakeSpark()
    gang, reports = gang_of(spark)
    gang.cancel(1)
    gang.submit(1, 1)
    assert spark.submitted.wait(10)
    gang.cancel(1)
    assert reports.get(timeout=10) == (1, "it was cancelled")
    assert spark.cancelled == ["headgate-job-1-1"]


def test_closing_ends_what_still_runs() -> None:
    """After close() no gang is left; a second close does nothing."""
    spark = FakeSpark()
    gang, reports = gang_of(spark)
    gang.submit(1, 1)
    assert spark.submitted.wait(10)
    gang.close()
    gang.close()
    assert reports.get_nowait() == (1, "it was cancelled")
    assert len(spark.cancelled) == 1


def test_a_dead_jvm_cannot_be_cancelled_and_that_is_no_error() -> None:
    """The job master's loop must survive it."""

    class Dead(FakeSpark):
        def cancelJobGroupAndFutureJobs(self, group: str) -> None:  # noqa: N802
            raise ConnectionRefusedError(111, "Connection refused")

    spark = Dead()
    gang, _ = gang_of(spark)
    gang.submit(1, 1)
    assert spark.submitted.wait(10)
    gang.cancel(1)
    spark.ending.put(None)


def called_by(code: str, environment: dict[str, str]) -> subprocess.CompletedProcess[bytes]:
    """Run `code` in a new interpreter, which gets the shipped function of a gang on its standard input."""
    shipped = cloudpickle.dumps(gang_function(worker((SOURCE,)), 1, several_hosts=False))
    command = [sys.executable, "-c", code]
    return subprocess.run(command, input=shipped, capture_output=True, cwd="/", env=environment, check=False)


def test_the_shipped_function_brings_its_import_path_along() -> None:
    """A worker that cannot import Headgate by itself can unpickle and call the function all the same."""
    code = (
        "import sys, pickle\n"
        "function = pickle.loads(sys.stdin.buffer.read())\n"
        "assert not any(name.startswith('headgate') for name in sys.modules)\n"
        "try:\n    function(iter([0]))\n"
        "except Exception as error:\n    print(type(error).__module__)\n"
    )
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    done = called_by(code, environment)
    assert done.stdout.decode().strip() == "headgate.common.errors", done.stderr.decode()


def test_arrow_is_told_to_keep_freed_memory_before_it_is_loaded() -> None:
    """It reads the variable as it is loaded."""
    code = (
        "import builtins, os, pickle, sys\n"
        "real, seen = builtins.__import__, []\n"
        "def watching(name, *rest):\n"
        "    if name == 'pyarrow' and not seen:\n"
        "        seen.append(os.environ.get('MIMALLOC_PURGE_DELAY'))\n"
        "    return real(name, *rest)\n"
        "builtins.__import__ = watching\n"
        "function = pickle.loads(sys.stdin.buffer.read())\n"
        "try:\n    function(iter([0]))\n"
        "except Exception:\n    print(seen)\n"
    )
    without = {key: value for key, value in os.environ.items() if key != "MIMALLOC_PURGE_DELAY"}
    for set_before, expected in (({}, "10000"), ({"MIMALLOC_PURGE_DELAY": "5"}, "5")):
        done = called_by(code, {**without, **set_before})
        assert done.stdout.decode().strip() == str([expected]), done.stderr.decode()


def test_an_executor_without_our_dependencies_is_told_so(tmp_path: Path) -> None:
    """The error names the machine's Python and the missing package."""
    (tmp_path / "msgspec.py").write_text("raise ImportError(\"No module named 'msgspec'\")\n")
    shipped = cloudpickle.dumps(gang_function(worker((SOURCE,)), 1, several_hosts=True))
    done = subprocess.run(
        [sys.executable, "-c", "import sys, pickle; pickle.loads(sys.stdin.buffer.read())(iter([0]))"],
        input=shipped, capture_output=True, env={**os.environ, "PYTHONPATH": str(tmp_path)}, check=False,
    )  # fmt: skip
    said = done.stderr.decode().splitlines()[-1]
    assert said.startswith(f"RuntimeError: {sys.executable} on ")
    assert "cannot load Headgate: No module named 'msgspec'" in said


def test_nothing_but_plain_values_is_shipped_with_the_function() -> None:
    """The pickle names no class of Headgate, which a worker could not import yet."""
    shipped = cloudpickle.dumps(gang_function(worker(), 1, several_hosts=True))
    strings = {argument for _, argument, _ in pickletools.genops(shipped) if isinstance(argument, str)}
    assert {"WorkerSpec", "SparkGang"} & strings == set()
    assert callable(pickle.loads(shipped))


@pytest.mark.parametrize("address", ["tcp:127.0.0.1:4711", "unix:@x#host,tcp:127.0.0.1:4711"])
def test_a_worker_listens_where_it_reaches_the_driver_from(address: str) -> None:
    """The interface on the way to the job master is the one that peers reach, too."""
    assert host_towards(address) == "127.0.0.1"
