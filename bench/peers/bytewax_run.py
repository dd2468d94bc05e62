"""Runs `bytewax_flow.py` as two processes, with or without recovery, and puts their reports together.

bytewax_run.py FOLDER {recovery,plain}
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

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
    folder, mode = sys.argv[1:]
    recovery = tempfile.mkdtemp(prefix="bench-bytewax-")
    options: list[str] = []
    if mode == "recovery":
        subprocess.run([sys.executable, "-m", "bytewax.recovery", recovery, str(PROCESSES)], check=True)
        options = ["-r", recovery, "-s", str(SNAPSHOT_S), "-b", "0"]
    addresses = ";".join(f"127.0.0.1:{port}" for port in free_ports(PROCESSES))
    here = str(Path(__file__).parent)
    variables = {**os.environ, "BENCH_DATA": folder, "PYTHONPATH": here}
    command = [sys.executable, "-m", "bytewax.run", "bytewax_flow:flow", *options]
    try:
        running = [
            subprocess.Popen(
                [*command, "-i", str(number), "-a", addresses],
                env=variables,
                stdout=subprocess.PIPE,
                text=True,
            )
            for number in range(PROCESSES)
        ]
        outputs = [process.communicate()[0] for process in running]
        if any(process.returncode for process in running):
            sys.exit("a Bytewax process failed")
    finally:
        shutil.rmtree(recovery, ignore_errors=True)
    report([json.loads(line[5:]) for text in outputs for line in text.splitlines() if line[:5] == "PART "])


def report(parts: list[dict[str, float]]) -> None:
    """From the first source that opened to the last sink that closed."""
    ends = [part for part in parts if "end" in part]
    seconds = max(part["end"] for part in ends) - min(part["start"] for part in parts if "start" in part)
    records = sum(part["records"] for part in ends)
    answer = {
        "records": records,
        "total": sum(part["total"] for part in ends),
        "highest": max(part["highest"] for part in ends),
    }
    facts = {"events": records, "job_s": round(seconds, 3), "events_per_s": round(records / seconds)}
    print("RESULT", json.dumps({**facts, "answer": answer}), flush=True)


if __name__ == "__main__":
    main()
