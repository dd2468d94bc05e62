"""The protocol of the batches in which records travel between operators: as Python rows or Arrow columns.

A batch carries, besides its records, their event timestamps and the watermark *before* each of them, where
Flink sends watermarks between records. So event time is exact for every record, whatever the size of the
batches: an operator splits a batch exactly where a timer must fire.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from headgate.records.selectors import KeySelector

    Int64s = NDArray[np.int64]
    Objects = Sequence[Any]  # records or keys, of the types that the program uses


class Batch(Protocol):
    """Records in order, as rows or Arrow columns; in event time each has its own timestamp and watermark."""

    timestamps: Int64s | None  # event time per record in ms
    watermarks: Int64s | None  # the watermark in force before each record, never falling

    def __len__(self) -> int: ...

    def slice(self, start: int, stop: int) -> Batch:
        """Return records `start` (included) to `stop` (excluded), sharing memory where possible."""

    def take(self, indices: NDArray[np.int64]) -> Batch:
        """Return a batch of the records at `indices`, in that order; Python objects are not copied."""

    def with_times(self, timestamps: Int64s, watermarks: Int64s) -> Batch:
        """Return a batch of the same records with these timestamps and watermarks, in ms, one for each."""

    def rows(self) -> Objects:
        """Return the records as Python objects (of columns: `Row` views); do not change the sequence."""

    def keys(self, selector: KeySelector) -> Objects:
        """Return each record's key by `selector`: a field, a tuple of fields, or what a function of the
        record returns. UsageError: the columns, or the first record, have no such field.
        """

    def key_groups(self, selector: KeySelector, max_parallelism: int) -> NDArray[np.int32]:
        """Return each record's key group; UsageError: a key is None, or of a type that has no stable hash."""

    def nbytes(self) -> int:
        """Return about how many bytes the records take, by which an exchange knows when a frame is full."""


def take_times(times: Int64s | None, indices: NDArray[np.int64]) -> Int64s | None:
    """Return the `times`, a batch's timestamps or watermarks, at `indices`; None if it has no event time."""
    return None if times is None else times[indices]


def slice_times(times: Int64s | None, start: int, stop: int) -> Int64s | None:
    """Return the `times`, timestamps or watermarks, from `start` to before `stop`; None if there are none."""
    return None if times is None else times[start:stop]


def join_times(parts: Sequence[Int64s | None]) -> Int64s | None:
    """Return the timestamps or watermarks of several batches in one array; None unless all have them."""
    import numpy as np

    present = [part for part in parts if part is not None]
    return np.concatenate(present) if present and len(present) == len(parts) else None
