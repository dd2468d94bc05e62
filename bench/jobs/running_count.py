"""J2: a running count per auction, one output per bid, from Parquet into a counting sink.

Runs the job as often as asked, in one Spark, with checkpoints every second or without.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
from typing import Any

import headgate as hg
from bench.jobs.support import Stopwatch, SummingSink, environment, result
from headgate.connectors.files import parquet_source


class RunningCount(hg.KeyedProcessFunction[int, Any, tuple[int, int]]):
    """The function as a user writes it: it takes the key from the bid."""

    count: hg.ValueState[int] = hg.value_state(default=0)

    def process(self, bid, ctx):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201
        self.count.value += 1
        yield bid.auction, self.count.value


def run_once(data: str, checkpoints: bool) -> dict[str, object]:
    """One job; its measurements and its answer."""
    storage = tempfile.mkdtemp(prefix="headgate-bench-")
    stopwatch, sink = Stopwatch(), SummingSink()
    try:
        env = environment(stopwatch, "1s" if checkpoints else None, storage)
        counts = (
            env.from_source(parquet_source(data), uid="bids")
            .key_by("auction")
            .process(RunningCount(), uid="counts")
        )
        counts.sink_to(sink, uid="sink")
        env.execute("running-count")
    finally:
        shutil.rmtree(storage, ignore_errors=True)
    sums = sink.sums
    answer = {"records": sums.records, "total": sums.total, "highest": sums.highest}
    return {"checkpoints_on": checkpoints, "answer": answer, **stopwatch.facts(sums.records)}


def main() -> None:
    """The program."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", help="folder of Parquet files")
    parser.add_argument(
        "modes", nargs="*", choices=["on", "off"], default=["on"], help="checkpoints, job by job"
    )
    arguments = parser.parse_args()
    runs = [run_once(arguments.data, mode == "on") for mode in arguments.modes]
    result(**runs[-1], runs=runs)


if __name__ == "__main__":
    main()
