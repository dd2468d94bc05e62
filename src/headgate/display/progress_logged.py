"""A display for logs that machines read: each event is a line of the log, with its numbers as fields."""

from __future__ import annotations

import logging
from typing import Final

from headgate.common.ports import Clock
from headgate.display.event_texts import Facts, phrases, sentence
from headgate.display.progress_status import JobProgress

PROGRESS_EVERY_MS: Final = 5_000  # least time between two lines of progress

_LEVELS: Final = {
    "failed": logging.ERROR,
    "restarting": logging.WARNING,
    "same-failure": logging.WARNING,
    "checkpoint": logging.DEBUG,
}
_LOG: Final = logging.getLogger("headgate.job")


class LogDisplay:
    """A display that logs each event of the job; checkpoints at DEBUG, progress every 5 seconds.

    A line's field `checkpoint` is that of the event, and of progress the newest complete one.
    """

    def __init__(self, status: JobProgress, clock: Clock) -> None:
        self._status, self._clock = status, clock
        self._line_at_ms: int | None = None

    def show(self, event: str, facts: Facts) -> None:
        checkpoint = facts.get("checkpoint")
        if event == "progress":
            now = self._clock.monotonic_ms()
            if self._line_at_ms is not None and now - self._line_at_ms < PROGRESS_EVERY_MS:
                return
            self._line_at_ms, checkpoint = now, self._status.checkpoint
            text: str | None = ", ".join(phrases(self._status, now))
        elif event == "checkpoint":
            text = f"checkpoint {checkpoint} completed after {facts['took_ms']} ms"
        else:
            text = facts["text"] if event == "note" else sentence(event, facts)
        if text is not None:
            extra = {"event": event, "checkpoint": checkpoint}
            _LOG.log(_LEVELS.get(event, logging.INFO), "%s", text, extra=extra)
