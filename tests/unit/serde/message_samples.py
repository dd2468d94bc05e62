"""Protobuf classes without a compiler: a file is described in a few words and built in a pool of its own.

Two shapes of one message have one full name, which one pool would refuse.
"""

from __future__ import annotations

from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

TYPES = {
    "double": 1, "float": 2, "int64": 3, "uint64": 4, "int32": 5, "fixed64": 6, "fixed32": 7, "bool": 8,
    "string": 9, "bytes": 12, "uint32": 13, "sfixed32": 15, "sfixed64": 16, "sint32": 17, "sint64": 18,
}  # fmt: skip
LABELS = {"optional": 1, "required": 2, "repeated": 3}


def message(
    name: str = "Visit",
    /,
    *,
    package: str = "shop",
    syntax: str = "proto3",
    enums: dict[str, dict[str, int]] | None = None,
    others: dict[str, dict[str, str]] | None = None,
    **fields: str,
) -> Any:
    """A message class.

    Args:
        name: of the message.
        package: of its file.
        syntax: "proto2" or "proto3"; enumerations of the first are closed.
        enums: enumerations of the file.
        others: further messages of the file, as `fields`.
        fields: name -> "[label] type number [in oneof]", the type a scalar or a name of the file.
    """
    file = descriptor_pb2.FileDescriptorProto(name="shop.proto", package=package, syntax=syntax)
    for enum, members in (enums or {}).items():
        added = file.enum_type.add(name=enum)
        for member, number in members.items():
            added.value.add(name=member, number=number)
    for other, its_fields in {name: fields, **(others or {})}.items():
        _fill(file.message_type.add(name=other), its_fields, package, enums or {})
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(file.SerializeToString())
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{package}.{name}"))


def _fill(proto: Any, fields: dict[str, str], package: str, enums: dict[str, Any]) -> None:
    for field, text in fields.items():
        words = text.split()
        label = words.pop(0) if words[0] in LABELS else "optional"
        added = proto.field.add(name=field, number=int(words[1]), label=LABELS[label])
        if words[0] in TYPES:
            added.type = TYPES[words[0]]
        else:
            added.type = 14 if words[0] in enums else 11
            added.type_name = f".{package}.{words[0]}"
        if len(words) > 2:
            names = [one.name for one in proto.oneof_decl]
            if words[3] not in names:
                proto.oneof_decl.add(name=words[3])
                names.append(words[3])
            added.oneof_index = names.index(words[3])


def with_map() -> Any:
    """A message whose only field is a map from text to numbers."""
    file = descriptor_pb2.FileDescriptorProto(name="map.proto", package="shop", syntax="proto3")
    outer = file.message_type.add(name="Counts")
    entry = outer.nested_type.add(name="ByPageEntry")
    entry.options.map_entry = True
    entry.field.add(name="key", number=1, label=1, type=TYPES["string"])
    entry.field.add(name="value", number=2, label=1, type=TYPES["int64"])
    outer.field.add(name="by_page", number=1, label=3, type=11, type_name=".shop.Counts.ByPageEntry")
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(file.SerializeToString())
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("shop.Counts"))
