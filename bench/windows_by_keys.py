"""CPU for each event, and memory, of counts in windows and sessions over more and more different keys.

    python -m bench.windows_by_keys --events 10000000 --keys 100000,1000000,10000000 --json curve.json

Every event has a key that the others before it do not have, until all keys had their turn. Each point is a
job in a process of its own, with Parquet files as its input and checkpoints every second; half of the events
are open when most are.

With more keys each has fewer events, so there are more sessions, too. `--apart` measures the keys alone: each
event is a session of its own, however many keys there are. With `--files 4` each reader has two files, of the
same time, one after the other: half of the events come up to 16 s late, and a part of them too late.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import headgate as hg
import headgate.functions as F  # noqa: N812  # as users of PySpark write it
from headgate.connectors.discard import discard_sink
from headgate.testing import MiniCluster

_STEP: Final = 7_368_787
"""A prime: keys come in an order that looks like chance."""
_ROWS: Final = 1 << 20
_SPAN_MS: Final = 20_000
"""So much event time have all events, or those in which each key has one."""


def write_events(folder: Path, events: int, keys: int, files: int, *, apart: bool) -> None:
    """Write the events of one point, ascending by time, dealt out to the files."""
    schema = pa.schema({"key": pa.int64(), "at": pa.int64()})
    writers = [pq.ParquetWriter(folder / f"{number}.parquet", schema) for number in range(files)]
    together = keys if apart else events
    for start in range(0, events, _ROWS):
        numbers = np.arange(start, min(events, start + _ROWS), dtype=np.int64)
        columns = [pa.array(numbers * _STEP % keys), pa.array(numbers * _SPAN_MS // together)]
        table = pa.table(columns, schema=schema)
        for number, writer in enumerate(writers):
            writer.write_table(table.take(pa.array(np.arange(number, len(numbers), files))))
    for writer in writers:
        writer.close()


def windows_of(kind: str) -> Any:
    """Each key's windows: all events in two, or sessions that go on while a key comes every ten seconds."""
    return F.window("at", "10s") if kind == "window" else F.session_window("at", "10s")


def run_point(kind: str, backend: str, folder: Path) -> dict[str, Any]:
    """Run one job in this process; return its CPU and wall time in seconds, and its memory in MiB."""
    config = {"state.backend.type": backend, "execution.checkpointing.incremental": backend == "rocksdb"}
    env = hg.Environment(parallelism=2, executor=MiniCluster(), config=config)
    env.checkpoints(every="1s", storage=str(folder / "checkpoints"))
    events = env.read_parquet(folder / "events", uid="in").with_event_time("at", out_of_orderness="4s")
    table = events.to_table()
    counted = table.group_by("key", windows_of(kind)).agg(F.count("*").alias("n"), uid="windows")
    counted.to_stream().sink_to(discard_sink(), uid="out")
    before, wall = time.process_time(), time.monotonic()
    env.execute("windows")
    cpu, wall = time.process_time() - before, time.monotonic() - wall
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {"cpu_s": round(cpu, 2), "wall_s": round(wall, 2), "peak_mib": round(peak)}


def measured(kind: str, backend: str, events: int, keys: int, files: int, *, apart: bool) -> dict[str, Any]:
    """Run one point in a process of its own."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "events").mkdir()
        write_events(folder / "events", events, keys, files, apart=apart)
        command = [sys.executable, "-m", "bench.windows_by_keys", "--point", kind, backend, name]
        found = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    point = {"kind": kind, "backend": backend, "events": events, "keys": keys}
    point |= {"files": files, "apart": apart, **found}
    return {**point, "cpu_us_per_event": round(1e6 * found["cpu_s"] / events, 2)}


def main() -> None:
    """Measure the points that the command line names, print each, and write them all."""
    parser = argparse.ArgumentParser(prog="python -m bench.windows_by_keys", description=__doc__)
    parser.add_argument("--events", type=int, default=10_000_000)
    parser.add_argument("--keys", default="100000,1000000,10000000")
    parser.add_argument("--kinds", default="window,session")
    parser.add_argument("--backends", default="hashmap,rocksdb")
    parser.add_argument("--files", type=int, default=2)
    parser.add_argument("--apart", action="store_true", help="each event is a session of its own")
    parser.add_argument("--json", type=Path, metavar="FILE", help="where the record goes")
    parser.add_argument("--point", nargs=3, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.point:
        kind, backend, folder = asked.point
        print(json.dumps(run_point(kind, backend, Path(folder))))
        return
    points = []
    for kind in asked.kinds.split(","):
        for keys in map(int, asked.keys.split(",")):
            for backend in asked.backends.split(","):
                point = measured(kind, backend, asked.events, keys, asked.files, apart=asked.apart)
                points.append(point)
                print(json.dumps(points[-1]), flush=True)
    if asked.json:
        asked.json.write_text(json.dumps(points, indent=1) + "\n")


if __name__ == "__main__":
    main()
