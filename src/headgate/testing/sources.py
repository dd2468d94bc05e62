"""A test source whose input contains markers that crash, pause or end the reader."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from typing_extensions import override

from headgate.api.source import (
    END_OF_INPUT,
    NOTHING_AVAILABLE,
    Plain,
    PollStatus,
    Source,
    SourceReader,
    SourceReaderContext,
    Split,
    SplitEnumerator,
    T,
)
from headgate.common.errors import OperatingError, UsageError
from headgate.common.process.children import when_forgotten


@dataclass(frozen=True)
class Marker:
    """An entry in the input of a :class:`TestSource` that makes its reader crash, pause or end.

    Attributes:
        kind: "crash", "pause" or "end".
        pause_ms: how long a pause is.
    """

    kind: str
    pause_ms: int = 0


CRASH_ONCE: Final = Marker("crash")
"""Marker: the reader raises here, but only the first time that any reader of this source gets here."""

EOF: Final = Marker("end")
"""Marker: the reader ends here, with all its splits; restored from a later checkpoint, it reads on."""


def PAUSE(ms: int) -> Marker:  # noqa: N802 - reads as a marker beside the others
    """Return a marker: a reader that gets here has no records of any split for `ms` milliseconds.

    Raises:
        UsageError: `ms` is negative.
    """
    if ms < 0:
        raise UsageError(f"PAUSE got {ms} ms; expected 0 or more")
    return Marker("pause", ms)


class TestSource(Source[T]):
    """A bounded source over lists of records and markers; one split per list.

    Which crashes have happened is remembered in a folder, so that a restart, also in a new process of this
    machine, does not crash again. It works wherever a job runs on one machine.

    Args:
        *splits: the input; a job reads up to as many splits at a time as the source has subtasks.
        memory: an existing folder for what must be remembered; by default a new one, deleted with the source.

    Example:
        >>> import headgate as hg
        >>> from headgate.testing import CRASH_ONCE, MiniCluster, TestSource
        >>> env = hg.Environment(parallelism=1, executor=MiniCluster(), config={
        ...     "restart-strategy.type": "fixed-delay", "restart-strategy.fixed-delay.delay": "1ms"})
        >>> env.from_source(TestSource([1, 2, CRASH_ONCE, 3])).collect()
        [1, 2, 3]
    """

    __test__ = False  # pytest takes classes with this name for tests

    def __init__(self, *splits: Sequence[T | Marker], memory: str | os.PathLike[str] | None = None) -> None:
        self.splits: list[list[Any]] = [list(split) for split in splits]
        if memory is None:
            memory = tempfile.mkdtemp(prefix="headgate-test-")
            # Bound to this very object: copies in workers do not clean up.
            when_forgotten(self, shutil.rmtree, memory, ignore_errors=True)
        self.memory = os.fspath(memory)

    @override
    def create_enumerator(self, restored: list[int] | None) -> SplitEnumerator:
        return TestEnumerator(range(len(self.splits)) if restored is None else restored)

    @override
    def create_reader(self, context: SourceReaderContext) -> SourceReader[T]:
        return TestReader(self)

    @override
    def validate(self) -> None:
        if not Path(self.memory).is_dir():
            raise UsageError(f"TestSource remembers in {self.memory!r}, which is no folder; create it first")

    def first_time(self, split: int, position: int) -> bool:
        """Record a crash at entry `position` of list `split`; return False if one was recorded before."""
        try:
            os.close(os.open(f"{self.memory}/crashed-{split}-{position}", os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return False
        return True


class TestEnumerator(SplitEnumerator):
    """Enumerator of a TestSource: assigns one list per request; its state: the lists not yet assigned."""

    __test__ = False

    def __init__(self, left: Sequence[int]) -> None:
        self._left = list(left)

    @override
    def next_splits(self, subtask: int) -> list[Split] | None:
        return [Split(str(self._left.pop(0)), 0)] if self._left else None

    @override
    def snapshot(self) -> Plain:
        return list(self._left)


class TestReader(SourceReader[T]):
    """Reader of a TestSource: reads lists and obeys markers; a position is the index of the next entry."""

    __test__ = False

    def __init__(self, source: TestSource[T]) -> None:
        self.bad_records = []
        self._source = source
        self._open: list[tuple[int, int]] = []
        self._final = self._ended = False
        self._paused_at: tuple[int, int] | None = None  # split and position of the last pause
        self._paused_until = 0.0

    @override
    def add_splits(self, splits: Sequence[Split]) -> None:
        self._open += [(int(split.id), int(split.position or 0)) for split in splits]

    @override
    def no_more_splits(self) -> None:
        self._final = True

    @override
    def poll(self, max_records: int) -> list[T] | PollStatus:
        if self._ended:
            return END_OF_INPUT
        if time.monotonic() < self._paused_until:
            return NOTHING_AVAILABLE
        if not self._open:
            return END_OF_INPUT if self._final else NOTHING_AVAILABLE
        split, position = self._open[0]
        entries = self._source.splits[split]
        if position == len(entries):
            del self._open[0]
            return self.poll(max_records)
        entry = entries[position]
        if isinstance(entry, Marker):
            if entry.kind == "pause" and self._paused_at != (split, position):
                # The position stays before the marker: who is restored during the pause pauses, too.
                self._paused_at = (split, position)
                self._paused_until = time.monotonic() + entry.pause_ms / 1000
                return NOTHING_AVAILABLE
            self._open[0] = (split, position + 1)
            return self._obey(entry, split, position, max_records)
        stop = position
        while stop < len(entries) and stop - position < max_records and not isinstance(entries[stop], Marker):
            stop += 1
        self._open[0] = (split, stop)
        return entries[position:stop]

    @override
    def snapshot(self) -> list[Split]:
        return [Split(str(split), position) for split, position in self._open]

    def _obey(self, marker: Marker, split: int, position: int, max_records: int) -> list[T] | PollStatus:
        if marker.kind == "end":
            self._ended = True
            return END_OF_INPUT
        if marker.kind == "crash" and self._source.first_time(split, position):
            raise OperatingError(
                f"split {split} of a TestSource crashes at entry {position}, as its marker says"
            )
        return self.poll(max_records)
