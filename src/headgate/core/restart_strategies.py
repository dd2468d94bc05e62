"""Restart strategies: after a failure, may the job start again, and after how long.

Each strategy is a frozen description (what the configuration says) and a pure object built from it
that remembers past failures. What follows from a decision is in `core.job.restart`.

A failure that arrives while a restart is already scheduled belongs to the attempt that is being
replaced: it is merged into that restart and not counted.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import TypeAlias

from headgate.common.errors import ConfigError
from headgate.common.time import HOURS, MINUTES, SECONDS

Uniform: TypeAlias = Callable[[float, float], float]  # a random number between two bounds


@dataclass(frozen=True, slots=True)
class Decision:
    """A restart strategy's decision on a failure; `merged`: a restart scheduled before covers it, too."""

    can_restart: bool  # False when the job has failed for good
    delay_ms: int  # how long to wait, counted from this failure
    merged: bool  # it was counted with an earlier one whose restart had not begun
    why: str  # one clause for logs and for the error of a job that failed for good


@dataclass(frozen=True, slots=True)
class NoRestart:
    """Configuration of the strategy ``none``: the first failure ends the job."""


@dataclass(frozen=True, slots=True)
class FixedDelay:
    """Configuration of ``fixed-delay``: a number of restarts in the job's life, each after the same pause."""

    attempts: int = 1
    delay_ms: int = 1 * SECONDS

    def __post_init__(self) -> None:
        _at_least("fixed-delay.attempts", self.attempts, 0)
        _at_least("fixed-delay.delay", self.delay_ms, 0)


@dataclass(frozen=True, slots=True)
class FailureRate:
    """Configuration of ``failure-rate``: restarts as long as failures are not too frequent."""

    max_failures: int = 1  # within any interval
    interval_ms: int = 1 * MINUTES
    delay_ms: int = 1 * SECONDS

    def __post_init__(self) -> None:
        _at_least("failure-rate.max-failures-per-interval", self.max_failures, 1)
        _at_least("failure-rate.failure-rate-interval", self.interval_ms, 1)
        _at_least("failure-rate.delay", self.delay_ms, 0)


@dataclass(frozen=True, slots=True)
class ExponentialDelay:
    """Configuration of ``exponential-delay``: pauses that grow while failures follow each other closely."""

    initial_ms: int = 1 * SECONDS
    max_ms: int = 1 * MINUTES
    multiplier: float = 1.5  # growth, above 1
    jitter: float = 0.1  # largest share of the pause by which it is varied, 0 to 1
    reset_after_ms: int = 1 * HOURS  # running this long after a restart resets the pause
    attempts: int | None = None  # restarts allowed before such a reset; None for any number

    def __post_init__(self) -> None:
        _at_least("exponential-delay.initial-backoff", self.initial_ms, 1)
        _at_least("exponential-delay.reset-backoff-threshold", self.reset_after_ms, 1)
        if self.initial_ms > self.max_ms:
            raise _refused(
                "exponential-delay.initial-backoff", self.initial_ms, f"at most max-backoff, {self.max_ms} ms"
            )
        if not self.multiplier > 1:
            raise _refused("exponential-delay.backoff-multiplier", self.multiplier, "more than 1")
        if not 0 <= self.jitter <= 1:
            raise _refused("exponential-delay.jitter-factor", self.jitter, "0 to 1")
        if self.attempts is not None:
            _at_least("exponential-delay.attempts-before-reset-backoff", self.attempts, 1)


RestartSpec: TypeAlias = NoRestart | FixedDelay | FailureRate | ExponentialDelay


def restart_strategy(spec: RestartSpec, uniform: Uniform) -> RestartStrategy:
    """Return the strategy for a configuration; `uniform(low, high)` returns random numbers, for its jitter.

    Example:
        >>> strategy = restart_strategy(FixedDelay(attempts=1), lambda low, high: high)
        >>> strategy.on_failure(0)
        Decision(can_restart=True, delay_ms=1000, merged=False, why='restart 1 of 1')
        >>> strategy.on_failure(400).delay_ms, strategy.on_failure(2000).can_restart
        (600, False)
    """
    match spec:
        case NoRestart():
            return _NoRestartStrategy()
        case FixedDelay():
            return _FixedDelayStrategy(spec)
        case FailureRate():
            return _FailureRateStrategy(spec)
        case ExponentialDelay():
            return _ExponentialDelayStrategy(spec, uniform)


