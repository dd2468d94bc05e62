"""Isolated user code: what a call into its namespace costs, and a first import, against the same without."""

from __future__ import annotations

from typing import Any, Final

from bench.measure import Run
from bench.plan import Plan
from bench.sections.headgate_jobs import Say
from bench.sections.state import Row, child, failures
from bench.stats import middle

CALL_WANTED_US: Final = 0.5


def measure(plan: Plan, say: Say) -> dict[str, Any]:
    """Calls in one process; imports in turn, each in its own."""
    called = child("user_code_costs", plan, say, "calls", plan.user_code_calls)
    pairs = [
        tuple(
            child("user_code_costs", plan, say, "import", kind, plan.user_code_modules)
            for kind in ("plain", "namespace")
        )
        for _ in range(plan.user_code_rounds)
    ]
    rows = [*call_rows(called.result, plan.smoke), *import_rows(pairs, plan.user_code_modules)]
    parts = [called, *(part for pair in pairs for part in pair)]
    return {
        "rows": [row.plain() for row in rows],
        "parts": [part.facts() for part in parts],
        "absent": {},
        "failed": failures(parts),
    }


def call_rows(told: dict[str, Any], smoke: bool) -> list[Row]:
    """The difference of the two calls of a round."""
    if not told:
        return []
    costs = [through - bare for through, bare in zip(told["through_us"], told["bare_us"], strict=True)]
    cost = middle(costs)
    if cost is None:
        return []
    met = None if smoke else cost <= CALL_WANTED_US
    shown = f"{cost:.2f} us ({min(costs):.2f} to {max(costs):.2f})"
    return [Row("a call through the border", cost, shown, f"<= {CALL_WANTED_US} us", met)]


def import_rows(pairs: list[tuple[Run, ...]], modules: int) -> list[Row]:
    """A first import in a namespace, as a multiple of a plain one in the same round."""
    told = [tuple(part.result.get("seconds") for part in pair) for pair in pairs]
    times = [namespace / plain for plain, namespace in told if plain and namespace]
    found = middle(times)
    if found is None:
        return []
    shown = f"{found:.2f} x a plain import ({min(times):.2f} to {max(times):.2f})"
    return [Row(f"first import of {modules} pure modules in a namespace", found, shown)]
