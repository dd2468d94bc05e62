"""From a program's start to the first record of its job on local Spark: as script, and by `headgate run`."""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from bench.jobs.support import result

PROGRAM = """\
import time
from pathlib import Path

import headgate as hg


def noted(number: int) -> int:
    Path({seen!r}).write_text(str(time.time_ns()))
    return number + 1


env = hg.Environment(parallelism=1)
print("ANSWER", env.from_collection([41]).map(noted).collect())
"""
TIMEOUT_S = 300.0


def started(command: list[str], seen: Path) -> tuple[float, float]:
    """Seconds from the start of the command to the first record, and CPU seconds of all its processes.

    Raises:
        SystemExit: the program failed, or gave another answer.
    """
    began, before = time.time_ns(), _children_cpu_s()
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S)
    if done.returncode != 0 or "ANSWER [42]" not in done.stdout:
        raise SystemExit(f"{command} ended with exit code {done.returncode}: {done.stderr[-2_000:]}")
    took_s = (int(seen.read_text()) - began) / 1e9
    seen.unlink()
    return took_s, _children_cpu_s() - before


def _children_cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def measured() -> dict[str, Any]:
    """Both ways to start the same program."""
    with tempfile.TemporaryDirectory(prefix="headgate-bench-") as folder:
        program, seen = Path(folder) / "program.py", Path(folder) / "seen"
        program.write_text(PROGRAM.format(seen=str(seen)))
        by_itself = started([sys.executable, str(program)], seen)
        by_command = started([sys.executable, "-m", "headgate", "run", str(program)], seen)
    times = {"script_s": round(by_itself[0], 3), "command_s": round(by_command[0], 3)}
    costs = {"script_cpu_s": round(by_itself[1], 3), "command_cpu_s": round(by_command[1], 3)}
    return {**times, **costs, "failures": []}


def main() -> None:
    """The program."""
    argparse.ArgumentParser(description=__doc__).parse_args()
    result(**measured())


if __name__ == "__main__":
    main()
