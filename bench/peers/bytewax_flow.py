"""Bytewax: a running count per auction. Run by `bytewax_run.py` in Bytewax's own environment.

Two processes, one per input file; prints a line ``PART {json}`` when a source opens and when a sink closes.
"""

from __future__ import annotations

import os
import time
from typing import Any

import bytewax.operators as op
from bytewax.dataflow import Dataflow
from bytewax.outputs import DynamicSink, StatelessSinkPartition
from bytewax_parts import JsonFiles, say

FOLDER = os.environ["BENCH_DATA"]


class Summing(StatelessSinkPartition):
    """Counts and adds up."""

    def __init__(self) -> None:
        self._records = self._total = self._highest = 0

    def write_batch(self, items: list[Any]) -> None:
        """Take outputs."""
        numbers = [number for _, number in items]
        self._records += len(numbers)
        self._total += sum(numbers)
        self._highest = max(self._highest, max(numbers, default=0))

    def close(self) -> None:
        """Say what came."""
        say(end=time.time(), records=self._records, total=self._total, highest=self._highest)


class SummingSink(DynamicSink):
    """One partition per worker."""

    def build(self, step_id: str, worker_index: int, worker_count: int) -> Summing:
        """Open one."""
        return Summing()


def count(state: int | None, _bid: Any) -> tuple[int, int]:
    """The running count."""
    number = (state or 0) + 1
    return number, number


flow = Dataflow("bids")
bids = op.input("bids", flow, JsonFiles(FOLDER))
keyed = op.map("key", bids, lambda bid: (str(bid["auction"]), bid))
op.output("sums", op.stateful_map("count", keyed, count), SummingSink())
