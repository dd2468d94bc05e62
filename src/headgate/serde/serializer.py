"""The contract of serializers: batches of values to bytes and back, and what they say of themselves."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, Generic, TypeVar

from headgate.common.errors import StorageError, UsageError

T = TypeVar("T")

Buffer = bytes | bytearray | memoryview


class TypeSerializer(ABC, Generic[T]):
    """Turns batches of values of one type into bytes and back without loss.

    The bytes do not describe themselves: :meth:`describe` is stored beside them and compared at
    restore. Instances hold no data of a batch and may be used by several threads.

    Attributes:
        name: the type, for messages.
        immutable: whether values can never be changed in place. Where this cannot be known, False.
    """

    name: str
    immutable: bool

    @abstractmethod
    def encode_many(self, values: Sequence[T]) -> bytes:
        """Encode a batch. Values are trusted to be of the declared type.

        Raises:
            UsageError: a value cannot be encoded.
        """

    @abstractmethod
    def decode_many(self, data: Buffer, count: int) -> list[T]:
        """Decode a batch of `count` values; the caller has verified the bytes' checksum.

        Raises:
            StorageError: the bytes are not such a batch.
        """

    @abstractmethod
    def describe(self) -> dict[str, Any]:
        """What was written and how: a plain dict with at least "kind" and "version"."""

    @abstractmethod
    def copy(self, value: T) -> T:
        """A copy that changes in place do not reach; the value itself when it is immutable."""

    def encode(self, value: T) -> bytes:
        """Encode one value."""
        return self.encode_many((value,))

    def decode(self, data: Buffer) -> T:
        """Decode one value."""
        return self.decode_many(data, 1)[0]

    def encode_checked(self, values: Sequence[T]) -> bytes:
        """Encode a batch and make sure that it can be read back, before anything relies on it.

        A program may put values into a state that its annotation does not allow; that must fail
        when they are written, not when a checkpoint is needed.

        Raises:
            UsageError: a value is not of the declared type; the message shows the first.
        """
        data = self.encode_many(values)
        try:
            self.decode_many(data, len(values))
        except StorageError as error:
            raise self._misfit(values, error) from None
        return data

    def _misfit(self, values: Sequence[T], error: Exception) -> UsageError:
        for value in values:
            try:
                self.decode(self.encode(value))
            except (StorageError, UsageError) as why:
                return UsageError(
                    f"{_shortened(value)} of type {type(value).__qualname__} is not a {self.name} ({why}); "
                    "correct the value, or the annotation that declares it"
                )
        return UsageError(f"a batch of {len(values)} values is not of type {self.name} ({error})")


def _shortened(value: object, limit: int = 80) -> str:
    text = repr(value)
    return text if len(text) <= limit else text[: limit - 3] + "..."
