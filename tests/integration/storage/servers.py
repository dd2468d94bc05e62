"""Real servers for the storage tests: one that speaks S3, and HDFS. Fetched once, into the folder `build`."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
import venv
from collections.abc import Sequence
from pathlib import Path

import pyspark
import pytest

ROOT = Path(__file__).parents[3]
BUILD = ROOT / "build"
FETCH_TIMEOUT_S = 200
START_TIMEOUT_S = 90

S3_MAIN = """
import threading
import werkzeug.serving as serving

run, turn = serving.run_simple, threading.Lock()

def one_at_a_time(host, port, app, **options):
    def answer(environ, start):
        with turn:
            return list(app(environ, start))
    run(host, port, answer, **options)

serving.run_simple = one_at_a_time
from moto.server import main
main()
"""
"""Runs moto with atomic requests, as S3 has them: moto itself shows an object before it has its metadata."""

HDFS_MAIN = """
import java.io.File;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.permission.FsPermission;
import org.apache.hadoop.hdfs.MiniDFSCluster;

public class Hdfs {
  public static void main(String[] arguments) throws Exception {
    Configuration configuration = new Configuration();
    MiniDFSCluster.Builder builder = new MiniDFSCluster.Builder(configuration, new File(arguments[0]));
    MiniDFSCluster cluster = builder.numDataNodes(1).build();
    cluster.waitActive();
    cluster.getFileSystem().setPermission(new Path("/"), new FsPermission("777"));
    System.out.println("READY " + cluster.getHttpUri(0));
    System.out.flush();
    while (System.in.read() >= 0) { }
    cluster.shutdown();
  }
}
"""


def _fetch(command: Sequence[str], what: str) -> None:
    """Run a command that downloads, or skip the test with the reason."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=FETCH_TIMEOUT_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        pytest.skip(f"{what} cannot be had: {error}")
    if done.returncode:
        last = (done.stderr or done.stdout).strip().splitlines()[-1:]
        pytest.skip(f"{what} cannot be had: {' '.join(last)}")


def free_port() -> int:
    """A port of this machine that nobody uses now."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


def end(process: subprocess.Popen[str] | None, how: signal.Signals = signal.SIGKILL) -> None:
    """End a server that was started here, and wait for it."""
    if process is None:
        return
    process.send_signal(how)
    process.wait()
    for stream in (process.stdin, process.stdout):
        if stream is not None:
            stream.close()


class S3Server:
    """A server with one bucket, `bucket`, in memory; as it is killed it forgets everything."""

    def __init__(self) -> None:
        self.port = free_port()
        self._process: subprocess.Popen[str] | None = None
        self._python = _s3_environment()

    @property
    def endpoint(self) -> str:
        """Its URL."""
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> S3Server:
        """Start it anew, empty."""
        self._process = subprocess.Popen(
            [str(self._python), "-c", S3_MAIN, "-H", "127.0.0.1", "-p", str(self.port)],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        deadline = time.monotonic() + START_TIMEOUT_S
        while True:
            try:
                make = urllib.request.Request(f"{self.endpoint}/bucket", method="PUT")
                urllib.request.urlopen(make, timeout=START_TIMEOUT_S).close()
                return self
            except (urllib.error.URLError, ConnectionError):
                assert self._process.poll() is None, "the S3 server ended"
                assert time.monotonic() < deadline, "the S3 server does not answer"
                time.sleep(0.05)

    def pause(self) -> None:
        """It is there, and answers nothing."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)

    def go_on(self) -> None:
        """It answers again."""
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        """It is gone in the middle of whatever it does."""
        process, self._process = self._process, None
        end(process)


def _s3_environment() -> Path:
    """The interpreter of the server's own environment."""
    pins = ROOT / "requirements" / "s3-server.txt"
    home = BUILD / "s3-server"
    python, stamp = home / "bin" / "python", home / "pins.txt"
    if not stamp.is_file() or stamp.read_text() != pins.read_text():
        shutil.rmtree(home, ignore_errors=True)
        venv.create(home, with_pip=True)
        pip = [str(python), "-m", "pip", "--disable-pip-version-check", "install", "--quiet"]
        _fetch([*pip, "--require-hashes", "--only-binary", ":all:", "-r", str(pins)], "the S3 server")
        stamp.write_text(pins.read_text())
    return python


class HdfsServer:
    """A name node and a data node in one process, on a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        jars = Path(pyspark.__file__).parent / "jars"
        found = next(jars.glob("hadoop-client-api-*.jar"), None)
        java = shutil.which("java")
        if found is None or java is None or shutil.which("mvn") is None:
            pytest.skip("HDFS needs java, mvn and PySpark's jars of Hadoop")
        version = found.stem.removeprefix("hadoop-client-api-")
        wanted = [
            "hadoop-client-api-*",
            "hadoop-client-runtime-*",
            "slf4j-api-*",
            "log4j-*",
            "jcl-over-slf4j-*",
        ]
        own = [str(jar) for pattern in wanted for jar in sorted(jars.glob(f"{pattern}.jar"))]
        self._java, self._class_path = java, [str(_hdfs_jar(version)), *own]
        self._process: subprocess.Popen[str] | None = None
        self.address = ""

    def start(self) -> HdfsServer:
        """Start it on an empty folder; returns when it takes files."""
        self._folder.mkdir(parents=True, exist_ok=True)
        main = self._folder / "Hdfs.java"
        main.write_text(HDFS_MAIN)
        path = os.pathsep.join(self._class_path)
        self._process = subprocess.Popen(
            [self._java, "-Xmx512m", "-cp", path, str(main), str(self._folder / "data")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            cwd=self._folder,
        )  # fmt: skip
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith("READY "):
                self.address = line.split("//")[1].strip()
                return self
        raise AssertionError("HDFS did not start")

    def kill(self) -> None:
        """It is gone in the middle of whatever it does."""
        process, self._process = self._process, None
        end(process)


def _hdfs_jar(version: str) -> Path:
    folder = BUILD / "hdfs-server"
    name = f"hadoop-client-minicluster-{version}.jar"
    if not (folder / name).is_file():
        artifact = f"org.apache.hadoop:hadoop-client-minicluster:{version}"
        goal = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy"
        _fetch(["mvn", "-q", "-B", goal, f"-Dartifact={artifact}", f"-DoutputDirectory={folder}"], "HDFS")
    return folder / name


def run_elsewhere(code: str, *arguments: str, env: dict[str, str] | None = None) -> subprocess.Popen[str]:
    """Start a small program in a process of its own; its output is read with `communicate`."""
    return subprocess.Popen(
        [sys.executable, "-c", code, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        stdin=subprocess.PIPE,
        text=True,
        env={**os.environ, **(env or {}), "PYTHONPATH": str(ROOT / "src")},
    )


def together(processes: list[subprocess.Popen[str]]) -> list[tuple[str, str]]:
    """Tell processes that wait for a line to go, all at once; what each wrote: output, errors."""
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    return [process.communicate() for process in processes]
