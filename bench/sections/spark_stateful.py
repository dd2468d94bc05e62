"""J2 on one stream of Spark's: Headgate fed by it, and Spark's own state in Python."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from bench.measure import Run
from bench.peers.environments import AbsentError, interpreter
from bench.plan import Plan
from bench.report import short
from bench.sections import engines as g
from bench.sections.j2 import rate
from bench.sections.state import Row
from bench.stats import middle, ratios

RATIO_WANTED = 20.0


def measure(plan: Plan, say: Callable[[str], None]) -> dict[str, Any]:
    """All engines in turn, as often as there are rounds; ratios are of the same round."""
    absent: dict[str, str] = {}
    engines = [engine for engine in g.ON_ONE_STREAM if _present(engine, plan, absent)]
    rounds: list[dict[str, Run]] = []
    for number in range(plan.stream_rounds):
        rounds.append({})
        for engine in engines:
            say(f"round {number + 1} of {plan.stream_rounds}: {engine.title}")
            rounds[-1][engine.key] = g.run_engine(engine, plan)
    runs = [done for each in rounds for done in each.values()]
    return {
        "absent": absent,
        "rows": [row.plain() for engine in engines for row in _rows(engine, rounds, plan.smoke)],
        "runs": [done.facts() for done in runs],
        "failed": [f"{done.name}: {done.failure}" for done in runs if done.failure is not None],
    }


def _present(engine: g.Engine, plan: Plan, absent: dict[str, str]) -> bool:
    if engine.peer is None:
        return True
    if plan.smoke or not plan.peers:
        absent[engine.key] = "takes too long for the smoke form" if plan.smoke else "left out with --no-peers"
        return False
    try:
        interpreter(engine.peer, plan.install)
    except AbsentError as error:
        absent[engine.key] = str(error)
        return False
    return True


def _rows(engine: g.Engine, rounds: list[dict[str, Run]], smoke: bool) -> list[Row]:
    """What an engine makes on the whole and behind the first epoch, and how often Headgate makes that."""
    rows: list[Row] = []
    for what, of_run in (("the whole run", rate), ("behind the first epoch", steady)):
        rates = [of_run(each[engine.key]) for each in rounds]
        speed = middle([found for found in rates if found is not None])
        if speed is not None:
            rows.append(Row(f"{engine.title}: {what}", speed, f"{short(speed)}/s", "", None))
        times = middle(ratios([of_run(each[g.SPARK_FED.key]) for each in rounds], rates))
        if engine is not g.SPARK_FED and times is not None:
            wanted = of_run is steady and not smoke
            met = times >= RATIO_WANTED if wanted else None
            text = f">= {RATIO_WANTED:g}" if wanted else ""
            rows.append(Row(f"times {engine.title}: {what}", times, f"{times:.1f}", text, met))
    return rows


def steady(done: Run) -> float | None:
    """Events per second behind the first micro-batch, which starts processes and compiles code."""
    found = done.result.get("steady_per_s")
    return None if done.failure is not None or found is None else float(found)
