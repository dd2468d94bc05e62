"""Heartbeats and leases."""

from __future__ import annotations

import pytest

from headgate.common.errors import ConfigError, InternalError
from headgate.core.liveness import HeartbeatMonitor, Lease


def test_silence_lapses_once_and_then_beats_are_refused() -> None:
    """A silent worker is reported once; its later beats are not answered."""
    monitor: HeartbeatMonitor[int] = HeartbeatMonitor(timeout_ms=100)
    monitor.watch(1, 0)
    monitor.watch(2, 0)
    assert monitor.beat(2, 1, 60)
    assert monitor.check(99).lapsed == ()
    assert monitor.check(100).lapsed == (1,)
    assert monitor.check(101).lapsed == ()
    assert not monitor.beat(1, 1, 102)
    assert monitor.watched == (2,)


def test_stuck_loop_is_reported_not_lapsed() -> None:
    """A worker that beats without progress is stuck, reported once, and recovers when it moves."""
    monitor: HeartbeatMonitor[str] = HeartbeatMonitor(timeout_ms=100, stuck_ms=250)
    monitor.watch("w", 0)
    for now_ms in range(50, 300, 50):
        assert monitor.beat("w", 7, now_ms)
        assert monitor.check(now_ms).stuck == ()
    monitor.beat("w", 7, 300)
    report = monitor.check(300)
    assert report.stuck == (("w", 250),)
    assert report.lapsed == ()
    assert monitor.check(301).stuck == ()
    monitor.beat("w", 8, 350)
    assert monitor.check(350).recovered == ("w",)


def test_wakeup_is_the_next_time_with_news() -> None:
    """The next wakeup is the earliest timeout or standstill; none without workers."""
    monitor: HeartbeatMonitor[str] = HeartbeatMonitor(timeout_ms=100, stuck_ms=60)
    assert monitor.next_wakeup() is None
    monitor.watch("w", 10)
    assert monitor.next_wakeup() == 70
    assert monitor.check(70).stuck == (("w", 60),)
    assert monitor.next_wakeup() == 110
    monitor.forget("w")
    assert monitor.next_wakeup() is None


def test_watching_twice_is_a_bug() -> None:
    """The same worker cannot be watched twice."""
    monitor: HeartbeatMonitor[str] = HeartbeatMonitor(timeout_ms=100)
    monitor.watch("w", 0)
    with pytest.raises(InternalError):
        monitor.watch("w", 0)


def test_lease_counts_from_sending_and_never_comes_back() -> None:
    """Renewals count from when the beat was sent; late ones do not shorten; a lost lease stays lost."""
    lease = Lease(80, now_ms=0)
    lease.renewed(sent_ms=50)
    lease.renewed(sent_ms=20)
    assert lease.remaining_ms(100) == 30
    assert lease.expired(130)
    lease.renewed(sent_ms=129)
    assert lease.expired(131)
    assert lease.remaining_ms(131) == 0


def test_worker_stops_before_the_driver_gives_up() -> None:
    """With lease < timeout, no schedule of lost messages lets a lapsed worker still hold its lease."""
    lease_ms, timeout_ms, travel_ms = 8, 10, 3
    for last_answered in range(0, 30, 2):
        monitor: HeartbeatMonitor[str] = HeartbeatMonitor(timeout_ms)
        monitor.watch("w", 0)
        lease = Lease(lease_ms, 0)
        for sent_ms in range(0, last_answered + 1, 2):
            if not lease.expired(sent_ms) and monitor.beat("w", sent_ms, sent_ms + travel_ms):
                lease.renewed(sent_ms)
        lapsed_at = next(t for t in range(last_answered + travel_ms, 100) if monitor.check(t).lapsed)
        assert lease.expired(lapsed_at)


@pytest.mark.parametrize(
    "build", [lambda: Lease(0, 0), lambda: HeartbeatMonitor(0), lambda: HeartbeatMonitor(1, 0)]
)
def test_zero_lengths_are_refused(build: object) -> None:
    """Lengths below a millisecond are refused."""
    assert callable(build)
    with pytest.raises(ConfigError):
        build()
