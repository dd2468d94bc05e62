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

CELL_LINES: Final = 20  # how many lines a cell of a notebook shows: the last ones
CELL_EVERY_S: Final = 0.5


class Prints(StrEnum):
    """Where lines that user code prints in workers are shown: terminal, notebook's cell, or log."""

    TERMINAL = "terminal"
    CELL = "cell"
    LOG = "log"


class PrintedLines(Protocol):
    """Shows lines that user code printed in workers; called by one thread."""

    def show(self, lines: list[str], left_out: int) -> None:
        """Show lines, each with operator and subtask before it; `left_out` lines before them were dropped."""

    def close(self) -> None:
        """Show lines that are not shown yet; no more lines will come."""


class CellOutput(Protocol):
    """One output of a notebook's cell, as IPython returns it."""

    def update(self, data: dict[str, str], *, raw: bool) -> None:
        """Replace the shown output by `data`: the same content by MIME type, as `raw` tells IPython."""


class ShowsInCell(Protocol):
    """The function of IPython that adds an output to the cell that runs."""

    def __call__(self, data: dict[str, str], *, raw: bool, display_id: bool) -> CellOutput:
        """Add an output of `data`, content by MIME type (`raw`); with `display_id` it can be updated."""


def where_prints_show() -> Prints:
    """Return where to show what user code prints, asked by the driver when the job begins.

    CELL in a notebook, TERMINAL where standard output or standard error is one, else LOG.
    """
    if notebook_display() is not None:
        return Prints.CELL
    return Prints.TERMINAL if _terminal() is not None else Prints.LOG


def notebook_display() -> ShowsInCell | None:
    """Return IPython's function that shows something in a cell; None if this is no notebook."""
    if not hasattr(running_shell(), "kernel"):
        return None
    found: ShowsInCell = sys.modules["IPython"].display.display
    return found


def printed_lines() -> PrintedLines:
    """Return a new object that shows user code's lines in the notebook's cell, or else on the terminal."""
    display = notebook_display()
    return TerminalLines() if display is None else CellLines(display)


class TerminalLines:
    """Writes lines of user code to the terminal, above a line of progress if there is one."""

    def show(self, lines: list[str], left_out: int) -> None:
        stream = _terminal() or sys.stderr
        if left_out:
            lines = [f"... {left_out:,} lines more ...", *lines]
        try:
            stream.write("".join(f"{line}\n" for line in lines))
            stream.flush()
        except (OSError, ValueError):
            return  # without its terminal a job goes on

    def close(self) -> None:
        """Do nothing: all lines are written at once."""


class Cell:
    """One output of a notebook's cell, in which each text replaces the one before."""

    def __init__(self, display: ShowsInCell) -> None:
        self._display = display
        self._output: CellOutput | None = None

    def show(self, text: str, html: str | None = None) -> None:
        """Show a text in place of the one before; where HTML is shown `html`, if it is given."""
        data = {"text/plain": text, "text/html": html or f"<pre>{escape(text)}</pre>"}
        if self._output is None:
            self._output = self._display(data, raw=True, display_id=True)
        else:
            self._output.update(data, raw=True)


class CellLines:
    """Shows user code's lines in one output of a notebook's cell: the last 20, and how many there were.
    The output is updated at most every half second.
    """

    def __init__(self, display: ShowsInCell) -> None:
        self._cell = Cell(display)
        self._last: deque[str] = deque(maxlen=CELL_LINES)
        self._count, self._shown, self._shown_at = 0, 0, 0.0

    def show(self, lines: list[str], left_out: int) -> None:
        self._last.extend(lines)
        self._count += len(lines) + left_out
        if clock.monotonic() - self._shown_at >= CELL_EVERY_S:
            self._update()

    def close(self) -> None:
        if self._shown != self._count:
            self._update()

    def _update(self) -> None:
        self._shown, self._shown_at = self._count, clock.monotonic()
        lines = [line[:500] for line in self._last]
        if self._count > len(lines):
            lines.insert(0, f"{self._count:,} lines printed; the last {len(lines)}:")
        self._cell.show("\n".join(lines))


def _terminal() -> TextIO | None:
    return next((stream for stream in (sys.stdout, sys.stderr) if _is_terminal(stream)), None)


def _is_terminal(stream: TextIO | None) -> bool:
    try:
        return stream is not None and bool(stream.isatty())
    except ValueError:  # closed
        return False
