"""Which requested checkpoint may start now: admission, queue, and the periodic schedule.

Policy only: it knows the clock readings and counts it is given, and starts nothing itself.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from headgate.common.errors import ConfigError
from headgate.core.checkpoint.effects import RequestKind
from headgate.core.checkpoint.failures import CheckpointFailureReason

QUEUED_MAX: Final = 1000
"""Manual requests that may wait."""

_LOWEST: Final = {
    "interval_ms": 1,
    "min_pause_ms": 0,
    "max_concurrent": 1,
    "timeout_ms": 1,
    "tolerable_failures": 0,
    "num_retained": 1,
    "final_retry_ms": 0,
}


@dataclass(frozen=True, slots=True)
class CheckpointSettings:
    """How often, how many, how long.

    Attributes:
        interval_ms: between periodic triggers; None switches them off. Raised to `min_pause_ms`.
        min_pause_ms: between a completion and the next periodic trigger.
        max_concurrent: pending checkpoints at a time.
        timeout_ms: from trigger to the last acknowledgement.
        tolerable_failures: counted failures in a row that do not fail the job.
        num_retained: completed checkpoints kept.
        final_retry_ms: pause before a failed final checkpoint is tried again.

    Raises:
        ConfigError: a value is too small.
    """

    interval_ms: int | None = None
    min_pause_ms: int = 0
    max_concurrent: int = 1
    timeout_ms: int = 600_000
    tolerable_failures: int = 0
    num_retained: int = 1
    final_retry_ms: int = 1_000

    def __post_init__(self) -> None:
        for name, lowest in _LOWEST.items():
            value = getattr(self, name)
            if value is not None and value < lowest:
                raise ConfigError(f"checkpoint setting {name} is {value}; expected at least {lowest}")

    @property
    def period_ms(self) -> int | None:
        """The interval in force: never shorter than the minimum pause."""
        return None if self.interval_ms is None else max(self.interval_ms, self.min_pause_ms)


class Requests:
    """What was asked for and not yet started; priority final > manual > periodic.

    Args:
        settings: intervals and limits.
        uniform: draws the delay of the first periodic checkpoint between minimum pause and interval.
    """

    __slots__ = (
        "_due_ms",
        "_final_at_ms",
        "_final_requested",
        "_late_ms",
        "_manual",
        "_settings",
        "_uniform",
    )

    def __init__(self, settings: CheckpointSettings, uniform: Callable[[float, float], float]) -> None:
        self._settings = settings
        self._uniform = uniform
        self._due_ms: int | None = None
        self._late_ms: int | None = None
        self._manual = 0
        self._final_requested = False
        self._final_at_ms: int | None = None

    def open(self, now_ms: int) -> None:
        """Tasks are running: arm the periodic schedule."""
        period = self._settings.period_ms
        if period is not None:
            self._due_ms = now_ms + round(self._uniform(float(self._settings.min_pause_ms), float(period)))

    def close(self) -> int:
        """Tasks stopped: forget everything; returns how many manual requests were waiting."""
        self._due_ms = self._late_ms = self._final_at_ms = None
        self._final_requested = False
        return self._drop_manual()

    def submit(self, kind: RequestKind, now_ms: int) -> tuple[CheckpointFailureReason | None, int]:
        """Queue a request.

        Returns:
            why it is refused (None when it is not), and how many waiting manual requests it displaced.
        """
        if kind is RequestKind.FINAL:
            if not self._final_requested:
                self._final_requested, self._final_at_ms = True, now_ms
                self._due_ms = self._late_ms = None
            return None, self._drop_manual()
        if kind is RequestKind.PERIODIC:
            if self._final_requested or self._settings.period_ms is None:
                return CheckpointFailureReason.PERIODIC_SCHEDULER_SHUTDOWN, 0
            self._late_ms, self._due_ms = now_ms, None
            return None, 0
        if self._final_requested:
            return CheckpointFailureReason.CHECKPOINT_DECLINED_INPUT_END_OF_STREAM, 0
        if self._manual >= QUEUED_MAX:
            return CheckpointFailureReason.TOO_MANY_CHECKPOINT_REQUESTS, 0
        self._manual += 1
        return None, 0

    def choose(self, pending: int, last_completion_ms: int | None, now_ms: int) -> RequestKind | None:
        """Take the request to start now, if any may.

        Args:
            pending: how many checkpoints are pending.
            last_completion_ms: when the last one completed; None before the first.
            now_ms: monotonic clock.
        """
        if self._due_ms is not None and now_ms >= self._due_ms:
            # At most one periodic request waits, however many intervals pass meanwhile.
            self._late_ms, self._due_ms = self._due_ms, None
        if pending >= self._settings.max_concurrent:
            return None
        if self._final_requested:
            return self._choose_final(now_ms)
        if self._manual:
            self._manual -= 1
            return RequestKind.MANUAL
        return self._choose_periodic(last_completion_ms, now_ms)

    def retry_final(self, now_ms: int) -> None:
        """The final checkpoint failed: let it be tried again after a pause."""
        if self._final_requested:
            self._final_at_ms = now_ms + self._settings.final_retry_ms

    def next_wakeup_ms(self, pending: int) -> int | None:
        """When :meth:`choose` should be asked again, if nothing else happens before."""
        if self._final_requested:
            return self._final_at_ms if pending < self._settings.max_concurrent else None
        return self._due_ms

    def describe(self) -> tuple[object, ...]:
        """The whole state as plain values, for stories and searches."""
        return (self._due_ms, self._late_ms, self._manual, self._final_requested, self._final_at_ms)

    def _choose_final(self, now_ms: int) -> RequestKind | None:
        if self._final_at_ms is None or now_ms < self._final_at_ms:
            return None
        self._final_at_ms = None
        return RequestKind.FINAL

    def _choose_periodic(self, last_completion_ms: int | None, now_ms: int) -> RequestKind | None:
        period, due_ms = self._settings.period_ms, self._late_ms
        if period is None or due_ms is None:
            return None
        self._late_ms = None
        if last_completion_ms is not None and now_ms < last_completion_ms + self._settings.min_pause_ms:
            self._due_ms = last_completion_ms + self._settings.min_pause_ms
            return None
        # A fixed rate, unless this one had to wait a whole period: then the rate begins anew.
        self._due_ms = due_ms + period if due_ms + period > now_ms else now_ms + period
        return RequestKind.PERIODIC

    def _drop_manual(self) -> int:
        dropped, self._manual = self._manual, 0
        return dropped
