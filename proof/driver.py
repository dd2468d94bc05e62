"""The driver as a program of its own, so that it can be killed: runs the job and tells its events.

python -m proof.driver '<JSON: root, data, mode, parallelism, interval_ms, source_parallelism, restore_from>'
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from proof.job import Place
from proof.modes import mode_named
from proof.runs import Form, execute
from proof.watcher import Watcher


def say(name: str, **facts: Any) -> None:
    """One event as a line of JSON."""
    sys.stdout.write(json.dumps({"name": name, "facts": facts}) + "\n")
    sys.stdout.flush()


def main(arguments: str) -> None:
    """Run the job and tell its totals."""
    order = json.loads(arguments)
    place = Place(Path(order["root"]), Path(order["data"]))
    mode = mode_named(order["mode"])
    form = Form(mode, order["parallelism"], order["interval_ms"], order["source_parallelism"])
    result = execute(Watcher(), place, form, restore_from=order["restore_from"], note=say)
    say("result", restarts=result.restarts, checkpoints=result.checkpoints, records_in=result.records_in)


if __name__ == "__main__":
    main(sys.argv[1])
