"""Values as one or two Arrow columns: a typed one where nothing is lost, and one of bytes for other values.

A raw cell is the batch of one value that the serializer writes. In a row at most one of the two is set; where
neither is, the value is None.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import compress
from typing import Any, Final, TypeVar

import msgspec
import pyarrow as pa

from headgate.common.errors import StorageError, UsageError
from headgate.common.plain_data import Description
from headgate.serde.arrow.arrow_codec import Codec
from headgate.serde.arrow.arrow_types import codec_of
from headgate.serde.arrow.stored_values import MODE_TAGGED, MODE_TYPED, Beyond, pack, settling, unpack
from headgate.serde.codecs.dynamic import decode_tagged, encode_tagged

V = TypeVar("V")

RAW: Final = "_raw"  # end of the name of the column of bytes
_CELL_MAX: Final = 2**31 - 1  # bytes that Parquet and Arrow can hold in one cell


class ArrowColumn:
    """Converts a described type's values to Arrow columns (`fields`: a typed one, one of bytes, or both)."""

    def __init__(self, name: str, stored: Description) -> None:
        self.name, self.stored = name, stored
        self._codec: Codec[Any] | None = codec_of(stored)
        self._settle = settling(stored)
        self.fields: list[pa.Field] = [] if self._codec is None else [pa.field(name, self._codec.type)]
        if self._codec is None or not self._codec.total:
            self.fields.append(pa.field(name + RAW, pa.binary()))

    def arrays(self, values: Sequence[V]) -> list[pa.Array]:
        """Return values, as msgpack has them, in an array for each of `fields`; UsageError if one misfits."""
        codec = self._codec
        if codec is None:
            return [pa.array([_cell(value) for value in values], pa.binary())]
        check = codec.fits
        fits = [value.__class__ is not Beyond and (check is None or check(value)) for value in values]
        pairs = list(zip(values, fits, strict=True))
        try:
            typed = codec.to_array([value if fit else None for value, fit in pairs])
        except (pa.ArrowInvalid, pa.ArrowCapacityError) as error:
            raise UsageError(f"column {self.name!r} cannot hold a value: {error}") from None
        if codec.total:
            return [typed]
        return [typed, pa.array([None if fit else _cell(value) for value, fit in pairs], pa.binary())]

    def values(self, columns: Mapping[str, pa.Array]) -> list[Any]:
        """Return the plain values in the arrays `columns`, by name (or Beyond); StorageError if damaged."""
        raw = columns.get(self.name + RAW)
        try:
            codec = self._codec
            found: list[Any] = (
                codec.to_plain(columns[self.name]) if codec is not None else [None] * len(raw or ())
            )
            for place, cell in self._cells(raw):
                found[place] = self._of_cell(cell)
        except (msgspec.MsgspecError, ValueError, TypeError, LookupError, ArithmeticError) as error:
            raise StorageError(f"column {self.name!r} does not hold stored values ({error})") from None
        return found

    def _cells(self, raw: pa.Array | None) -> list[tuple[int, bytes]]:
        if raw is None or (self._codec is not None and raw.null_count == len(raw)):
            return []
        cells = raw.to_pylist()
        there = [cell is not None for cell in cells]
        if self._codec is None and not all(there):
            raise ValueError("a row has no value")
        return list(compress(enumerate(cells), there))

    def _of_cell(self, cell: bytes) -> Any:
        body = memoryview(cell)[1:]
        if cell[:1] == MODE_TYPED:
            (value,) = unpack(body)
            return value
        if cell[:1] != MODE_TAGGED:
            raise ValueError(f"a cell begins with {cell[:1]!r}")
        (value,) = decode_tagged(body)
        return Beyond(value if self._settle is None else self._settle(value))


def _cell(value: V) -> bytes:
    if isinstance(value, Beyond):
        cell = MODE_TAGGED + encode_tagged([value.plain])
    else:
        cell = MODE_TYPED + pack([value])
    if len(cell) > _CELL_MAX:
        raise UsageError(f"a value takes {len(cell)} bytes, and a cell holds {_CELL_MAX}; store it in parts")
    return cell
