"""Savepoints of a million keys: written, read through and restored by two subtasks."""

from __future__ import annotations

from typing import Any, Final

from bench.plan import Plan
from bench.sections.headgate_jobs import Say
from bench.sections.state import Row, child, failures, mb

WANTED_S: Final = 10.0
FORMATS: Final = ("canonical", "native")


def measure(plan: Plan, say: Say) -> dict[str, Any]:
    """Both formats."""
    parts = [child("state_savepoints", plan, say, plan.savepoint_keys, form) for form in FORMATS]
    rows = [row for part in parts for row in savepoint_rows(part.result, plan.smoke)]
    return {
        "rows": [row.plain() for row in rows],
        "parts": [part.facts() for part in parts],
        "absent": {},
        "failed": failures(parts),
    }


def savepoint_rows(told: dict[str, Any], smoke: bool) -> list[Row]:
    """Of two subtasks the slower one counts, as they are on different workers."""
    if not told:
        return []
    what = f"{told['format']} savepoint, {told['keys']:,} keys"
    parts = {f"write, {mb(told['bytes'])}": told["write_s"], "verify": told["verify_s"]}
    parts |= {f"restore, {backend}": seconds for backend, seconds in told["restore_s"].items()}
    return [_row(f"{what}: {part}", max(seconds), smoke) for part, seconds in parts.items()]


def _row(what: str, slowest_s: float, smoke: bool) -> Row:
    met = None if smoke else slowest_s < WANTED_S
    return Row(what, slowest_s, f"{slowest_s:.2f} s", f"< {WANTED_S:g} s", met)
