"""A real Kafka broker in KRaft mode, and Spark's package for Kafka. Fetched once, into the folder `build`."""

from __future__ import annotations

import re
import shutil
import socket
import subprocess
import time
import uuid
from base64 import urlsafe_b64encode
from collections.abc import Sequence
from pathlib import Path

import pytest

BUILD = Path(__file__).parents[3] / "build" / "kafka"
BROKER = "org.apache.kafka:kafka_2.13:4.1.0"
SPARK_JARS = (
    # The newest that Maven Central holds; it runs on Spark 4.3.
    "org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0",
    "org.apache.spark:spark-token-provider-kafka-0-10_2.13:4.0.0",
    "org.apache.kafka:kafka-clients:3.9.1",
    "org.apache.commons:commons-pool2:2.12.1",
)
MAVEN_PLUGIN = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1"
UNREACHABLE = "Could not transfer|Failure to transfer"
"""What Maven says of a registry that does not answer; an artifact that does not exist is "not found"."""
FETCH_TIMEOUT_S = 300
START_TIMEOUT_S = 90

PROJECT = """
<project>
  <modelVersion>4.0.0</modelVersion>
  <groupId>broker</groupId><artifactId>broker</artifactId><version>1</version>
  <dependencies>
    <dependency><groupId>{group}</groupId><artifactId>{artifact}</artifactId><version>{version}</version></dependency>
  </dependencies>
</project>
"""

SETTINGS = """
process.roles=broker,controller
node.id=1
controller.quorum.bootstrap.servers=127.0.0.1:{controller}
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}
controller.listener.names=CONTROLLER
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT
log.dirs={folder}/logs
num.partitions=2
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
group.initial.rebalance.delay.ms=0
broker.session.timeout.ms=4000
broker.heartbeat.interval.ms=500
"""


class KafkaServer:
    """One broker, its own controller, on a folder.

    Attributes:
        address: for `bootstrap.servers`.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._process: subprocess.Popen[bytes] | None = None
        self._java, jars = shutil.which("java"), _broker_jars()
        if self._java is None:
            pytest.skip("Kafka needs java")
        self._class_path = f"{jars}/*"
        self._port, controller = _free_port(), _free_port()
        self.address = f"127.0.0.1:{self._port}"
        folder.mkdir(parents=True)
        self._settings = folder / "server.properties"
        self._settings.write_text(SETTINGS.format(port=self._port, controller=controller, folder=folder))
        cluster = urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        self._run(
            "kafka.tools.StorageTool", "format", "--standalone", "-t", cluster, "-c", str(self._settings)
        )

    def start(self) -> KafkaServer:
        """Start it on what the folder holds; returns when it answers."""
        command = [self._java or "", "-Xmx384m", "-cp", self._class_path, "kafka.Kafka", str(self._settings)]
        with (self._folder / "output.txt").open("ab") as output:
            self._process = subprocess.Popen(command, stdout=output, stderr=output)
        deadline = time.monotonic() + START_TIMEOUT_S
        while not _answers(self._port):
            assert self._process.poll() is None, self.output
            assert time.monotonic() < deadline, f"Kafka does not answer: {self.output}"
            time.sleep(0.1)
        return self

    @property
    def output(self) -> str:
        """What the broker said last."""
        return (self._folder / "output.txt").read_text()[-5000:]

    def kill(self) -> None:
        """It is gone in the middle of whatever it does."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()

    def _run(self, main: str, *arguments: str) -> None:
        command = [self._java or "", "-cp", self._class_path, main, *arguments]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr


def spark_jars() -> str:
    """Jars for `spark.jars` with which Spark reads and writes Kafka."""
    folder, jars = BUILD / "spark", []
    for artifact in SPARK_JARS:
        _, name, version = artifact.split(":")
        jar = folder / f"{name}-{version}.jar"
        if not jar.is_file():
            _maven([f"{MAVEN_PLUGIN}:copy", f"-Dartifact={artifact}", f"-DoutputDirectory={folder}"])
        jars.append(str(jar))
    return ",".join(jars)


def _broker_jars() -> Path:
    folder, stamp = BUILD / "broker", BUILD / "broker.txt"
    if not stamp.is_file() or stamp.read_text() != BROKER:
        shutil.rmtree(folder, ignore_errors=True)
        BUILD.mkdir(parents=True, exist_ok=True)
        group, artifact, version = BROKER.split(":")
        project = BUILD / "pom.xml"
        project.write_text(PROJECT.format(group=group, artifact=artifact, version=version))
        goal = f"{MAVEN_PLUGIN}:copy-dependencies"
        _maven(["-f", str(project), goal, "-DincludeScope=runtime", f"-DoutputDirectory={folder}"])
        stamp.write_text(BROKER)
    return folder


def _maven(arguments: Sequence[str]) -> None:
    """Run Maven, or skip the test with the reason where Maven Central cannot be reached."""
    if shutil.which("mvn") is None:
        pytest.skip("Kafka is fetched with mvn, which is not here")
    try:
        done = subprocess.run(
            ["mvn", "-q", "-B", *arguments],
            capture_output=True,
            text=True,
            timeout=FETCH_TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        pytest.skip(f"Maven Central did not give Kafka within {FETCH_TIMEOUT_S} s")
    if done.returncode == 0:
        return
    reason = f"Maven did not get Kafka: {done.stdout.partition('[ERROR] ')[2].splitlines()[:1]}"
    if re.search(UNREACHABLE, done.stdout):
        pytest.skip(reason)
    pytest.fail(reason)


def _free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


def _answers(port: int) -> bool:
    with socket.socket() as link:
        link.settimeout(1)
        return link.connect_ex(("127.0.0.1", port)) == 0
