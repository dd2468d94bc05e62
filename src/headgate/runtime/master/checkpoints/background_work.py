"""Runs work on storage and committers in a background thread, so that the job master's loop never blocks."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from headgate.common.errors import FencedError
from headgate.common.refusals.users_frames import text_with_line
from headgate.core.job import events as v
from headgate.runtime.job.master_ports import MasterPorts
from headgate.runtime.master.attempt.attempts import Attempts
from headgate.runtime.master.attempt.outbox import Outbox, failure_of
from headgate.runtime.master.checkpoints.recording import CheckpointHistory

R = TypeVar("R")


class BackgroundWork:
    """Runs pieces of work in the background, in order; their results come back to the job master's loop."""

    def __init__(
        self, ports: MasterPorts, attempts: Attempts, outbox: Outbox, history: CheckpointHistory
    ) -> None:
        self._ports, self._attempts, self._outbox, self._history = ports, attempts, outbox, history
        self.running = 0  # pieces of work whose result the loop has not got yet

    def submit(self, work: Callable[[], R], done: Callable[[R, BaseException | None], None]) -> None:
        """Run `work` in the background, then call `done(result, error)` in the loop; error None: success."""

        def returned(result: R, error: BaseException | None) -> None:
            self._ports.post(lambda: finished(result, error))

        def finished(result: R, error: BaseException | None) -> None:
            self.running -= 1
            done(result, error)

        self.running += 1
        self._ports.background.submit(work, returned)

    def run(
        self,
        work: Callable[[], R],
        done: Callable[[R], None],
        failed: Callable[[Exception], None] | None = None,
    ) -> None:
        """Run `work` in the background, then call `done(result)` in the job master's loop.
        An error is given to `failed` or, without that, fails the attempt; FencedError stops this job master.
        """

        def returned(result: R, error: BaseException | None) -> None:
            if error is None:
                done(result)
            elif isinstance(error, FencedError):
                self.fenced(error)
            else:
                cause = error if isinstance(error, Exception) else RuntimeError(text_with_line(error))
                if failed is None:
                    self._outbox.attempt_failed(self._attempts.number, cause)
                else:
                    failed(cause)

        self.submit(work, returned)

    def fenced(self, error: FencedError) -> None:
        self._history.fenced()
        self._outbox.put(v.Fenced(failure_of(error)))
