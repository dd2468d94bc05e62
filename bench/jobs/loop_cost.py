"""Rows through a chain that does nothing, in one process: what a worker's loop costs for each of them."""

from __future__ import annotations

import argparse
import time

import headgate as hg
from bench.jobs.read_only import DroppingSink
from bench.jobs.support import result
from headgate.testing import MiniCluster, TestSource

MAPS = 10


def main() -> None:
    """The program."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("rows", type=int, help="how many")
    rows = parser.parse_args().rows
    sink = DroppingSink()
    env = hg.Environment(parallelism=1, executor=MiniCluster())
    stream = env.from_source(TestSource(list(range(rows))), uid="numbers")
    for number in range(MAPS):
        stream = stream.map(lambda value: value, uid=f"same-{number}")
    stream.sink_to(sink, uid="sink")
    begin = time.process_time()
    env.execute("loop")
    cpu_s = time.process_time() - begin
    if sink.sums.records != rows:
        raise SystemExit(f"{sink.sums.records} of {rows} rows came to the sink")
    result(events=rows, workers_cpu_us=round(cpu_s / rows * 1e6, 5), answer=rows, failures=[])


if __name__ == "__main__":
    main()
