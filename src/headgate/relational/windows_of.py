"""The windows in which timestamps lie, for rows that keep their columns: `window(...)` in `select`."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from headgate.relational.resolved import Values, WindowsOf
from headgate.relational.spark_types import TIMESTAMP, WINDOW

Int64s = NDArray[np.int64]


def windows_of(wanted: WindowsOf, times: Values, rows: int) -> pa.Array:
    """Return for each of `rows` timestamps the list of its windows, as `wanted` says; null for null."""
    if isinstance(times, pa.Scalar):
        times = pa.repeat(times, rows)
    missing = times.is_null().to_numpy(zero_copy_only=False)
    at = times.fill_null(0).cast(pa.int64()).to_numpy()
    if not wanted.grow and not missing.any() and (alone := _alone(wanted, at)) is not None:
        return pa.ListArray.from_arrays(np.arange(rows + 1, dtype=np.int32), alone, type=wanted.type)
    starts, ends, valid = _growing(wanted, at) if wanted.grow else _sliding(wanted, at)
    valid &= ~missing[:, np.newaxis]
    offsets = np.concatenate([[0], np.cumsum(valid.sum(axis=1))]).astype(np.int32)
    found = _structs(starts[valid], ends[valid])
    return pa.ListArray.from_arrays(offsets, found, type=wanted.type, mask=pa.array(missing))


def _structs(starts: Int64s, ends: Int64s) -> pa.Array:
    moments = [pa.array(each).cast(TIMESTAMP) for each in (starts, ends)]
    return pa.StructArray.from_arrays(moments, fields=list(WINDOW))


def _alone(wanted: WindowsOf, at: Int64s) -> pa.Array | None:
    # Whether each timestamp lies in exactly one window is cheap to see.
    if wanted.size < wanted.slide:
        return None
    since = (at - wanted.offset) % wanted.slide
    if wanted.size > wanted.slide and (since < wanted.size - wanted.slide).any():
        return None
    starts = at - since
    return _structs(starts, starts + wanted.size)


def _sliding(wanted: WindowsOf, at: Int64s) -> tuple[Int64s, Int64s, NDArray[np.bool_]]:
    last = at - (at - wanted.offset) % wanted.slide
    back = np.arange(-(-wanted.size // wanted.slide) - 1, -1, -1) * wanted.slide
    starts = last[:, np.newaxis] - back
    return starts, starts + wanted.size, starts + wanted.size > at[:, np.newaxis]


def _growing(wanted: WindowsOf, at: Int64s) -> tuple[Int64s, Int64s, NDArray[np.bool_]]:
    start = (at - (at - wanted.offset) % wanted.size)[:, np.newaxis]
    ends = start + np.arange(wanted.slide, wanted.size + 1, wanted.slide)
    return np.broadcast_to(start, ends.shape), ends, ends > at[:, np.newaxis]
