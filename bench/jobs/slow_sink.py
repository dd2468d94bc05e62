"""A source as fast as it can be before a sink that sleeps: how many records are on their way, and where?"""

from __future__ import annotations

import argparse
import shutil
import tempfile
from collections.abc import Sequence

from typing_extensions import override

from bench.jobs.steady import KEYS, records
from bench.jobs.support import PARALLELISM, RunningCount, Stopwatch, SummingSink, environment, result
from headgate.connectors.generator import generator_source
from headgate.runtime.job.shipped_program import WorkerSettings
from headgate.runtime.protocol.messages import Counters
from headgate.runtime.worker.exchange.output import FRAME_ROWS
from headgate.runtime.worker.task.step_budget import RECORDS_MAX

SOURCE, COUNTS = 0, 1
"""Vertices of the plan: the source, and counting chained with the sink."""


class FlightListener(Stopwatch):
    """Notes how far the source is ahead of the slow end, at every heartbeat."""

    def __init__(self) -> None:
        super().__init__()
        self.in_flight: list[int] = []
        self.blocked_ms: dict[int, int] = {}
        self._latest: dict[tuple[int, int], Counters] = {}

    @override
    def progress(self, counters: Sequence[Counters]) -> None:
        self._latest.update({(entry.vertex, entry.subtask): entry for entry in counters})
        sent = sum(entry.records_out for (vertex, _), entry in self._latest.items() if vertex == SOURCE)
        used = sum(entry.records_in for (vertex, _), entry in self._latest.items() if vertex == COUNTS)
        if len(self._latest) == 2 * PARALLELISM:
            self.in_flight.append(sent - used)
        for entry in counters:
            if entry.vertex == SOURCE:
                self.blocked_ms[entry.subtask] = entry.backpressured_ms


def in_flight_max() -> int:
    """The bound that credit gives, in records.

    A channel has its credit in frames on the way, at most one step's frame waiting for credit, and less
    than a frame being gathered. A frame has at most one step's records and what was gathered before.
    """
    frame = RECORDS_MAX + FRAME_ROWS
    channels = PARALLELISM * PARALLELISM
    return channels * (WorkerSettings().credit_initial * frame + frame)


def main() -> None:
    """The program."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, required=True)
    parser.add_argument("--sleep-us", type=float, required=True, help="for each record, in each writer")
    arguments = parser.parse_args()
    storage = tempfile.mkdtemp(prefix="headgate-bench-")
    listener, sink = FlightListener(), SummingSink(arguments.sleep_us)
    try:
        env = environment(listener, "1s", storage, {"heartbeat.interval": "200ms"})
        source = generator_source(records, arguments.records, batch=True, split_size=65_536)
        env.from_source(source, uid="numbers").key_by("key").process(RunningCount(), uid="counts").sink_to(
            sink, uid="sink"
        )
        env.execute("slow-sink")
    finally:
        shutil.rmtree(storage, ignore_errors=True)
    result(
        records_lost=arguments.records - sink.sums.records,
        keys=KEYS,
        in_flight_seen_max=max(listener.in_flight, default=0),
        in_flight_bound=in_flight_max(),
        source_blocked=round(sum(listener.blocked_ms.values()) / PARALLELISM / 1000 / listener.running_s, 3),
        **listener.facts(sink.sums.records),
    )


if __name__ == "__main__":
    main()
