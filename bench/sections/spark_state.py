"""State read into Spark: the data source against the least that one can do, and plain Parquet."""

from __future__ import annotations

from typing import Any, Final

from bench.plan import Plan
from bench.sections.headgate_jobs import Say
from bench.sections.state import Row, child, failures, mb
from bench.stats import middle, ratios

WANTED: Final = 0.7


def measure(plan: Plan, say: Say) -> dict[str, Any]:
    """One child."""
    sizes = plan.spark_state_keys, plan.spark_state_entries
    done = child("spark_state", plan, say, *sizes, "--rounds", plan.spark_state_rounds, length_s=900.0)
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
    what = f"{keys:,} counts of a canonical savepoint ({mb(told['bytes'])}) added up in Spark"
    ratio = middle(ratios(seconds["minimal"], seconds["headgate"]))
    shown = "none" if ratio is None else f"{ratio:.2f} x its rate"
    met = None if smoke or ratio is None else ratio >= WANTED
    found = [Row(f"{what}: against a minimal data source", ratio, shown, f">= {WANTED:g}", met)]
    for name, words in WORDS.items():
        found.append(_rate(f"{what}: {words}", keys, middle(seconds[name])))
    entries = told["entries"]
    for backend, taken in told["checkpoints_s"].items():
        found.append(_rate(f"{entries:,} counts of a checkpoint of {backend}", entries, taken))
    return found


WORDS: Final = {
    "headgate": "headgate-savepoint",
    "minimal": "the minimal data source",
    "parquet": "spark.read.parquet",
}


def _rate(what: str, keys: int, taken_s: float | None) -> Row:
    rate = None if not taken_s else keys / taken_s
    return Row(what, rate, "none" if rate is None else f"{rate / 1e6:.2f} million/s, {taken_s:.2f} s")
