"""Shows in the driver what user code prints in the workers: on a terminal, or in the cell of a notebook.

Where there is neither, workers put their lines into the log, and nothing comes here.
"""

from __future__ import annotations

import sys
from collections import deque
from enum import StrEnum
from html import escape
from typing import Final, Protocol, TextIO

from headgate.common.files.durable import clock
from headgate.common.refusals.cells import running_shell

CELL_LINES: Final = 20
"""How many lines a cell of a notebook shows: the last ones."""
CELL_EVERY_S: Final = 0.5


class Prints(StrEnum):
    """Where lines of user code are shown."""

    TERMINAL = "terminal"
    CELL = "cell"
    LOG = "log"


class PrintedLines(Protocol):
    """Shows lines; called by one thread."""

    def show(self, lines: list[str], left_out: int) -> None:
        """Lines came, each behind its place, and so many before them were left out."""

    def close(self) -> None:
        """None comes any more."""


class CellOutput(Protocol):
    """One output of a cell, as IPython gives it."""

    def update(self, data: dict[str, str], *, raw: bool) -> None:
        """Replace what it shows; `data` is the same thing by type."""


class ShowsInCell(Protocol):
    """The function of IPython that adds an output to the cell that runs."""

    def __call__(self, data: dict[str, str], *, raw: bool, display_id: bool) -> CellOutput:
        """Show `data`, the same thing by type."""


def where_prints_show() -> Prints:
    """Where a person would look for what a program prints."""
    if notebook_display() is not None:
        return Prints.CELL
    return Prints.TERMINAL if _terminal() is not None else Prints.LOG


def notebook_display() -> ShowsInCell | None:
    """What shows something in a cell, where the program runs in a notebook."""
    if not hasattr(running_shell(), "kernel"):
        return None
    found: ShowsInCell = sys.modules["IPython"].display.display
    return found


def printed_lines() -> PrintedLines:
    """What shows lines here."""
    display = notebook_display()
    return TerminalLines() if display is None else CellLines(display)


class TerminalLines:
    """Writes lines to the terminal, above a line of progress if there is one."""

    def show(self, lines: list[str], left_out: int) -> None:
        """See :class:`PrintedLines`."""
        stream = _terminal() or sys.stderr
        if left_out:
            lines = [f"... {left_out:,} lines more ...", *lines]
        try:
            stream.write("".join(f"{line}\n" for line in lines))
            stream.flush()
        except (OSError, ValueError):
            return  # the terminal is gone; that is no reason for a job to fail

    def close(self) -> None:
        """See :class:`PrintedLines`."""


class CellLines:
    """Keeps one output of a cell current: the last lines, and how many there were."""

    def __init__(self, display: ShowsInCell) -> None:
        self._display = display
        self._handle: CellOutput | None = None
        self._last: deque[str] = deque(maxlen=CELL_LINES)
        self._count, self._shown, self._shown_at = 0, 0, 0.0

    def show(self, lines: list[str], left_out: int) -> None:
        """See :class:`PrintedLines`."""
        self._last.extend(lines)
        self._count += len(lines) + left_out
        if clock.monotonic() - self._shown_at >= CELL_EVERY_S:
            self._draw()

    def close(self) -> None:
        """See :class:`PrintedLines`."""
        if self._shown != self._count:
            self._draw()

    def _draw(self) -> None:
        self._shown, self._shown_at = self._count, clock.monotonic()
        data = self.forms()
        if self._handle is None:
            self._handle = self._display(data, raw=True, display_id=True)
        else:
            self._handle.update(data, raw=True)

    def forms(self) -> dict[str, str]:
        """The output as it is now, by type."""
        lines = [line[:500] for line in self._last]
        if self._count > len(lines):
            lines.insert(0, f"{self._count:,} lines printed; the last {len(lines)}:")
        text = "\n".join(lines)
        return {"text/plain": text, "text/html": f"<pre>{escape(text)}</pre>"}


def _terminal() -> TextIO | None:
    """The standard stream that a person sees, if one does."""
    return next((stream for stream in (sys.stdout, sys.stderr) if _is_terminal(stream)), None)


def _is_terminal(stream: TextIO | None) -> bool:
    try:
        return stream is not None and bool(stream.isatty())
    except ValueError:  # closed
        return False
