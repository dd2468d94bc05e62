"""Codecs (:class:`Form`) of Protobuf messages: stored as Protobuf's own bytes, described field by field.

A message class is recognised by its marks and Protobuf is never imported, as user code may come with its own
copy. The description lists every message that can be reached, by name, so that a message may contain itself
and a later program can judge the bytes without the class that wrote them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Protocol

from headgate.common.hints import Hint
from headgate.common.plain_data import Plain
from headgate.serde.codecs.primitives import exactly
from headgate.serde.codecs.type_codec import Form, copier, describe

Messages = dict[str, list[dict[str, Plain]]]

_TYPES: Final = {
    1: "double", 2: "float", 3: "int64", 4: "uint64", 5: "int32", 6: "fixed64", 7: "fixed32", 8: "bool",
    9: "string", 10: "group", 11: "message", 12: "bytes", 13: "uint32", 14: "enum", 15: "sfixed32",
    16: "sfixed64", 17: "sint32", 18: "sint64",
}  # fmt: skip
"""Field types by the numbers of Protobuf's descriptors, which are part of its format."""


class _Message(Protocol):
    """A message of the copy of Protobuf that the program brings."""

    def SerializeToString(self, *, deterministic: bool) -> bytes: ...  # noqa: N802 - Protobuf's name
    def DiscardUnknownFields(self) -> None: ...  # noqa: N802


def is_message(cls: Hint) -> bool:
    """Return whether a class is that of a Protobuf message type, not the base class of all messages."""
    return (
        isinstance(cls, type)
        and hasattr(getattr(cls, "DESCRIPTOR", None), "fields_by_number")
        and hasattr(cls, "SerializeToString")
        and hasattr(cls, "FromString")
    )


def message_form(cls: type) -> Form | None:
    """Return the codec (:class:`Form`) of a Protobuf message class; None for other classes."""
    if not is_message(cls):
        return None
    descriptor = cls.DESCRIPTOR  # type: ignore[attr-defined]
    messages: Messages = {}
    enums: dict[str, Plain] = {}
    _collect(descriptor, messages, enums)
    return Form(
        name=descriptor.full_name,
        description=describe("protobuf", name=descriptor.full_name, messages=messages, enums=enums),
        wire=bytes,
        to_plain=exactly(cls, _write),
        from_plain=reader(cls, keep_unknown=True),
        classes=frozenset({cls}),
        immutable=False,
        copy=copier(False, False),
    )


def reader(cls: Any, keep_unknown: bool) -> Callable[[bytes], _Message]:
    """Return a decoder of messages of `cls` (else ValueError); fields it lacks stay if `keep_unknown`."""

    def read(plain: bytes) -> _Message:
        try:
            message: _Message = cls.FromString(plain)
            if not keep_unknown:
                message.DiscardUnknownFields()
        except Exception as error:  # of whichever copy of Protobuf the class belongs to
            raise ValueError(f"Protobuf cannot read it: {error}") from None
        return message

    return read


def _write(message: _Message) -> bytes:
    try:
        return message.SerializeToString(deterministic=True)
    except Exception as error:  # as above
        raise ValueError(f"Protobuf cannot write it: {error}") from None


def _collect(descriptor: Any, messages: Messages, enums: dict[str, Plain]) -> None:
    fields: list[dict[str, Plain]] = []
    messages[descriptor.full_name] = fields
    for number in sorted(descriptor.fields_by_number):
        field = descriptor.fields_by_number[number]
        fields.append(_described(field))
        inner, enum = field.message_type, field.enum_type
        if inner is not None and inner.full_name not in messages:
            _collect(inner, messages, enums)
        if enum is not None and enum.full_name not in enums:
            # A closed enumeration sets numbers that it does not have aside when it is read.
            closed, numbers = bool(getattr(enum, "is_closed", False)), {value.number for value in enum.values}
            enums[enum.full_name] = {"closed": closed, "numbers": sorted(numbers)}


def _described(field: Any) -> dict[str, Plain]:
    found: dict[str, Plain] = {
        "number": field.number,
        "name": field.name,
        "type": _TYPES.get(field.type, str(field.type)),
        "label": _label(field),
    }
    named = field.message_type or field.enum_type
    if named is not None:
        found["of"] = named.full_name
    oneof = field.containing_oneof
    # An `optional` of proto3 stands alone in a oneof that the compiler made up.
    if oneof is not None and not (len(oneof.fields) == 1 and oneof.name.startswith("_")):
        found["oneof"] = oneof.name
    return found


def _label(field: Any) -> str:
    repeated, required = getattr(field, "is_repeated", None), getattr(field, "is_required", None)
    if repeated is None or required is None:  # before these, the label was a number
        repeated, required = field.label == field.LABEL_REPEATED, field.label == field.LABEL_REQUIRED
    if repeated:
        inner = field.message_type
        return "map" if inner is not None and inner.GetOptions().map_entry else "repeated"
    return "required" if required else "optional"
