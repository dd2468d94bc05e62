"""Runs `bytewax_query_flow.py` as two processes with recovery every second, and puts their reports together.

bytewax_query.py ORDER.json
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

from orders import Order, report, versions

SNAPSHOT_S = 1
PROCESSES = 2


def free_ports(count: int) -> list[int]:
    """Ports of the loopback that nobody listens on."""
    sockets = [socket.socket() for _ in range(count)]
    for each in sockets:
        each.bind(("127.0.0.1", 0))
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


def main() -> None:
    """The program."""
    order = Order.read(sys.argv[1])
    recovery = Path(order.work) / "recovery"
    recovery.mkdir()
    subprocess.run([sys.executable, "-m", "bytewax.recovery", str(recovery), str(PROCESSES)], check=True)
    addresses = ";".join(f"127.0.0.1:{port}" for port in free_ports(PROCESSES))
    variables = {**os.environ, "BENCH_ORDER": sys.argv[1]}
    variables["PYTHONPATH"] = os.pathsep.join([str(Path(__file__).parent), os.environ["PYTHONPATH"]])
    command = [sys.executable, "-m", "bytewax.run", "bytewax_query_flow:flow", "-a", addresses]
    command += ["-r", str(recovery), "-s", str(SNAPSHOT_S), "-b", "0"]
    running = [
        subprocess.Popen([*command, "-i", str(number)], env=variables, stdout=subprocess.PIPE, text=True)
        for number in range(PROCESSES)
    ]
    outputs = [process.communicate()[0] for process in running]
    if any(process.returncode for process in running):
        sys.exit("a Bytewax process failed")
    parts = [json.loads(line[5:]) for text in outputs for line in text.splitlines() if line[:5] == "PART "]
    ends = [part for part in parts if "end" in part]
    report(
        began=min(part["start"] for part in parts if "start" in part),
        ended=max(part["end"] for part in ends),
        records=sum(part["records"] for part in ends),
        versions=versions("bytewax", "orjson"),
    )


if __name__ == "__main__":
    main()
