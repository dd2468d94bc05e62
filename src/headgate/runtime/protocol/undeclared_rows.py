"""Records between workers whose type no annotation of the stream declares and that are no plain values.

Records of one class with annotated fields travel by field, in front of them a reference to their class.
Everything else is pickled, which is logged once for each type.
"""

from __future__ import annotations

import logging
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from headgate.common.errors import UsageError
from headgate.common.ports import UserCode
from headgate.common.process.same_interpreter import SAME_INTERPRETER
from headgate.serde.codecs.field_rows import FieldRows, field_rows
from headgate.serde.codecs.pickled import (
    ClassNames,
    ShippedClasses,
    decode_class,
    decode_rows,
    encode_class,
    encode_rows,
)
from headgate.serde.resolve import record_serializer
from headgate.serde.serializer import TypeSerializer

_log: Final = logging.getLogger(__name__)
_HEAD: Final = struct.Struct("<BI")
_PICKLED, _BY_FIELD, _SCALARS = 0, 1, 2


@dataclass(frozen=True, slots=True)
class _Known:
    """A class whose records travel by field.

    Attributes:
        reference: to the class, as it is sent.
        serializer: of its records.
        fields: for records whose values are scalars; None where the class cannot be read so.
    """

    reference: bytes
    serializer: TypeSerializer[Any]
    fields: FieldRows | None


class UndeclaredRows:
    """Encodes and decodes such records for all exchanges of one worker.

    Args:
        code: where the classes of the program live in this process.
        program: the bytes that the program came in; empty where sender and receiver share a process.
    """

    def __init__(self, code: UserCode = SAME_INTERPRETER, program: bytes = b"") -> None:
        self._code = code
        self._names: ClassNames | None = ShippedClasses(code.pickler(), program) if program else None
        self._known: dict[type, _Known | None] = {}
        self._received: dict[bytes, _Known] = {}
        self._reported: set[type] = set()

    def encode(self, rows: Sequence[Any]) -> list[bytes]:
        """Encode a batch.

        Raises:
            UsageError: a record cannot be pickled.
        """
        kinds = set(map(type, rows))
        known = self._known_of(next(iter(kinds))) if len(kinds) == 1 else None
        if known is not None:
            scalars = None if known.fields is None else known.fields.encode(rows)
            if scalars is not None:
                return [_HEAD.pack(_SCALARS, len(known.reference)), known.reference, scalars]
            try:
                body = known.serializer.encode_checked(rows)
                return [_HEAD.pack(_BY_FIELD, len(known.reference)), known.reference, body]
            except UsageError:
                pass  # A field holds something else than its annotation says.
        self._report(kinds - self._reported)
        return [_HEAD.pack(_PICKLED, 0), self._code.call(encode_rows, rows, self._names)]

    def decode(self, payload: memoryview, count: int) -> list[Any]:
        """Decode a batch of `count` records, from an authenticated worker of the same attempt."""
        form, length = _HEAD.unpack_from(payload)
        body = payload[_HEAD.size :]
        if form == _PICKLED:
            return self._code.call(decode_rows, body, self._names)
        reference = bytes(body[:length])
        if reference not in self._received:
            cls = self._code.call(decode_class, reference, self._names)
            known = self._known_of(cls)
            if known is None:
                raise UsageError(
                    f"{cls.__module__}.{cls.__qualname__} has a field here that no serializer is known for"
                )
            self._received[reference] = known
        known = self._received[reference]
        if form == _SCALARS and known.fields is not None:
            return known.fields.decode(body[length:], count)
        return known.serializer.decode_many(body[length:], count)

    def _known_of(self, cls: type) -> _Known | None:
        if cls not in self._known:
            serializer = record_serializer(cls)
            found = None
            if serializer is not None:
                reference = self._code.call(encode_class, cls, self._names)
                found = _Known(reference, serializer, field_rows(cls))
            self._known[cls] = found
        return self._known[cls]

    def _report(self, kinds: set[type]) -> None:
        self._reported |= kinds
        for kind in sorted(kinds, key=lambda cls: cls.__qualname__):
            _log.warning(
                "records of type %s.%s are pickled on their way between workers, which takes about twice as "
                "long as sending them by field and many times as long as plain tuples; emit plain values, or "
                "a dataclass, NamedTuple or msgspec.Struct with a serializable type for each field",
                kind.__module__,
                kind.__qualname__,
            )
