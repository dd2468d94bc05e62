"""A display on a terminal: one line kept current, and lasting lines for restarts, notes and the end."""

from __future__ import annotations

import io
import sys
import threading
from collections.abc import Callable
from typing import Any, Final, TextIO

from rich.ansi import AnsiDecoder
from rich.cells import cell_len
from rich.console import Console
from rich.live import Live
from rich.text import Text
from typing_extensions import override

from headgate.common.ports import Clock
from headgate.common.process.children import at_exit
from headgate.display.event_texts import END_EVENTS, Facts, phrases, sentence
from headgate.display.progress_status import JobProgress

REFRESH_PER_SECOND: Final = 2
NAME_LENGTH_MIN: Final = 8  # how much of a long job name stays on a narrow terminal
LINE_LENGTH_MIN: Final = 60  # how much of the rest is shown rather than a complete long name

_STYLES: Final = {
    "running": "green",
    "finished": "green",
    "restarting": "yellow",
    "cancelled": "yellow",
    "failing": "red",
    "failed": "red",
}
_LASTING: Final = frozenset({"restarting", "same-failure", "note"}) | END_EVENTS


class LiveDisplay:
    """A display that keeps one line of a terminal current, for `headgate.progress=live`.

    What the program prints meanwhile, to either stream of the terminal, appears above the line.
    """

    def __init__(self, status: JobProgress, clock: Clock, console: Console | None = None) -> None:
        self._status, self._clock = status, clock
        self._console = console or Console(stderr=True, highlight=False)
        self._live: Live | None = None
        self._forget_at_exit: Callable[[], None] | None = None
        self._above: dict[str, AboveTheLine] = {}

    def show(self, event: str, facts: Facts) -> None:
        if self._live is None and event not in END_EVENTS:
            self._begin()
        if event in END_EVENTS:
            self._end()
        if event in _LASTING:
            self._lasting(event, facts)

    def line(self) -> Text:
        """Return the job's line as it is now, shortened to the terminal's width."""
        # Next to the name, of which something is shown in any case.
        width, name = self._console.width, self._status.name
        room = max(width - cell_len(name) - 2, min(width - NAME_LENGTH_MIN - 2, LINE_LENGTH_MIN))
        state, *rest = phrases(self._status, self._clock.monotonic_ms(), room)
        taken = len(state) + sum(2 + len(phrase) for phrase in rest)
        if cell_len(name) + 2 + taken > width:
            while len(name) > 1 and cell_len(name) > width - taken - 3:
                name = name[:-1]
            name += "…"
        text = Text(no_wrap=True, overflow="ellipsis")
        text.append(name, style="bold").append("  ")
        text.append(state, style=_STYLES.get(state, "cyan"))
        for phrase in rest:
            text.append("  " + phrase)
        return text

    def _begin(self) -> None:
        self._live = Live(
            get_renderable=self.line,
            console=self._console,
            refresh_per_second=REFRESH_PER_SECOND,
            transient=True,
            redirect_stdout=False,
            redirect_stderr=False,
        )
        self._live.start()
        # Output of the program goes to the standard error only if it would show on a terminal anyway: a
        # redirected stream stays the program's own.
        for name in ("stdout", "stderr"):
            stream = getattr(sys, name)
            shown = stream is None or isinstance(stream, AboveTheLine)
            if not shown and self._console.is_terminal and stream.isatty():
                self._above[name] = AboveTheLine(stream, self._console)
                setattr(sys, name, self._above[name])
        # A program that ends without the job's end must not leave a terminal without its cursor.
        self._forget_at_exit = at_exit(self._end)

    def _end(self) -> None:
        for name, stream in self._above.items():
            if getattr(sys, name) is stream:
                setattr(sys, name, stream.beneath)
            stream.end()
        self._above = {}
        live, self._live = self._live, None
        if live is not None:
            live.stop()
        if self._forget_at_exit is not None:
            self._forget_at_exit()

    def _lasting(self, event: str, facts: Facts) -> None:
        text = Text()
        text.append(self._status.name, style="bold").append("  ")
        text.append(sentence(event, facts) or event, style=_STYLES.get(event, ""))
        self._console.print(text, soft_wrap=True)


class AboveTheLine(io.TextIOBase):
    """A stream of the terminal while a line is kept current on it: complete lines appear above that line.

    A line that is longer than the terminal is wide is left to the terminal to wrap, so that it can be
    copied as what it is. `beneath` is the stream that it replaces.
    """

    def __init__(self, beneath: TextIO, console: Console) -> None:
        self.beneath, self._console = beneath, console
        self._unfinished, self._lock = "", threading.RLock()
        self._colours = AnsiDecoder()

    @property
    def rich_proxied_file(self) -> TextIO:
        # `rich` asks for the terminal's own stream by this name.
        return self.beneath

    @override
    def write(self, text: str, /) -> int:
        with self._lock:
            *lines, self._unfinished = (self._unfinished + text).split("\n")
        if lines:
            shown = Text("\n").join(self._colours.decode_line(line.rstrip("\r")) for line in lines)
            self._console.print(shown, soft_wrap=True)
        return len(text)

    def end(self) -> None:
        """Show the text that has no line break yet as a complete line, as no more text is expected."""
        if self._unfinished:
            self.write("\n")

    @override
    def flush(self) -> None:
        self.beneath.flush()

    @override
    def isatty(self) -> bool:
        return True

    @override
    def fileno(self) -> int:
        return self.beneath.fileno()

    @override
    def writable(self) -> bool:
        return True

    def __getattr__(self, name: str) -> Any:
        return getattr(self.beneath, name)
