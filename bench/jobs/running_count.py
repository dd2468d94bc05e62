"""J2: a running count per auction, one output per bid, from Parquet into a counting sink."""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from collections.abc import Callable
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


Numbered = hg.DataStream[tuple[int, int]]
"""What the counting sink takes."""

MODES = ("off", "on", "unaligned")
"""No checkpoints, checkpoints every second, and such whose barriers overtake."""


def counts(bids: hg.DataStream[Any]) -> Numbered:
    """The running count of each bid's auction."""
    return bids.key_by("auction").process(RunningCount(), uid="counts")


def run_once(
    data: str,
    mode: str,
    program: Callable[[hg.DataStream[Any]], hg.DataStream[Any]],
    sink: SummingSink | None = None,
) -> dict[str, object]:
    """One job; its measurements and its answer.

    Args:
        data: folder of Parquet files.
        mode: of :data:`MODES`.
        program: what is done with the bids.
        sink: where the outcome goes; by default into one that adds it up.
    """
    storage = tempfile.mkdtemp(prefix="headgate-bench-")
    stopwatch, sink = Stopwatch(), sink or SummingSink()
    try:
        options = {"execution.checkpointing.unaligned.enabled": "true"} if mode == "unaligned" else None
        env = environment(stopwatch, None if mode == "off" else "1s", storage, options)
        program(env.from_source(parquet_source(data), uid="bids")).sink_to(sink, uid="sink")
        env.execute("bids")
    finally:
        shutil.rmtree(storage, ignore_errors=True)
    sums = sink.sums
    answer = {"records": sums.records, "total": sums.total, "highest": sums.highest}
    isolated = type(sys.modules) is not dict
    return {"mode": mode, "isolated": isolated, "answer": answer, **stopwatch.facts(sums.records)}


def main() -> None:
    """The program."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", help="folder of Parquet files")
    parser.add_argument("mode", nargs="?", choices=MODES, default="on", help="of its checkpoints")
    arguments = parser.parse_args()
    result(**run_once(arguments.data, arguments.mode, counts))


if __name__ == "__main__":
    main()
