"""Writes Nexmark's events for the programs beside it.

    python make_events.py EVENTS [HOW_MANY]

EVENTS gets the folders persons, auctions and bids, each with Parquet files.
"""

from __future__ import annotations

import sys
from pathlib import Path

from headgate.nexmark import NexmarkSettings, generate_files

if __name__ == "__main__":
    count = int(sys.argv[2]) if len(sys.argv) > 2 else 1_000_000
    # Two files of each table that cover the same time: one for each of two readers.
    made = generate_files(Path(sys.argv[1]), NexmarkSettings(seed=1), count, files=2, interleaved=True)
    print(f"{count:,} events in {made.directory}")
