"""Event times out of columns: ms since 1970, rounded down, as windows and watermarks count them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

if TYPE_CHECKING:
    from headgate.records.batch import Int64s

_IN_A_MS: Final = {"ms": 1, "us": 1_000, "ns": 1_000_000}


def milliseconds(column: pa.Array) -> Int64s:
    """Return timestamps, or integers of ms since 1970, as ms since 1970; `column` must have no nulls.

    A part of a ms is left out downwards, also before 1970, where Arrow's cast would go up.

    Example:
        >>> import datetime as dt
        >>> before = dt.datetime(1969, 12, 31, 23, 59, 59, 999_500)
        >>> milliseconds(pa.array([before], pa.timestamp("us"))).tolist()
        [-1]
    """
    times: Int64s = column.cast(pa.int64()).to_numpy(zero_copy_only=False)
    if not pa.types.is_timestamp(column.type):
        return times
    if column.type.unit == "s":
        return times * 1_000
    return np.floor_divide(times, _IN_A_MS[column.type.unit])
