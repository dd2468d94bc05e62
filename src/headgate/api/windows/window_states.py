"""Makes the classes of functions that run windows: they declare state of the types that windows keep."""

from __future__ import annotations

import copy
import datetime as dt
from collections.abc import Mapping, Sequence
from decimal import Decimal
from itertools import chain, groupby
from operator import attrgetter
from typing import Any, Final, NamedTuple, TypeVar
from uuid import UUID

from headgate.api.declared.keyed_states import MapState, map_state
from headgate.api.windows.assigners import WindowAssigner
from headgate.api.windows.window_function import WindowFunction
from headgate.common.errors import UsageError
from headgate.common.hints import Hint
from headgate.records.packed_rows import rows_of_parts
from headgate.records.row import Row

F = TypeVar("F", bound=WindowFunction)


def kept_record(assigner: WindowAssigner, fields: Mapping[str, Hint]) -> Any:
    """Return the record type with `fields` in which windows of the assigner's shape are stored.

    The type's name has the shape in it, so that a restore refuses state of windows of another shape.
    """
    return stored_record(f"Windows_{assigner.shape}", fields)


def stored_record(name: str, fields: Mapping[str, Hint]) -> Any:
    record = NamedTuple(name, list(fields.items()))  # type: ignore[misc]
    record.__module__ = "headgate"
    return record


def run_type(storable: Storable) -> Any:
    """Return the record type of several records of one window that came together.

    Of rows it has a shape and a part (see `records.packed_rows`). Other records are in a list as they came,
    their shape is empty, and `data` has only their times.
    """
    fields: dict[str, Hint] = {"size": int, "shape": str, "data": bytes, "lists": list[list[Any]]}
    record = stored_record("WindowRun", {**fields, "records": list[storable.hint]})  # type: ignore[name-defined]
    record.__deepcopy__ = _copied_run
    return record


_UNCHANGING: Final = frozenset(
    {type(None), bool, int, float, str, bytes, dt.datetime, dt.date, dt.time, dt.timedelta, Decimal, UUID}
)


def _copied_run(run: Any, memo: dict[int, Any]) -> Any:
    """Return a run that shares with `run` only what no function can change: bytes, numbers, texts, times.
    A snapshot may hold the one, and a function gets the records of the other.
    """
    lists = run.lists and [_copied(values, memo) for values in run.lists]
    records = run.records and _copied(run.records, memo)
    return run._replace(lists=lists, records=records) if lists or records else run


def _copied(values: list[Any], memo: dict[int, Any]) -> list[Any]:
    return values if _UNCHANGING.issuperset(map(type, values)) else copy.deepcopy(values, memo)


def records_of_runs(runs: Sequence[Any]) -> list[Any]:
    """Return the records of values of :func:`run_type`, in order."""
    if len(runs) == 1:
        return rows_of_parts(runs[0].shape, runs) if runs[0].shape else list(runs[0].records)
    found: list[Any] = []
    for shape, alike in groupby(runs, attrgetter("shape")):
        parts = list(alike)
        found += rows_of_parts(shape, parts) if shape else chain.from_iterable(run.records for run in parts)
    return found


def with_states(
    base: type[F], assigner: WindowAssigner, kept: Any, records: Hint | None = None, runs: Hint | None = None
) -> type[F]:
    """Return a subclass of the window function `base` whose class declares its state: a map `windows`,
    (start, end) to `kept` or, where windows merge, None; and unless they are None maps `records` and `runs`,
    (start, end, place) to a value of that type.
    """
    # Of sessions one that was purged stays known, as others may still become one with it.
    value: Any = kept | None if assigner.merges else kept
    states: dict[str, Any] = {"windows": map_state()}
    hints: dict[str, Any] = {"windows": MapState[tuple[int, int], value]}
    for name, kind in (("records", records), ("runs", runs)):
        if kind is not None:
            states[name] = map_state()
            hints[name] = MapState[tuple[int, int, int], kind]  # type: ignore[valid-type]
    body = {"__annotations__": hints, **states, "__module__": __name__}
    return type(base.__name__, (base,), body)


class Storable:
    """Turns records into what state can hold, and back: a row of columns, for one, is stored as a dict.
    `keeper` is who keeps them, for messages.
    """

    def __init__(self, hint: Hint | None, keeper: str = "a window") -> None:
        self._keeper = keeper
        self.hint: Hint = Any if hint is None or hint is Row else hint
        self._seen: set[type] = set()

    def held(self, record: Any) -> tuple[Any, bool]:
        """Return what to store, and whether it was a `Row`; UsageError if state cannot hold the record."""
        if isinstance(record, Row):
            return record.as_dict(), True
        if self.hint is Any and record.__class__ not in self._seen:
            self._check(record)
        return record, False

    def check(self, records: Sequence[Any]) -> None:
        """Raise UsageError if state cannot hold one of `records`, none of which is a :class:`Row`."""
        if self.hint is Any:
            for kind, record in dict(zip(map(type, records), records, strict=True)).items():
                if kind not in self._seen:
                    self._check(record)

    def _check(self, record: Any) -> None:
        from headgate.serde.codecs.dynamic import NotPlainError, to_tagged  # it loads msgspec

        try:
            to_tagged(record)
        except NotPlainError:
            kind = type(record).__qualname__
            raise UsageError(
                f"{self._keeper} is to keep a {kind}, and the program does not declare that its records are "
                "of "
                f"this type; annotate the function that makes them to return {kind}, or make dicts of them"
            ) from None
        self._seen.add(record.__class__)


def record_of(stored: Any, was_row: bool) -> Any:
    return Row.of(**stored) if was_row else stored


def names_of(key: Any) -> Sequence[str]:
    """Return the names that the key's fields get in results; the key of a function is called `key`."""
    if isinstance(key, str):
        return (key,)
    return key if isinstance(key, tuple) else ("key",)
