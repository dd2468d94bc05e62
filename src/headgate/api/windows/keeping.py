"""Windows that keep their records: for functions of whole windows, and for evictors.

A window's records have places from `first` to before `next`; an evicted record leaves its place empty. When
sessions become one, the records of the smaller session move to those of the larger one. Records that came
together are a run, which stands at the place of its first record.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, ClassVar

from headgate.api.functions import OutputTag
from headgate.api.windows.ends import Ends
from headgate.api.windows.evictors import Evictor, WindowRecord
from headgate.api.windows.folding import Aggregates
from headgate.api.windows.kept_records import EndsOfRecords, parts_of, records_in
from headgate.api.windows.together import Adder, Together
from headgate.api.windows.window import Window
from headgate.api.windows.window_function import Key, Rules, WindowFunction, WindowView
from headgate.api.windows.window_states import (
    Storable,
    kept_record,
    record_of,
    records_of_runs,
    run_type,
    stored_record,
    with_states,
)
from headgate.common.errors import UsageError
from headgate.common.hints import Hint
from headgate.records.packed_rows import NOTHING, packed_lists, times_of
from headgate.records.row import Row

Results = Callable[["KeptWindows", Window, list[Any], WindowView], Iterable[Any]]
"""Computes the results of a window's records, given the function, the window, the records and the view."""

_ONE_RECORD = (tuple, str, bytes, dict, Row)


class WindowContext:
    """The context that the function of `process()` gets besides key, window and records.

    Attributes:
        watermark: in ms; when a window fires at its end, the watermark is still before that end.
    """

    def __init__(self, function: KeptWindows, view: WindowView) -> None:
        self._function, self._view = function, view

    @property
    def watermark(self) -> int:
        """The current watermark, in ms; -2**63 before the first one."""
        return self._view.watermark

    def now_ms(self) -> int:
        """Return the wall clock of the worker, in ms since 1970."""
        return self._view.now_ms()

    @property
    def state(self) -> dict[str, Any]:
        """Plain values by name that are kept for this key and window until the window is gone.

        Raises:
            UsageError: the windows are sessions; states of two sessions could not become one.
        """
        if self._function.assigner.merges:
            raise UsageError("sessions have no state of their own, as two of them may become one")
        return self._view.remembered("function")

    def side_output(self, tag: OutputTag[Any], value: Any) -> None:
        """Emit `value` to the side output that `tag` names."""
        self._view.side_output(tag, value)


