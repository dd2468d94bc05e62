"""A savepoint out of a DataFrame: its rate against sorting and writing the same rows as Parquet."""

from __future__ import annotations

from typing import Any, Final

from bench.plan import Plan
from bench.sections.headgate_jobs import Say
from bench.sections.state import Row, child, failures, mb
from bench.stats import middle, ratios

WANTED: Final = 0.5
WORDS: Final = {"savepoint": "SavepointWriter", "parquet": "sorted the same way, write.parquet"}


def measure(plan: Plan, say: Say) -> dict[str, Any]:
    """One child."""
    sizes = plan.spark_bootstrap_keys, "--rounds", plan.spark_bootstrap_rounds
    done = child("spark_bootstrap", plan, say, *sizes, length_s=1_200.0)
    return {
        "rows": [row.plain() for row in rows(done.result, plan.smoke)],
        "parts": [done.facts()],
        "absent": {},
        "failed": failures([done]),
    }


def rows(told: dict[str, Any], smoke: bool) -> list[Row]:
    """The ratio that is asked for, and the rates it is made of."""
    if not told:
        return []
    keys, seconds = told["keys"], told["seconds"]
    ratio = middle(ratios(seconds["parquet"], seconds["savepoint"]))
    shown = "none" if ratio is None else f"{ratio:.2f} x its rate"
    met = None if smoke or ratio is None else ratio >= WANTED
    what = f"bootstrap of {keys:,} keys"
    found = [Row(f"{what}: against Parquet of the same rows", ratio, shown, f">= {WANTED:g}", met)]
    for way, words in WORDS.items():
        taken = middle(seconds[way])
        rate = None if not taken else keys / taken
        told_rate = "none" if rate is None else f"{rate / 1e6:.2f} million/s, {taken:.2f} s"
        found.append(Row(f"{what}: {words}, {mb(told['bytes'][way])}", rate, told_rate))
    return found
