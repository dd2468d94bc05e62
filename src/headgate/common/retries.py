"""How often what failed is tried again, and after how long."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Retries:
    """How often a call that failed is repeated, and after how long: attempt n + 1 begins `delay_ms` x
    `factor`^(n - 1) after attempt n has failed, at most `delay_max_ms`. The first call counts as attempt 1.
    """

    attempts: int = 1
    delay_ms: int = 0
    factor: float = 1.0
    delay_max_ms: int = 3_600_000

    def delay_after(self, attempt: int) -> int:
        """Return the ms between the failure of `attempt` (from 1) and the next one.

        Example:
            >>> [Retries(5, 100, 2.0, 300).delay_after(attempt) for attempt in (1, 2, 3)]
            [100, 200, 300]
        """
        try:
            return int(min(self.delay_max_ms, self.delay_ms * self.factor ** (attempt - 1)))
        except OverflowError:
            return self.delay_max_ms


ONCE: Final = Retries()
"""No call is repeated."""
