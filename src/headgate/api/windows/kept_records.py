"""The records that windows keep, as they lie in the states `runs` and `records`: of one key, or of many."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import accumulate, chain, pairwise
from operator import attrgetter
from typing import Any, ClassVar, Protocol, TypeAlias

from headgate.api.windows.ends import KeyedMaps, forget_window
from headgate.api.windows.window import Window
from headgate.api.windows.window_states import record_of, records_of_runs
from headgate.records.packed_rows import rows_of_parts

Place: TypeAlias = "tuple[int, int, int]"
"""Where a run or a single record stands: start and end of its window (ms), and its number in it."""
Parts: TypeAlias = "list[tuple[Place, Any]]"
"""The places of a window's records in order, each with its run; None: a single record may be there."""


class Kept(Protocol):
    """What is needed of the function whose windows keep records."""

    windows: ClassVar[KeyedMaps]
    runs: ClassVar[KeyedMaps]
    records: ClassVar[KeyedMaps]
    computed: Any


class Found(Protocol):
    """A map by places: that of one key, or the state that is bound to it."""

    def get(self, place: Any, /) -> Any:
        """Return what is there, or None."""


def parts_of(held: Any, runs: Found) -> Parts:
    """Return where the records of a window are; `held` is its entry in the state `windows`."""
    start, end, place, last = held
    found: Parts = []
    while place < last:
        at = (start, end, place)
        run = runs.get(at)
        found.append((at, run))
        place += 1 if run is None else run.size
    return found


def records_in(parts: Parts, records: Found) -> list[Any]:
    """Return the records at `parts`, in order; `records` has the single ones."""
    runs = [run for _, run in parts if run is not None]
    if runs and len(runs) == len(parts):
        return records_of_runs(runs)
    found: list[Any] = []
    for at, run in parts:
        if run is not None:
            found += records_of_runs((run,))
        elif (stored := records.get(at)) is not None:
            found.append(record_of(stored[1], stored[2]))
    return found


class EndsOfRecords:
    """The ends of windows that keep their records; see `api.windows.ends.Ends`."""

    def __init__(self, function: Kept, window: Window, keys: Sequence[Any]) -> None:
        self._function, self._window, self._keys = function, window, keys
        self._held = [entries.get(window.key) for entries in function.windows.of_keys(keys)]
        self._parts: list[Parts] = [
            () if held is None else parts_of(held, runs)  # type: ignore[misc]
            for held, runs in zip(self._held, function.runs.of_keys(keys), strict=True)
        ]
        runs = [run for _, run in chain.from_iterable(self._parts)]
        self._only_runs = None not in runs
        self._records = self._rows(runs) if self._only_runs else None
        if self._records is None:
            singles = function.records.of_keys(keys)
            self._records = list(map(records_in, self._parts, singles))

    def _rows(self, runs: list[Any]) -> list[list[Any]] | None:
        # All rows of one shape are made together: then their columns are read together, too.
        shapes = set(map(attrgetter("shape"), runs))
        if len(shapes) != 1 or not (shape := shapes.pop()):
            return None
        rows = rows_of_parts(shape, runs)
        counts = (sum([run.size for _, run in parts]) for parts in self._parts)
        return [rows[start:stop] for start, stop in pairwise(accumulate(counts, initial=0))]

    def results(self, place: int, view: Any) -> Iterable[Any]:
        assert self._records is not None
        records, function = self._records[place], self._function
        return list(function.computed(function, self._window, records, view)) if records else ()

    def forget(self, count: int) -> None:
        function, keys, parts = self._function, self._keys[:count], self._parts[:count]
        if self._only_runs:
            function.runs.remove_of_keys(keys, [[at for at, _ in each] for each in parts])
        else:
            self._forget_both(keys, parts)
        forget_window(function.windows, self._window.key, keys, self._held)

    def _forget_both(self, keys: Sequence[Any], parts: Sequence[Parts]) -> None:
        function = self._function
        function.runs.remove_of_keys(keys, [[at for at, run in each if run is not None] for each in parts])
        places = [[at for at, run in each if run is None] for each in parts]
        known = function.records.of_keys(keys)
        there = [[at for at in each if at in held] for each, held in zip(places, known, strict=True)]
        function.records.remove_of_keys(keys, there)
