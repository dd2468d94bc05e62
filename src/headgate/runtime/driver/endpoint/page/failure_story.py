"""The story of a job's attempts: from which checkpoint each began, how it ended, and with which failure.

The story is kept in memory only, and no longer than the newest fifty attempts.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Final

import msgspec

from headgate.common.errors import HeadgateError, UserFunctionError
from headgate.common.plain_data import Json
from headgate.display.progress_status import error_facts

ATTEMPTS_MAX: Final = 50
NOTES_MAX: Final = 50
TEXT_MAX: Final = 2_000  # characters of a note


class Attempt(msgspec.Struct):
    """One deployment of the job; times are ms since 1970. It runs while `end` is empty.

    `end` is "failed", "rescaled", "reverted", or the state in which the job ended. `error` has the fields of
    `error` in the event "restarting" (docs/cli-output.md), and `line`, the program's `file:line` that raised.
    `repeats`: how often the same failure has come since the same checkpoint, if that is reported.
    """

    attempt: int
    began_ms: int
    checkpoint: int | None  # that it restored; None: it began without state
    running_ms: int | None = None  # when all its subtasks ran
    ended_ms: int | None = None
    end: str = ""
    error: Mapping[str, Json] | None = None
    restart_at_ms: int | None = None  # when the next attempt begins after a failure
    repeats: int | None = None
    advice: str | None = None  # what can be done about a failure that repeats


class Note(msgspec.Struct, frozen=True):
    """A line about the job for people, with the moment when it was written, in ms since 1970."""

    time_ms: int
    text: str


class Story:
    """The newest attempts and notes of a job; its owner sees to it that one thread at a time uses it."""

    def __init__(self) -> None:
        self.attempts: deque[Attempt] = deque(maxlen=ATTEMPTS_MAX)
        self.notes: deque[Note] = deque(maxlen=NOTES_MAX)
        self.failures = 0  # how many attempts have failed in all
        self._repeats: tuple[int, str] | None = None

    def deploying(self, attempt: int, checkpoint: int | None, now_ms: int) -> None:
        self._close("rescaled", now_ms)
        self.attempts.append(Attempt(attempt, now_ms, checkpoint))

    def running(self, now_ms: int) -> None:
        if self.attempts:
            self.attempts[-1].running_ms = now_ms

    def repeated(self, times: int, text: str) -> None:
        """Record that the failure which is about to be reported has come `times` times; `text`: advice."""
        self._repeats = times, text

    def failed(
        self, attempt: int, error: HeadgateError, restart_in_ms: int | None, end: str, now_ms: int
    ) -> None:
        """Record that an attempt ended with `error`; `end` is "failed", or "reverted" if a rescale failed."""
        if not self.attempts:  # it failed before its deployment, as when a checkpoint cannot be restored
            self.attempts.append(Attempt(attempt, now_ms, None))
        last = self.attempts[-1]
        if not last.end:
            last.ended_ms, last.end = now_ms, end
        last.error = _facts(error)
        last.restart_at_ms = None if restart_in_ms is None else now_ms + restart_in_ms
        if self._repeats is not None:
            last.repeats, last.advice = self._repeats
        self.failures, self._repeats = self.failures + (end == "failed"), None

    def note(self, text: str, now_ms: int) -> None:
        self.notes.append(Note(now_ms, text if len(text) <= TEXT_MAX else f"{text[:TEXT_MAX]}..."))

    def ended(self, state: str, now_ms: int) -> None:
        self._close(state, now_ms)

    def facts(self) -> dict[str, Json]:
        found: dict[str, Json] = msgspec.to_builtins(
            {"failures": self.failures, "attempts": list(self.attempts), "notes": list(self.notes)}
        )
        return found

    def _close(self, end: str, now_ms: int) -> None:
        if self.attempts and not self.attempts[-1].end:
            self.attempts[-1].ended_ms, self.attempts[-1].end = now_ms, end


def _facts(error: HeadgateError) -> dict[str, Json]:
    found: dict[str, Json] = dict(error_facts(error))  # type: ignore[arg-type]
    if isinstance(error, UserFunctionError):
        found["line"], found["kind"] = error.line, error.kind or type(error).__name__
    return found
