"""The snapshot of a serializer whose format follows from its class alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeVar

from headgate.common.errors import StorageError
from headgate.serde.logical_names import logical_name
from headgate.serde.serializer import (
    AnySnapshot,
    TypeSerializer,
    TypeSerializerSchemaCompatibility,
    TypeSerializerSnapshot,
)
from headgate.serde.snapshots.snapshot_views import DataInputView, DataOutputView

T = TypeVar("T")

_VERSION: Final = 3
_WITH_A_NAME: Final = 2


class SimpleTypeSerializerSnapshot(TypeSerializerSnapshot[T]):
    """Base of snapshots of serializers that have no configuration; stores nothing.

    Stored values fit as they are if the new serializer is of the same class, and else not.

    Args:
        supplier: gives the serializer: its class, or a function without arguments.

    Example:
        >>> import headgate as hg
        >>> class Text(hg.TypeSerializer[str]):
        ...     def encode(self, value):
        ...         return value.encode()
        ...     def decode(self, data):
        ...         return data.decode()
        ...     def snapshot(self):
        ...         return TextSnapshot()
        >>> class TextSnapshot(hg.SimpleTypeSerializerSnapshot[str]):
        ...     def __init__(self):
        ...         super().__init__(Text)
        >>> TextSnapshot().resolve_schema_compatibility(TextSnapshot()).is_compatible_as_is
        True
    """

    def __init__(self, supplier: Callable[[], TypeSerializer[T]]) -> None:
        self._supplier = supplier

    def current_version(self) -> int:
        """Return the version of the stored layout, which is empty but has a number."""
        return _VERSION

    def write_snapshot(self, out: DataOutputView) -> None:
        """Write nothing: the class is all there is to store."""

    def read_snapshot(self, read_version: int, in_: DataInputView) -> None:
        """Read nothing, or in the older layout a name that is not used.

        Raises:
            StorageError: the version is another one.
        """
        if read_version == _WITH_A_NAME:
            in_.read_utf()
        elif read_version != _VERSION:
            raise StorageError(
                f"{logical_name(type(self))} was stored in version {read_version} of its layout; expected "
                f"{_VERSION} or {_WITH_A_NAME}"
            )

    def restore_serializer(self) -> TypeSerializer[T]:
        """Return the serializer that the supplier gives."""
        return self._supplier()

    def resolve_schema_compatibility(self, old_snapshot: AnySnapshot) -> TypeSerializerSchemaCompatibility[T]:
        """Return "as is" if both serializers are of one class, else "incompatible"."""
        new = type(self._supplier())
        if not isinstance(old_snapshot, SimpleTypeSerializerSnapshot):
            return TypeSerializerSchemaCompatibility.incompatible(
                f"what is stored has a {type(old_snapshot).__qualname__}, and {new.__qualname__} reads only "
                "what it has written itself"
            )
        old = type(old_snapshot.restore_serializer())
        if old is new:
            return TypeSerializerSchemaCompatibility.compatible_as_is()
        return TypeSerializerSchemaCompatibility.incompatible(
            f"the serializer was {logical_name(old)} and is {logical_name(new)}"
        )
