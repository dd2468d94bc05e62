"""Windows that store a value, not their records: accumulators of aggregates, or one reduced record."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from headgate.api.windows.ends import Ends, EndsOfValues
from headgate.api.windows.record_fields import Getter, getter_of
from headgate.api.windows.together import Adder, Together
from headgate.api.windows.window import Window, window_field
from headgate.api.windows.window_aggregates import Aggregate, Kept
from headgate.api.windows.window_function import Key, Rules, WindowFunction, WindowView
from headgate.api.windows.window_states import Storable, kept_record, names_of, record_of, with_states


class Aggregates:
    """The aggregates of one ``aggregate()`` call, whose accumulators stand in one list per key and window.

    Attributes:
        fields: name -> type of each accumulator, as state stores them.
        start: the accumulators of a window without records, to be copied.
    """

    def __init__(self, key: Any, aggregates: dict[str, Aggregate]) -> None:
        self._names = names_of(key)
        self._one_key = not isinstance(key, tuple)
        self._parts: list[tuple[str, Aggregate, int, Getter | None]] = []
        self.fields: dict[str, Any] = {}
        self.start: list[Any] = []
        for name, each in aggregates.items():
            getter = None if each.what is None else getter_of(each.what)
            self._parts.append((name, each, len(self.start), getter))
            self.fields |= {f"{name}_{kept}": hint for kept, hint in each.keeps}
            self.start += each.start

    def add(self, kept: Kept, record: Any) -> None:
        """Add `record` to the accumulators `kept` of its window, in place; values of None do not count.
        Raises what `Aggregate.add` raises, and KeyError or AttributeError if a record lacks a field.
        """
        for _, each, at, getter in self._parts:
            value = True if getter is None else getter(record)
            if value is not None:
                each.add(kept, at, value)

    def adder(self, together: Together) -> Callable[[Kept, int, int], None]:
        """Return a function that adds records of `together`, from a place to before another, to accumulators
        in place, as :meth:`add` does for each. It raises what that raises.
        """
        sources = []
        for _, each, at, getter in self._parts:
            column = together.column(each.what) if isinstance(each.what, str) else None
            sources.append((each, at, column, getter))

        def add(kept: Kept, start: int, stop: int) -> None:
            for each, at, column, getter in sources:
                values: Iterable[Any]
                if getter is None:
                    values = together.reading = iter([True] * (stop - start))
                elif column is not None:
                    values = together.reading = iter(column[start:stop])
                else:
                    together.reading = iter(together.rows()[start:stop])
                    values = (getter(record) for record in together.reading)
                for value in values:
                    if value is not None:
                        each.add(kept, at, value)

        return add

    def merge(self, kept: Kept, other: Kept) -> None:
        """Add the accumulators `other`, of a later window, to the accumulators `kept`, in place."""
        for _, each, at, _ in self._parts:
            each.merge(kept, at, other)

    def result(self, key: Any, window: Window, kept: Kept) -> dict[str, Any]:
        """Return the result record: the key's fields, ``window`` (start, end), and a field per aggregate."""
        keys = (key,) if self._one_key else key
        found = dict(zip(self._names, keys, strict=True))
        found["window"] = window_field(window)
        for name, each, at, _ in self._parts:
            found[name] = each.result(kept, at)
        return found


