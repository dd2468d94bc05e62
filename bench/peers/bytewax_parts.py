"""What both Bytewax dataflows have: a source of JSON lines, reports, and how they run as two processes.

A line ``PART {json}`` of a process says when a source opens and when a sink closes.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import orjson
from bytewax.inputs import FixedPartitionedSource, StatefulSourcePartition

BATCH = 1000
PROCESSES = 2
SNAPSHOT_S = 1


def say(**facts: Any) -> None:
    """A line for the program that runs the dataflow."""
    print("PART", json.dumps(facts), flush=True)


class JsonFile(StatefulSourcePartition):
    """One file of JSON lines; resumes at a byte."""

    def __init__(self, path: str, resume: int | None) -> None:
        self._file = open(path, "rb", buffering=1 << 20)  # noqa: SIM115 - read until the flow ends
        self._file.seek(resume or 0)
        say(start=time.time())

    def next_batch(self) -> list[Any]:
        """The next bids."""
        readline, loads = self._file.readline, orjson.loads
        lines = [line for _ in range(BATCH) if (line := readline())]
        if not lines:
            raise StopIteration
        return [loads(line) for line in lines]

    def snapshot(self) -> int:
        """The position."""
        return self._file.tell()


class JsonFiles(FixedPartitionedSource):
    """The files of a folder."""

    def __init__(self, folder: str) -> None:
        self._folder = Path(folder)

    def list_parts(self) -> list[str]:
        """Their names."""
        return sorted(path.name for path in self._folder.iterdir())

    def build_part(self, step_id: str, for_part: str, resume_state: int | None) -> JsonFile:
        """Open one."""
        return JsonFile(str(self._folder / for_part), resume_state)


def new_recovery(folder: str) -> list[str]:
    """Make a recovery store; the options of a dataflow that keeps snapshots in it."""
    subprocess.run([sys.executable, "-m", "bytewax.recovery", folder, str(PROCESSES)], check=True)
    return ["-r", folder, "-s", str(SNAPSHOT_S), "-b", "0"]


def run(flow: str, options: list[str], variables: Mapping[str, str]) -> list[dict[str, float]]:
    """Run a dataflow of this folder in two processes; what they said."""
    addresses = ";".join(f"127.0.0.1:{port}" for port in _free_ports(PROCESSES))
    path = os.pathsep.join([str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")])
    running = [
        subprocess.Popen(
            [sys.executable, "-m", "bytewax.run", flow, *options, "-i", str(number), "-a", addresses],
            env={**os.environ, **variables, "PYTHONPATH": path},
            stdout=subprocess.PIPE,
            text=True,
        )
        for number in range(PROCESSES)
    ]
    outputs = [process.communicate()[0] for process in running]
    if any(process.returncode for process in running):
        sys.exit("a Bytewax process failed")
    return [json.loads(line[5:]) for text in outputs for line in text.splitlines() if line[:5] == "PART "]


def _free_ports(count: int) -> list[int]:
    """Ports of the loopback that nobody listens on."""
    sockets = [socket.socket() for _ in range(count)]
    for each in sockets:
        each.bind(("127.0.0.1", 0))
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports
