"""Encodes and decodes values that are stored each as a batch of one, many values at a time.

A store of single entries needs separate bytes for each value, and a call of the serializer per value costs
several times what msgspec takes. The bytes are those of :meth:`TypeSerializer.encode_many`.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import itemgetter
from typing import Final, Generic, TypeVar

import msgspec

from headgate.common.decoders import UNDECODABLE, msgpack_decoder
from headgate.serde.arrow.stored_values import MODE_TYPED
from headgate.serde.codecs.dynamic import untag
from headgate.serde.codecs.type_codec import FormSerializer
from headgate.serde.serializer import TypeSerializer

T = TypeVar("T")

_ONE: Final = MODE_TYPED + b"\x91"  # msgpack's head of a list of one
_mode_of: Final = itemgetter(0)
_encode: Final = msgspec.msgpack.Encoder().encode


class Singles(Generic[T]):
    """Encodes and decodes values with a serializer, each as a batch of its own."""

    def __init__(self, serializer: TypeSerializer[T]) -> None:
        self._serializer = serializer
        self._form = form = serializer.form if type(serializer) is FormSerializer else None
        if form is not None:
            self._decode = msgpack_decoder(list[form.wire], ext_hook=untag).decode  # type: ignore[name-defined]

    def encode(self, values: Sequence[T]) -> list[bytes]:
        """Return the bytes of each value, in order; UsageError for a value that cannot be encoded."""
        if self._form is not None:
            to_plain = self._form.to_plain
            try:
                plain = values if to_plain is None else map(to_plain, values)
                return [_ONE + body for body in map(_encode, plain)]
            except UNDECODABLE:
                pass  # one of them needs the tagged mode, or does not fit: the serializer's error says what
        encode = self._serializer.encode_many
        return [encode((value,)) for value in values]

    def decode(self, batches: Sequence[bytes]) -> list[T]:
        """Return the one value of each of `batches`, in order; StorageError if one does not decode."""
        if self._form is not None:
            from_plain, decode = self._form.from_plain, self._decode
            try:
                if set(map(_mode_of, batches)) <= {MODE_TYPED[0]}:
                    plain = [value for (value,) in [decode(data[1:]) for data in batches]]
                    return plain if from_plain is None else list(map(from_plain, plain))
            except UNDECODABLE:
                pass  # the serializer's error says what is wrong
        decode_one = self._serializer.decode_stored
        return [decode_one(data, 1)[0] for data in batches]
