"""Restart strategies (scenarios sF1, sF3)."""

from __future__ import annotations

import pytest

from headgate.common.errors import ConfigError
from headgate.core.restart_strategies import (
    ExponentialDelay,
    FailureRate,
    FixedDelay,
    NoRestart,
    RestartSpec,
    restart_strategy,
)


def no_chance(low: float, high: float) -> float:
    """A draw that must not happen."""
    raise AssertionError("no jitter was asked for")


def test_none_never_restarts() -> None:
    """With strategy none the first failure is final."""
    assert not restart_strategy(NoRestart(), no_chance).on_failure(0).can_restart


def test_sf1_backoff_grows_by_multiplier() -> None:
    """sF1: initial 4, times 2.3, without jitter: 4, 9, 21, and at last the maximum."""
    spec = ExponentialDelay(initial_ms=4, multiplier=2.3, max_ms=300, jitter=0)
    strategy = restart_strategy(spec, no_chance)
    delays = []
    now_ms = 0
    for _ in range(8):
        delays.append(strategy.on_failure(now_ms).delay_ms)
        now_ms += delays[-1]
    assert delays[:3] == [4, 9, 21]
    assert delays[-2:] == [300, 300]


def test_sf1_reset_after_a_quiet_time() -> None:
    """sF1: one ms short of threshold plus backoff still grows, the full time begins anew."""
    spec = ExponentialDelay(initial_ms=1, multiplier=2, max_ms=5, jitter=0, reset_after_ms=8)
    strategy = restart_strategy(spec, no_chance)
    assert strategy.on_failure(100).delay_ms == 1
    assert strategy.on_failure(100 + 8).delay_ms == 2
    assert strategy.on_failure(108 + 10).delay_ms == 1


def test_failures_before_the_scheduled_restart_count_once() -> None:
    """Failures that come while a restart is scheduled are merged and wait only for the rest of it."""
    strategy = restart_strategy(ExponentialDelay(initial_ms=100, multiplier=2, jitter=0), no_chance)
    assert strategy.on_failure(0).delay_ms == 100
    merged = strategy.on_failure(40)
    assert (merged.merged, merged.delay_ms, merged.can_restart) == (True, 60, True)
    assert strategy.on_failure(100).delay_ms == 200


def test_exponential_attempts_end() -> None:
    """A limited number of restarts before a reset ends the job, and a quiet time renews it."""
    spec = ExponentialDelay(initial_ms=1, max_ms=1, jitter=0, attempts=2, reset_after_ms=50)
    strategy = restart_strategy(spec, no_chance)
    assert [strategy.on_failure(t).can_restart for t in (0, 10, 20)] == [True, True, False]
    assert strategy.on_failure(100).can_restart


@pytest.mark.parametrize(("draw", "delays"), [(0.0, [450, 900, 1080]), (1.0, [550, 1100, 1200])])
def test_jitter_adds_and_takes_away_its_share(draw: float, delays: list[int]) -> None:
    """Of the first pause, too, by which many jobs that fail at once would else come back at once; and no
    pause is longer than the longest.
    """
    spec = ExponentialDelay(initial_ms=500, multiplier=2, max_ms=1200, jitter=0.1)
    strategy = restart_strategy(spec, lambda low, high: low + (high - low) * draw)
    now, found = 0, []
    for _ in delays:
        found.append(strategy.on_failure(now).delay_ms)
        now += found[-1]
    assert found == delays


def test_sf3_fixed_delay_counts_to_its_limit() -> None:
    """sF3: fixed delay with 3 attempts restarts three times, not a fourth; a merged failure is free."""
    strategy = restart_strategy(FixedDelay(attempts=3, delay_ms=10), no_chance)
    assert [strategy.on_failure(t).can_restart for t in (0, 5, 100, 200)] == [True] * 4
    last = strategy.on_failure(300)
    assert not last.can_restart
    assert last.why == "all 3 restarts of fixed-delay are used up"


def test_sf3_failure_rate() -> None:
    """sF3: 3 failures per 10 s are allowed and a fourth inside is not; spaced ones always are."""
    strategy = restart_strategy(FailureRate(max_failures=3, interval_ms=10_000, delay_ms=0), no_chance)
    assert [strategy.on_failure(t).can_restart for t in (0, 1, 2, 3)] == [True, True, True, False]
    spaced = restart_strategy(FailureRate(max_failures=1, interval_ms=1, delay_ms=0), no_chance)
    assert all(spaced.on_failure(t).can_restart for t in range(0, 20, 2))


@pytest.mark.parametrize(
    "build",
    [
        lambda: ExponentialDelay(multiplier=1.0),
        lambda: ExponentialDelay(multiplier=float("nan")),
        lambda: ExponentialDelay(initial_ms=10, max_ms=9),
        lambda: ExponentialDelay(jitter=1.1),
        lambda: ExponentialDelay(jitter=-0.1),
        lambda: ExponentialDelay(attempts=0),
        lambda: FixedDelay(attempts=-1),
        lambda: FailureRate(max_failures=0),
    ],
)
def test_nonsense_is_refused(build: object) -> None:
    """sF1: parameters outside their range are refused when the description is made."""
    assert callable(build)
    with pytest.raises(ConfigError, match=r"^restart-strategy\..* is .*; expected"):
        build()


def test_defaults_of_every_description() -> None:
    """The defaults are the field's."""
    specs: list[RestartSpec] = [FixedDelay(), FailureRate()]
    assert specs == [FixedDelay(1, 1000), FailureRate(1, 60_000, 1000)]
