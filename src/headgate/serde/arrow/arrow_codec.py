"""Codecs between plain values (as msgpack has them) and Arrow arrays, lossless: of scalars and structs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

import numpy as np
import pyarrow as pa

from headgate.serde.codecs.temporal import Moment, Zone

T = TypeVar("T")
V = TypeVar("V")

_INT64_MIN, _INT64_MAX = -(2**63), 2**63 - 1
_EPOCH_DAY: Final = 719_163
_DAY: Final = 86_400_000_000
_SECOND: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class Codec(Generic[V]):
    """Converter of plain values (as msgpack has them) to arrays of one Arrow `type` and back, without loss.

    Null stands for None, or a TypedDict's missing key. Callers must ask `fits` if a value is kept exactly
    (None: each is). `total`: all values of the type fit, so no bytes are needed; `nullable`: None is a value.
    """

    type: pa.DataType
    to_array: Callable[[Sequence[V | None]], pa.Array]  # of plain values; None is null
    to_plain: Callable[[pa.Array], list[V | None]]
    fits: Callable[[V], bool] | None = None  # which plain values keep their value; None: all of msgpack's
    total: bool = False  # every value of the declared type fits, so that no column of bytes is needed
    nullable: bool = False  # None is a value, for which null stands


def _direct(type_: pa.DataType, *, fits: Callable[[V], bool] | None = None, total: bool = False) -> Codec[V]:
    return Codec(type_, lambda values: pa.array(values, type_), lambda array: array.to_pylist(), fits, total)


def _counted(storage: pa.DataType, type_: pa.DataType) -> Codec[int]:
    return Codec(
        type_,
        lambda values: pa.array(values, storage).view(type_),
        lambda array: array.view(storage).to_pylist(),
    )


def _fits_int64(value: int) -> bool:
    return value.__class__ is int and _INT64_MIN <= value <= _INT64_MAX


INT64: Final = _direct(pa.int64(), fits=_fits_int64)
STRING: Final[Codec[str]] = _direct(pa.string())
NAME: Final[Codec[str]] = _direct(pa.string(), total=True)
"""Codec of text without lone surrogates."""
_MICROSECONDS: Final = _counted(pa.int64(), pa.duration("us"))


# -- days, moments, durations


def _date() -> Codec[int]:
    days = _counted(pa.int32(), pa.date32())
    return Codec(
        days.type,
        lambda values: days.to_array([None if value is None else value - _EPOCH_DAY for value in values]),
        lambda array: [None if day is None else day + _EPOCH_DAY for day in days.to_plain(array)],
        total=True,
    )


def _timedelta() -> Codec[tuple[int, int, int]]:
    return Codec(
        _MICROSECONDS.type,
        lambda values: _MICROSECONDS.to_array(
            [None if value is None else _micros(value) for value in values]
        ),
        lambda array: [None if us is None else _days(us) for us in _MICROSECONDS.to_plain(array)],
        fits=lambda value: _INT64_MIN <= _micros(value) <= _INT64_MAX,
    )


def _micros(plain: tuple[int, int, int]) -> int:
    days, seconds, micros = plain
    return days * _DAY + seconds * _SECOND + micros


def _days(micros: int) -> tuple[int, int, int]:
    days, rest = divmod(micros, _DAY)
    return days, *divmod(rest, _SECOND)


def _moment(wall: Codec[int]) -> Codec[Moment]:
    fold: Codec[bool] = _direct(pa.bool_())
    parts: dict[str, Codec[Any]] = {"wall": wall, "fold": fold, "zone": STRING, "utc_offset": _MICROSECONDS}
    return struct_codec(parts, _moment_row, _moment_plain)


def _moment_row(plain: Moment) -> tuple[int, bool, str | None, int | None]:
    if isinstance(plain, int):
        return plain, False, None, None
    micros, fold, zone = plain
    if zone is None or isinstance(zone, str):
        return micros, bool(fold), zone, None
    offset, name = (zone, None) if isinstance(zone, int) else zone
    return micros, bool(fold), name, offset


def _moment_plain(row: tuple[int, bool, str | None, int | None]) -> Moment:
    micros, fold, name, offset = row
    if not fold and name is None and offset is None:
        return micros
    zone: Zone = name if offset is None else offset if name is None else (offset, name)
    return micros, int(fold), zone


# -- several columns as one


def struct_codec(
    parts: Mapping[str, Codec[V]],
    to_row: Callable[[T], Iterable[V]],
    to_plain: Callable[[tuple[Any, ...]], T],
    *,
    fits: Callable[[T], bool] | None = None,
    total: bool = False,
) -> Codec[T]:
    """Return the codec of values stored as a struct with a column for each of `parts`, by column name.
    `to_row` splits a value into its parts in that order, `to_plain` joins them; `fits`, `total` as in Codec.
    """
    fields = [pa.field(name, codec.type) for name, codec in parts.items()]
    codecs, blank = list(parts.values()), (None,) * len(parts)

    def to_array(values: Sequence[T | None]) -> pa.Array:
        rows = [blank if value is None else to_row(value) for value in values]
        columns = zip(*rows, strict=True) if rows else [()] * len(codecs)
        arrays = [codec.to_array(list(column)) for codec, column in zip(codecs, columns, strict=True)]
        return pa.StructArray.from_arrays(arrays, fields=fields, mask=nulls(values))

    def from_array(array: pa.Array) -> list[T | None]:
        columns = [codec.to_plain(part) for codec, part in zip(codecs, array.flatten(), strict=True)]
        rows = zip(*columns, strict=True)
        valid = array.is_valid().to_pylist()
        return [to_plain(row) if there else None for row, there in zip(rows, valid, strict=True)]

    return Codec(pa.struct(fields), to_array, from_array, fits, total)


def nulls(values: Sequence[V | None]) -> pa.Array | None:
    """Return Arrow's mask array for `values`, true where a value is None; return None if no value is None."""
    mask = [value is None for value in values]
    return pa.array(mask) if any(mask) else None


