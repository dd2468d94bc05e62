"""Numbers for the keys of a batch, alike exactly where state takes the keys for one."""

from __future__ import annotations

import datetime as dt
from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING, Final
from uuid import UUID

import numpy as np
import pyarrow as pa

from headgate.records.arrow_batch import ArrowBatch
from headgate.records.batch import Batch
from headgate.records.selectors import KeySelector

if TYPE_CHECKING:
    from headgate.records.batch import Int64s

_PLAIN: Final = frozenset({bool, int, str, bytes, dt.date, UUID})
"""Types of which equal values are one key for every backend: no floats and no Decimals."""

_SPAN_MAX: Final = 2**40


def codes_of_keys(batch: Batch, selector: KeySelector, keys: Sequence[Hashable]) -> Int64s | None:
    """Return a number from 0 to 2**40 for each of `keys`, the keys of `batch` by `selector`; None if they are
    of several types, or of one whose equal values may be several keys.
    """
    if isinstance(batch, ArrowBatch) and isinstance(selector, str):
        codes = _differences(batch.columns.column(batch.field(selector)))
        if codes is not None:
            return codes
    if not _are_plain(keys):
        return None
    seen: dict[Hashable, int] = {}
    number = seen.setdefault
    return np.fromiter((number(key, len(seen)) for key in keys), np.int64, len(keys))


def _differences(column: pa.Array) -> Int64s | None:
    # whole numbers and moments in a column are their own codes, without a look at the Python objects
    if column.null_count or not len(column):
        return None
    if pa.types.is_timestamp(column.type) and column.type.tz in (None, "UTC"):
        # In other zones two moments may be one key: those of an hour that is repeated.
        column = column.view(pa.int64())
    if not pa.types.is_signed_integer(column.type):
        return None
    values = column.to_numpy(zero_copy_only=False).astype(np.int64, copy=False)
    least = int(values.min())
    return values - least if int(values.max()) - least < _SPAN_MAX else None


def _are_plain(keys: Sequence[Hashable]) -> bool:
    kinds = set(map(type, keys))
    if len(kinds) != 1:
        return False
    kind = kinds.pop()
    if kind is tuple:
        shapes = {tuple(map(type, key)) for key in keys}  # type: ignore[call-overload]
        return len(shapes) == 1 and set(shapes.pop()) <= _PLAIN
    if kind is dt.datetime:
        return len({(key.tzinfo, key.fold) for key in keys}) == 1  # type: ignore[attr-defined]
    return kind in _PLAIN
