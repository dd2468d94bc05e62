"""Liveness of workers: heartbeats as the driver sees them, and the lease as a worker holds it.

No I/O: the caller sends, receives and reads the clock. A lapsed worker must be fenced and replaced; a
stuck one (it beats, but its loop does not move) is only reported, because user code may be slow.

The lease is shorter than the timeout and counted from when a beat was *sent*, the timeout from when
it was *received*; so a worker that hears nothing stops before the driver gives it up.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Generic, TypeVar

from headgate.common.errors import ConfigError, InternalError

W = TypeVar("W", bound=Hashable)


@dataclass(frozen=True, slots=True)
class LivenessReport(Generic[W]):
    """Workers that lapsed, got stuck (with ms of the loop's standstill) or recovered since the last check."""

    lapsed: tuple[W, ...] = ()  # workers not heard of for the timeout; they are watched no longer
    stuck: tuple[tuple[W, int], ...] = ()  # worker whose loop stands still, and for how many ms
    recovered: tuple[W, ...] = ()  # workers reported as stuck whose loop moves again


@dataclass(slots=True)
class _Watch:
    heard_ms: int
    progress: int
    moved_ms: int
    reported_stuck: bool = False


class HeartbeatMonitor(Generic[W]):
    """Finds workers silent for `timeout_ms`, and those whose loop stands still for `stuck_ms` (None: none).

    Example:
        >>> monitor = HeartbeatMonitor(timeout_ms=10_000, stuck_ms=3_000)
        >>> monitor.watch("w0", now_ms=0); monitor.watch("w1", now_ms=0)
        >>> monitor.beat("w0", progress=7, now_ms=9_000)
        True
        >>> monitor.check(10_000)
        LivenessReport(lapsed=('w1',), stuck=(), recovered=())
    """

    def __init__(self, timeout_ms: int, stuck_ms: int | None = None) -> None:
        if timeout_ms < 1:
            raise ConfigError(f"heartbeat.timeout is {timeout_ms} ms; expected at least 1 ms")
        if stuck_ms is not None and stuck_ms < 1:
            raise ConfigError(
                f"the limit for a loop that stands still is {stuck_ms} ms; expected at least 1 ms"
            )
        self._timeout_ms, self._stuck_ms = timeout_ms, stuck_ms
        self._watched: dict[W, _Watch] = {}

    @property
    def watched(self) -> tuple[W, ...]:
        return tuple(self._watched)

    def watch(self, worker: W, now_ms: int) -> None:
        """Watch a worker from now on: a beat must come within the timeout. InternalError if it is watched."""
        if worker in self._watched:
            raise InternalError(f"worker {worker} is watched twice")
        self._watched[worker] = _Watch(heard_ms=now_ms, progress=-1, moved_ms=now_ms)

    def forget(self, worker: W) -> None:
        self._watched.pop(worker, None)

    def beat(self, worker: W, progress: int, now_ms: int) -> bool:
        """Record a heartbeat. Return False if its worker is not watched: then the caller must not answer.

        `progress` counts rounds of the worker's loop: any change means that it moved; idle rounds count too.
        """
        watch = self._watched.get(worker)
        if watch is None:
            return False
        watch.heard_ms = now_ms
        if progress != watch.progress:
            watch.progress, watch.moved_ms = progress, now_ms
        return True

    def check(self, now_ms: int) -> LivenessReport[W]:
        """Return which workers lapsed, got stuck or recovered since the last check; each is reported once.
        Lapsed workers are not watched any more: the caller must fence and replace them.
        """
        lapsed = tuple(w for w, watch in self._watched.items() if now_ms - watch.heard_ms >= self._timeout_ms)
        for worker in lapsed:
            del self._watched[worker]
        stuck: list[tuple[W, int]] = []
        recovered: list[W] = []
        for worker, watch in self._watched.items():
            still_ms = now_ms - watch.moved_ms
            is_stuck = self._stuck_ms is not None and still_ms >= self._stuck_ms
            if is_stuck and not watch.reported_stuck:
                stuck.append((worker, still_ms))
            elif watch.reported_stuck and not is_stuck:
                recovered.append(worker)
            watch.reported_stuck = is_stuck
        return LivenessReport(lapsed, tuple(stuck), tuple(recovered))

    def next_wakeup(self) -> int | None:
        """Return when :meth:`check` has news if no beat comes (monotonic ms): a worker lapses or counts as
        stuck. None: no worker is watched.
        """
        times = [watch.heard_ms + self._timeout_ms for watch in self._watched.values()]
        if self._stuck_ms is not None:
            times += [w.moved_ms + self._stuck_ms for w in self._watched.values() if not w.reported_stuck]
        return min(times, default=None)

    def describe(self, now_ms: int) -> tuple[Hashable, ...]:
        return tuple(
            (worker, w.heard_ms - now_ms, w.moved_ms - now_ms, w.progress, w.reported_stuck)
            for worker, w in self._watched.items()
        )


class Lease:
    """A worker's right to run, which ends unless it is renewed; the first lease runs from registration.

    Example:
        >>> lease = Lease(length_ms=8_000, now_ms=0)
        >>> lease.renewed(sent_ms=5_000); lease.expired(12_999), lease.expired(13_000)
        (False, True)
    """

    __slots__ = ("_expires_ms", "_length_ms", "_lost")

    def __init__(self, length_ms: int, now_ms: int) -> None:
        if length_ms < 1:
            raise ConfigError(f"headgate.lease is {length_ms} ms; expected at least 1 ms")
        self._length_ms, self._expires_ms, self._lost = length_ms, now_ms + length_ms, False

    def renewed(self, sent_ms: int) -> None:
        """Extend the lease, as the driver answered the heartbeat sent at `sent_ms`; it is never shortened."""
        self._expires_ms = max(self._expires_ms, sent_ms + self._length_ms)

    def expired(self, now_ms: int) -> bool:
        """Return whether the lease has ended, so that the worker must stop; once True, it stays so."""
        self._lost = self._lost or now_ms >= self._expires_ms
        return self._lost

    def remaining_ms(self, now_ms: int) -> int:
        return 0 if self.expired(now_ms) else self._expires_ms - now_ms
