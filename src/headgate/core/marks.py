"""When a mark leaves an input gate: once it has come on every channel, with nothing read beyond it.

    event                  guard                       action
    mark(channel, e)       e <= passed                 drop it
    mark(channel, e)       barriers are being aligned  drop it; passed = e
    mark(channel, e)       e < epoch                   drop it; passed = e
    mark(channel, e)       e > epoch                   drop the one that is gathered; gather e, as below
    mark(channel, e)       e == epoch                  the channel waits; decide
    lost(e)                any                         passed = max(passed, e); drop what is not beyond it
    end(channel, last)     any                         close it; passed = max(passed, last); decide
    drop()                 any                         drop the one that is gathered

What is dropped is told to the gates below by lost(e), for their other channels wait for it.

Decide: when all open channels wait, and there is one, the mark comes out, and nothing waits. A mark is
dropped whenever in doubt: what came before it counts for the next one. `docs/machines/marks.md` has the
invariant that this keeps, and why barriers go first.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass, field
from typing import Final, TypeAlias

Rows: TypeAlias = Mapping[tuple[str, str], int]
"""(uid of a source, id of its split) -> rows read of it since the job's first start."""

NO_EPOCH: Final = -1
"""Before the first epoch. A mark of it goes ahead of a barrier that is a mark itself, and brings its
counts.
"""


@dataclass(frozen=True, slots=True)
class Mark:
    """Of each source, what belongs to epoch `epoch` has been sent, and nothing beyond it.

    `rows` has the splits that have moved since the sender's last mark, with how many of their rows were read.
    One that is `lost` says the opposite: the sender has dropped the marks up to `epoch`; none of them comes.
    """

    epoch: int
    rows: Rows = field(default_factory=dict)
    lost: bool = False


class EpochClock:
    """The job-wide clock of epochs, as one source subtask sees it: each has `interval_ms` of wall clock.

    Example:
        >>> clock = EpochClock(100)
        >>> clock.begun(1_234), clock.begun(1_299), clock.begun(1_500), clock.last
        (12, None, 15, 15)
    """

    __slots__ = ("_interval_ms", "last")

    def __init__(self, interval_ms: int) -> None:
        self._interval_ms, self.last = interval_ms, NO_EPOCH

    def begun(self, now_ms: int) -> int | None:
        """Return the newest epoch if one has begun since the last call, else None; a clock that goes back
        begins none.
        """
        epoch = now_ms // self._interval_ms
        if epoch <= self.last:
            return None
        self.last = epoch
        return epoch

    def next_ms(self) -> int:
        """Return when the next epoch begins (wall clock)."""
        return (self.last + 1) * self._interval_ms


class MarkGate:
    """Gathers the marks of one input gate with `channels` channels (from 0), one epoch at a time.

    `waiting` are the channels that must not be read now, because their mark of the epoch was read and
    others' are missing; `last` is the greatest epoch that sources of ended channels had emitted.
    """

    __slots__ = ("_epoch", "_open", "_passed", "_rows", "_told", "last", "waiting")

    def __init__(self, channels: int) -> None:
        self.waiting: Set[int] = frozenset()
        self.last = NO_EPOCH
        self._open = set(range(channels))
        self._epoch = self._passed = self._told = NO_EPOCH
        self._rows: dict[tuple[str, str], int] = {}

    def mark(self, channel: int, epoch: int, rows: Rows, *, aligning: bool) -> int | None:
        """Process a mark that was read from `channel`; return the epoch if it comes out now, else None.
        `aligning`: whether the gate waits for barriers, which go first.
        """
        self._rows.update(rows)
        if epoch <= self._passed:
            return None
        if aligning or epoch < self._epoch:
            self._passed = epoch
            return None
        if epoch > self._epoch:
            self.drop()
            self._epoch = epoch
        self.waiting |= {channel}
        return self._decided()

    def lost(self, epoch: int) -> None:
        """Note that some channel brings no mark up to `epoch`, for which others need not wait."""
        self._passed = max(self._passed, epoch)
        if self._epoch <= self._passed:
            self.drop()

    def untold(self) -> int | None:
        """Return the greatest epoch that was dropped, if nobody below knows of it yet; None: none is."""
        if self._passed <= self._told:
            return None
        self._told = self._passed
        return self._told

    def end(self, channel: int, last: int) -> int | None:
        """Close a channel whose data has ended; `last` is the greatest epoch that a source above it emitted.
        Return the epoch that comes out now, else None.
        """
        self._open.discard(channel)
        self.waiting -= {channel}
        self.last = max(self.last, last)
        self.lost(last)
        return self._decided()

    def drop(self) -> None:
        """Give up the mark that is gathered, because a barrier begins to be aligned: nothing waits for it."""
        self._passed = max(self._passed, self._epoch)
        self.waiting = frozenset()

    def rows(self) -> Rows:
        """Remove and return the counts that came since the last call, those of dropped marks included."""
        rows, self._rows = self._rows, {}
        return rows

    def _decided(self) -> int | None:
        if not self.waiting or self.waiting != self._open:
            return None
        self.drop()
        self._told = self._passed
        return self._epoch
