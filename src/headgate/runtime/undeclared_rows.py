"""Records between workers whose type no annotation of the stream declares and that are no plain values.

Records of one class with annotated fields travel by field, in front of them a reference to their class.
Everything else is pickled, which costs several times as much; this is logged once for each type.
"""

from __future__ import annotations

import logging
import struct
from collections.abc import Sequence
from typing import Any, Final

from headgate.common.errors import UsageError
from headgate.common.ports import UserCode
from headgate.common.same_interpreter import SAME_INTERPRETER
from headgate.serde.pickled import (
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
_PICKLED, _BY_FIELD = 0, 1


class UndeclaredRows:
    """Encodes and decodes such records for all exchanges of one worker.

    Args:
        code: where the classes of the program live in this process.
        program: the bytes that the program came in; empty where sender and receiver share a process.
    """

    def __init__(self, code: UserCode = SAME_INTERPRETER, program: bytes = b"") -> None:
        self._code = code
        self._names: ClassNames | None = ShippedClasses(code.pickler(), program) if program else None
        self._serializers: dict[type, tuple[bytes, TypeSerializer[Any]] | None] = {}
        self._received: dict[bytes, TypeSerializer[Any]] = {}
        self._reported: set[type] = set()

    def encode(self, rows: Sequence[Any]) -> list[bytes]:
        """Encode a batch.

        Raises:
            UsageError: a record cannot be pickled.
        """
        kinds = set(map(type, rows))
        if len(kinds) == 1:
            known = self._of_class(next(iter(kinds)))
            if known is not None:
                reference, serializer = known
                try:
                    body = serializer.encode_checked(rows)
                    return [_HEAD.pack(_BY_FIELD, len(reference)), reference, body]
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
            self._received[reference] = _fields_of(cls)
        return self._received[reference].decode_many(body[length:], count)

    def _of_class(self, cls: type) -> tuple[bytes, TypeSerializer[Any]] | None:
        if cls not in self._serializers:
            serializer = record_serializer(cls)
            found = None
            if serializer is not None:
                found = self._code.call(encode_class, cls, self._names), serializer
            self._serializers[cls] = found
        return self._serializers[cls]

    def _report(self, kinds: set[type]) -> None:
        self._reported |= kinds
        for kind in sorted(kinds, key=lambda cls: cls.__qualname__):
            _log.warning(
                "records of type %s.%s are pickled on their way between workers, which takes about ten times "
                "as long as sending them by field; emit plain values, or a dataclass, NamedTuple or "
                "msgspec.Struct with a serializable type for each field",
                kind.__module__,
                kind.__qualname__,
            )


def _fields_of(cls: type) -> TypeSerializer[Any]:
    serializer = record_serializer(cls)
    if serializer is None:
        raise UsageError(
            f"{cls.__module__}.{cls.__qualname__} has no fields here that a serializer is known for"
        )
    return serializer
