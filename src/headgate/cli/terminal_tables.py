"""Tables on the terminal: they keep their width, as a type or figure cut off is worse than a wide line."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Final

from rich import box
from rich.console import Console, RenderableType
from rich.table import Table

_WIDEST: Final = 10_000


def table(columns: Iterable[str]) -> Table:
    """Return an empty table without borders; ``>`` before a column's name aligns its figures right."""
    made = Table(box=box.SIMPLE, pad_edge=False, show_edge=False)
    for name in columns:
        made.add_column(name.lstrip(">"), justify="right" if name[:1] == ">" else "left", no_wrap=True)
    return made


def lines(part: RenderableType, color: bool, width: int = _WIDEST) -> list[str]:
    """Return the lines that show a table or a text with markup in `width` characters, colored if `color`."""
    console = Console(width=width, force_terminal=color, highlight=False)
    with console.capture() as captured:
        console.print(part)
    return [line.rstrip() for line in captured.get().splitlines()]


def moment(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S")
