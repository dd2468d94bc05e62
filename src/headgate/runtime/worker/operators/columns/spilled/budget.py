"""Says when windows in memory exceed a budget, measuring them seldom: adding up their bytes takes time."""

from __future__ import annotations

from collections.abc import Callable


class Budget:
    """Says when to write windows to disk: adds up bytes that come, measures (`size`) only above `limit`.

    Example:
        >>> budget = Budget(100, lambda: 60)
        >>> [budget.exceeded_by(40) for _ in range(4)]
        [False, False, True, False]
    """

    def __init__(self, limit: int, size: Callable[[], int]) -> None:
        self._limit, self._size = limit, size
        self._at_most = 0

    def exceeded_by(self, more: int) -> bool:
        """Note that `more` bytes were added, and return whether all in memory should be written to disk now.

        What is added may be merged with what is there, so all together may be less. From half the limit on it
        is stored, or each further batch would have to be measured.
        """
        self._at_most += more
        if self._at_most <= self._limit:
            return False
        self._at_most = self._size()
        return self._at_most > self._limit // 2

    def emptied(self) -> None:
        """Note that what was in memory has been written to disk: the count begins again from 0."""
        self._at_most = 0
