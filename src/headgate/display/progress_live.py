"""A job on a terminal: one line kept current, and a lasting line for what a person should not miss."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import Any, Final

from rich.console import Console
from rich.live import Live
from rich.text import Text

from headgate.common.ports import Clock
from headgate.common.process.children import at_exit
from headgate.display.progress import phrases, sentence
from headgate.display.progress_json import END_EVENTS
from headgate.display.progress_status import JobStatus

REFRESH_PER_SECOND: Final = 2
NAME_LENGTH_MIN: Final = 8
"""Of a long name of a job so much stays on a narrow terminal."""
LINE_LENGTH_MIN: Final = 60
"""So much of the rest is shown rather than a whole long name."""

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
    """Shows a job; see :class:`headgate.display.progress.Display`.

    What the program prints meanwhile, to either stream of the terminal, appears above the line.

    Args:
        status: read whenever the line is drawn.
        clock: time.
        console: where to draw; the standard error when not given.
    """

    def __init__(self, status: JobStatus, clock: Clock, console: Console | None = None) -> None:
        self._status, self._clock = status, clock
        self._console = console or Console(stderr=True, highlight=False)
        self._live: Live | None = None
        self._take_back: Callable[[], None] | None = None

    def show(self, event: str, facts: Mapping[str, Any]) -> None:
        """See :class:`headgate.display.progress.Display`."""
        if self._live is None and event not in END_EVENTS:
            self._begin()
        if event in END_EVENTS:
            self._end()
        if event in _LASTING:
            self._lasting(event, facts)

    def line(self) -> Text:
        """The line as it is now."""
        # Beside the name, of which something is shown in any case.
        width, name = self._console.width, self._status.name
        room = max(width - len(name) - 2, min(width - NAME_LENGTH_MIN - 2, LINE_LENGTH_MIN))
        state, *rest = phrases(self._status, self._clock.monotonic_ms(), room)
        taken = len(state) + sum(2 + len(phrase) for phrase in rest)
        if len(name) + 2 + taken > width:
            name = name[: max(1, width - taken - 3)] + "…"
        text = Text(no_wrap=True, overflow="ellipsis")
        text.append(name, style="bold").append("  ")
        text.append(state, style=_STYLES.get(state, "cyan"))
        for phrase in rest:
            text.append("  " + phrase)
        return text

    def _begin(self) -> None:
        # Output of the program is drawn on the standard error only if it would show on a terminal
        # anyway: a redirected standard output stays the program's own.
        on_terminal = sys.stdout is not None and sys.stdout.isatty()
        self._live = Live(
            get_renderable=self.line,
            console=self._console,
            refresh_per_second=REFRESH_PER_SECOND,
            transient=True,
            redirect_stdout=on_terminal,
            redirect_stderr=True,
        )
        self._live.start()
        # A program that ends without the job's end must not leave a terminal without its cursor.
        self._take_back = at_exit(self._end)

    def _end(self) -> None:
        live, self._live = self._live, None
        if live is not None:
            live.stop()
        if self._take_back is not None:
            self._take_back()

    def _lasting(self, event: str, facts: Mapping[str, Any]) -> None:
        text = Text()
        text.append(self._status.name, style="bold").append("  ")
        text.append(sentence(event, facts) or event, style=_STYLES.get(event, ""))
        self._console.print(text, soft_wrap=True)
