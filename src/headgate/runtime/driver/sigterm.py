"""Stops a job with a savepoint when its process gets SIGTERM, where that is configured.

Two ways lead here: the signal as an exception in the driver's loop, and `JobControl.terminate` for a job in
the background. From then on the loop's turns ask for the savepoint, again where it failed, until the job has
ended or time is up.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from headgate.common.errors import HeadgateError, TerminatedError, UsageError
from headgate.common.ports import Clock
from headgate.common.process.signal_handlers import ending_cleanly
from headgate.common.settings import options as o
from headgate.common.settings.config import Config
from headgate.common.time import format_ms
from headgate.core.execution import JobState
from headgate.runtime.driver.job_control import request_savepoint
from headgate.runtime.master.checkpoints.running_savepoints import SavepointRequest
from headgate.runtime.master.job_master import JobMaster

RETRY_MS: Final = 1_000
"""Time until a savepoint that failed is asked for again."""

TURN_MS: Final = 200
"""Longest time between two looks at a job that is to stop."""


@contextmanager
def sigterm_is_heard(config: Config) -> Iterator[None]:
    """Turn SIGTERM in the block into an exception of the main thread where the job is to be stopped by it."""
    if config.get(o.ON_SIGTERM) is o.OnSigterm.SAVEPOINT:
        with ending_cleanly():
            yield
    else:
        yield


class StopAtSigterm:
    """What SIGTERM does to the job of `master`, in the driver's loop; `note` tells the user of it."""

    def __init__(self, master: JobMaster, config: Config, clock: Clock, note: Callable[[str], None]) -> None:
        self._master, self._clock, self._note = master, clock, note
        self._with_savepoint = config.get(o.ON_SIGTERM) is o.OnSigterm.SAVEPOINT
        if config.get(o.HIGH_AVAILABILITY) is not o.HighAvailabilityType.NONE:
            self._with_savepoint = False  # it is not over: the next driver goes on with it
        self._timeout_ms = config.get(o.ON_SIGTERM_TIMEOUT)
        self._until: int | None = None
        self._ask_at: int | None = None  # None while an answer is due

    def concerns(self, error: BaseException) -> bool:
        """Return whether an exception in the driver's loop asks for a stop with a savepoint."""
        return self._with_savepoint and isinstance(error, TerminatedError) and error.by_sigterm

    @property
    def under_way(self) -> bool:
        """Whether the job is to stop, and has not ended."""
        return self._until is not None and not self._master.state.terminal

    def begin(self) -> None:
        """Stop the job with a savepoint where that is configured; else cancel it, or leave it to a next
        driver. Calls after the first do nothing.
        """
        if not self._with_savepoint:
            self._master.cancel(handed_over=True)
        elif self._until is None:
            self._ask_at = self._clock.monotonic_ms()
            self._until = self._ask_at + self._timeout_ms
            self._note(f"SIGTERM: stopping with a savepoint, for at most {format_ms(self._timeout_ms)}")

    def tick(self) -> None:
        """Ask for the savepoint where it is due, and cancel the job when time is up."""
        now = self._clock.monotonic_ms()
        if not self.under_way or self._until is None:
            return
        if now >= self._until:
            self._cancel(f"it did not stop within {format_ms(self._timeout_ms)}")
        elif self._ask_at is not None and now >= self._ask_at and self._master.state is JobState.RUNNING:
            self._ask_at = None
            request_savepoint(self._master, SavepointRequest(stop=True), self._answered)

    def _answered(self, uri: str | None, error: HeadgateError | None) -> None:
        if error is None:
            self._note(f"stopped with savepoint {uri}")
        elif isinstance(error, UsageError):
            self._cancel(str(error))
        else:
            self._note(f"the savepoint failed, and is taken again: {error}")
            self._ask_at = self._clock.monotonic_ms() + RETRY_MS

    def _cancel(self, why: str) -> None:
        self._note(f"SIGTERM: the job is cancelled without a savepoint: {why}")
        self._until = None
        self._master.cancel()
