"""What a changelog costs per record, and what it saves per checkpoint, on the heap.

Figures are of one process without a job and without a storage. Each function gives plain numbers, and
asserts nothing about them.
"""

from __future__ import annotations

import json
import random
import statistics
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from bench.state_heap import Count, Last, Wake
from headgate.records.batch import Batch
from headgate.records.row_batch import RowBatch
from headgate.runtime.job.operator_context import OperatorContext
from headgate.runtime.worker.operators.keyed_operator import KeyedProcessOperator
from headgate.state.backends import ChangelogBackends, HeapBackends
from headgate.state.snapshots import FileRange, StateHandle
from headgate.testing.manual_clock import ManualClock

BATCH = 1_000
NEVER_MS = 10**12

FUNCTIONS: dict[str, Callable[[], Any]] = {"int": Count, "list": Last, "timers": lambda: Wake(True)}


class _Nobody:
    """Follows the operator."""

    def process(self, batch: Batch) -> None: ...
    def watermark(self, timestamp: int) -> None: ...
    def idle(self) -> None: ...
    def end_of_data(self) -> None: ...


class _Files:
    """Counts the bytes and drops them."""

    def __init__(self) -> None:
        self.written = 0

    def write(self, uid: str, parts: Iterable[Any]) -> StateHandle:
        size = sum(len(part) for part in parts)
        self.written += size
        return FileRange(f"{uid}-{self.written}", 0, size, 0)

    def write_sections(self, uid: str, sections: Sequence[Any], *, inline: bool) -> list[StateHandle]:
        return [self.write(uid, parts) for parts in sections]

    def share(self, handle: StateHandle, root: str | None) -> bool:
        return True


def operator(kind: str, changelog: bool, keys: int) -> KeyedProcessOperator:
    """An operator that has seen every key once."""
    clock = ManualClock()
    context = OperatorContext("bench", kind, 0, 1, 1, "bench", 128, clock, [])
    heap = HeapBackends()
    context.backends = ChangelogBackends(heap, NEVER_MS, clock, 0) if changelog else heap
    made = KeyedProcessOperator(context, FUNCTIONS[kind](), lambda record: record)
    made.next = _Nobody()
    made.open()
    for start in range(0, keys, 10_000):
        made.process(RowBatch(list(range(start, min(start + 10_000, keys)))))
    return made


def records(kind: str, keys: int = 100_000, rounds: int = 3) -> dict[str, Any]:
    """CPU time per record in ns, of batches with and without a changelog in turns; median and least."""
    chance = random.Random(1)
    batches = [RowBatch([chance.randrange(keys) for _ in range(BATCH)]) for _ in range(300)]
    operators = {changelog: operator(kind, changelog, keys) for changelog in (False, True)}
    times: dict[bool, list[float]] = {False: [], True: []}
    for number in range(1, rounds + 1):
        for changelog, made in operators.items():
            for batch in batches:
                began = time.thread_time()
                made.process(batch)
                times[changelog].append((time.thread_time() - began) * 1e9 / BATCH)
            made.may_build_on(number - 1)
            pending = made.snapshot(number)
            assert pending is not None
            pending.finish(_Files())
            pending.release()
            for _ in range(10_000):
                made._backend.settle()
    found = {c: {"median": round(statistics.median(t)), "least": round(min(t))} for c, t in times.items()}
    return {"kind": kind, "keys": keys, "without": found[False], "with": found[True]}


def checkpoints(
    kind: str, changelog: bool, keys: int = 1_000_000, part: int = 100, count: int = 7
) -> dict[str, Any]:
    """Checkpoints between which one key in `part` changes; medians of those after the first."""
    made, chance = operator(kind, changelog, keys), random.Random(2)
    pauses, writes, sizes = [], [], []
    for number in range(1, count + 1):
        if number > 1:
            made.process(RowBatch(chance.sample(range(keys), keys // part)))
        made.may_build_on(number - 1)
        files = _Files()
        began = time.perf_counter()
        pending = made.snapshot(number)
        pauses.append((time.perf_counter() - began) * 1e3)
        assert pending is not None
        began = time.perf_counter()
        pending.finish(files)
        writes.append(time.perf_counter() - began)
        pending.release()
        sizes.append(files.written)
        for _ in range(10_000):
            made._backend.settle()
    return {
        "kind": kind,
        "changelog": changelog,
        "first": {"pause_ms": round(pauses[0], 2), "write_s": round(writes[0], 3), "bytes": sizes[0]},
        "pause_ms": round(statistics.median(pauses[1:]), 2),
        "write_s": round(statistics.median(writes[1:]), 4),
        "bytes": round(statistics.median(sizes[1:])),
    }


def main() -> None:
    """Print a JSON line for each measurement of the kinds that are named, or of all."""
    for kind in sys.argv[1:] or FUNCTIONS:
        print(json.dumps(records(kind)), flush=True)
        for changelog in (False, True):
            print(json.dumps(checkpoints(kind, changelog)), flush=True)


if __name__ == "__main__":
    main()
