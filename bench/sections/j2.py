"""J2: a running count per auction, Headgate and the peers in turn, so that ratios are of the same minutes.

A round is: the ceiling, then Headgate and a peer for every peer. Each ratio compares a peer with the
run of Headgate right before it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from bench.measure import Run
from bench.peers.environments import AbsentError, interpreter
from bench.plan import Plan
from bench.sections import engines as g
from bench.stats import middle, ratios

RATE_WANTED = 900_000
RATIOS_WANTED = {"bytewax-recovery": 5.0, "best-python-peer": 3.0, "transform-with-state": 20.0}
BEST = "best-python-peer"

Pair = tuple[int, str, Run, Run]
"""Round, engine, Headgate's run, the peer's run."""


def measure(plan: Plan, say: Callable[[str], None]) -> dict[str, Any]:
    """Run everything; `say` is told what begins."""
    absent: dict[str, str] = {}
    runs: list[Run] = []
    pairs: list[Pair] = []

    def go(engine: g.Engine, number: int) -> Run:
        say(f"round {number + 1} of {plan.rounds}: {engine.title}")
        runs.append(g.run_engine(engine, plan))
        return runs[-1]

    peers = _present(plan, absent, say)
    for number in range(plan.rounds):
        go(g.LOOP, number)
        if not peers:
            go(g.HEADGATE, number)
        for peer in peers:
            ours = go(g.HEADGATE, number)
            pairs.append((number, peer.key, ours, go(peer, number)))
    return {
        "events": plan.events,
        "engines": [_summary(engine, runs) for engine in (g.HEADGATE, *peers, g.LOOP)],
        "absent": absent,
        "ratios": _ratios(pairs, plan),
        "targets": _targets(runs, pairs, plan),
        "runs": [done.facts() for done in runs],
        "failed": [f"{done.name}: {done.failure}" for done in runs if done.failure is not None],
    }


def _present(plan: Plan, absent: dict[str, str], say: Callable[[str], None]) -> list[g.Engine]:
    if not plan.peers:
        absent.update({engine.key: "left out with --no-peers" for engine in g.PEERS})
        return []
    found = []
    for engine in g.PEERS:
        try:
            assert engine.peer is not None
            say(f"environment of {engine.peer}")
            interpreter(engine.peer, plan.install)
        except AbsentError as error:
            absent[engine.key] = str(error)
            continue
        if plan.smoke and engine.size != "events":
            # It starts a JVM of its own and runs at a thirtieth of the speed.
            absent[engine.key] = "takes too long for the smoke form"
        else:
            found.append(engine)
    return found


def rate(done: Run) -> float | None:
    """Events per second of a run that counts."""
    found = done.result.get("events_per_s")
    return None if done.failure is not None or found is None else float(found)


def _summary(engine: g.Engine, runs: list[Run]) -> dict[str, Any]:
    mine = [done for done in runs if done.name == engine.key and done.failure is None]
    rates = sorted(found for done in mine if (found := rate(done)) is not None)
    cpu = [done.cpu_s / done.result["events"] * 1e6 for done in mine]
    workers = [done.result["workers_cpu_us"] for done in mine if "workers_cpu_us" in done.result]
    return {
        "key": engine.key,
        "title": engine.title,
        "runs": len(mine),
        "events": mine[0].result["events"] if mine else None,
        "events_per_s": middle(rates),
        "slowest": rates[0] if rates else None,
        "fastest": rates[-1] if rates else None,
        "job_s": middle([done.result["job_s"] for done in mine]),
        "wall_s": middle([done.wall_s for done in mine]),
        "tree_cpu_us": middle(cpu),
        "workers_cpu_us": middle(workers),
        "rss_peak_mb": middle([done.rss_peak_mb for done in mine]),
        "others": middle([done.others for done in mine]),
    }


def _ratios(pairs: list[Pair], plan: Plan) -> dict[str, list[float]]:
    """Per engine, one ratio per round; and per round the one to the fastest Python peer."""
    found: dict[str, list[float]] = {}
    for engine in g.PEERS:
        mine = [(rate(ours), rate(theirs)) for _, key, ours, theirs in pairs if key == engine.key]
        if mine:
            found[engine.key] = ratios([a for a, _ in mine], [b for _, b in mine])
    python = {engine.key for engine in g.PEERS if engine.python_peer}
    for number in range(plan.rounds):
        mine = [(rate(a), rate(b)) for at, key, a, b in pairs if at == number and key in python]
        against = ratios([a for a, _ in mine], [b for _, b in mine])
        if against:
            found.setdefault(BEST, []).append(min(against))
    return found


def _targets(runs: list[Run], pairs: list[Pair], plan: Plan) -> list[dict[str, Any]]:
    speed = middle([found for done in runs if done.name == "headgate" and (found := rate(done)) is not None])
    wanted = [{"name": "events/s", "wanted": RATE_WANTED, "measured": speed}]
    seen = _ratios(pairs, plan)
    wanted += [
        {"name": f"times {key}", "wanted": least, "measured": middle(seen.get(key, []))}
        for key, least in RATIOS_WANTED.items()
    ]
    return wanted
