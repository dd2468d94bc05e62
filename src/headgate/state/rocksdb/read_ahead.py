"""Whether the keys of the next records are worth reading ahead, judged by what the last ones read."""

from __future__ import annotations

from typing import Final

PROBED_EVERY: Final = 32
"""One batch in so many is not read ahead, and shows by its own reads whether the state is in use."""


class ReadAhead:
    """Of one state that a function may leave alone, as lists, maps and what can be changed in place.

    Reading ahead costs a look into files per key, which is lost on a state that few records touch.

    Attributes:
        reads: keys that were read one by one; whoever reads counts them here.

    Example:
        >>> ahead = ReadAhead()
        >>> ahead.wanted(10)  # the first batch shows what it reads
        False
        >>> ahead.reads += 9
        >>> ahead.wanted(10), ahead.wanted(10)
        (True, True)
    """

    __slots__ = ("_batch", "_shown", "_used", "reads")

    def __init__(self) -> None:
        self.reads = self._batch = self._shown = 0
        self._used = False

    def wanted(self, keys: int) -> bool:
        """Whether to read so many keys ahead."""
        if self._shown:
            self._used = 2 * self.reads >= self._shown
            self._shown = 0
        self._batch += 1
        if self._batch % PROBED_EVERY == 1:
            self._shown, self.reads = keys, 0
            return False
        return self._used
