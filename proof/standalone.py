"""A standalone cluster of Spark from PySpark's own jars: a master, and workers that can be killed."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import psutil
import pyspark

PATIENCE_S: Final = 180
_HOME: Final = Path(pyspark.__file__).parent
EXECUTOR_CLASS: Final = "CoarseGrainedExecutorBackend"


class Daemon:
    """One of Spark's own processes, with its log.

    Args:
        name: class below `org.apache.spark.deploy`.
        address: that it binds.
        log: gets what it prints.
        arguments: its own.
        inside: command that it is started by, for instance in namespaces of its own.
    """

    def __init__(
        self, name: str, address: str, log: Path, arguments: Sequence[str], inside: Sequence[str] = ()
    ) -> None:
        self.log = log
        with log.open("wb") as output:
            self.process = subprocess.Popen(
                [*inside, str(_HOME / "bin" / "spark-class"), f"org.apache.spark.deploy.{name}",
                 "--host", address, "--webui-port", "0", *arguments],
                stdout=output, stderr=output, start_new_session=True, env=environment(address),
            )  # fmt: skip

    def said(self, text: str) -> str:
        """The rest of the line behind a text, once it is in the log."""
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline and self.process.poll() is None:
            _, found, rest = self.log.read_text(errors="replace").partition(text)
            if found and "\n" in rest:
                return rest.splitlines()[0]
            time.sleep(0.1)
        raise AssertionError(f"it did not say {text!r}: {self.log.read_text(errors='replace')}")

    def executors(self) -> list[psutil.Process]:
        """JVMs of executors below a worker."""
        children = psutil.Process(self.process.pid).children(recursive=True)
        return [child for child in children if EXECUTOR_CLASS in " ".join(command_of(child))]

    def kill(self) -> None:
        """End it at once, with everything below it."""
        if self.process.poll() is None:
            family = psutil.Process(self.process.pid).children(recursive=True)
            os.killpg(self.process.pid, signal.SIGKILL)
            for process in family:
                if process.is_running():
                    process.kill()
            psutil.wait_procs(family, timeout=20)
        self.process.wait(20)


class StandaloneCluster:
    """A master and its workers, all on this machine.

    Args:
        folder: for logs and the executors' folders.
        address: of the master.

    Attributes:
        url: of the master, for programs.
        workers: that were started and not killed.
    """

    def __init__(self, folder: Path, address: str = "127.0.0.1") -> None:
        self._folder, self._count = folder, 0
        self.workers: list[Daemon] = []
        self._master = Daemon("master.Master", address, folder / "master.log", ["--port", "0"])
        try:
            self.url = "spark://" + self._master.said("Starting Spark master at spark://")
        except BaseException:
            self._master.kill()
            raise

    def start_worker(self, address: str, cores: int, inside: Sequence[str] = ()) -> Daemon:
        """Another worker; it may not be registered yet."""
        self._count += 1
        place = self._folder / f"worker-{self._count}"
        arguments = ["--cores", str(cores), "--memory", "2g", "-d", str(place), self.url]
        worker = Daemon("worker.Worker", address, place.with_suffix(".log"), arguments, inside)
        self.workers.append(worker)
        return worker

    def await_workers(self) -> None:
        """Until all of them are registered."""
        for worker in self.workers:
            worker.said("Successfully registered with master")

    def kill_worker(self, worker: Daemon) -> None:
        """A machine is gone: the worker with its executors."""
        self.workers.remove(worker)
        worker.kill()

    def stop(self) -> None:
        """End everything."""
        for daemon in (*self.workers, self._master):
            daemon.kill()
        self.workers.clear()


def environment(address: str) -> dict[str, str]:
    """Variables of a process of Spark on the machine with this address."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "PYSPARK"))}
    own = {"SPARK_HOME": str(_HOME), "SPARK_LOCAL_IP": address, "SPARK_DAEMON_MEMORY": "256m"}
    return {**kept, **own, "SPARK_DAEMON_JAVA_OPTS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}


def command_of(process: psutil.Process) -> list[str]:
    """How a process was started; empty when it is gone."""
    try:
        return process.cmdline()
    except psutil.NoSuchProcess:
        return []