class KeptWindows(WindowFunction):
    """Window function that stores the records of each window, for `process()` and for evictors.
    Its fields are set by :func:`keeping`; `kept` is the type of a window's entry in the state `windows`
    (start and end of the window under which its records stand, first place, next place), `record` that of a
    stored record (time in ms, record, whether it was a `Row`), `run` that of records that came together.
    """

    takes_recent = True
    records: ClassVar[Any]  # declared, as `runs`, by the class that `with_states` makes
    runs: ClassVar[Any]
    storable: Storable
    kept: Any
    record: Any
    run: Any
    evictor: Evictor | None
    computed: Results

    def add(self, window: Key, record: Any, time_ms: int | None) -> bool:
        held = self.windows.get(window)
        if held is None:
            held = self.kept(*window, 0, 0)
        self.records.put((*held[:2], held.next), self.record(time_ms, *self.storable.held(record)))
        self.windows.put(window, held._replace(next=held.next + 1))
        return bool(held.first == held.next)

    @property
    def adds_together(self) -> bool:
        return super().adds_together and self.evictor is None

    def adder(self, together: Together) -> Adder:
        windows, runs, kept = self.windows, self.runs, self.kept
        run_of = self._run_maker(together)

        def add(window: Key, start: int, stop: int) -> bool:
            held = windows.get(window)
            begin, end, first, next_place = (*window, 0, 0) if held is None else held
            runs.put((begin, end, next_place), run_of(start, stop))
            windows.put(window, kept(begin, end, first, next_place + stop - start))
            return bool(first == next_place)

        return add

    def _run_maker(self, together: Together) -> Callable[[int, int], Any]:
        run, packed = self.run, together.packed()
        if packed is not None:
            shape, cut = packed.shape, packed.cut

            def run_of_rows(start: int, stop: int) -> Any:
                return run(stop - start, shape, *cut(start, stop), NOTHING)

            return run_of_rows
        rows, times = together.rows(), packed_lists((), (), together.times)
        self.storable.check(rows)
        return lambda start, stop: run(
            stop - start, "", times.part(start, stop).data, NOTHING, list(rows[start:stop])
        )

    def merge(self, window: Key, merged: Sequence[Key]) -> None:
        spans = [held for each in merged if (held := self.windows.get(each)) is not None]
        for each in merged:
            self.windows.remove(each)
        if not spans:
            self.windows.put(window, None)
            return
        whole = spans[0]
        for span in spans[1:]:
            whole = self._joined(whole, span)
        self.windows.put(window, whole)

    def _joined(self, left: Any, right: Any) -> Any:
        if left.next - left.first >= right.next - right.first:
            for place in range(right.first, right.next):
                left = left._replace(next=left.next + self._move(right, place, left, left.next))
            return left
        for place in range(left.next - 1, left.first - 1, -1):
            right = right._replace(first=right.first - self._move(left, place, right, right.first - 1))
        return right

    def _move(self, source: Any, place: int, target: Any, to: int) -> int:
        found = self.records.get((*source[:2], place))
        if found is None:
            return 0
        self.records.remove((*source[:2], place))
        self.records.put((*target[:2], to), found)
        return 1

    def results(self, window: Window, view: WindowView) -> Iterable[Any]:
        if self.evictor is None:
            held = self.windows.get(window.key)
            records = [] if held is None else records_in(self._parts(held), self.records)
            return list(self.computed(self, window, records, view)) if records else ()
        found = self._evicted(window.key, self._records_of(window.key), self.evictor.before, window)
        if not found:
            return ()
        results = list(self.computed(self, window, [each.record for each in found.values()], view))
        self._evicted(window.key, found, self.evictor.after, window)
        return results

    def _parts(self, held: Any) -> list[tuple[tuple[int, int, int], Any]]:
        return parts_of(held, self.runs if len(self.runs) else {})

    def ends(self, window: Window, keys: Sequence[Any]) -> Ends | None:
        return None if self.evictor is not None else EndsOfRecords(self, window, keys)

    def last_results(self, window: Window, view: WindowView) -> Iterable[Any]:
        held = self.windows.get(window.key)
        if held is None or self.evictor is not None:
            return super().last_results(window, view)
        parts = self._parts(held)
        records = records_in(parts, self.records)
        results = list(self.computed(self, window, records, view)) if records else ()
        self._drop(parts)
        self.windows.remove(window.key)
        return results

    def _drop(self, parts: Iterable[tuple[tuple[int, int, int], Any]]) -> None:
        for at, run in parts:
            (self.records if run is None else self.runs).remove(at)

    def _records_of(self, window: Key) -> dict[int, WindowRecord]:
        # for an evictor, which may take out any of them: so none is left in a run
        held = self.windows.get(window)
        found: dict[int, WindowRecord] = {}
        for at, run in () if held is None else self._parts(held):
            if run is not None:
                self._take_apart(at, run, found)
            elif (stored := self.records.get(at)) is not None:
                time_ms, record, was_row = stored
                found[at[2]] = WindowRecord(time_ms, record_of(record, was_row))
        return found

    def _take_apart(self, at: tuple[int, int, int], run: Any, found: dict[int, WindowRecord]) -> None:
        self.runs.remove(at)
        singles = zip(times_of(run), records_of_runs([run]), strict=True)
        for place, (time_ms, record) in enumerate(singles, start=at[2]):
            self.records.put((*at[:2], place), self.record(time_ms, *self.storable.held(record)))
            found[place] = WindowRecord(time_ms, record)

    def _evicted(
        self,
        key: Key,
        found: dict[int, WindowRecord],
        evict: Callable[[Sequence[WindowRecord], Window], Iterable[WindowRecord]],
        window: Window,
    ) -> dict[int, WindowRecord]:
        stay = {id(each) for each in evict(list(found.values()), window)}
        left = {place: each for place, each in found.items() if id(each) in stay}
        if len(left) < len(found):
            held = self.windows.get(key)
            for place in found.keys() - left.keys():
                self.records.remove((*held[:2], place))
            self.windows.put(key, held._replace(first=next(iter(left), held.next)))
        return left

    def purge(self, window: Key) -> None:
        held = self.windows.get(window)
        if held is None:
            return
        self._drop(self._parts(held))
        if self.assigner.merges:
            self.windows.put(window, held._replace(first=0, next=0))
        else:
            self.windows.remove(window)


class Processed:
    """Computes results by the program's function for `process()`, from all records of a window."""

    def __init__(self, function: Callable[[Any, Window, list[Any], WindowContext], Iterable[Any]]) -> None:
        self.function = function

    def __call__(
        self, windows: KeptWindows, window: Window, records: list[Any], view: WindowView
    ) -> Iterable[Any]:
        found = self.function(view.key, window, records, WindowContext(windows, view))
        if isinstance(found, _ONE_RECORD) and found != ():
            raise TypeError(
                f"the function of process() returned one {type(found).__name__}, which would be taken apart "
                "into its elements; yield it, or return a list of outputs"
            )
        return found or ()


class Folded:
    """Computes aggregates from all records of a window, as an evictor may take some of them out."""

    def __init__(self, aggregates: Aggregates) -> None:
        self.aggregates = aggregates

    def __call__(
        self, windows: KeptWindows, window: Window, records: list[Any], view: WindowView
    ) -> Iterable[Any]:
        values = list(self.aggregates.start)
        for record in records:
            self.aggregates.add(values, record)
        return (self.aggregates.result(view.key, window, values),)


class Reduced:
    """Reduces all records of a window to one at each result, as an evictor may take some of them out."""

    def __init__(self, reduce: Callable[[Any, Any], Any]) -> None:
        self.reduce = reduce

    def __call__(
        self, windows: KeptWindows, window: Window, records: list[Any], view: WindowView
    ) -> Iterable[Any]:
        found = records[0]
        for record in records[1:]:
            found = self.reduce(found, record)
        return (found,)


def keeping(rules: Rules, evictor: Evictor | None, computed: Results, storable: Storable) -> WindowFunction:
    """Return the function that runs the windows of `rules` and stores each record, as `storable` turns it.

    At each result, `evictor.before` says which records stay (None: all), `computed` makes the results of
    those, but is not called if none stay, and `evictor.after` says which of them stay for later results.
    """
    kept = kept_record(rules.assigner, {"start": int, "end": int, "first": int, "next": int})
    hints: dict[str, Hint] = {"timestamp": int | None, "record": storable.hint, "row": bool}
    record = stored_record("WindowRecord", hints)
    run = run_type(storable)
    function = with_states(KeptWindows, rules.assigner, kept, record, run)(rules)
    function.storable, function.kept, function.record, function.run = storable, kept, record, run
    function.evictor, function.computed = evictor, computed
    return function
