"""The contract of serializers: values to bytes and back, and the snapshot that says what was written."""

from __future__ import annotations

import copy
import struct
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, Generic, TypeVar, cast

from headgate.common.errors import HeadgateError, StorageError, UsageError
from headgate.common.interruptions import let_pass
from headgate.common.users_frames import told_with_line
from headgate.serde.snapshot import TypeSerializerSnapshot
from headgate.serde.snapshot_wire import snapshot_to_bytes

T = TypeVar("T")

Buffer = bytes | bytearray | memoryview

_LENGTH_BYTES = 4


class _NameOfClass:
    """A serializer's name where it has none of its own: that of its class."""

    def __get__(self, _: object, owner: type) -> str:
        return owner.__qualname__


class TypeSerializer(ABC, Generic[T]):
    """Turns values of one type into bytes and back without loss.

    A subclass has :meth:`encode` and :meth:`decode` for one value, or :meth:`encode_many` and
    :meth:`decode_many` for a batch, which is faster; and :meth:`snapshot`. The bytes do not describe
    themselves: the snapshot is stored beside them, and judged at a restore. Instances hold no data of a
    value, may be used by several threads, and are shipped to the workers.

    Attributes:
        name: the type, for messages; the name of the class, if nothing else is said.
        immutable: whether values can never be changed in place. Where this cannot be known, False.

    Example:
        >>> import headgate as hg
        >>> class Celsius(hg.TypeSerializer[float]):
        ...     immutable = True
        ...     def encode(self, value):
        ...         return round(value * 10).to_bytes(2, "big", signed=True)
        ...     def decode(self, data):
        ...         return int.from_bytes(data, "big", signed=True) / 10
        ...     def snapshot(self):
        ...         return CelsiusSnapshot()
        >>> class CelsiusSnapshot(hg.SimpleTypeSerializerSnapshot[float]):
        ...     def __init__(self):
        ...         super().__init__(Celsius)
        >>> celsius = Celsius()
        >>> celsius.decode_many(celsius.encode_many([21.5, -3.0]), 2), celsius.name
        ([21.5, -3.0], 'Celsius')
    """

    name: str = cast(str, _NameOfClass())
    immutable: bool = False

    @abstractmethod
    def snapshot(self) -> TypeSerializerSnapshot[T]:
        """What is to be stored beside values that this serializer has written."""

    def encode(self, value: T) -> bytes:
        """Encode one value."""
        return self.encode_many((value,))

    def decode(self, data: bytes) -> T:
        """Decode what :meth:`encode` gave."""
        return self.decode_many(data, 1)[0]

    def encode_many(self, values: Sequence[T]) -> bytes:
        """Encode a batch. Values are trusted to be of the declared type.

        As it is here: the length of each value in four bytes, then each value as :meth:`encode` gives it.

        Raises:
            UsageError: a value cannot be encoded.
        """
        self._need("encode", TypeSerializer.encode)
        try:
            encoded = [self.encode(value) for value in values]
            lengths = struct.pack(f">{len(encoded)}I", *map(len, encoded))
            return lengths + b"".join(encoded)
        except HeadgateError:
            raise
        except BaseException as error:  # the user's code raises whatever it likes
            let_pass(error)
            raise self._not_encodable(error) from error

    def decode_many(self, data: Buffer, count: int) -> list[T]:
        """Decode a batch of `count` values; the caller has verified the bytes' checksum.

        Raises:
            StorageError: the bytes are not such a batch.
        """
        self._need("decode", TypeSerializer.decode)
        view, start = memoryview(data), _LENGTH_BYTES * count
        lengths = struct.unpack(f">{count}I", view[:start]) if len(view) >= start else ()
        if len(lengths) != count or start + sum(lengths) != len(view):
            raise StorageError(f"{len(view)} bytes are no batch of {count} values of {self.name}")
        values = []
        try:
            for length in lengths:
                values.append(self.decode(bytes(view[start : start + length])))
                start += length
        except HeadgateError:
            raise
        except BaseException as error:  # the user's code raises whatever it likes
            let_pass(error)
            raise self._not_decodable(error) from error
        return values

    def copy(self, value: T) -> T:
        """A copy that changes in place do not reach; the value itself when it is immutable."""
        return value if self.immutable else copy.deepcopy(value)

    def describe(self) -> dict[str, Any]:
        """What is stored beside the values: a plain dict with at least "kind" and "version"."""
        return {
            "kind": "custom",
            "version": 1,
            "name": self.name,
            "snapshot": snapshot_to_bytes(self.snapshot()),
        }

    def encode_checked(self, values: Sequence[T]) -> bytes:
        """Encode a batch and make sure that it can be read back, before anything relies on it.

        A program may put values into a state that its annotation does not allow; that must fail
        when they are written, not when a checkpoint is needed.

        Raises:
            UsageError: a value is not of the declared type; the message shows the first.
        """
        try:
            data = self.encode_many(values)
            self._decode_all(data, len(values))
        except (StorageError, UsageError) as error:
            raise self._misfit(values, error) from None
        except HeadgateError:
            raise
        except BaseException as error:  # a serializer of the user's raises whatever it likes
            let_pass(error)
            raise self._misfit(values, error) from error
        return data

    def decode_stored(self, data: Buffer, count: int) -> list[T]:
        """Decode a batch, whatever a serializer of the user's raises or gives.

        Raises:
            StorageError: the bytes are not such a batch.
        """
        try:
            return self._decode_all(data, count)
        except HeadgateError:
            raise
        except BaseException as error:
            let_pass(error)
            raise self._not_decodable(error) from error

    def _decode_all(self, data: Buffer, count: int) -> list[T]:
        values = self.decode_many(data, count)
        if len(values) != count:
            raise StorageError(f"a batch of {self.name} holds {len(values)} values; expected {count}")
        return values

    def _misfit(self, values: Sequence[T], error: BaseException) -> UsageError:
        for value in values:
            try:
                self.decode(self.encode(value))
            except BaseException as why:
                let_pass(why)
                return UsageError(
                    f"{_shortened(value)} of type {type(value).__qualname__} is not a {self.name} "
                    f"({told_with_line(why)}); correct the value, or the annotation that declares it"
                )
        return UsageError(
            f"a batch of {len(values)} values is not of type {self.name} ({told_with_line(error)})"
        )

    def _not_encodable(self, error: BaseException) -> UsageError:
        return UsageError(f"a value does not fit its type {self.name} ({told_with_line(error)})")

    def _not_decodable(self, error: BaseException) -> StorageError:
        return StorageError(f"stored values do not decode as {self.name} ({told_with_line(error)})")

    def _need(self, method: str, default: Any) -> None:
        if getattr(type(self), method) is default:
            raise UsageError(
                f"{type(self).__qualname__} has neither {method}() nor {method}_many(); implement encode() "
                "and decode() for one value, or encode_many() and decode_many() for a batch"
            )


def _shortened(value: object, limit: int = 80) -> str:
    text = repr(value)
    return text if len(text) <= limit else text[: limit - 3] + "..."
