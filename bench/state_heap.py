"""What a snapshot of the heap backend costs the loop: pauses, records beside it, stalls by its writer.

Figures are of one process with one writing thread, as in a worker; no job, no storage. Each function
gives plain numbers, and asserts nothing about them.
"""

from __future__ import annotations

import json
import statistics
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import headgate as hg
from headgate.records.batch import Batch
from headgate.records.row_batch import RowBatch
from headgate.runtime.job.operator_context import OperatorContext
from headgate.runtime.worker.operators.keyed_operator import KeyedProcessOperator
from headgate.state.snapshots import Inline
from headgate.testing.manual_clock import ManualClock

BATCH = 1_000
GROUPS = 128


class Count(hg.KeyedProcessFunction[int, int, Any]):
    """An int per key."""

    count: hg.ValueState[int] = hg.value_state(default=0)

    def process(self, record: int, ctx: hg.Context[int]) -> None:
        self.count.value += 1


class Last(hg.KeyedProcessFunction[int, int, Any]):
    """A list of the last four records per key."""

    last: hg.ValueState[list[int]] = hg.value_state(default_factory=list)

    def process(self, record: int, ctx: hg.Context[int]) -> None:
        last = self.last.value
        last.append(record)
        if len(last) > 4:
            del last[0]


class Wake(hg.KeyedProcessFunction[int, int, Any]):
    """A timer per key, at a time of its own or at one for all."""

    def __init__(self, distinct: bool) -> None:
        self.distinct = distinct

    def process(self, record: int, ctx: hg.Context[int]) -> None:
        ctx.timers.register_event_time(10**9 + (record if self.distinct else 0))


FUNCTIONS: dict[str, Callable[[], Any]] = {
    "int": Count,
    "list": Last,
    "timers at distinct times": lambda: Wake(True),
    "timers at one time": lambda: Wake(False),
}


class _Nobody:
    """Follows the operator."""

    def process(self, batch: Batch) -> None: ...
    def watermark(self, timestamp: int) -> None: ...
    def idle(self) -> None: ...
    def end_of_data(self) -> None: ...


class _Files:
    """Takes the bytes and drops them."""

    def write(self, uid: str, parts: Any) -> Inline:
        return Inline(b"")

    store = write


def _itself(record: int) -> int:
    return record


class Loop:
    """A keyed operator, batches for it, and snapshots written by a thread beside it."""

    def __init__(self, kind: str, keys: int) -> None:
        context = OperatorContext("bench", kind, 0, 1, 1, "bench", GROUPS, ManualClock(), [])
        self.operator = KeyedProcessOperator(context, FUNCTIONS[kind](), _itself)
        self.operator.next = _Nobody()
        self.operator.open()
        self.keys = keys
        rng = np.random.default_rng(1)
        self._batches = [RowBatch(rng.integers(0, keys, BATCH).tolist()) for _ in range(500)]
        self._next = 0
        for start in range(0, keys, 10_000):
            self.operator.process(RowBatch(list(range(start, min(start + 10_000, keys)))))

    def step(self) -> tuple[float, float]:
        """One batch of records for keys all over the state; gives its time and its CPU time in ms."""
        self._next = (self._next + 1) % len(self._batches)
        began, cpu_began = time.perf_counter(), time.thread_time()
        self.operator.process(self._batches[self._next])
        return (time.perf_counter() - began) * 1e3, (time.thread_time() - cpu_began) * 1e3

    def snapshot(self, number: int) -> tuple[float, Any]:
        """The pause in ms, and what is left to write."""
        began = time.perf_counter()
        pending = self.operator.snapshot(number)
        return (time.perf_counter() - began) * 1e3, pending

    @property
    def settled(self) -> bool:
        """Whether the state is as it was before the snapshot began."""
        return bool(getattr(self.operator._backend, "settled", True))


def _write(pending: Any) -> float:
    began = time.perf_counter()
    pending.finish(_Files())
    pending.release()
    return time.perf_counter() - began


def percentile(times: list[float], percent: float) -> float:
    """By rank, without interpolation: the worst of few stays visible."""
    ordered = sorted(times)
    return ordered[min(len(ordered) - 1, int(len(ordered) * percent / 100))]


def ns_per_record(steps: list[tuple[float, float]]) -> float:
    """CPU time of the loop's thread, so that waiting for the writer does not count; median of the steps."""
    return round(statistics.median(cpu for _, cpu in steps) * 1e6 / BATCH, 1)


def snapshots(kind: str, keys: int = 1_000_000, count: int = 32) -> dict[str, Any]:
    """Snapshots one after another, each written beside a loop that goes on all the time."""
    loop = Loop(kind, keys)
    pauses, writes, settles = [], [], []
    phases: dict[str, list[tuple[float, float]]] = {"none": [], "writing": [], "settling": []}
    for _ in range(300):
        phases["none"].append(loop.step())
    for number in range(1, count + 1):
        pause, pending = loop.snapshot(number)
        pauses.append(pause)
        writer = threading.Thread(target=lambda pending=pending: writes.append(_write(pending)))
        writer.start()
        while writer.is_alive():
            phases["writing"].append(loop.step())
        writer.join()
        del pending
        began = time.perf_counter()
        while not loop.settled:
            phases["settling"].append(loop.step())
        settles.append(time.perf_counter() - began)
        phases["none"] += [loop.step() for _ in range(50)]
    return {
        "kind": kind,
        "keys": keys,
        "pause_ms": {f"p{p}": round(percentile(pauses, p), 3) for p in (50, 99)},
        "first_pause_ms": round(pauses[0], 3),
        "write_s": round(statistics.median(writes), 2),
        "settle_s": round(statistics.median(settles), 3),
        "steps_settling": len(phases["settling"]) // count,
        "ns_per_record": {phase: ns_per_record(steps) for phase, steps in phases.items() if steps},
        "longest_step_ms": {phase: round(max(steps)[0], 1) for phase, steps in phases.items() if steps},
    }


def write_stalls(kind: str, keys: int = 1_000_000, rounds: int = 5) -> dict[str, Any]:
    """How long another thread has to wait at most while a snapshot is written; medians over the rounds."""
    loop = Loop(kind, keys)
    longest, over, writes = [], [], []
    for number in range(1, rounds + 1):
        _, pending = loop.snapshot(number)
        writer = threading.Thread(target=lambda pending=pending: writes.append(_write(pending)))
        gaps: list[float] = []
        writer.start()
        last = time.perf_counter()
        while writer.is_alive():
            now = time.perf_counter()
            if now - last > 0.001:
                gaps.append((now - last) * 1e3)
            last = now
        writer.join()
        del pending
        longest.append(max(gaps, default=0.0))
        over.append(sum(gap > 10 for gap in gaps))
        while not loop.settled:
            loop.step()
    return {
        "kind": kind,
        "keys": keys,
        "longest_ms": round(statistics.median(longest), 1),
        "worst_ms": round(max(longest), 1),
        "stalls_over_10_ms": statistics.median(over),
        "write_s": round(statistics.median(writes), 2),
    }


def main() -> None:
    """Print a JSON line for each kind that is named, or for all."""
    for kind in sys.argv[1:] or FUNCTIONS:
        print(json.dumps(snapshots(kind)), flush=True)
        print(json.dumps(write_stalls(kind)), flush=True)


if __name__ == "__main__":
    main()
