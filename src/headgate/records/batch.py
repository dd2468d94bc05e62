"""The protocol of the batches in which records travel between operators: as Python rows or Arrow columns.

A batch carries, besides its records, their event timestamps and the watermark *before* each of
them. With the watermark inside, event time is exact for every record, whatever the size of the
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
    """Records in order, as rows or Arrow columns; with event time, each has its timestamp and watermark."""

    timestamps: Int64s | None  # event time per record in ms
    watermarks: Int64s | None  # the watermark in force before each record, never falling

    def __len__(self) -> int: ...

    def slice(self, start: int, stop: int) -> Batch:
        """Return records `start` (included) to `stop` (excluded), sharing memory where possible."""

    def take(self, indices: NDArray[np.int64]) -> Batch:
        """Return the records at `indices`, in that order."""

    def with_times(self, timestamps: Int64s, watermarks: Int64s) -> Batch:
        """Return a batch of this one's records with event time; this batch stays as it is."""

    def rows(self) -> Objects:
        """Return the records as Python objects."""

    def keys(self, selector: KeySelector) -> Objects:
        """Return the key of every record, as Python objects."""

    def key_groups(self, selector: KeySelector, max_parallelism: int) -> NDArray[np.int32]:
        """Return the key group of every record; a UsageError refuses None and types that cannot be routed."""

    def nbytes(self) -> int:
        """Return about how much memory the records take; decides when a frame is full."""


def take_times(times: Int64s | None, indices: NDArray[np.int64]) -> Int64s | None:
    """Return the timestamps or watermarks at `indices`; None if the batch has no event time."""
    return None if times is None else times[indices]


def slice_times(times: Int64s | None, start: int, stop: int) -> Int64s | None:
    """Return the timestamps or watermarks from `start` to `stop`; None if the batch has no event time."""
    return None if times is None else times[start:stop]


def join_times(parts: Sequence[Int64s | None]) -> Int64s | None:
    """Return the timestamps or watermarks of several batches in one array; None unless all have them."""
    import numpy as np

    present = [part for part in parts if part is not None]
    return np.concatenate(present) if present and len(present) == len(parts) else None
