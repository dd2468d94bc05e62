"""Columns as lists of Python objects, as Arrow's `to_pylist` gives them, but a column at a time and faster.

`to_pylist` makes a scalar for each value, which takes microseconds for times and structs. Here the values of
a type without a fast way go through it, and all others through numpy or as the parts that they consist of.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from functools import lru_cache
from itertools import chain, pairwise, repeat, starmap
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
from pyarrow.lib import string_to_tzinfo

if TYPE_CHECKING:
    from numpy.typing import NDArray

_EPOCH: Final = dt.date(1970, 1, 1).toordinal()
_DAYS: Final = (dt.date.min.toordinal() - _EPOCH, dt.date.max.toordinal() - _EPOCH)
"""The first and the last day of Python's years, counted from 1970."""
_PER_DAY: Final = {"s": 86_400, "ms": 86_400_000, "us": 86_400_000_000}


def python_values(column: pa.Array) -> list[Any]:
    """Return a column as a list of Python objects, null as None, by the fastest lossless way."""
    kind = column.type
    found: list[Any] | None = None
    if len(column):
        if pa.types.is_integer(kind) or pa.types.is_floating(kind):
            found = _with_nulls(column, _buffer(column, kind.to_pandas_dtype()).tolist())
        elif pa.types.is_string(kind) or pa.types.is_large_string(kind):
            found = column.to_numpy(zero_copy_only=False).tolist()
        elif pa.types.is_timestamp(kind):
            found = _moments(column)
        elif pa.types.is_date32(kind):
            found = _dates(column)
        elif pa.types.is_struct(kind):
            found = _structs(column)
        elif pa.types.is_list(kind) or pa.types.is_large_list(kind):
            found = _lists(column)
    return column.to_pylist() if found is None else found


def _buffer(column: pa.Array, kind: Any) -> NDArray[Any]:
    # Straight from the buffer: `to_numpy` releases the interpreter lock and may wait for it.
    offset = column.offset * np.dtype(kind).itemsize
    return np.frombuffer(column.buffers()[1], kind, len(column), offset)


def _with_nulls(column: pa.Array, values: list[Any]) -> list[Any]:
    if column.null_count:
        for place in np.flatnonzero(column.is_null().to_numpy(zero_copy_only=False)).tolist():
            values[place] = None
    return values


def _within(column: pa.Array, kind: Any, least: int, most: int) -> NDArray[Any] | None:
    # the numbers of a column of times, 0 where it is null; None: one is outside of Python's years
    numbers = _buffer(column, kind)
    if column.null_count:
        numbers = np.where(column.is_null().to_numpy(zero_copy_only=False), 0, numbers)
    return numbers if least <= numbers.min() and numbers.max() <= most else None


def _moments(column: pa.Array) -> list[Any] | None:
    unit, zone = column.type.unit, column.type.tz
    if unit == "ns":
        return None  # Arrow gives what holds ns
    first, last = _DAYS
    numbers = _within(column, np.int64, first * _PER_DAY[unit], (last + 1) * _PER_DAY[unit] - 1)
    if numbers is None:
        return None
    if zone not in (None, "UTC"):
        return None
    epoch = dt.datetime(1970, 1, 1, tzinfo=None if zone is None else string_to_tzinfo(zone))
    return _with_nulls(column, _repeated(numbers, lambda some: _after(epoch, some, unit)))


def _after(epoch: dt.datetime, numbers: NDArray[Any], unit: str) -> list[Any]:
    passed = numbers.view(f"timedelta64[{unit}]").astype("timedelta64[us]").tolist()
    return list(map(epoch.__add__, passed))


def _repeated(numbers: NDArray[Any], convert: Callable[[NDArray[Any]], list[Any]]) -> list[Any]:
    # Neighbours are often equal, as the starts of windows are: each is then made once.
    begins = np.flatnonzero(numbers[1:] != numbers[:-1]) + 1
    if len(begins) * 4 > len(numbers):
        return convert(numbers)
    begins = np.concatenate(([0], begins))
    lengths = np.diff(begins, append=len(numbers)).tolist()
    return list(chain.from_iterable(map(repeat, convert(numbers[begins]), lengths)))


def _dates(column: pa.Array) -> list[Any] | None:
    numbers = _within(column, np.int32, *_DAYS)
    if numbers is None:
        return None
    return _with_nulls(column, numbers.astype("datetime64[D]").tolist())


def _structs(column: pa.Array) -> list[Any] | None:
    names = tuple(field.name for field in column.type)
    if not names or len(set(names)) < len(names):
        return None
    parts = [python_values(part) for part in column.flatten()]
    return _with_nulls(column, list(starmap(_dict_maker(names), zip(*parts, strict=True))))


@lru_cache(maxsize=256)
def _dict_maker(names: tuple[str, ...]) -> Callable[..., dict[str, Any]]:
    # `{name: value, ...}` written out takes a third of the time of `dict(zip(names, values))`
    values = [f"v{place}" for place in range(len(names))]
    entries = ", ".join(f"{name!r}: {value}" for name, value in zip(names, values, strict=True))
    scope: dict[str, Any] = {}
    exec(f"def made({', '.join(values)}): return {{{entries}}}", scope)
    return scope["made"]  # type: ignore[no-any-return]


def _lists(column: pa.Array) -> list[Any]:
    elements = python_values(column.flatten())
    lengths = column.value_lengths().fill_null(0).to_numpy(zero_copy_only=False)
    ends = [0, *np.cumsum(lengths).tolist()]
    return _with_nulls(column, [elements[start:end] for start, end in pairwise(ends)])
