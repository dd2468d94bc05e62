"""The driver as a program of its own, so that it can be killed: runs the job and tells its events.

python -m proof.driver '<JSON of an Order>'
"""

from __future__ import annotations

import json
import sys
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from proof.job import Place
from proof.modes import mode_named
from proof.runs import RATE_PER_S, Form, execute
from proof.watcher import Watcher


@dataclass(frozen=True)
class Order:
    """What a driver is to do.

    Attributes:
        root: folder of the run.
        data: folder with the input.
        mode: how barriers travel.
        parallelism: of the job.
        interval_ms: between two checkpoints.
        source_parallelism: readers, when it is another number.
        restore_from: a snapshot to begin from.
        on_spark: whether workers are processes of Spark, and not threads of the driver.
        rate_per_s: records per second that are read while faults are due; None: as other runs.
        options: further settings.
    """

    root: str
    data: str
    mode: str
    parallelism: int
    interval_ms: int
    source_parallelism: int | None = None
    restore_from: str | None = None
    on_spark: bool = True
    rate_per_s: float | None = None
    options: dict[str, Any] = field(default_factory=dict)

    def command(self) -> list[str]:
        """How it is started."""
        return [sys.executable, "-m", "proof.driver", json.dumps(asdict(self))]


def say(name: str, **facts: Any) -> None:
    """One event as a line of JSON."""
    sys.stdout.write(json.dumps({"name": name, "facts": facts}) + "\n")
    sys.stdout.flush()


def main(arguments: str) -> None:
    """Run the job and tell its totals."""
    order = Order(**json.loads(arguments))
    place = Place(Path(order.root), Path(order.data))
    form = Form(
        mode_named(order.mode),
        order.parallelism,
        order.interval_ms,
        order.source_parallelism,
        order.on_spark,
        order.rate_per_s or RATE_PER_S,
        order.options,
    )
    result = execute(Watcher(), place, form, restore_from=order.restore_from, note=say)
    say("result", restarts=result.restarts, checkpoints=result.checkpoints, records_in=result.records_in)


if __name__ == "__main__":
    main(sys.argv[1])
