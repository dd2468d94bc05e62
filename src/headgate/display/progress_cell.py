"""A job in the cell of a notebook: one output kept current, which at last says how the job ended.

It uses the display of IPython, which is there, and no package beside.
"""

from __future__ import annotations

from html import escape
from typing import Final

from headgate.common.ports import Clock
from headgate.common.refusals.cells import with_cell_names
from headgate.display.event_texts import END_EVENTS, Facts, phrases, sentence
from headgate.display.printed import CellOutput, ShowsInCell
from headgate.display.progress_status import JobStatus

LASTING_MAX: Final = 8
"""How many lines about restarts and the like are kept: the last ones."""


class CellDisplay:
    """Shows a job; see :class:`headgate.display.event_texts.Display`."""

    def __init__(self, status: JobStatus, clock: Clock, display: ShowsInCell) -> None:
        self._status, self._clock, self._display = status, clock, display
        self._lasting: list[str] = []
        self._handle: CellOutput | None = None

    def show(self, event: str, facts: Facts) -> None:
        """See :class:`headgate.display.event_texts.Display`."""
        if event in ("restarting", "same-failure", "note") or event in END_EVENTS:
            self._lasting = [*self._lasting, sentence(event, facts) or event][-LASTING_MAX:]
        lines = list(self._lasting)
        if event not in END_EVENTS:
            lines.append("  ".join(phrases(self._status, self._clock.monotonic_ms())))
        text = with_cell_names("\n".join(f"{self._status.name}: {line}" for line in lines))
        data = {"text/plain": text, "text/html": f"<pre>{escape(text)}</pre>"}
        if self._handle is None:
            self._handle = self._display(data, raw=True, display_id=True)
        else:
            self._handle.update(data, raw=True)
