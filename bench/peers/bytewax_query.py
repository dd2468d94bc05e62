"""Runs `bytewax_query_flow.py` as two processes with recovery every second, and puts their reports together.

bytewax_query.py ORDER.json
"""

from __future__ import annotations

import sys
from pathlib import Path

from bytewax_parts import new_recovery, run
from orders import Order, report, versions


def main() -> None:
    """The program."""
    order = Order.read(sys.argv[1])
    recovery = Path(order.work) / "recovery"
    recovery.mkdir()
    parts = run("bytewax_query_flow:flow", new_recovery(str(recovery)), {"BENCH_ORDER": sys.argv[1]})
    ends = [part for part in parts if "end" in part]
    counts = [part["records"] for part in ends if "records" in part]
    report(
        began=min(part["start"] for part in parts if "start" in part),
        ended=max(part["end"] for part in ends),
        records=sum(counts) if counts and not order.updating else None,
        versions=versions("bytewax", "orjson"),
    )


if __name__ == "__main__":
    main()
