"""Encodes records for other workers that are neither plain values nor of a type declared by annotations.

Records of one class with annotated fields, and members of one enumeration, are encoded as in state, after a
reference to their class. All others are pickled. A type that is encoded slowly is reported once.
"""

from __future__ import annotations

import logging
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final, TypeVar

from headgate.common.errors import UsageError
from headgate.common.keys.key_types import hint_words
from headgate.common.ports import UserCode
from headgate.common.process.same_interpreter import SAME_INTERPRETER
from headgate.serde.codecs.dynamic import DynamicSerializer
from headgate.serde.codecs.field_rows import FieldRows, field_rows
from headgate.serde.codecs.pickled import (
    ClassNames,
    ShippedClasses,
    decode_class,
    decode_rows,
    encode_class,
    encode_rows,
)
from headgate.serde.resolve import composite_serializer, record_serializer
from headgate.serde.serializer import TypeSerializer

T = TypeVar("T")

_log: Final = logging.getLogger(__name__)
_HEAD: Final = struct.Struct("<BI")
_PICKLED, _BY_FIELD, _SCALARS = 0, 1, 2
_DEPTH_MAX: Final = 8
_PLAIN: Final = DynamicSerializer()

ReportSlowness = Callable[[str, bool], None]
"""Called with the name of a type whose records are encoded slowly, and whether they are pickled."""


def slowness(name: str, pickled: bool) -> str:
    if pickled:
        return (
            f"records of type {name} are pickled on their way between workers, which takes about three times"
            " as long as sending them by field and more than five times as long as plain tuples; emit plain "
            "values, or a dataclass, NamedTuple or msgspec.Struct with a serializable type for each field"
        )
    return (
        f"records of type {name} go value by value between workers, as state does: 5 to 12 microseconds for "
        "one of three fields, in place of one; where that counts, emit a dataclass, attrs class, NamedTuple "
        "or msgspec.Struct whose fields hold numbers, texts, bytes or None"
    )


def log_slowness(name: str, pickled: bool) -> None:
    _log.log(logging.WARNING if pickled else logging.INFO, "%s", slowness(name, pickled))


@dataclass(frozen=True, slots=True)
class _Known:
    """A class whose records are encoded by field, with its serializers."""

    reference: bytes  # to the class, as sent before the records
    serializer: TypeSerializer[Any]
    fields: FieldRows | None  # fast codec for fields with scalar values; None if the class has others
    by_value: bool  # whether the serializer visits each value of a record, which is slow


class UndeclaredRows:
    """Encodes and decodes records of types that the program does not declare, for a worker's exchanges."""

    def __init__(
        self,
        code: UserCode = SAME_INTERPRETER,  # the modules with the program's classes in this process
        program: bytes = b"",  # the shipped program; empty where sender and receiver share a process
        report: ReportSlowness = log_slowness,
    ) -> None:
        self._code, self._report = code, report
        self._names: ClassNames | None = ShippedClasses(code.pickler(), program) if program else None
        self._known: dict[type, _Known | None] = {}
        self._received: dict[bytes, _Known] = {}
        self._pickled, self._reported = set[type](), set[str]()

    def encode(self, rows: Sequence[T]) -> list[bytes]:
        """Return a batch of records as the parts of a payload; UsageError if they cannot even be pickled."""
        kinds = set(map(type, rows))
        known = self._known_of(next(iter(kinds))) if len(kinds) == 1 else None
        if known is not None:
            scalars = None if known.fields is None else known.fields.encode(rows)
            if scalars is not None:
                return [_HEAD.pack(_SCALARS, len(known.reference)), known.reference, scalars]
            try:
                body = known.serializer.encode_checked(rows)
                if known.by_value:
                    self.report_once(type(rows[0]), pickled=False)
                return [_HEAD.pack(_BY_FIELD, len(known.reference)), known.reference, body]
            except UsageError:
                pass  # A field holds a value of another type than its annotation.
        if fresh := kinds - self._pickled:
            self._pickled |= fresh
            for culprit in _culprits(rows, fresh):
                self.report_once(culprit, pickled=True)
        return [_HEAD.pack(_PICKLED, 0), self._code.call(encode_rows, rows, self._names)]

    def report_once(self, kind: Any, pickled: bool) -> None:
        name = _name_of(kind)
        if name not in self._reported:
            self._reported.add(name)
            self._report(name, pickled)

    def decode(self, payload: memoryview, count: int) -> list[Any]:
        """Return the `count` records of a payload that :meth:`encode` made in another worker of the job. It
        may unpickle, so the sender must be authenticated. UsageError: a field's type is unknown here.
        """
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
            by_value = serializer is not None
            if serializer is None and issubclass(cls, Enum):
                serializer = composite_serializer(cls)
            found = None
            if serializer is not None:
                reference = self._code.call(encode_class, cls, self._names)
                found = _Known(reference, serializer, field_rows(cls), by_value)
            self._known[cls] = found
        return self._known[cls]


def _culprits(rows: Sequence[T], kinds: set[type]) -> list[type]:
    one = {type(row): row for row in rows}
    return sorted({_culprit(one[kind]) or kind for kind in kinds}, key=_name_of)


def _culprit(value: Any, depth: int = 0) -> type | None:
    if type(value) is dict:
        value = [*value.keys(), *value.values()]
    if type(value) not in (tuple, list, set, frozenset):
        try:
            _PLAIN.encode_many([value])
        except UsageError:
            return type(value)
        return None
    if depth >= _DEPTH_MAX:
        return None
    return next(filter(None, (_culprit(one, depth + 1) for one in value)), None)


def _name_of(kind: Any) -> str:
    return f"{kind.__module__}.{kind.__qualname__}" if isinstance(kind, type) else hint_words(kind)
