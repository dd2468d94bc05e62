"""Jobs in one Spark session whose user code harms its process, one after the other; prints what each told."""

from __future__ import annotations

import ctypes
import json
import os
import resource
import signal
import sys
import time
from pathlib import Path
from typing import Any

import headgate as hg
from headgate.common.errors import HeadgateError


def harm(kind: str) -> None:
    """Do it."""
    if kind == "fork":
        pid = os.fork()
        if pid == 0:
            sys.exit(0)
        os.waitpid(pid, 0)
    elif kind == "stays" and os.fork() == 0:
        time.sleep(20)
        os._exit(0)
    elif kind == "stays":
        os.kill(os.getpid(), signal.SIGKILL)
    elif kind == "crash":
        ctypes.string_at(0)
    elif kind == "exit":
        print("about to leave", file=sys.stderr)
        os._exit(3)
    elif kind == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    elif kind == "close":
        os.closerange(3, 256)
        time.sleep(0.5)
    elif kind == "limit":
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))


def job(kind: str, folder: Path) -> dict[str, Any]:
    """Run one."""
    settings = {"execution.checkpointing.dir": str(folder / "checkpoints"), "heartbeat.interval": "200ms"}
    env = hg.Environment(parallelism=2, config=settings)

    def harmed(record: int) -> str:
        if record == 3:
            harm(kind)
        return "x" * 5000

    numbers = env.from_collection([1, 2, 3, 4], uid="numbers")
    numbers.map(harmed, uid="harming").write_json(folder / f"out-{kind}", uid="out")
    began = time.monotonic()
    try:
        env.execute(f"harm by {kind}")
        told = ""
    except HeadgateError as error:
        told = str(error)
    files = (folder / f"out-{kind}").glob("part-*")
    lines = [line for file in files for line in file.read_text().splitlines()]
    return {"kind": kind, "told": told, "records": len(lines), "s": round(time.monotonic() - began, 1)}


def main() -> None:
    """All that were asked for."""
    for kind in sys.argv[2:]:
        print(json.dumps(job(kind, Path(sys.argv[1]))), flush=True)


if __name__ == "__main__":
    main()
