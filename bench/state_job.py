"""J2 with its state in RocksDB, and incremental checkpoints every second.

python -m bench.state_job FOLDER
"""

from __future__ import annotations

import sys
import tempfile

from bench.jobs.running_count import counts
from bench.jobs.support import Stopwatch, SummingSink, environment, result
from headgate.common.settings.options import INCREMENTAL, STATE_BACKEND
from headgate.connectors.files import parquet_source


def main() -> None:
    """The program."""
    stopwatch, sink = Stopwatch(), SummingSink()
    options = {STATE_BACKEND.key: "rocksdb", INCREMENTAL.key: "true"}
    with tempfile.TemporaryDirectory(prefix="bench-state-") as storage:
        env = environment(stopwatch, "1s", storage, options)
        counts(env.from_source(parquet_source(sys.argv[1]), uid="bids")).sink_to(sink, uid="sink")
        env.execute("bids")
    sums = sink.sums
    answer = {"records": sums.records, "total": sums.total, "highest": sums.highest}
    result(answer=answer, **stopwatch.facts(sums.records))


if __name__ == "__main__":
    main()
