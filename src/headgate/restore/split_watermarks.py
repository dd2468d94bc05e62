"""Keeps a watermark per split after a restore, so that reading one split makes no other one's records late.

A reader reads one split after another, so one watermark is enough for it. After a change of the parallelism
it may get the rests of splits that several readers had read concurrently, and read them in any order.
"""

from __future__ import annotations

import copy
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final

from headgate.api.source import Split

MARKS: Final = "split-marks"
"""Name of an operator's list of (split id, greatest timestamp) in a snapshot, if it assigns timestamps."""

COUNTS: Final = "counts"
"""Name of a source's list of (split id, rows) in snapshots of a job with marks: splits read to their ends."""


class RestoredSplits:
    """Tracks which of a reader's restored splits are unread, and which of them its last batch came from. A
    reader does not say which split a batch is of; it is the one whose position has moved. Used by a source's
    subtask, with the splits from its snapshot. `reading` are the splits of the last batch, `unread` those
    that are not read to their ends.

    Example:
        >>> splits = RestoredSplits([Split("a", 3), Split("b", 0)])
        >>> splits.moved([Split("a", 5), Split("b", 0)], [Split("a", 3), Split("b", 0)])
        >>> sorted(splits.reading), sorted(splits.others)
        (['a'], ['b'])
    """

    def __init__(self, splits: Sequence[Split]) -> None:
        self.unread = {split.id for split in splits}
        self.reading = frozenset(self.unread) if len(self.unread) == 1 else frozenset()

    @property
    def several(self) -> bool:
        return len(self.unread) > 1

    @property
    def others(self) -> set[str]:
        return self.unread - self.reading

    def moved(self, now: Sequence[Split], before: Sequence[Split]) -> None:
        """Set `reading` to the splits that moved or ended from `before` to `now`; ended ones leave `unread`.
        `before` are the reader's splits (copies) as they were before its last batch, `now` after it.
        """
        left = {split.id: split.position for split in now}
        self.reading = frozenset(
            split.id
            for split in before
            if split.id in self.unread and (split.id not in left or left[split.id] != split.position)
        )
        self.unread &= left.keys()

    def only(self) -> None:
        """Set `reading` to all unread splits; used in place of :meth:`moved` where there is at most one."""
        self.reading = frozenset(self.unread)


def picture(splits: Iterable[Split]) -> list[Split]:
    return [Split(split.id, copy.deepcopy(split.position)) for split in splits]


class SplitMarks:
    """The watermark of each restored split: the greatest timestamp read from it, first as in the snapshot.

    An unread split holds the operator's watermark back until none of its records came for `idleness_ms`, or
    (None) for ever. `now_ms` is always the time of the call, by one clock.

    Example:
        >>> marks = SplitMarks({"a": 100, "b": 40}, None, 0)
        >>> marks.around({"a"}, {"b"}, 40, 0), marks.around({"a", "b"}, set(), 40, 0)
        ((100, 40), (40, 40))
        >>> marks.note({"b"}, 120, 5); marks.around({"a"}, {"b"}, 40, 9)
        (100, 120)
    """

    def __init__(self, marks: Mapping[str, int], idleness_ms: int | None, now_ms: int) -> None:
        self._marks = dict(marks)
        self._idleness_ms = idleness_ms
        self._read_ms = dict.fromkeys(marks, now_ms)

    def of(self, split: str, default: int) -> int:
        return self._marks.get(split, default)

    def around(
        self, reading: Collection[str], others: Iterable[str], default: int, now_ms: int
    ) -> tuple[int, int | None]:
        """Return the least mark of the splits `reading`, and the upper bound of their batch's watermarks.

        Where `reading` are several, it is unknown which record is of which. The bound is the least mark of
        `others`, which wait to be read and are not idle, and of several `reading`; None: no bound.
        The first result is `default` when no split of `reading` has a mark.
        """
        start = min((self._marks[split] for split in reading if split in self._marks), default=default)
        held = [self._marks[split] for split in others if self._waited_for(split, now_ms)]
        if len(reading) > 1:
            held.append(start)
        return start, min(held, default=None)

    def note(self, reading: Collection[str], greatest: int, now_ms: int) -> None:
        """Record that a batch came of `reading` at `now_ms`; a single split's mark rises to `greatest`."""
        for split in reading:
            if split in self._marks:
                self._read_ms[split] = now_ms
                if len(reading) == 1:
                    self._marks[split] = max(self._marks[split], greatest)

    def _waited_for(self, split: str, now_ms: int) -> bool:
        if split not in self._marks:
            return False
        return self._idleness_ms is None or now_ms - self._read_ms[split] < self._idleness_ms


def marks_of(entries: Iterable[Sequence[str | int]]) -> dict[str, int]:
    return {str(split): int(mark) for split, mark in entries}
