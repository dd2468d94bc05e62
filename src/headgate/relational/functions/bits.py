"""Rules of bits of whole numbers: `& | ^`, shifts, counts; distances of shifts wrap as in Java."""

from __future__ import annotations

from functools import partial
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headgate.relational.functions.kernels import missing, refuse, wholes, with_arrays
from headgate.relational.resolved import Values
from headgate.relational.rules import Judge, Kernel, Rule, Signature, Types, add
from headgate.relational.spark_types import common_number, is_integer, is_numeric

FAMILY: Final = "bits"
_BYTE: Final = pa.int8()
_INT: Final = pa.int32()
_NO_INTEGER: Final = "whole numbers"


def _integer(kind: pa.DataType, at_least_int: bool = False) -> pa.DataType | None:
    if pa.types.is_null(kind):
        return _INT
    if not is_integer(kind):
        return None
    return _INT if at_least_int and kind != pa.int64() else kind


def _pair(given: Types) -> Signature | None:
    if len(given) != 2 or None in (found := [_integer(kind) for kind in given]):
        return None
    left, right = (found[1 - place] if pa.types.is_null(kind) else kind for place, kind in enumerate(given))
    kind = common_number(left, right)
    return Signature((kind, kind), kind)


def _one(result: pa.DataType | None = None) -> Judge:
    def judge(given: Types) -> Signature | None:
        kind = _integer(given[0]) if len(given) == 1 else None
        return None if kind is None else Signature((kind,), result or kind)

    return judge


def _counted(given: Types) -> Signature | None:
    if len(given) == 1 and pa.types.is_boolean(given[0]):
        return Signature(given, _INT)
    return _one(_INT)(given)


def _shifted(given: Types) -> Signature | None:
    if len(given) != 2 or not (is_numeric(given[1]) or pa.types.is_null(given[1])):
        return None
    kind = _integer(given[0], at_least_int=True)
    return None if kind is None else Signature((kind, _INT), kind)


def _place(given: Types) -> Signature | None:
    found = _one(_BYTE)(given[:1])
    if found is None or len(given) != 2 or not (is_numeric(given[1]) or pa.types.is_null(given[1])):
        return None
    return Signature((*found.arguments, _INT), _BYTE)


def _count(result: pa.DataType, value: pa.Array) -> pa.Array:
    # A negative number counts as 64 bits, whatever its type.
    plain = wholes(value).view(np.uint64)
    return pa.array(np.bitwise_count(plain), result, mask=missing(value))


def _get(result: pa.DataType, value: pa.Array, place: pa.Array) -> pa.Array:
    bad = pc.or_(pc.less(place, 0), pc.greater_equal(place, value.type.bit_width))
    refuse(
        pc.and_(bad, pc.is_valid(value)),
        "INVALID_PARAMETER_VALUE.BIT_POSITION_RANGE",
        f"a position of bits is not in 0..{value.type.bit_width - 1}",
    )
    plain = wholes(value) >> wholes(place)
    return pa.array((plain & 1).astype(np.int8), result, mask=missing(value, place))


def _shift(direction: str, result: pa.DataType, value: pa.Array, distance: pa.Array) -> pa.Array:
    # Numbers are moved as those of their own width.
    width, kind = value.type.bit_width, result.to_pandas_dtype()
    plain, by = wholes(value), wholes(distance) & (width - 1)
    if direction == "left":
        found = plain << by
    elif direction == "right":
        found = plain >> by
    else:
        unsigned = plain if width == 64 else plain & 0xFFFFFFFF
        found = (unsigned.view(np.uint64) >> by.view(np.uint64)).view(np.int64)
    return pa.array(found.astype(kind), result, mask=missing(value, distance))


def _arrow(name: str) -> Kernel:
    def kernel(_result: pa.DataType, *values: Values) -> Values:
        return getattr(pc, name)(*values)

    return kernel


def _register() -> None:
    for name, kernel in (("&", "bit_wise_and"), ("|", "bit_wise_or"), ("^", "bit_wise_xor")):
        add(Rule(name, FAMILY, _pair, _arrow(kernel), f"two {_NO_INTEGER}"))
    add(Rule("bitwise_not", FAMILY, _one(), _arrow("bit_wise_not"), "a whole number"))
    add(Rule("bit_count", FAMILY, _counted, with_arrays(_count), "a whole number or a truth value"))
    takes = "a whole number and the place of a bit"
    add(Rule("bit_get", FAMILY, _place, with_arrays(_get), takes, fails=True))
    for name in ("left", "right", "rightunsigned"):
        shift = with_arrays(partial(_shift, name))
        add(Rule(f"shift{name}", FAMILY, _shifted, shift, "a whole number and how far it is moved"))


_register()
