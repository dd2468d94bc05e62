"""Rows through the codec of an exchange and back: tuples, dicts, and records of a declared class."""

from __future__ import annotations

import argparse
import contextlib
import importlib
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from bench.jobs.support import result
from headgate.records.row_batch import RowBatch

ROWS = 20_000
CODECS = ("headgate.runtime.protocol.element_codec", "headgate.runtime.codec")
"""Where the exchange's codec lives, by the age of the package that is measured."""


@dataclass
class Bid:
    """A record with a field of each common kind."""

    auction: int
    bidder: str
    price: float


def codec_of(kind: type | None) -> Any:
    """The exchange's codec for records of a declared class, or of none.

    Raises:
        SystemExit: the package has none of the known modules.
    """
    for name in CODECS:
        with contextlib.suppress(ModuleNotFoundError):
            return importlib.import_module(name).ElementCodec(kind)
    raise SystemExit(f"the package has none of {', '.join(CODECS)}")


def main() -> None:
    """The program."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("rows", type=int, help="how many of all kinds together")
    rounds = max(1, parser.parse_args().rows // (3 * ROWS))
    makers: dict[Any, Callable[[int], Any]] = {
        tuple: lambda i: (f"bidder {i % 97}", i),
        dict: lambda i: {"auction": i, "bidder": f"bidder {i % 97}"},
        Bid: lambda i: Bid(i, f"bidder {i % 97}", i / 7),
    }
    costs: dict[str, float] = {}
    back: object = None
    records = 0
    for kind, make in makers.items():
        codec = codec_of(kind if kind is Bid else None)
        batch = RowBatch([make(i) for i in range(ROWS)])
        begin = time.process_time()
        for _ in range(rounds):
            frame, parts = codec.encode(batch)
            back = codec.decode(frame, memoryview(b"".join(parts)))
        costs[kind.__name__] = (time.process_time() - begin) / (rounds * ROWS) * 1e6
        if not isinstance(back, RowBatch) or back.records != batch.records:
            raise SystemExit(f"rows of {kind.__name__} came back as others")
        records += rounds * ROWS
    total = sum(costs.values()) / len(costs)
    result(events=records, workers_cpu_us=round(total, 5), by_kind=costs, answer="equal", failures=[])


if __name__ == "__main__":
    main()
