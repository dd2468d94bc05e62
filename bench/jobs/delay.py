"""A slow stream: how long does a record take from its source through the keyed exchange to the sink?"""

from __future__ import annotations

import argparse
import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from typing import Any

from typing_extensions import override

import headgate as hg
from bench.jobs.support import Stopwatch, environment, result
from bench.stats import percentile
from headgate.api.sink import Sink, SinkCommitter, SinkWriter, SinkWriterContext
from headgate.api.source import Plain
from headgate.connectors.committed import DriverResults
from headgate.connectors.generator import generator_source

KEYS = 1_000
BUCKET_US = 100


class Stamp(hg.KeyedProcessFunction[int, Any, tuple[int, int]]):
    """Passes on index and birth; counts, so that there is state."""

    count: hg.ValueState[int] = hg.value_state(default=0)

    def process(self, record, ctx):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201
        self.count.value += 1
        yield record[1], record[2]


def born(index: int) -> tuple[int, int, int]:
    """Key, index, and the machine's monotonic clock, which all processes share."""
    return index % KEYS, index, time.monotonic_ns()


class Delays(DriverResults):
    """How many records took how long, in buckets."""

    def __init__(self) -> None:
        super().__init__()
        self.histogram: Counter[int] = Counter()


class DelaySink(Sink[tuple[int, int]]):
    """Notes how old records are when they arrive; the first `skip` do not count."""

    def __init__(self, skip: int) -> None:
        self.delays, self._skip = Delays(), skip

    @override
    def create_writer(self, context: SinkWriterContext, restored: Sequence[Plain]) -> SinkWriter[Any]:
        return _DelayWriter(context, self._skip)

    @override
    def create_committer(self) -> SinkCommitter:
        return _DelayCommitter(self.delays)


class _DelayWriter(SinkWriter[tuple[int, int]]):
    def __init__(self, context: SinkWriterContext, skip: int) -> None:
        self._name = f"{context.job}/{context.attempt}/{context.subtask}"
        self._skip, self._sequence = skip, 0
        self._histogram: Counter[int] = Counter()

    @override
    def write(self, records: Any) -> None:
        now, unit = time.monotonic_ns(), 1000 * BUCKET_US
        self._histogram.update([(now - at) // unit for index, at in records if index >= self._skip])

    @override
    def prepare_commit(self) -> list[Plain]:
        ready = [self._name, self._sequence, sorted(self._histogram.items())]
        self._sequence, self._histogram = self._sequence + 1, Counter()
        return [ready]


class _DelayCommitter(SinkCommitter):
    def __init__(self, delays: Delays) -> None:
        self._delays = delays

    @override
    def commit(self, committables: Sequence[Plain]) -> None:
        for writer, sequence, buckets in committables:
            if self._delays.once.take(writer, sequence):
                self._delays.histogram.update(dict(buckets))


def main() -> None:
    """The program."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rate", type=int, required=True, help="records per second")
    parser.add_argument("--seconds", type=float, required=True)
    parser.add_argument("--warm-up-s", type=float, required=True, help="this part of them does not count")
    arguments = parser.parse_args()
    count, skip = int(arguments.rate * arguments.seconds), int(arguments.rate * arguments.warm_up_s)
    storage = tempfile.mkdtemp(prefix="headgate-bench-")
    stopwatch, sink = Stopwatch(), DelaySink(skip)
    try:
        env = environment(stopwatch, "1s", storage, {"execution.buffer-timeout": "10ms"})
        source = generator_source(born, count, arguments.rate)
        keyed = env.from_source(source, uid="clock").key_by(lambda record: record[0])
        keyed.process(Stamp(), uid="stamp").sink_to(sink, uid="sink")
        env.execute("delay")
    finally:
        shutil.rmtree(storage, ignore_errors=True)
    seen = sink.delays.histogram
    shown = {f"p{share:g}_ms": _ms(percentile(seen, share / 100)) for share in (50, 90, 99, 99.9)}
    result(counted=sum(seen.values()), expected=count - skip, **shown, **stopwatch.facts(count))


def _ms(bucket: int | None) -> float | None:
    """The upper end of a bucket."""
    return None if bucket is None else (bucket + 1) * BUCKET_US / 1000


if __name__ == "__main__":
    main()
