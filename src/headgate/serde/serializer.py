"""The contracts of serializers: values to bytes and back, and the snapshot that describes what was written.

A snapshot is the only truth about stored bytes. It has their format, and can make a serializer that reads
them when the program does not use the one any more that wrote them. It is stored with the values; the
snapshot of the new serializer judges it.
"""

from __future__ import annotations

import copy
import struct
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeAlias, TypeVar

from headgate.common.errors import HeadgateError, StorageError, UsageError
from headgate.common.keys.keygroups import shortened
from headgate.common.plain_data import Plain
from headgate.common.process.process_exceptions import let_pass
from headgate.common.refusals.users_frames import text_with_line
from headgate.serde.snapshots.snapshot_views import DataInputView, DataOutputView, snapshot_to_bytes
from headgate.serde.verdicts import AfterMigration, AsIs, Compatibility, Incompatible, Reconfigured

T = TypeVar("T")

Buffer = bytes | bytearray | memoryview
AnySerializer: TypeAlias = "TypeSerializer[Any]"
AnySnapshot: TypeAlias = "TypeSerializerSnapshot[Any]"
"""A snapshot of values whose type is known at run time only."""

_LENGTH_BYTES = 4


class _NameOfClass:
    """Descriptor of a serializer's default name, the name of its class."""

    def __get__(self, _: TypeSerializer[T] | None, owner: type) -> str:
        return owner.__qualname__


class TypeSerializer(ABC, Generic[T]):
    """Turns values of one type into bytes and back without loss.

    A subclass has :meth:`encode` and :meth:`decode` for one value, or :meth:`encode_many` and
    :meth:`decode_many` for a batch, which is faster; and :meth:`snapshot`. The bytes do not describe
    themselves: the snapshot is stored with them, and judged at a restore. Instances hold no data of a
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

    name: str = _NameOfClass()  # type: ignore[assignment]  # a descriptor of text
    immutable: bool = False

    @abstractmethod
    def snapshot(self) -> TypeSerializerSnapshot[T]:
        """Return the snapshot to be stored with values that this serializer has written."""

    def encode(self, value: T) -> bytes:
        """Return the bytes of one value; by default those of a batch of one, by :meth:`encode_many`."""
        return self.encode_many((value,))

    def decode(self, data: bytes) -> T:
        """Return the value whose bytes :meth:`encode` made; by default by :meth:`decode_many`."""
        return self.decode_many(data, 1)[0]

    def encode_many(self, values: Sequence[T]) -> bytes:
        """Return the bytes of a batch. Values are trusted to be of the declared type.

        By default: the length of each value in four bytes, then each value as :meth:`encode` gives it.

        Raises:
            UsageError: a value cannot be encoded, or the class has neither ``encode`` nor ``encode_many``.
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
            reason = text_with_line(error)
            raise UsageError(f"a value does not fit its type {self.name} ({reason})") from error

    def decode_many(self, data: Buffer, count: int) -> list[T]:
        """Return the `count` values of a batch; a caller must verify the bytes' checksum before.

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
        """Return a copy that changes made in place do not affect; the value itself when it is immutable."""
        return value if self.immutable else copy.deepcopy(value)

    def describe(self) -> dict[str, Plain]:
        """Return the description stored with the values: a plain dict with at least "kind" and "version"."""
        return {
            "kind": "custom",
            "version": 1,
            "name": self.name,
            "snapshot": snapshot_to_bytes(self.snapshot()),
        }

    def encode_checked(self, values: Sequence[T]) -> bytes:
        """Return the bytes of a batch after decoding them once, which must not fail; values are not compared.

        A program may put values into a state that its annotation does not allow; that must fail when they are
        written, not when a checkpoint is needed.

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
        """Return the `count` values of a batch; errors of the serializer's own code become StorageErrors.

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
                    f"{shortened(value, 80)} of type {type(value).__qualname__} is not a {self.name} "
                    f"({text_with_line(why)}); correct the value, or the annotation that declares it"
                )
        return UsageError(
            f"a batch of {len(values)} values is not of type {self.name} ({text_with_line(error)})"
        )

    def _not_decodable(self, error: BaseException) -> StorageError:
        return StorageError(f"stored values do not decode as {self.name} ({text_with_line(error)})")

    def _need(self, method: str, default: Callable[..., bytes | T]) -> None:
        if getattr(type(self), method) is default:
            raise UsageError(
                f"{type(self).__qualname__} has neither {method}() nor {method}_many(); implement encode() "
                "and decode() for one value, or encode_many() and decode_many() for a batch"
            )


@dataclass(frozen=True, slots=True)
class TypeSerializerSchemaCompatibility(Generic[T]):
    """The verdict on stored bytes under a new serializer: as is, after migration, reconfigured, incompatible.

    A snapshot's ``resolve_schema_compatibility()`` returns it; the four class methods make one.

    Attributes:
        verdict: the same in the terms of :mod:`headgate.serde.verdicts`, for messages.

    Example:
        >>> judged = TypeSerializerSchemaCompatibility.incompatible("the currency changed")
        >>> judged.is_incompatible, judged.verdict.why
        (True, 'the currency changed')
    """

    verdict: Compatibility
    _reconfigured: TypeSerializer[T] | None = None

    @classmethod
    def compatible_as_is(cls) -> TypeSerializerSchemaCompatibility[T]:
        """Return the verdict that the new serializer reads the bytes as they are, and writes such bytes."""
        return cls(AsIs())

    @classmethod
    def compatible_after_migration(cls, *changes: str) -> TypeSerializerSchemaCompatibility[T]:
        """Return the verdict that the old serializer must read each value once, for the new one to write it.

        Args:
            changes: what differs, in words, for messages.
        """
        return cls(AfterMigration(changes))

    @classmethod
    def compatible_with_reconfigured_serializer(
        cls, serializer: TypeSerializer[T], *changes: str
    ) -> TypeSerializerSchemaCompatibility[T]:
        """Return the verdict that `serializer` takes the new one's place and reads the bytes as they are.

        Args:
            serializer: the new one, configured so that it fits the bytes.
            changes: what differs, in words, for messages.
        """
        return cls(Reconfigured(changes), serializer)

    @classmethod
    def incompatible(cls, why: str) -> TypeSerializerSchemaCompatibility[T]:
        """Return the verdict that the new serializer can never take the values: the job does not start.

        Args:
            why: the reason, in words, for the error.
        """
        return cls(Incompatible(why))

    @property
    def is_compatible_as_is(self) -> bool:
        """Whether the new serializer reads the bytes as they are."""
        return isinstance(self.verdict, AsIs)

    @property
    def is_compatible_after_migration(self) -> bool:
        """Whether each value is rewritten: read by the old serializer and written by the new one."""
        return isinstance(self.verdict, AfterMigration)

    @property
    def is_compatible_with_reconfigured_serializer(self) -> bool:
        """Whether a reconfigured serializer takes the new serializer's place."""
        return isinstance(self.verdict, Reconfigured)

    @property
    def is_incompatible(self) -> bool:
        """Whether the new serializer can never read the bytes, so that the job does not start."""
        return isinstance(self.verdict, Incompatible)

    @property
    def reconfigured_serializer(self) -> TypeSerializer[T]:
        """The serializer that takes the new serializer's place.

        Raises:
            UsageError: the verdict is another one.
        """
        if self._reconfigured is None:
            raise UsageError(
                f"a reconfigured serializer was asked for where the verdict is {self.verdict}; ask "
                "is_compatible_with_reconfigured_serializer first"
            )
        return self._reconfigured


