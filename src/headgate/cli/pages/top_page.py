"""Shows what the operators of a running job do at this moment, as a table on the terminal."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

from rich.console import Group, RenderableType
from rich.markup import escape
from rich.text import Text

from headgate.cli.terminal_tables import table

COLUMNS: Final = (
    *("operators", ">subtasks", ">in/s", ">out/s", ">busy", ">waits", ">idle", ">skew", ">behind"),
    *(">late", ">skipped"),
)
DAY_MS: Final = 86_400_000
BUSY, WAITS = 0.8, 0.2  # from these shares on, they are marked

Facts = Mapping[str, Any]
"""The answer to ``GET /v1/snapshot``, and parts of it, as `docs/page.md` describes them."""


def shown(facts: Facts, plan: Facts) -> RenderableType:
    """Return a job's snapshot and the operators of its plan as what a terminal shows."""
    made = table(COLUMNS)
    names = {vertex["id"]: _name(vertex) for vertex in plan["vertices"]}
    for vertex in facts["vertices"]:
        made.add_row(names.get(vertex["id"], "?"), *_cells(vertex, facts["time_ms"]))
    return Group(Text.from_markup(head(facts)), Text(""), made)


def head(facts: Facts) -> str:
    """Return the lines above the table, with rich's markup.

    Example:
        >>> head({"name": "words", "state": "running", "attempt": 2, "restarts": 1, "latest_checkpoint": 7,
        ...     "latest_duration_ms": 41, "failures": 0, "last_failure": None, "bottleneck": None})
        'words is running, attempt 2, 1 restart, checkpoint 7 took 41 ms'
    """
    restarts = f"{facts['restarts']} restart{'s' if facts['restarts'] != 1 else ''}"
    parts = [f"{escape(facts['name'])} is {facts['state']}", f"attempt {facts['attempt']}", restarts]
    if facts["latest_checkpoint"] is not None:
        took = facts["latest_duration_ms"]
        parts.append(f"checkpoint {facts['latest_checkpoint']}{'' if took is None else f' took {took} ms'}")
    found = [", ".join(parts)]
    if facts["failures"] and facts["last_failure"]:
        found.append(f"[red]last failure: {escape(str(facts['last_failure']).splitlines()[0])}[/]")
    if facts["bottleneck"] is not None:
        found.append(f"[yellow]{escape(facts['bottleneck']['text'])}[/]")
    return "\n".join(found)


def _name(vertex: Facts) -> str:
    return escape(" -> ".join(operator["uid"] for operator in vertex["operators"]))


def _cells(vertex: Facts, now_ms: int) -> list[str]:
    watermark = vertex["watermark_ms"]
    return [
        str(vertex["subtasks"]),
        rate(vertex["in_per_s"]),
        rate(vertex["out_per_s"]),
        _marked(vertex["busy"], BUSY, "red"),
        _marked(vertex["backpressured"], WAITS, "yellow"),
        share(vertex["idle"]),
        "-" if vertex["skew"] is None else f"{vertex['skew']:.1f}",
        "-" if watermark is None else behind(now_ms, watermark),
        f"{vertex['late']:,}",
        f"{vertex['skipped']:,}",
    ]


def behind(now_ms: int, watermark_ms: int) -> str:
    """Return how far event time is behind the clock, or of recorded input, of another day, where it is."""
    if abs(now_ms - watermark_ms) < DAY_MS:
        return f"{(now_ms - watermark_ms) / 1000:,.1f} s"
    try:
        return f"at {datetime.fromtimestamp(watermark_ms / 1000, UTC):%Y-%m-%d %H:%M}"
    except (OverflowError, ValueError, OSError):
        return f"at {watermark_ms}"


def _marked(value: float | None, limit: float, color: str) -> str:
    text = share(value)
    return f"[{color}]{text}[/]" if value is not None and value >= limit else text


def share(value: float | None) -> str:
    return "-" if value is None else f"{value:.0%}"


def rate(value: float | None) -> str:
    """Return records a second in few characters.

    Example:
        >>> rate(None), rate(7.24), rate(1_234_567.0)
        ('-', '7.2', '1,234,567')
    """
    if value is None:
        return "-"
    return f"{value:.1f}" if value < 100 else f"{value:,.0f}"
