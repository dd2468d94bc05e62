"""A stream at a fixed rate over a fixed set of keys, for minutes: does a worker's memory stay flat?"""

from __future__ import annotations

import argparse
import shutil
import tempfile
from typing import Any

from bench.jobs.support import RunningCount, Stopwatch, SummingSink, environment, result
from headgate.connectors.generator import generator_source

KEYS = 50_000
"""So many that every count has left the small integers, which CPython shares, before the warm-up is over."""
_STRIDE = 48_271


def records(indices: range) -> Any:
    """A record batch for a range of indices; the keys go round in a shuffled order."""
    import numpy as np
    import pyarrow as pa

    index = np.arange(indices.start, indices.stop, dtype=np.int64)
    return pa.RecordBatch.from_pydict({"key": index * _STRIDE % KEYS, "index": index})


def main() -> None:
    """The program."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rate", type=int, required=True, help="records per second")
    parser.add_argument("--seconds", type=int, required=True)
    arguments = parser.parse_args()
    count = arguments.rate * arguments.seconds
    storage = tempfile.mkdtemp(prefix="headgate-bench-")
    stopwatch, sink = Stopwatch(), SummingSink()
    try:
        env = environment(stopwatch, "1s", storage)
        source = generator_source(records, count, arguments.rate, batch=True, split_size=65_536)
        env.from_source(source, uid="numbers").key_by("key").process(RunningCount(), uid="counts").sink_to(
            sink, uid="sink"
        )
        env.execute("steady")
    finally:
        shutil.rmtree(storage, ignore_errors=True)
    whole, rest = divmod(count, KEYS)
    expected = KEYS * whole * (whole + 1) // 2 + rest * (whole + 1)
    answer = {"records": sink.sums.records, "total": sink.sums.total}
    result(
        answer=answer,
        verified=answer == {"records": count, "total": expected},
        rate_wanted=arguments.rate,
        **stopwatch.facts(count),
    )


if __name__ == "__main__":
    main()