class TypeSerializerSnapshot(ABC, Generic[T]):
    """The description of a serializer that is stored with the values it has written.

    It is found again by its class, so the class stands at the top of a module that can be imported, and can
    be made without arguments; then :meth:`read_snapshot` fills it. Each class of serializers has a snapshot
    class of its own. A class that was renamed or moved names its earlier ones with ``@hg.formerly``.

    Example:
        >>> import headgate as hg
        >>> class MoneySnapshot(hg.TypeSerializerSnapshot[int]):
        ...     def __init__(self, decimals=0):
        ...         self.decimals = decimals
        ...     def current_version(self):
        ...         return 1
        ...     def write_snapshot(self, out):
        ...         out.write_int(self.decimals)
        ...     def read_snapshot(self, read_version, in_):
        ...         self.decimals = in_.read_int()
        ...     def resolve_schema_compatibility(self, old_snapshot):
        ...         if old_snapshot.decimals == self.decimals:
        ...             return hg.TypeSerializerSchemaCompatibility.compatible_as_is()
        ...         return hg.TypeSerializerSchemaCompatibility.compatible_after_migration()
        ...     def restore_serializer(self):
        ...         raise NotImplementedError
        >>> MoneySnapshot(2).resolve_schema_compatibility(MoneySnapshot(3)).is_compatible_after_migration
        True
    """

    @abstractmethod
    def current_version(self) -> int:
        """Return the version of what :meth:`write_snapshot` writes; increase it when that changes."""

    @abstractmethod
    def write_snapshot(self, out: DataOutputView) -> None:
        """Write what determines the serializer's format: names, numbers, texts; never pickled objects."""

    @abstractmethod
    def read_snapshot(self, read_version: int, in_: DataInputView) -> None:
        """Read everything that :meth:`write_snapshot` wrote into this instance.

        Args:
            read_version: the version of the layout in which it was written.
            in_: input with what was written, all of which must be read.
        """

    @abstractmethod
    def restore_serializer(self) -> TypeSerializer[T]:
        """Return a serializer that reads, and would write, exactly the bytes that this snapshot describes."""

    def resolve_schema_compatibility(self, old_snapshot: AnySnapshot) -> TypeSerializerSchemaCompatibility[T]:
        """Return the verdict on reading bytes of `old_snapshot` by this snapshot's serializer, the new one.

        Args:
            old_snapshot: of any class: the state may have had another serializer.

        Raises:
            UsageError: neither snapshot's class implements a judgement.
        """
        # The deprecated direction, for classes that were written for it.
        return old_snapshot.resolve_schema_compatibility_of(self.restore_serializer())

    def resolve_schema_compatibility_of(
        self, new_serializer: AnySerializer
    ) -> TypeSerializerSchemaCompatibility[Any]:
        """Deprecated: judge, as the old snapshot, a new serializer.

        An old class cannot know its successors; implement :meth:`resolve_schema_compatibility`.

        Raises:
            UsageError: it is not implemented.
        """
        raise UsageError(
            f"neither the snapshot class of {new_serializer.name} nor {type(self).__qualname__} says whether "
            "stored values fit; implement resolve_schema_compatibility(old_snapshot) in the new one"
        )

    def restore_serializer_for(self, new_serializer: TypeSerializer[T]) -> TypeSerializer[T]:
        """Return a reader of stored bytes whose values `new_serializer` can write; by default the old one.

        Args:
            new_serializer: the program's serializer, which takes the old one's place.
        """
        return self.restore_serializer()
