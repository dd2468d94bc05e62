"""The driver as a program of its own, so that it can be killed: runs the job and tells its events.

python -m proof.driver '<JSON: root, data, interval_ms, parallelism, restore_from>'
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from proof.job import Place
from proof.runs import execute
from proof.watcher import Watcher


def say(name: str, **facts: Any) -> None:
    """One event as a line of JSON."""
    sys.stdout.write(json.dumps({"name": name, "facts": facts}) + "\n")
    sys.stdout.flush()


def main(arguments: str) -> None:
    """Run the job and tell its totals."""
    order = json.loads(arguments)
    place = Place(Path(order["root"]), Path(order["data"]))
    interval_ms, parallelism, origin = order["interval_ms"], order["parallelism"], order["restore_from"]
    result = execute(Watcher(), place, interval_ms, parallelism, restore_from=origin, note=say)
    say("result", restarts=result.restarts, checkpoints=result.checkpoints, records_in=result.records_in)


if __name__ == "__main__":
    main(sys.argv[1])