class AggregatedWindows(WindowFunction):
    """Window function that stores, for each key and window, the accumulators of some aggregates."""

    aggregates: Aggregates
    kept: Any

    def add(self, window: Key, record: Any, time_ms: int | None) -> bool:
        held = self.windows.get(window)
        values = list(self.aggregates.start if held is None else held)
        self.aggregates.add(values, record)
        self.windows.put(window, self.kept._make(values))
        return held is None

    def adder(self, together: Together) -> Adder:
        add_to, begin = self.aggregates.adder(together), self.aggregates.start

        def add(window: Key, start: int, stop: int) -> bool:
            held = self.windows.get(window)
            values = list(begin if held is None else held)
            add_to(values, start, stop)
            self.windows.put(window, self.kept._make(values))
            return held is None

        return add

    def merge(self, window: Key, merged: Sequence[Key]) -> None:
        values: list[Any] | None = None
        for each in merged:
            held = self.windows.get(each)
            if held is not None:
                if values is None:
                    values = list(held)
                else:
                    self.aggregates.merge(values, held)
            self.windows.remove(each)
        self.windows.put(window, None if values is None else self.kept._make(values))

    def results(self, window: Window, view: WindowView) -> Iterable[Any]:
        return self._result(self.windows.get(window.key), window, view)

    def _result(self, held: Any, window: Window, view: WindowView) -> Iterable[Any]:
        return () if held is None else (self.aggregates.result(view.key, window, held),)

    def ends(self, window: Window, keys: Sequence[Any]) -> Ends | None:
        return EndsOfValues(self.windows, window, keys, self._result)

    def purge(self, window: Key) -> None:
        purge_value(self, window)


class ReducedWindows(WindowFunction):
    """Window function that stores, for each key and window, the one record that all were reduced to."""

    reduce: Callable[[Any, Any], Any]
    storable: Storable
    kept: Any

    def add(self, window: Key, record: Any, time_ms: int | None) -> bool:
        held = self.windows.get(window)
        self._put(window, record if held is None else self._reduced(record_of(*held), record))
        return held is None

    def adder(self, together: Together) -> Adder:
        rows, reduced = together.rows(), self.reduce

        def add(window: Key, start: int, stop: int) -> bool:
            held = self.windows.get(window)
            reading = together.reading = iter(rows[start:stop])
            found = next(reading) if held is None else record_of(*held)
            for record in reading:
                found = reduced(found, record)
                if found is None:
                    raise _no_record()
            self._put(window, found)
            return held is None

        return add

    def _reduced(self, left: Any, right: Any) -> Any:
        found = self.reduce(left, right)
        if found is None:
            raise _no_record()
        return found

    def _put(self, window: Key, record: Any) -> None:
        self.windows.put(window, self.kept(*self.storable.held(record)))

    def merge(self, window: Key, merged: Sequence[Key]) -> None:
        found = [held for each in merged if (held := self.windows.get(each)) is not None]
        for each in merged:
            self.windows.remove(each)
        if not found:
            self.windows.put(window, None)
            return
        record = record_of(*found[0])
        for held in found[1:]:
            record = self._reduced(record, record_of(*held))
        self._put(window, record)

    def results(self, window: Window, view: WindowView) -> Iterable[Any]:
        return self._result(self.windows.get(window.key), window, view)

    def _result(self, held: Any, window: Window, view: WindowView) -> Iterable[Any]:
        return () if held is None else (record_of(*held),)

    def ends(self, window: Window, keys: Sequence[Any]) -> Ends | None:
        return EndsOfValues(self.windows, window, keys, self._result)

    def purge(self, window: Key) -> None:
        purge_value(self, window)


def _no_record() -> TypeError:
    return TypeError("the function of reduce() returned None; expected the record of the two")


def purge_value(function: WindowFunction, window: Key) -> None:
    if not function.assigner.merges:
        function.windows.remove(window)
    elif window in function.windows:
        function.windows.put(window, None)


def aggregated(rules: Rules, aggregates: Aggregates) -> WindowFunction:
    """Return the window function that computes `aggregates` in the windows of `rules`. It stores only
    accumulators, in a record type that is named after the windows' shape.
    """
    kept = kept_record(rules.assigner, aggregates.fields)
    function = with_states(AggregatedWindows, rules.assigner, kept)(rules)
    function.aggregates, function.kept = aggregates, kept
    return function


def reduced(rules: Rules, reduce: Callable[[Any, Any], Any], storable: Storable) -> WindowFunction:
    """Return the window function that reduces the records of each window by the function `reduce`."""
    kept = kept_record(rules.assigner, {"value": storable.hint, "row": bool})
    function = with_states(ReducedWindows, rules.assigner, kept)(rules)
    function.reduce, function.storable, function.kept = reduce, storable, kept
    return function
