"""Who may use a session, and where DataFrames are staged; no JVM runs here."""

from __future__ import annotations

import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from headgate.api.jobs.executor_contract import JobSpec
from headgate.common.errors import UsageError
from headgate.common.settings.config import Config
from headgate.connectors.dataframe import dataframe_sink
from headgate.deploy.spark.executor import known_as, reachable
from headgate.deploy.spark.session import check_interpreter, check_suitable, refuse_connect
from headgate.deploy.spark.staging import connectors_of, staging_root
from headgate.graph.physical import PhysicalPlan
from headgate.runtime.driver.driver import GangContext
from headgate.runtime.worker.worker_process import WorkerSpec


def job(nodes: tuple[Any, ...] = (), **options: str) -> JobSpec:
    """A job with these nodes and options."""
    config = Config().with_program({key.replace("__", "."): value for key, value in options.items()})
    return JobSpec(name="job", nodes=nodes, plan=PhysicalPlan((), (), 128, 1), config=config)


def test_staging_is_beside_the_checkpoints_or_on_this_machine(tmp_path: Path) -> None:
    """Where the user says, else beside checkpoints on a file system; a cluster without either is refused."""
    with_checkpoints = job(execution__checkpointing__dir=f"file://{tmp_path}")
    assert staging_root(with_checkpoints, local=True) == tmp_path
    assert staging_root(with_checkpoints, local=False) == tmp_path
    asked = {
        "headgate.spark.staging-dir": f"file://{tmp_path}/here",
        "execution.checkpointing.dir": "s3://b/c",
    }
    assert staging_root(job(**asked), local=False) == tmp_path / "here"
    for elsewhere in (job(), job(execution__checkpointing__dir="s3://bucket/checkpoints")):
        assert staging_root(elsewhere, local=True) == Path(tempfile.gettempdir())
        with pytest.raises(UsageError, match=r"set headgate\.spark\.staging-dir"):
            staging_root(elsewhere, local=False)


def test_connectors_are_found_also_inside_others() -> None:
    """A throttled DataFrame is a DataFrame, too."""
    sink, wrapped = dataframe_sink(), dataframe_sink()
    nodes = (
        SimpleNamespace(id=1, uid="a", sink=sink),
        SimpleNamespace(id=2, uid=None, source=SimpleNamespace(inner=wrapped)),
        SimpleNamespace(id=3, uid=None),
    )
    assert connectors_of(job(nodes)) == {"a": sink, "#2": wrapped}


def test_the_control_address_is_reachable_from_other_machines() -> None:
    """On a cluster the driver listens where Spark's driver does, unless the user chose an address."""
    key = "headgate.network.bind-host"
    spark = {"spark.driver.host": "driver.local"}
    ours, name = reachable(job(), spark.get)
    assert (ours.config.texts(), name) == ({key: "driver.local"}, "driver.local")
    ours, name = reachable(job(), {**spark, "spark.driver.bindAddress": "10.0.0.1"}.get)
    assert (ours.config.texts(), name) == ({key: "10.0.0.1"}, "driver.local")
    mine = replace(job(), name="j", config=Config().with_program({key: "0.0.0.0"}))
    assert reachable(mine, spark.get) == (mine, None)


def test_workers_call_the_driver_by_the_name_that_spark_gives_it() -> None:
    """It may listen on another address: behind a service, or where addresses are translated."""
    spec = WorkerSpec("unix:@hg#m,tcp:10.0.0.1:4711", b"s", "job", 1, 1000, 8000, "10.0.0.1", 1 << 20)
    gang = GangContext(spec, lambda _, __: None)
    worker = known_as(gang, "driver.local").worker
    assert (worker.control_address, worker.bind_host) == ("unix:@hg#m,tcp:driver.local:4711", "driver.local")
    assert known_as(gang, None) is gang


def test_spark_connect_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """As the program's session, and as what the environment asks for."""
    remote = type("SparkSession", (), {})
    remote.__module__ = "pyspark.sql.connect.session"
    with pytest.raises(UsageError, match="given to the Environment is one of Spark Connect"):
        refuse_connect(remote())
    monkeypatch.setenv("SPARK_REMOTE", "sc://node")
    with pytest.raises(UsageError, match="SPARK_REMOTE asks for Spark Connect"):
        refuse_connect(None)
    monkeypatch.delenv("SPARK_REMOTE")
    refuse_connect(None)


def test_another_interpreter_for_the_workers_is_refused() -> None:
    """Functions travel as bytecode, and packages are those of the environment: they must be the same."""
    check_interpreter(sys.executable)
    with pytest.raises(UsageError, match="set PYSPARK_PYTHON to the latter"):
        check_interpreter("no-such-python")


@pytest.mark.parametrize(
    ("setting", "message"),
    [({"spark.dynamicAllocation.enabled": "true"}, "dynamicAllocation"), ({}, "PYSPARK_PIN_THREAD=false")],
)
def test_sessions_that_cannot_run_gangs_are_refused(setting: dict[str, str], message: str) -> None:
    """Dynamic allocation excludes barrier stages; unpinned threads exclude cancelling one of them."""
    context = SimpleNamespace(
        getConf=lambda: setting, _gateway=object(), master="local[2]", pythonExec=sys.executable
    )
    with pytest.raises(UsageError, match=message):
        check_suitable(context)  # type: ignore[arg-type]
