"""Event time of splits that a reader was restored with and that several readers had read before.

In one reader's life a later split is read after an earlier one, so one time is enough for all. After a change
of the parallelism a reader may get the rests of splits that several have read concurrently, and read them in
any order: what it has read of one must not make the records of another late.
"""

from __future__ import annotations

import copy
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final

from headgate.api.source import Split

MARKS: Final = "split-marks"
"""Their list in a snapshot of the operator that assigns timestamps, in the order of the reader's splits."""


class RestoredSplits:
    """Which of the splits that a reader was restored with are unread, and which one it reads.

    A reader does not say which split a batch is of; it is the one whose position has moved. `reading` are the
    splits of the last batch, `unread` those that are not read to their ends.

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
        """Whether it matters which one is read."""
        return len(self.unread) > 1

    @property
    def others(self) -> set[str]:
        """The unread splits that the last batch was not of."""
        return self.unread - self.reading

    def moved(self, now: Sequence[Split], before: Sequence[Split]) -> None:
        """Note that a batch was read, by the splits before and after it."""
        left = {split.id: split.position for split in now}
        self.reading = frozenset(
            split.id
            for split in before
            if split.id in self.unread and (split.id not in left or left[split.id] != split.position)
        )
        self.unread &= left.keys()

    def only(self) -> None:
        """Note that a batch was read while at most one of the splits is unread."""
        self.reading = frozenset(self.unread)


def picture(splits: Iterable[Split]) -> list[Split]:
    """Return splits with positions that no code changes."""
    return [Split(split.id, copy.deepcopy(split.position)) for split in splits]


class SplitMarks:
    """The greatest timestamp of each restored split, as a snapshot has it.

    A split without new records is waited for during `idleness_ms`; with None as long as it takes.

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
        """Return how far a split is; `default` for one that came later."""
        return self._marks.get(split, default)

    def around(
        self, reading: Collection[str], others: Iterable[str], default: int, now_ms: int
    ) -> tuple[int, int | None]:
        """Return where the time of a batch begins, and what it cannot pass because of unread splits, if any.

        The batch is of the splits `reading`; where there are several, it is unknown which record is of which.
        `others` wait to be read. The time begins at `default` when nothing is known of the batch's split.
        """
        start = min((self._marks[split] for split in reading if split in self._marks), default=default)
        held = [self._marks[split] for split in others if self._waited_for(split, now_ms)]
        if len(reading) > 1:
            held.append(start)
        return start, min(held, default=None)

    def note(self, reading: Collection[str], greatest: int, now_ms: int) -> None:
        """Note that a batch of these splits was read."""
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
    """Return the split watermarks in a snapshot."""
    return {str(split): int(mark) for split, mark in entries}
