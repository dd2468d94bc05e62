"""The same jobs with checkpoints every second and without, in turn, in one Spark: what do they cost?"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

import headgate as hg
from bench.jobs.running_count import MODES, Numbered, counts, run_once
from bench.jobs.support import result


def _auction_and_price(bid: Any) -> tuple[int, int]:
    return bid.auction, bid.price


def _with_a_fee(record: tuple[int, int]) -> tuple[int, int]:
    return record[0], record[1] + 1


def fees(bids: hg.DataStream[Any]) -> Numbered:
    """Two maps with an exchange between them, so that there are barriers to align, and no state."""
    prices = bids.map(_auction_and_price, uid="prices")
    return prices.rebalance().map(_with_a_fee, uid="fees")


PROGRAMS: dict[str, Callable[[hg.DataStream[Any]], Numbered]] = {"stateless": fees, "j2": counts}


def main() -> None:
    """The program."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", help="folder of Parquet files")
    parser.add_argument(
        "jobs",
        nargs="+",
        choices=[f"{program}:{mode}" for program in PROGRAMS for mode in MODES],
        metavar="PROGRAM:MODE",
        help="one after the other",
    )
    asked = parser.parse_args()
    runs = []
    for job in asked.jobs:
        program, _, mode = job.partition(":")
        runs.append({"program": program, **run_once(asked.data, mode, PROGRAMS[program])})
    result(runs=runs)


if __name__ == "__main__":
    main()
