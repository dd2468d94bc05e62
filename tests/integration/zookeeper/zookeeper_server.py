"""A real ZooKeeper from the jars that PySpark ships: started, killed and started again on one port."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import time
from pathlib import Path

import pyspark

TICK_MS = 200
SESSION_MS_MAX = 60_000
START_S = 60.0
NEEDED = ("zookeeper-*", "slf4j-api-*", "log4j-*", "netty-*", "metrics-core-*", "snappy-java-*")


class ZooKeeperServer:
    """One server with its data in a folder.

    Attributes:
        address: ``host:port``.
    """

    def __init__(self, folder: Path) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port: int = probe.getsockname()[1]
        self.address = f"127.0.0.1:{self.port}"
        self._folder = folder
        self._process: subprocess.Popen[bytes] | None = None
        (folder / "data").mkdir()
        settings = {
            "tickTime": TICK_MS,
            "dataDir": folder / "data",
            "clientPort": self.port,
            "clientPortAddress": "127.0.0.1",
            "admin.enableServer": "false",
            "maxClientCnxns": 0,
            "maxSessionTimeout": SESSION_MS_MAX,
        }
        (folder / "zoo.cfg").write_text("".join(f"{key}={value}\n" for key, value in settings.items()))

    def start(self) -> None:
        """Start it, and wait until it serves."""
        jars = Path(pyspark.__file__).parent / "jars"
        classpath = [str(path) for pattern in NEEDED for path in sorted(jars.glob(pattern))]
        home = os.environ.get("JAVA_HOME")
        java = f"{home}/bin/java" if home else shutil.which("java")
        assert java, "Java is needed; scripts/check-java says which"
        flags = ["-Xmx128m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]
        main = "org.apache.zookeeper.server.ZooKeeperServerMain"
        with (self._folder / "server.log").open("ab") as log:
            self._process = subprocess.Popen(
                [java, *flags, "-cp", ":".join(classpath), main, str(self._folder / "zoo.cfg")],
                stdout=log,
                stderr=log,
                cwd=self._folder,
            )
        deadline = time.monotonic() + START_S
        while not self._serves():
            assert self._process.poll() is None, (self._folder / "server.log").read_text()
            assert time.monotonic() < deadline, "ZooKeeper did not serve in time"
            time.sleep(0.05)

    def kill(self) -> None:
        """End it as by a power cut."""
        if self._process is not None:
            self._process.send_signal(signal.SIGKILL)
            self._process.wait()
            self._process = None

    def _serves(self) -> bool:
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=1) as link:
                link.sendall(b"srvr")
                return b"Mode: standalone" in link.recv(4096)
        except OSError:
            return False
