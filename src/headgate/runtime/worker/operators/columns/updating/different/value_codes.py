"""Values of a column as integers, equal ones as equal integers, and back."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np
import pyarrow as pa

from headgate.relational.aggregating.lists import alike
from headgate.runtime.worker.operators.columns.updating.by_key.appended_rows import Piece, taken
from headgate.runtime.worker.operators.columns.updating.by_key.key_numbers import KeyNumbers

if TYPE_CHECKING:
    from headgate.records.batch import Int64s

Decode: TypeAlias = Callable[["Int64s"], pa.Array]
"""Gives the values of integers."""

_VALUE: Final = "value"


class ValueCodes:
    """Integers for values of type `kind`, none of which is null: their bits where these are few enough, else
    their place in the order in which they came first.
    """

    def __init__(self, kind: pa.DataType) -> None:
        self._kind, self._bits = kind, _bits_of(kind)
        # The bits of decimals are texts of 16 bytes.
        text = pa.binary(16) if pa.types.is_decimal(kind) else kind
        self._schema = pa.schema([pa.field(_VALUE, text)])
        self._numbers = None if self._bits is not None else KeyNumbers(self._schema)

    def of(self, values: pa.Array) -> Int64s:
        """Return the integer of each value; new values get one."""
        if self._bits is not None:
            return _integers(values, self._bits)
        assert self._numbers is not None
        texts = values.view(self._schema.field(0).type)
        return self._numbers.of(pa.Table.from_arrays([texts], schema=self._schema))

    def decoder(self) -> Decode:
        """Return what gives the values of integers, all of which are known now."""
        kind = self._kind
        if (bits := self._bits) is not None:
            return lambda codes: _values(codes, bits, kind)
        assert self._numbers is not None
        schema, pieces = self._schema, self._numbers.view()
        return lambda codes: _of_pieces(pieces, codes, schema, kind)


def _bits_of(kind: pa.DataType) -> pa.DataType | None:
    if pa.types.is_boolean(kind):
        return pa.int8()
    if pa.types.is_integer(kind):
        return kind
    if pa.types.is_floating(kind) or pa.types.is_timestamp(kind) or pa.types.is_date32(kind):
        return {16: pa.int16(), 32: pa.int32(), 64: pa.int64()}[kind.bit_width]
    return None


def _integers(values: pa.Array, bits: pa.DataType) -> Int64s:
    if pa.types.is_boolean(values.type):
        values = values.cast(bits)
    elif values.type != bits:
        values = alike(values).view(bits)
    found: Int64s = values.to_numpy(zero_copy_only=False).astype(np.int64, copy=False)
    return found


def _values(codes: Int64s, bits: pa.DataType, kind: pa.DataType) -> pa.Array:
    found = pa.array(codes.astype(bits.to_pandas_dtype(), copy=False))
    if pa.types.is_boolean(kind):
        return found.cast(kind)
    return found if kind == bits else found.view(kind)


def _of_pieces(pieces: list[Piece], codes: Int64s, schema: pa.Schema, kind: pa.DataType) -> pa.Array:
    return taken(pieces, codes, schema).column(0).combine_chunks().view(kind)
