"""Deletes files that no checkpoint needs any more, in the background, with retries.

Deletions that fail do not stop a job (unless another driver leads it): they are logged, and the next restart
finds the files, or after the job's end ``headgate checkpoint prune``.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from headgate.common.errors import FencedError
from headgate.common.ports import Background, Clock

ATTEMPTS_MAX: Final = 4
PAUSE_MS: Final = 1_000  # before the second attempt; it doubles with each further one

_LOG: Final = logging.getLogger("headgate.checkpoints")


@dataclass(slots=True)
class _Deletion:
    what: str
    work: Callable[[], None]
    due_ms: int
    attempt: int = 1


class Cleaning:
    """Deletions of files that wait, run or are to be retried (4 attempts); used by the job master's loop."""

    def __init__(
        self, background: Background, post: Callable[[Callable[[], None]], None], clock: Clock
    ) -> None:
        self._background, self._post, self._clock = background, post, clock
        self._waiting: list[_Deletion] = []
        self._closed = False
        self._ended: list[FencedError | None] = []

    def delete(self, what: str, work: Callable[[], None]) -> None:
        """Run `work`, which deletes files, in the background, 4 times at most; `what`: its name in the log.
        :meth:`take_ended` tells its end. A failure is only logged, as a warning.
        """
        self._try(_Deletion(what, work, self._clock.monotonic_ms()))

    def tick(self) -> None:
        now = self._clock.monotonic_ms()
        due = [deletion for deletion in self._waiting if deletion.due_ms <= now]
        self._waiting = [deletion for deletion in self._waiting if deletion.due_ms > now]
        for deletion in due:
            self._try(deletion)

    def next_wakeup(self) -> int | None:
        return min((deletion.due_ms for deletion in self._waiting), default=None)

    def take_ended(self) -> list[FencedError | None]:
        """Return per deletion ended since the last call: FencedError if another driver leads, else None."""
        ended, self._ended = self._ended, []
        return ended

    def close(self) -> None:
        """Begin waiting retries at once, as the job has ended; later failures are retried without a pause."""
        self._closed = True
        waiting, self._waiting = self._waiting, []
        for deletion in waiting:
            self._try(deletion)

    def _try(self, deletion: _Deletion) -> None:
        def done(_: None, error: BaseException | None) -> None:
            self._post(lambda: self._done(deletion, error))

        self._background.submit(lambda: self._carry_out(deletion), done)

    def _carry_out(self, deletion: _Deletion) -> None:
        # After the end of the job its loop does not run, so retries happen here, in the background.
        first: Exception | None = None
        while True:
            try:
                deletion.work()
                return
            except Exception as error:
                # The first error has the cause: a half-deleted log looks as if another driver had claimed it.
                first = first or error
                if isinstance(error, FencedError) or not self._closed or deletion.attempt >= ATTEMPTS_MAX:
                    raise first from None
                deletion.attempt += 1

    def _done(self, deletion: _Deletion, error: BaseException | None) -> None:
        if error is None:
            self._ended.append(None)
        elif isinstance(error, FencedError):
            self._closed = True
            waiting, self._waiting = self._waiting, []
            for other in waiting:
                self._give_up(other, "another driver leads the job")
            self._ended.append(error)
        elif deletion.attempt >= ATTEMPTS_MAX or self._closed:
            self._give_up(deletion, str(error))
        else:
            deletion.due_ms = self._clock.monotonic_ms() + (PAUSE_MS << (deletion.attempt - 1))
            deletion.attempt += 1
            self._waiting.append(deletion)

    def _give_up(self, deletion: _Deletion, why: str) -> None:
        # A job that has ended has no next start under its id.
        rest = "" if self._closed else "the next restart of the job or "
        _LOG.warning(
            "%s could not be deleted: %s; %s'headgate checkpoint prune' deletes what is left",
            deletion.what, why, rest,
        )  # fmt: skip
        self._ended.append(None)
