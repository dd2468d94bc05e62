"""Adds cents up with a package that the job brings, beside one that hides a package of Headgate's own.

headgate run job.py --with <prices and msgspec> -D headgate.spark.master=<url> <scratch folder> <records>

It goes slowly until there is a file `hurry` in the folder.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import beside_the_job
import msgspec
from prices import VERSION, Money  # type: ignore[import-not-found]

import headgate as hg

KEYS = 5
folder, records = Path(sys.argv[1]), int(sys.argv[2])


class Totals(hg.KeyedProcessFunction[int, int, dict[str, Any]]):
    """What each key adds up to, in a class of the package that the job brings."""

    total: hg.ValueState[Money] = hg.value_state()

    def process(self, record: int, ctx: hg.KeyedContext[int]) -> Iterator[dict[str, Any]]:
        before = self.total.value
        self.total.value = Money(1) if before is None else before.plus(1)
        yield {
            "key": ctx.key,
            "total": self.total.value.cents,
            "version": VERSION,
            "shown": self.total.value.shown(),
            "msgspec": msgspec.WHOSE,
            "pid": os.getpid(),
            "file": sys.modules["prices"].__file__,
        }


def paced(record: int) -> int:
    """At most a hundred records a second, as long as the test needs the job."""
    if not (folder / "hurry").exists():
        time.sleep(0.01)
    return beside_the_job.same(record)


config = {
    "headgate.spark.slots-timeout": "3min",
    "restart-strategy.type": "fixed-delay",
    "restart-strategy.fixed-delay.attempts": 1000,
    "restart-strategy.fixed-delay.delay": "100ms",
}
env = hg.Environment(parallelism=2, config=config)
env.checkpoints(every="200ms", storage=str(folder / "checkpoints"))
numbers = env.generate(int, records, uid="numbers").map(paced, uid="paced")
totals = numbers.key_by(lambda number: number % KEYS).process(Totals(), uid="totals")
totals.write_json(str(folder / "out"), uid="out")
env.execute("with-packages")