class RestartStrategy(ABC):
    """Remembers the failures of a job and decides on each; one per job, kept across restarts."""

    def __init__(self) -> None:
        self._restart_at_ms: int | None = None

    def on_failure(self, now_ms: int) -> Decision:
        """Count a failure at `now_ms`, unless a restart is scheduled; decide if and when the job restarts."""
        if self._restart_at_ms is not None and now_ms < self._restart_at_ms:
            return Decision(True, self._restart_at_ms - now_ms, True, "a restart is already scheduled")
        decision = self._decide(now_ms)
        self._restart_at_ms = now_ms + decision.delay_ms if decision.can_restart else None
        return decision

    @abstractmethod
    def _decide(self, now_ms: int) -> Decision:
        """Decide about a failure that counts, since no restart is scheduled."""

    def describe(self, now_ms: int) -> tuple[Hashable, ...]:
        due = self._restart_at_ms
        return (None if due is None or due <= now_ms else due - now_ms, *self._remembers(now_ms))

    def _remembers(self, now_ms: int) -> tuple[Hashable, ...]:
        return ()


class _NoRestartStrategy(RestartStrategy):
    def _decide(self, now_ms: int) -> Decision:
        return Decision(False, 0, False, "restart strategy none")


class _FixedDelayStrategy(RestartStrategy):
    def __init__(self, spec: FixedDelay) -> None:
        super().__init__()
        self._spec = spec
        self._failures = 0

    def _decide(self, now_ms: int) -> Decision:
        allowed = self._spec.attempts
        if self._failures >= allowed:
            return Decision(False, 0, False, f"all {allowed} restarts of fixed-delay are used up")
        self._failures += 1
        return Decision(True, self._spec.delay_ms, False, f"restart {self._failures} of {allowed}")

    def _remembers(self, now_ms: int) -> tuple[Hashable, ...]:
        return (self._failures,)


class _FailureRateStrategy(RestartStrategy):
    def __init__(self, spec: FailureRate) -> None:
        super().__init__()
        self._spec = spec
        self._failures_ms: deque[int] = deque(maxlen=spec.max_failures)

    def _decide(self, now_ms: int) -> Decision:
        spec = self._spec
        full = len(self._failures_ms) == spec.max_failures
        if full and now_ms - self._failures_ms[0] <= spec.interval_ms:
            why = f"more than {spec.max_failures} failures within {spec.interval_ms} ms"
            return Decision(False, 0, False, why)
        self._failures_ms.append(now_ms)
        return Decision(True, spec.delay_ms, False, f"at most {spec.max_failures} per {spec.interval_ms} ms")

    def _remembers(self, now_ms: int) -> tuple[Hashable, ...]:
        return tuple(time_ms - now_ms for time_ms in self._failures_ms)


class _ExponentialDelayStrategy(RestartStrategy):
    def __init__(self, spec: ExponentialDelay, uniform: Uniform) -> None:
        super().__init__()
        self._spec = spec
        self._uniform = uniform
        self._failures = 0
        self._backoff_ms = float(spec.initial_ms)
        self._resumed_at_ms = 0

    def _decide(self, now_ms: int) -> Decision:
        spec = self._spec
        if self._failures and now_ms - self._resumed_at_ms >= spec.reset_after_ms:
            self._failures = 0
        if spec.attempts is not None and self._failures >= spec.attempts:
            return Decision(False, 0, False, f"all {spec.attempts} restarts of exponential-delay are used up")
        self._backoff_ms = (
            min(self._backoff_ms * spec.multiplier, float(spec.max_ms))
            if self._failures
            else float(spec.initial_ms)
        )
        self._failures += 1
        delay_ms = self._with_jitter(self._backoff_ms)
        self._resumed_at_ms = now_ms + delay_ms
        return Decision(True, delay_ms, False, f"failure {self._failures} since the last quiet time")

    def _remembers(self, now_ms: int) -> tuple[Hashable, ...]:
        return (self._failures, self._backoff_ms, self._resumed_at_ms - now_ms)

    def _with_jitter(self, backoff_ms: float) -> int:
        spread = backoff_ms * self._spec.jitter
        varied = self._uniform(backoff_ms - spread, backoff_ms + spread) if spread else backoff_ms
        return int(min(varied, self._spec.max_ms))


def _refused(option: str, got: float, expected: str) -> ConfigError:
    return ConfigError(f"restart-strategy.{option} is {got}; expected {expected}")


def _at_least(option: str, value: int, lowest: int) -> None:
    if value < lowest:
        raise _refused(option, value, f"at least {lowest}")