# -- numbers of a fixed width

_NUMPY: Final[dict[str, pa.DataType]] = {
    "|i1": pa.int8(), "|u1": pa.uint8(), "<i2": pa.int16(), "<u2": pa.uint16(), "<i4": pa.int32(),
    "<u4": pa.uint32(), "<i8": pa.int64(), "<u8": pa.uint64(), "<f4": pa.float32(), "<f8": pa.float64(),
}  # fmt: skip


def numpy_codec(dtype: str) -> Codec[bytes] | None:
    """Return the codec of NumPy scalars of a dtype such as "<i4", as bytes; None for float16 and complex."""
    if dtype == "|b1":
        return Codec(
            pa.bool_(),
            lambda values: pa.array(
                [None if value is None else value == b"\x01" for value in values], pa.bool_()
            ),
            lambda array: [None if value is None else bytes((value,)) for value in array.to_pylist()],
            total=True,
        )
    type_ = _NUMPY.get(dtype)
    return None if type_ is None else _fixed_width(type_, np.dtype(dtype).itemsize)


def _fixed_width(type_: pa.DataType, width: int) -> Codec[bytes]:
    # By their bytes, as a conversion by value may change the bits of a NaN.
    bytes_ = pa.binary(width)

    def to_array(values: Sequence[bytes | None]) -> pa.Array:
        data = pa.py_buffer(b"".join(bytes(width) if value is None else value for value in values))
        mask = pa.array([value is not None for value in values], pa.bool_())
        return pa.Array.from_buffers(type_, len(values), [mask.buffers()[1], data])

    def to_plain(array: pa.Array) -> list[bytes | None]:
        validity, data = array.buffers()
        same = pa.Array.from_buffers(bytes_, len(array), [validity, data], offset=array.offset)
        return same.to_pylist()  # type: ignore[no-any-return]

    return Codec(type_, to_array, to_plain, total=True)


SINGLE: Final[dict[str, Codec[Any]]] = {
    "bool": _direct(pa.bool_(), total=True),
    "int": INT64,
    "float": _direct(pa.float64(), fits=lambda value: value.__class__ is float),
    "str": STRING,
    "bytes": _direct(pa.binary(), total=True),
    "datetime": _moment(_counted(pa.int64(), pa.timestamp("us"))),
    # Spark 4.3 opens no table that has a column of Arrow's time type.
    "time": _moment(_MICROSECONDS),
    "date": _date(),
    "timedelta": _timedelta(),
    # A decimal type has one scale for all its values; 1.0 and 1.00 are two values.
    "decimal": NAME,
    "uuid": _direct(pa.binary(16), total=True),
    "flag": INT64,
    "json": NAME,
    "protobuf": _direct(pa.binary(), total=True),
    "avro": _direct(pa.binary(), total=True),
}
"""Codecs of single values, by the kind of their stored description."""
