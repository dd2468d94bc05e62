"""Jobs that run until a test lets them end: a source behind a valve, and waiting for what must come."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from mini_jobs import ListEnumerator, ListReader

import headgate as hg

PATIENCE_S = 30


def wait_until(true: Callable[[], object], what: str) -> None:
    """Return as soon as `true` is; a job in which it never becomes true fails the test."""
    until = time.monotonic() + PATIENCE_S
    while not true():
        assert time.monotonic() < until, f"waited in vain: {what}"
        time.sleep(0.002)


class Valve(hg.Source[Any]):
    """Lists of records, one per split; none gives more than `open_to` allows. Workers are threads here.

    Args:
        number: of the valve; each test has its own.
        limit: records of each split that may come at first.
        splits: the input.
    """

    limits: ClassVar[dict[int, float]] = {}

    def __init__(self, number: int, limit: float, *splits: Sequence[Any]) -> None:
        self.number, self.splits = number, [list(split) for split in splits]
        Valve.limits[number] = limit

    def open_to(self, limit: float = float("inf")) -> None:
        """From now on so many records of each split may come."""
        Valve.limits[self.number] = limit

    def create_enumerator(self, restored: Any) -> hg.SplitEnumerator:
        return ListEnumerator(range(len(self.splits)) if restored is None else restored)

    def create_reader(self, context: hg.SourceReaderContext) -> hg.SourceReader[Any]:
        return ValveReader(self)


class ValveReader(ListReader):
    """Reads its splits in turn, so that all of them come as far as the valve lets them."""

    def poll(self, max_records: int) -> Any:
        limit = Valve.limits[self.source.number]
        if limit == float("inf"):
            self.splits = [each for each in self.splits if each[1] < len(self.source.splits[int(each[0])])]
        if not self.splits:
            return hg.END_OF_INPUT if self.final else hg.NOTHING_AVAILABLE
        for split in self.splits:
            records = self.source.splits[int(split[0])]
            stop = int(min(len(records), limit, split[1] + max_records))
            if stop > split[1]:
                found, split[1] = records[split[1] : stop], stop
                return found
        return hg.NOTHING_AVAILABLE
