"""Rules of functions that join texts, and that measure them."""

from __future__ import annotations

from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from headgate.relational.functions.kernels import repeated
from headgate.relational.functions.strings.parts import text_or_bytes
from headgate.relational.resolved import Values
from headgate.relational.rules import Rule, Signature, Types, add, converts_by_itself

FAMILY: Final = "strings"
_TEXT: Final = pa.string()
_INT: Final = pa.int32()


def _length(_result: pa.DataType, text: Values) -> Values:
    return pc.cast(pc.binary_length(text) if pa.types.is_binary(text.type) else pc.utf8_length(text), _INT)


def _octets(_result: pa.DataType, text: Values) -> Values:
    return pc.cast(pc.binary_length(text), _INT)


def _bits(_result: pa.DataType, text: Values) -> Values:
    return pc.multiply(_octets(_result, text), pa.scalar(8, _INT))


def _joined_by(given: Types) -> Signature | None:
    if not given or not converts_by_itself(given[0], _TEXT):
        return None
    kinds = [kind if _is_texts(kind) else _TEXT for kind in given[1:]]
    fits = all(map(converts_by_itself, given[1:], kinds))
    return Signature((_TEXT, *kinds), _TEXT) if fits else None


def _is_texts(kind: pa.DataType) -> bool:
    return bool(pa.types.is_list(kind) and pa.types.is_string(kind.value_type))


def _concat_ws(result: pa.DataType, delimiter: Values, *texts: Values) -> Values:
    rows = next((len(value) for value in (delimiter, *texts) if isinstance(value, pa.Array)), None)
    if not texts:
        return pc.if_else(pc.is_null(delimiter), delimiter, pa.scalar("", _TEXT))
    if any(isinstance(each, pa.Array) for each in texts) and not any(map(_has_arrays, texts)):
        # Arrow leaves out rows of which all texts are null, instead of giving them an empty one.
        first = pc.if_else(pc.is_null(pc.coalesce(*texts)), pa.scalar("", _TEXT), texts[0])
        return pc.binary_join_element_wise(first, *texts[1:], delimiter, null_handling="skip")
    columns = [repeated(each, 1 if rows is None else rows).to_pylist() for each in (delimiter, *texts)]
    found = pa.array([_joined(*row) for row in zip(*columns, strict=True)], result)
    return found[0] if rows is None else found


def _has_arrays(values: Values) -> bool:
    return bool(pa.types.is_list(values.type))


def _joined(delimiter: str | None, *texts: str | list[str | None] | None) -> str | None:
    pieces = [piece for text in texts for piece in (text if isinstance(text, list) else [text])]
    return None if delimiter is None else delimiter.join(piece for piece in pieces if piece is not None)


def _register() -> None:
    some = "a text or bytes"
    for name, kernel in (("length", _length), ("octet_length", _octets), ("bit_length", _bits)):
        add(Rule(name, FAMILY, text_or_bytes(result=_INT), kernel, some))
    add(Rule("concat_ws", FAMILY, _joined_by, _concat_ws, "a delimiter, and texts or arrays of texts"))


_register()
