"""Bytewax: a running count per auction. Run by `bytewax_run.py` in Bytewax's own environment.

Two processes, one per input file; prints a line ``PART {json}`` when a source opens and when a sink closes.
"""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import bytewax.operators as op
import orjson
from bytewax.dataflow import Dataflow
from bytewax.inputs import FixedPartitionedSource, StatefulSourcePartition
from bytewax.outputs import DynamicSink, StatelessSinkPartition

FOLDER = os.environ["BENCH_DATA"]
BATCH = 1000


def say(**facts: Any) -> None:
    """A line for `bytewax_run.py`."""
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
    """Both files."""

    def list_parts(self) -> list[str]:
        """Their names."""
        return sorted(path.name for path in Path(FOLDER).iterdir())

    def build_part(self, step_id: str, for_part: str, resume_state: int | None) -> JsonFile:
        """Open one."""
        return JsonFile(str(Path(FOLDER) / for_part), resume_state)


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
bids = op.input("bids", flow, JsonFiles())
keyed = op.map("key", bids, lambda bid: (str(bid["auction"]), bid))
op.output("sums", op.stateful_map("count", keyed, count), SummingSink())
