"""A full pipeline before a slow sink: how long does a checkpoint take whose barriers wait, or overtake?

Runs the job once per mode, in one Spark. Only checkpoints count that were triggered while the source
still had records and the queues behind it were full.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from typing_extensions import override

import headgate as hg
from bench.jobs.support import PARALLELISM, RunningCount, Stopwatch, SummingSink, environment, result
from headgate.checkpoint.history_file import CheckpointRecord, CheckpointStatus, find_histories, read_history
from headgate.common.settings.options import ALIGNED_TIMEOUT, CREDIT_INITIAL, HEARTBEAT_INTERVAL, UNALIGNED
from headgate.connectors.generator import generator_source
from headgate.runtime.protocol.messages import Counters

KEYS = 1_000
SOURCE, COUNTS = 0, 2
"""Vertices of the plan: the source, (1) a map, and counting chained with the sink."""

MODES: dict[str, dict[str, str]] = {
    "aligned": {},
    "aligned-100ms": {UNALIGNED.key: "true", ALIGNED_TIMEOUT.key: "100ms"},
    "unaligned": {UNALIGNED.key: "true", ALIGNED_TIMEOUT.key: "0ms"},
}
"""Options of each mode."""


class Sample(NamedTuple):
    """Totals over the subtasks of the source and of the slow end, at one heartbeat."""

    at_s: float
    sent: int
    used: int
    blocked_ms: int
    source_busy_ms: int
    slow_busy_ms: int


class BlockedListener(Stopwatch):
    """Keeps the counters of every heartbeat."""

    def __init__(self) -> None:
        super().__init__()
        self.samples: list[Sample] = []
        self.began_wall_ms = 0
        self._latest: dict[tuple[int, int], Counters] = {}

    @override
    def running(self, attempt: int) -> None:
        super().running(attempt)
        self.began_wall_ms = time.time_ns() // 1_000_000

    @override
    def progress(self, counters: Sequence[Counters]) -> None:
        self._latest.update({(entry.vertex, entry.subtask): entry for entry in counters})
        source = [entry for (vertex, _), entry in self._latest.items() if vertex == SOURCE]
        slow = [entry for (vertex, _), entry in self._latest.items() if vertex == COUNTS]
        if len(source) == len(slow) == PARALLELISM:
            self.samples.append(
                Sample(
                    time.monotonic() - self.began_s,
                    sum(entry.records_out for entry in source),
                    sum(entry.records_in for entry in slow),
                    sum(entry.backpressured_ms for entry in source),
                    sum(entry.busy_ms for entry in source),
                    sum(entry.busy_ms for entry in slow),
                )
            )


def pressure(samples: Sequence[Sample], records: int, warm_up_s: float) -> dict[str, Any]:
    """How full the pipeline was, between the warm-up and the source's last record.

    Returns:
        `source_blocked`, the share of time in which the source's output could not go anywhere;
        `times_slower`, what a record costs at the slow end, in costs of the source; `waiting`, the most
        records on their way. None where too little was seen.
    """
    full = [sample for sample in samples if sample.at_s >= warm_up_s and sample.sent < records]
    if len(full) < 2:
        return {"source_blocked": None, "times_slower": None, "waiting": None}
    first, last = full[0], full[-1]
    blocked = (last.blocked_ms - first.blocked_ms) / 1000 / PARALLELISM / (last.at_s - first.at_s)
    # What the source does is over the whole run: in the window it may hardly work at all.
    source = last.source_busy_ms / max(last.sent, 1)
    slow = last.slow_busy_ms / max(last.used, 1)
    return {
        # A stay that began before the window is counted where it ended.
        "source_blocked": round(min(1.0, blocked), 3),
        "times_slower": round(slow / source, 1) if source else None,
        "waiting": max(sample.sent - sample.used for sample in full),
    }


def counted(records: Sequence[CheckpointRecord], from_wall_ms: int) -> list[CheckpointRecord]:
    """The periodic checkpoints that completed, were triggered since then, and found the source at work."""
    return [
        record
        for record in records
        if record.kind == "periodic"
        and record.status is CheckpointStatus.COMPLETED
        and record.trigger_ms >= from_wall_ms
        and not any(subtask.finished for subtask in record.subtasks)
    ]


def expected(records: int) -> dict[str, int]:
    """The answer: a key that has c records adds 1 + 2 + ... + c."""
    whole, rest = divmod(records, KEYS)
    return {"records": records, "total": KEYS * whole * (whole + 1) // 2 + rest * (whole + 1)}


def born(index: int) -> tuple[int, int]:
    """Key and index."""
    return index % KEYS, index


def passed_on(record: tuple[int, int]) -> tuple[int, int]:
    """What the map between the two exchanges does."""
    return record[0], record[1] + 1


def build(env: hg.Environment, records: int, sink: SummingSink) -> None:
    """The program: two exchanges between the source and the slow end."""
    numbers = env.from_source(generator_source(born, records), uid="numbers")
    keyed = numbers.rebalance().map(passed_on, uid="pass-on").key_by(lambda record: record[0])
    keyed.process(RunningCount(), uid="counts").sink_to(sink, uid="sink")


def run_once(mode: str, asked: argparse.Namespace) -> dict[str, Any]:
    """One job; its checkpoints, its backpressure and whether its answer is right."""
    records: int = asked.records
    options = {HEARTBEAT_INTERVAL.key: "200ms", CREDIT_INITIAL.key: str(asked.credit), **MODES[mode]}
    storage = tempfile.mkdtemp(prefix="headgate-bench-")
    listener, sink = BlockedListener(), SummingSink(asked.sleep_us)
    try:
        env = environment(listener, "1s", storage, options)
        build(env, records, sink)
        env.execute(f"barriers-{mode}")
        history = read_history(find_histories(str(Path(storage) / "checkpoints"))[0])
    finally:
        shutil.rmtree(storage, ignore_errors=True)
    full = counted(history.records, listener.began_wall_ms + int(asked.warm_up_s * 1000))
    answer = {"records": sink.sums.records, "total": sink.sums.total}
    return {
        "mode": mode,
        "verified": answer == expected(records),
        "answer": answer,
        "durations_ms": [record.duration_ms for record in full],
        "bytes_in_flight": [record.bytes_in_flight for record in full],
        "overtook": [record.unaligned for record in full],
        "checkpoints_failed": [
            f"checkpoint {record.checkpoint}: {record.reason_text} {record.detail}".rstrip()
            for record in history.records
            if record.status is CheckpointStatus.FAILED and record.kind == "periodic"
        ],
        **pressure(listener.samples, records, asked.warm_up_s),
        **listener.facts(sink.sums.records),
    }


def main() -> None:
    """The program."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("modes", nargs="+", choices=list(MODES), help="job by job")
    parser.add_argument("--records", type=int, required=True)
    parser.add_argument("--sleep-us", type=float, required=True, help="for each record, in each writer")
    parser.add_argument("--warm-up-s", type=float, required=True, help="until the queues are full")
    parser.add_argument("--credit", type=int, required=True, help="frames under way on a channel")
    asked = parser.parse_args()
    result(runs=[run_once(mode, asked) for mode in asked.modes])


if __name__ == "__main__":
    main()
