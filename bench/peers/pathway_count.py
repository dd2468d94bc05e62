"""Pathway: a running count per auction, streaming, with persistence every second.

    pathway_count.py FOLDER RECORDS

Its own reducer counts (no Python per record), and it emits one change per auction and commit rather
than one output per bid, so it does less work than the others. The stream never ends; the program
stops when all records are counted.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
import time
from typing import Any

os.environ.setdefault("PATHWAY_THREADS", "2")

import pathway as pw

FOLDER, RECORDS = sys.argv[1], int(sys.argv[2])
PERSISTENCE = tempfile.mkdtemp(prefix="bench-pathway-")


class Bid(pw.Schema):
    """The fields of a bid."""

    auction: int
    bidder: int
    price: int
    channel: str
    url: str
    date_time: int


counts: dict[int, int] = {}
counted = 0
began = 0.0


def changed(key: Any, row: dict[str, Any], time: int, is_addition: bool) -> None:  # noqa: ARG001 - its names
    """A count changed: an old one goes, or a new one comes."""
    global counted
    if is_addition:
        counted += row["number"] - counts.get(row["auction"], 0)
        counts[row["auction"]] = row["number"]


def committed(_time: int) -> None:
    """All changes of one moment were seen."""
    if counted < RECORDS:
        return
    seconds = time.time() - began
    answer = {
        "records": counted,
        "total": sum(number * (number + 1) // 2 for number in counts.values()),
        "highest": max(counts.values()),
    }
    facts = {"events": counted, "job_s": round(seconds, 3), "events_per_s": round(counted / seconds)}
    print("RESULT", json.dumps({**facts, "answer": answer}), flush=True)
    shutil.rmtree(PERSISTENCE, ignore_errors=True)
    os._exit(0)


bids = pw.io.jsonlines.read(FOLDER, schema=Bid, mode="streaming", autocommit_duration_ms=1000, name="bids")
numbers = bids.groupby(pw.this.auction).reduce(pw.this.auction, number=pw.reducers.count())
pw.io.subscribe(numbers, on_change=changed, on_time_end=committed)
settings = pw.persistence.Config(pw.persistence.Backend.filesystem(PERSISTENCE), snapshot_interval_ms=1000)
began = time.time()
pw.run(monitoring_level=pw.MonitoringLevel.NONE, persistence_config=settings)
