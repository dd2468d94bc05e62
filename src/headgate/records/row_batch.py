"""Batches of Python objects, for per-record functions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import chain
from operator import attrgetter, itemgetter
from typing import TYPE_CHECKING, Any, TypeVar

from headgate.common.errors import UsageError
from headgate.common.keys.keygroups import shortened
from headgate.records.batch import join_times, slice_times, take_times
from headgate.records.row import Row

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from headgate.records.batch import Int64s, Objects
    from headgate.records.selectors import KeySelector

T = TypeVar("T")
R = TypeVar("R")

_GUESSED_BYTES = 64
_SAMPLED = 8


class RowBatch:
    """A `Batch` of records as a list of Python objects. The list is never changed once it is in a batch."""

    __slots__ = ("records", "timestamps", "watermarks")

    def __init__(
        self, records: list[Any], timestamps: Int64s | None = None, watermarks: Int64s | None = None
    ) -> None:
        self.records, self.timestamps, self.watermarks = records, timestamps, watermarks

    def __len__(self) -> int:
        return len(self.records)

    def __repr__(self) -> str:
        return f"RowBatch({len(self.records)} records)"

    def slice(self, start: int, stop: int) -> RowBatch:
        if start == 0 and stop >= len(self.records):
            return self
        return RowBatch(
            self.records[start:stop],
            slice_times(self.timestamps, start, stop),
            slice_times(self.watermarks, start, stop),
        )

    def take(self, indices: NDArray[np.int64]) -> RowBatch:
        picked = list(map(self.records.__getitem__, indices.tolist()))
        return RowBatch(picked, take_times(self.timestamps, indices), take_times(self.watermarks, indices))

    def with_times(self, timestamps: Int64s, watermarks: Int64s) -> RowBatch:
        return RowBatch(self.records, timestamps, watermarks)

    def rows(self) -> Objects:
        return self.records

    def keys(self, selector: KeySelector) -> Objects:
        """Return each record's key by `selector`. UsageError: record 0 has no such field; a later record that
        has none raises KeyError or AttributeError, and a function what it likes.
        """
        if not self.records:
            return []
        return each_of(field_getter(selector, self.records[0]), self.records)

    def key_groups(self, selector: KeySelector, max_parallelism: int) -> NDArray[np.int32]:
        from headgate.common.keys.keygroups_vectorised import groups_of_hashes, hashes_of_keys

        return groups_of_hashes(hashes_of_keys(self.keys(selector)), max_parallelism)

    def nbytes(self) -> int:
        count = len(self.records)
        sample = self.records[:: max(1, count // _SAMPLED)]
        return count * sum(map(guessed_size, sample)) // max(1, len(sample))


def concat_rows(batches: Sequence[RowBatch]) -> RowBatch:
    """Return one batch with the records of all batches, in order; it has event time if all of them have."""
    return RowBatch(
        list(chain.from_iterable(batch.records for batch in batches)),
        join_times([batch.timestamps for batch in batches]),
        join_times([batch.watermarks for batch in batches]),
    )


def each_of(function: Callable[[T], R], records: Sequence[T]) -> list[R]:
    """Return the result of `function` for each record; its StopIteration is raised, not taken as the end.

    Example:
        >>> each_of(lambda record: next(iter(record)), [[1], []])
        Traceback (most recent call last):
        StopIteration
    """
    made = list(map(function, records))
    if len(made) != len(records):  # `map` took a StopIteration of the function for the end of the records
        return [function(record) for record in records]
    return made


def guessed_size(value: T, depth: int = 3) -> int:
    """Return about how many bytes a record takes on the wire, by a sample of its parts, `depth` levels deep.

    Example:
        >>> guessed_size("x" * 1000), guessed_size((1, "x" * 1000)), guessed_size({"a": ["x" * 1000] * 50})
        (1008, 1024, 50425)
    """
    if isinstance(value, (str, bytes)):
        return 8 + len(value)
    if isinstance(value, (int, float, type(None))):
        return 8
    if isinstance(value, Row):
        return value.guessed_size()
    if depth == 0:
        return _GUESSED_BYTES
    if isinstance(value, dict):
        return 8 + _size_of_some(list(value), depth) + _size_of_some(list(value.values()), depth)
    if isinstance(value, (list, tuple, set, frozenset)):
        return 8 + _size_of_some(list(value), depth)
    fields = getattr(value, "__dict__", None)
    return _GUESSED_BYTES + (_size_of_some(list(fields.values()), depth) if fields else 0)


def _size_of_some(values: list[T], depth: int) -> int:
    sample = values[:: max(1, len(values) // _SAMPLED)]
    return len(values) * sum(guessed_size(value, depth - 1) for value in sample) // max(1, len(sample))


def field_getter(selector: KeySelector, sample: T) -> Callable[[T], Any]:
    """Return a function from a record to its key by `selector` (a function: itself). Fields are read as items
    if `sample`, a record, is a dict or Row, else as attributes; a tuple of names gives a tuple. UsageError:
    `sample` has no such field.
    """
    if callable(selector):
        return selector
    names = (selector,) if isinstance(selector, str) else tuple(selector)
    by_item = isinstance(sample, (dict, Row))
    getter: Callable[[Any], Any] = itemgetter(*names) if by_item else attrgetter(*names)
    try:
        getter(sample)
    except (KeyError, AttributeError, TypeError):
        raise UsageError(
            f"key_by or with_event_time names {', '.join(map(repr, names))}, but a record is "
            f"{shortened(sample, 200)}; name a field it has, or give a function of the record"
        ) from None
    if isinstance(selector, tuple) and len(names) == 1:
        return lambda record: (getter(record),)
    return getter
