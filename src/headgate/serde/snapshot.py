"""What a serializer leaves beside the values that it has written, and how its successor judges that.

A snapshot is the only truth about stored bytes. It says which format they have, and it can make a
serializer that reads them when the one that wrote them is no longer what the program uses.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from headgate.common.errors import UsageError
from headgate.serde.compatibility import (
    AfterMigration,
    AsIs,
    Compatibility,
    Incompatible,
    Reconfigured,
)
from headgate.serde.snapshot_views import DataInputView, DataOutputView

if TYPE_CHECKING:
    from headgate.serde.serializer import TypeSerializer

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class TypeSerializerSchemaCompatibility(Generic[T]):
    """What becomes of stored bytes under a new serializer: one of four verdicts.

    Made by the four class methods.

    Attributes:
        verdict: the same in the terms of :mod:`headgate.serde.compatibility`, for messages.

    Example:
        >>> judged = TypeSerializerSchemaCompatibility.incompatible("the currency changed")
        >>> judged.is_incompatible, judged.verdict.why
        (True, 'the currency changed')
    """

    verdict: Compatibility
    _reconfigured: TypeSerializer[T] | None = None

    @classmethod
    def compatible_as_is(cls) -> TypeSerializerSchemaCompatibility[T]:
        """The new serializer reads the bytes, and writes such bytes."""
        return cls(AsIs())

    @classmethod
    def compatible_after_migration(cls, *changes: str) -> TypeSerializerSchemaCompatibility[T]:
        """The old serializer reads each value once, the new one writes it.

        Args:
            changes: what differs, in words, for messages.
        """
        return cls(AfterMigration(changes))

    @classmethod
    def compatible_with_reconfigured_serializer(
        cls, serializer: TypeSerializer[T], *changes: str
    ) -> TypeSerializerSchemaCompatibility[T]:
        """Another serializer takes the new one's place, and reads the bytes as they are.

        Args:
            serializer: the new one, configured so that it fits the bytes.
            changes: what differs, in words, for messages.
        """
        return cls(Reconfigured(changes), serializer)

    @classmethod
    def incompatible(cls, why: str) -> TypeSerializerSchemaCompatibility[T]:
        """The bytes cannot become values of the new serializer; the job does not start.

        Args:
            why: the reason, in words, for the error.
        """
        return cls(Incompatible(why))

    @property
    def is_compatible_as_is(self) -> bool:
        """Whether nothing is to be done."""
        return isinstance(self.verdict, AsIs)

    @property
    def is_compatible_after_migration(self) -> bool:
        """Whether each value is rewritten."""
        return isinstance(self.verdict, AfterMigration)

    @property
    def is_compatible_with_reconfigured_serializer(self) -> bool:
        """Whether another serializer takes the new one's place."""
        return isinstance(self.verdict, Reconfigured)

    @property
    def is_incompatible(self) -> bool:
        """Whether the bytes are lost to the new serializer."""
        return isinstance(self.verdict, Incompatible)

    @property
    def reconfigured_serializer(self) -> TypeSerializer[T]:
        """What takes the new serializer's place.

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
    """What is stored of a serializer beside the values that it has written.

    It is found again by its class, so the class stands at the top of a module that can be imported, and
    can be made without arguments; then :meth:`read_snapshot` fills it. Each class of serializers has a
    snapshot class of its own. A class that was renamed or moved names its earlier ones with
    ``@hg.formerly``.

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
        """The version of the layout that :meth:`write_snapshot` writes; raise it when that changes."""

    @abstractmethod
    def write_snapshot(self, out: DataOutputView) -> None:
        """Write what makes up the format: names, numbers, texts; never pickled objects."""

    @abstractmethod
    def read_snapshot(self, read_version: int, in_: DataInputView) -> None:
        """Fill this instance with what was written, all of it.

        Args:
            read_version: the version of the layout in which it was written.
            in_: what was written.
        """

    @abstractmethod
    def restore_serializer(self) -> TypeSerializer[T]:
        """A serializer that reads, and would write, exactly the bytes that the snapshot was taken beside."""

    def resolve_schema_compatibility(
        self, old_snapshot: TypeSerializerSnapshot[Any]
    ) -> TypeSerializerSchemaCompatibility[T]:
        """Judge, as the new serializer's snapshot, bytes that the old one was stored beside.

        Args:
            old_snapshot: of any class: the state may have had another serializer.

        Raises:
            UsageError: neither snapshot's class judges.
        """
        # The deprecated direction, for classes that were written for it.
        return old_snapshot.resolve_schema_compatibility_of(self.restore_serializer())

    def resolve_schema_compatibility_of(
        self, new_serializer: TypeSerializer[Any]
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
        """What reads the stored bytes, for values that another serializer is to write.

        Args:
            new_serializer: whose values are wanted.
        """
        return self.restore_serializer()
