"""What `headgate trace` prints: the slowest ways of traced records, and where their time went."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from rich.console import Group, RenderableType
from rich.markup import escape
from rich.table import Table

from headgate.cli.terminal_tables import table

BAR: Final = 24  # characters
RECORD_MAX: Final = 100

Facts = Mapping[str, Any]


def shown(facts: Facts, plan: Facts, most: int) -> RenderableType:
    """Return the page for the fields of ``GET /v1/traces`` with the `most` slowest ways, by the names in
    `plan` (``GET /v1/plan``).
    """
    ways = sorted(facts["ways"], key=lambda way: -way["took_ms"])
    if not ways:
        return (
            "no record was traced: meanwhile no subtask of a source has read "
            f"{facts['every']:,} records; try a smaller --every, or more --seconds"
        )
    names = {
        vertex["id"]: " -> ".join(operator["uid"] for operator in vertex["operators"])
        for vertex in plan["vertices"]
    }
    parts: list[RenderableType] = [f"{len(ways):,} records were traced, one in {facts['every']:,}"]
    for number, way in enumerate(ways[:most]):
        which = "the slowest" if number == 0 else f"number {number + 1} from the slowest"
        parts += ["", *_way(way, which, names)]
    return Group(*parts, "", "all of them:", _times(facts, names))


def _way(way: Facts, which: str, names: Mapping[int, str]) -> list[RenderableType]:
    at = datetime.fromtimestamp(way["began_ms"] / 1000, UTC).strftime("%H:%M:%S.%f")[:-3]
    record = escape(_line(way["record"]))
    rows = table((">at ms", "", ">ms", "where", "what"))
    for visit in way["visits"]:
        name = f"{_name(visit['vertex'], names)}[{visit['subtask']}]"
        if visit["sender"] is not None:
            came = visit["came_ms"]
            bar = _bar(visit["began_ms"] - came, visit["began_ms"], way["took_ms"], "·")
            rows.add_row("", bar, f"{came:,.2f}", "", "[dim]on its way[/dim]")
        bar = _bar(visit["began_ms"], visit["began_ms"] + visit["took_ms"], way["took_ms"], "█")
        rows.add_row(
            f"{visit['began_ms']:,.2f}", bar, f"{visit['took_ms']:,.2f}", escape(name), _what(visit, names)
        )
    return [f"{which}: {way['took_ms']:,.2f} ms, read at {at}: {record}", rows]


def _what(visit: Facts, names: Mapping[int, str]) -> str:
    steps = [
        f"{_joined(step['uids'])} {step['own_ms']:,.2f} ms → {step['records']}" for step in visit["steps"]
    ]
    last = visit["steps"][-1]
    ends = [] if visit["sent"] or last["records"] else ["it ends here, or is kept"]
    lost = [
        f"not seen yet in {_name(exchange['vertex'], names)}[{exchange['subtask']}]"
        for exchange in visit["sent"]
        if not exchange["came"]
    ]
    waited = max((exchange["waiting"] for exchange in visit["sent"]), default=0)
    credit = [f"{waited} frames waited before it"] if waited else []
    return escape("; ".join([", ".join(steps), *ends, *credit, *lost]))


def _name(vertex: int, names: Mapping[int, str]) -> str:
    return names.get(vertex, "another plan's operators")


def _joined(uids: Sequence[str]) -> str:
    return " → ".join(uids)


def _bar(began_ms: float, ended_ms: float, whole_ms: float, sign: str) -> str:
    scale = BAR / whole_ms if whole_ms > 0 else 0.0
    start = min(BAR - 1, max(0, int(began_ms * scale)))
    size = max(1, round((ended_ms - began_ms) * scale))
    return f"{' ' * start}{sign * min(size, BAR - start)}".ljust(BAR)


def _times(facts: Facts, names: Mapping[int, str]) -> Table:
    rows = table(("where", ">records", ">median ms", ">longest ms"))
    named: Sequence[tuple[str, Facts]] = [
        *((_joined(each["uids"]), each) for each in facts["operators"]),
        *(
            (f"from {_name(each['sender'], names)} to {_name(each['receiver'], names)}", each)
            for each in facts["exchanges"]
        ),
    ]
    for name, each in sorted(named, key=lambda found: -found[1]["median_ms"]):
        figures = f"{each['median_ms']:,.3f}", f"{each['longest_ms']:,.3f}"
        rows.add_row(escape(_line(name)), f"{each['records']:,}", *figures)
    return rows


def _line(text: str) -> str:
    line = "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in text)
    return line if len(line) <= RECORD_MAX else f"{line[:RECORD_MAX]}..."
