"""A clock that a test moves by hand. It never waits and never moves by itself."""

from __future__ import annotations


class ManualClock:
    """The wall clock and the monotonic clock of an operator under test, in one object.

    Args:
        now_ms: wall-clock milliseconds since 1970 at the beginning.

    Example:
        >>> clock = ManualClock(now_ms=1_000)
        >>> clock.advance(500); clock.now_ms(), clock.monotonic_ms()
        (1500, 500)
    """

    def __init__(self, now_ms: int = 0) -> None:
        self._began_ms = self._now_ms = now_ms
        self._passed_ms = 0

    def now_ms(self) -> int:
        """Return wall-clock milliseconds since 1970."""
        return self._now_ms

    def monotonic_ms(self) -> int:
        """Return the monotonic clock: milliseconds of passed time since the clock was made."""
        return self._passed_ms

    def precise_ms(self) -> float:
        """Return the monotonic clock in ms as a float, without a fraction."""
        return float(self._passed_ms)

    def advance(self, by_ms: int) -> None:
        """Advance the wall clock and the monotonic clock by `by_ms`.

        Raises:
            ValueError: `by_ms` is negative.
        """
        if by_ms < 0:
            raise ValueError(f"a clock was told to advance by {by_ms} ms; expected 0 or more (see set)")
        self._now_ms += by_ms
        self._passed_ms += by_ms

    def set(self, now_ms: int) -> None:
        """Set the wall clock to `now_ms`, also back; the monotonic clock follows forward moves only."""
        self._passed_ms += max(0, now_ms - self._now_ms)
        self._now_ms = now_ms
