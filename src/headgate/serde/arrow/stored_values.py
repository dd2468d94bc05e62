"""Decodes stored batches to plain values and back by their description, without the program's classes.

A plain value is the form that msgpack stores: rows are sequences, and what msgpack has no type for stays in
its extension types. A batch that the serializer had to write in its tagged mode is brought into the same
shape; a single value that needs that mode itself is marked as :class:`Beyond`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar

import msgspec

from headgate.common.decoders import UNDECODABLE
from headgate.common.errors import StorageError
from headgate.common.plain_data import Description, mapping_in, mappings_in, named_mappings_in, text_in
from headgate.serde.codecs.containers import DIRECT_KEYS, apply_each
from headgate.serde.codecs.dynamic import decode_tagged, encode_tagged, to_tagged
from headgate.serde.codecs.type_codec import Convert, keep
from headgate.serde.codecs.unions import skip_none
from headgate.serde.descriptions import DIRECT, optional_of

V = TypeVar("V")

MODE_TYPED: Final = b"\x00"
MODE_TAGGED: Final = b"\x01"
SEQUENCES: Final = frozenset({"list", "set", "frozenset", "tuple_of"})
ROWS: Final = frozenset({"dataclass", "attrs", "struct", "namedtuple"})
"""Kinds of records that are stored as the row of their fields."""

pack: Final = msgspec.msgpack.Encoder().encode
unpack: Final = msgspec.msgpack.Decoder().decode
"""Decodes msgpack without a hook, so that extension types stay undecoded."""


@dataclass(frozen=True, slots=True)
class Beyond:
    """A value that msgpack cannot hold as it is: with an int beyond 64 bits or a lone surrogate in it."""

    plain: Any


def is_open(stored: Description) -> bool:
    return bool(stored["kind"] != "custom")


def open_batch(stored: Description, data: bytes | memoryview, count: int) -> list[Any]:
    """Return a stored batch's `count` plain values, as msgpack has them; StorageError if it is damaged.

    Example:
        >>> from headgate.serde.resolve import serializer_for
        >>> pairs = serializer_for(tuple[int, str])
        >>> open_batch(pairs.describe(), pairs.encode_many([(1, "a"), (2**64, "b")]), 2)
        [(1, 'a'), Beyond(plain=(18446744073709551616, 'b'))]
    """
    view = memoryview(data)
    try:
        values: list[Any] = _open(stored, bytes(view[:1]), view[1:])
    except UNDECODABLE as error:
        raise StorageError(f"a stored batch of {stored['kind']!s} cannot be taken apart ({error})") from None
    if type(values) is not list or len(values) != count:
        raise StorageError(f"a stored batch of {stored['kind']!s} does not hold {count} values")
    return values


def _open(stored: Description, mode: bytes, body: memoryview) -> Any:
    if mode == MODE_TYPED:
        return unpack(body)
    if mode != MODE_TAGGED:
        raise ValueError(f"mode {mode!r} is unknown")
    if stored["kind"] == "any":  # the dynamic codec's batch of tuples
        return [to_tagged(tuple(row)) for row in unpack(body)]
    return [within(value) for value in map(settling(stored) or keep, decode_tagged(body))]


def close_batch(stored: Description, values: Sequence[V]) -> bytes:
    """Return plain values, as :func:`open_batch` gives them, as the bytes of a batch.
    The serializer with the description `stored` reads them. The number of values is not in them.
    """
    if not any(type(value) is Beyond for value in values):
        return MODE_TYPED + pack(values)
    settle = settling(stored) or keep
    plain = [value.plain if isinstance(value, Beyond) else settle(value) for value in values]
    return MODE_TAGGED + encode_tagged(plain)


def within(settled: V) -> V | Beyond:
    try:
        pack(settled)
    except (OverflowError, UnicodeEncodeError):
        return Beyond(settled)
    return settled


# -- both modes in one shape


def settling(stored: Description) -> Convert | None:
    """Return a converter of plain values to the shape that both modes of batches encode; None: none needed.
    The modes are typed (msgpack's own types) and tagged (with its extension types).

    Rows become tuples, which the tagged mode keeps apart from lists, and values of type Any become tagged
    ones, which encoding leaves as they are.
    """
    kind = text_in(stored, "kind")
    if kind in SEQUENCES:
        return _mapping(settling(mapping_in(stored, "of")))
    if kind in ROWS:
        return _fields(stored)
    made = _SETTLING.get(kind)
    return None if made is None else made(stored)


def _mapping(convert: Convert | None) -> Convert | None:
    return None if convert is None else lambda values: [convert(value) for value in values]


def _row(converts: list[Convert | None]) -> Convert:
    return lambda row: tuple(
        value if convert is None else convert(value) for value, convert in zip(row, converts, strict=True)
    )


def _fields(stored: Description) -> Convert:
    return _row([settling(field) for field in named_mappings_in(stored, "fields").values()])


def _dict(stored: Description) -> Convert | None:
    stored_key = mapping_in(stored, "key")
    key, value = settling(stored_key), settling(mapping_in(stored, "value"))
    if stored_key["kind"] not in DIRECT_KEYS:
        return _mapping(_row([key, value]))
    return None if value is None else lambda entries: {k: value(v) for k, v in entries.items()}


def _typed_dict(stored: Description) -> Convert:
    converts = {name: settling(field) for name, field in named_mappings_in(stored, "fields").items()}

    return lambda entries: apply_each(converts, entries)


def _union(stored: Description) -> Convert | None:
    members = mappings_in(stored, "of")
    if {text_in(one, "kind") for one in members} <= DIRECT:
        return None
    member = optional_of(stored)
    if member is not None:
        convert = settling(member)
        return convert and skip_none(convert)
    converts = [settling(one) for one in members]

    def settle(tagged: tuple[int, V]) -> tuple[int, V]:
        place, value = tagged
        convert = converts[place]
        return place, value if convert is None else convert(value)

    return settle


_SETTLING: Final[dict[str, Callable[[Description], Convert | None]]] = {
    "any": lambda _: to_tagged,
    "tuple": lambda stored: _row([settling(part) for part in mappings_in(stored, "of")]),
    "model": lambda stored: _row([_fields(stored), None]),
    "typeddict": _typed_dict,
    "dict": _dict,
    "union": _union,
    "literal": lambda stored: settling(mapping_in(stored, "of")),
}
