"""The table of the comparison, with a footnote where a cell has no number, or not of all events."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from statistics import median
from typing import Final

from rich.console import Console
from rich.table import Table

from bench.compare.cells import MEASURED, Cell
from bench.compare.queries import QUERIES
from bench.compare.systems import SYSTEMS, base_of
from bench.report import number, short

HEADINGS: Final = (
    "events",
    "events/s",
    "spread",
    "Headgate is",
    "start-up s",
    "CPU us/event",
    "peak MB",
    "checkpoints",
    "answer",
)


class Footnotes:
    """Numbers the reasons of cells without a number; the same reason has one number."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}

    def mark(self, reason: str) -> str:
        """The mark of a reason.

        Example:
            >>> notes = Footnotes()
            >>> notes.mark("no decimals"), notes.mark("too slow"), notes.mark("no decimals")
            ('(1)', '(2)', '(1)')
        """
        return f"({self._numbers.setdefault(reason, len(self._numbers) + 1)})"

    def lines(self) -> list[str]:
        """The footnotes, in order."""
        return [f"({number}) {reason}" for reason, number in self._numbers.items()]


def ratio(cell: Cell, cells: Iterable[Cell]) -> float | None:
    """How many times as fast Headgate is on the same query, reading the same format.

    None for Headgate's own cells, and where one of both has no number.
    """
    base = base_of(SYSTEMS[cell.system], QUERIES[cell.query])
    if cell.rate is None or cell.system.startswith("headgate"):
        return None
    rates = [each.rate for each in cells if (each.query, each.system) == (cell.query, base.key)]
    return rates[0] / cell.rate if rates and rates[0] is not None else None


def show(cells: Sequence[Cell], console: Console) -> None:
    """The table, its footnotes, and what each system's numbers are."""
    notes = Footnotes()
    table = Table(title="Headgate and its peers", title_justify="left")
    table.add_column("query", no_wrap=True)
    table.add_column("system")
    for heading in HEADINGS:
        table.add_column(heading, justify="right")
    for place, cell in enumerate(cells):
        first = place == 0 or cells[place - 1].query != cell.query
        if first and place:
            table.add_section()
        table.add_row(cell.query if first else "", SYSTEMS[cell.system].title, *values(cell, cells, notes))
    console.print(table)
    for line in (*notes.lines(), *explanations(cells)):
        console.print(line, highlight=False, markup=False, soft_wrap=True)


def values(cell: Cell, cells: Iterable[Cell], notes: Footnotes) -> list[str]:
    """What the columns have of a cell; without a measurement, its status and a mark instead of a rate."""
    if cell.status != MEASURED:
        return ["", f"{cell.status} {notes.mark(cell.reason)}", *[""] * (len(HEADINGS) - 2)]
    times = ratio(cell, cells)
    spread = f"{short(min(cell.rates))}-{short(max(cell.rates))}" if len(cell.rates) > 1 else ""
    return [
        f"{cell.events:,}{' ' + notes.mark(cell.reason) if cell.reason else ''}",
        short(cell.rate),
        spread,
        "" if times is None else f"{times:.1f} x",
        number(_middle(cell.starts_s), 1),
        number(_middle(cell.cpu_us), 2),
        number(cell.rss_peak_mb, 0),
        "-" if cell.checkpoints is None else str(cell.checkpoints),
        cell.checked or "not checked",
    ]


def _middle(numbers: Sequence[float]) -> float | None:
    return median(numbers) if numbers else None


def explanations(cells: Iterable[Cell]) -> list[str]:
    """A line for each query and each system of the table."""
    queries = dict.fromkeys(cell.query for cell in cells)
    systems = dict.fromkeys(cell.system for cell in cells)
    return [
        *(f"{name}: {QUERIES[name].title}" for name in queries),
        *(f"{SYSTEMS[key].title}: {SYSTEMS[key].notes}" for key in systems),
    ]
