"""A form, the codec of one type: how its values become what msgspec encodes, and back; and its serializer."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Generic, NamedTuple, TypeAlias, TypeVar

from headgate.common.decoders import UNDECODABLE, msgpack_decoder
from headgate.common.errors import StorageError, UsageError
from headgate.common.hints import Hint
from headgate.common.plain_data import Plain
from headgate.serde.codecs.dynamic import (
    NotPlainError,
    as_plain,
    decode_tagged,
    encode_tagged,
    untag,
    with_mode,
)
from headgate.serde.codecs.dynamic import keep as keep
from headgate.serde.described_snapshot import DescribedSnapshot
from headgate.serde.serializer import Buffer, TypeSerializer, TypeSerializerSnapshot

T = TypeVar("T")
P = TypeVar("P")

_MODE_TYPED: Final = 0
_MODE_TAGGED: Final = 1

Convert = Callable[[Any], Any]


class Constant(Generic[T]):
    """A default that is one value: calling it gives a copy, because records must not share the value."""

    __slots__ = ("copy", "value")

    def __init__(self, value: T, copy: Callable[[T], T]) -> None:
        self.value, self.copy = value, copy

    def __call__(self) -> T:
        return self.copy(self.value)


class Field(NamedTuple):
    """A field of a record class, as the program declares it: its name, codec, former names, and default.
    `default` makes the value of records that were stored without the field; None: such records are refused.
    """

    name: str
    form: Form
    former: tuple[str, ...] = ()  # its earlier names
    default: Callable[[], Any] | None = None  # makes the value of records that were stored without it


class Record(NamedTuple):
    """A record class as older records are read: logical and former names, fields, maker from their values."""

    names: tuple[str, ...]  # logical name of the class, then its earlier ones
    fields: tuple[Field, ...]  # in the order of the description
    build: Convert  # makes an instance of values in this order


@dataclass(frozen=True, slots=True)
class Form:
    """Codec of one type: its stored description, and the conversions to what msgspec encodes and back.
    `to_plain` makes of a value what msgspec encodes as type `wire`, `from_plain` goes back; None: no change.
    A union chooses by the exact `classes` of values; `guests` are further ones that type checkers accept (int
    for float). `copy` makes a copy; `inner` are the codecs of elements, of key and value, or alternatives.
    """

    name: str  # the type as a program writes it, for messages
    description: dict[str, Plain]  # kind, version and parameters, as stored with the bytes
    wire: Hint  # the type that msgspec decodes
    to_plain: Convert | None = None  # from the value to what msgspec encodes as `wire`; None: it is the value
    from_plain: Convert | None = None  # the way back
    classes: frozenset[type] = frozenset()  # the exact classes of its values, by which unions choose
    guests: frozenset[type] = frozenset()
    immutable: bool = True  # a value can never be changed in place
    copy: Convert = field(default=keep)  # makes a copy that changes in place do not reach
    inner: tuple[Form, ...] = ()  # forms of the parts: elements, key and value, or alternatives
    record: Record | None = None


def describe(kind: str, **parameters: Plain) -> dict[str, Plain]:
    return {"kind": kind, "version": 1, **parameters}


def copier(immutable: bool, elements_immutable: bool) -> Convert:
    """Return a copy function: none if `immutable`, shallow if the values' elements are, deep otherwise."""
    if immutable:
        return keep
    return copy.copy if elements_immutable else copy.deepcopy


Made: TypeAlias = tuple[Callable[..., TypeSerializer[T]], tuple[Hint, ...]]


class FormSerializer(TypeSerializer[T]):
    """Serializer of a type by its codec (:class:`Form`): a batch is one byte of mode and msgpack.
    An int beyond 64 bits or a lone surrogate puts its batch into the slower tagged mode. `made` is the
    function that makes the serializer in another process, and its arguments; None: TypeError if pickled.
    """

    def __init__(self, form: Form, made: Made[T] | None = None) -> None:
        self.form, self._made = form, made
        self.name, self.immutable = form.name, form.immutable
        self._decode = msgpack_decoder(list[form.wire], ext_hook=untag).decode  # type: ignore[name-defined]

    def __reduce__(self) -> Made[T]:
        # A form is made of functions and decoders, which cannot be shipped. Its annotation can.
        if self._made is None:
            raise TypeError(f"the reader of stored {self.name} stays in its process")
        return self._made

    def encode_many(self, values: Sequence[T]) -> bytes:
        to_plain = self.form.to_plain
        try:
            return self.encode_plain(
                list(values) if to_plain is None else [to_plain(value) for value in values]
            )
        except (TypeError, AttributeError, KeyError, ValueError, RecursionError) as error:
            raise UsageError(
                f"a value does not fit its type {self.name} ({type(error).__name__}: {error})"
            ) from None

    def encode_plain(self, plain: list[P]) -> bytes:
        """Return the bytes of a batch of values that the caller has converted as `form.to_plain` does.
        UsageError or TypeError for values that msgpack cannot hold in either mode.
        """
        return plain_bytes(plain)

    def decode_many(self, data: Buffer, count: int) -> list[T]:
        view, from_plain = memoryview(data), self.form.from_plain
        try:
            if view[0] > _MODE_TAGGED:
                raise ValueError(f"mode {view[0]} is unknown")
            plain = self._decode(view[1:]) if view[0] == _MODE_TYPED else decode_tagged(view[1:])
            if type(plain) is not list:  # bytes of the tagged mode hold values of any type
                raise TypeError(f"a batch is a list; got {type(plain).__name__}")
            values = plain if from_plain is None else [from_plain(value) for value in plain]
        except UNDECODABLE as error:
            raise StorageError(f"stored values do not decode as {self.name} ({error})") from None
        if len(values) != count:
            raise StorageError(f"a batch of {self.name} holds {len(values)} values; expected {count}")
        return values

    def encode_checked(self, values: Sequence[T]) -> bytes:
        # Scalars are checked by their class, which is faster than decoding them.
        if self.form.description["kind"] in _EXACT:
            classes = self.form.classes | self.form.guests
            if set(map(type, values)) <= classes:
                return self.encode_many(values)
            wrong = next(value for value in values if type(value) not in classes)
            raise UsageError(
                f"{wrong!r:.80} of type {type(wrong).__qualname__} is not a {self.name}; "
                "correct the value, or the annotation that declares it"
            )
        try:
            return super().encode_checked(values)
        except UsageError as error:
            raise self._misfit(values, error) from None

    def describe(self) -> dict[str, Plain]:
        return self.form.description

    def snapshot(self) -> TypeSerializerSnapshot[T]:
        return DescribedSnapshot(self.form.description, self)

    def copy(self, value: T) -> T:
        return self.form.copy(value)  # type: ignore[no-any-return]


def plain_bytes(plain: list[P]) -> bytes:
    """Return the bytes of a batch of any codec's values, which the caller has converted by its `to_plain`.
    They are msgpack of the values, tagged if an int is beyond 64 bits or text has a lone surrogate.
    """
    try:
        return with_mode(_MODE_TYPED, plain)
    except (OverflowError, UnicodeEncodeError):
        return bytes((_MODE_TAGGED,)) + _tagged(plain)


def _tagged(plain: list[T]) -> bytes:
    try:
        return encode_tagged(plain)
    except NotPlainError:
        # The typed mode takes more classes; whether it is used must not depend on the other values.
        return encode_tagged(as_plain(plain))


_EXACT: Final = frozenset({"none", "bool", "int", "float", "str", "bytes"})
"""Kinds whose values are fully checked by looking at their classes."""
