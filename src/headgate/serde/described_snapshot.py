"""The snapshot of a built-in serializer: the description of what it writes, judged by rules.

The rules know every built-in serializer, and those give such snapshots. So that imports point one way,
:mod:`headgate.serde.resolve`, without which there is no built-in serializer, registers the rules here.
"""

from __future__ import annotations

from typing import Final, Protocol, TypeVar

import msgspec

from headgate.common.decoders import msgpack_decoder
from headgate.common.errors import InternalError, StorageError
from headgate.common.plain_data import Description, Plain
from headgate.serde.logical_names import logical_name
from headgate.serde.serializer import (
    TypeSerializer,
    TypeSerializerSchemaCompatibility,
    TypeSerializerSnapshot,
)
from headgate.serde.snapshots.snapshot_views import DataInputView, DataOutputView
from headgate.serde.verdicts import Compatibility, Reconfigured

T = TypeVar("T")

_VERSION: Final = 1

_descriptions: Final = msgpack_decoder(dict[str, Plain])


class Rules(Protocol):
    """Rules by which descriptions of built-in serializers are judged and read; `resolve` registers them."""

    def serializer_of(self, description: Description) -> TypeSerializer[T]:
        """Return a serializer that decodes the described type, classes imported by name; else UsageError."""

    def reading(self, description: Description, new: TypeSerializer[T]) -> TypeSerializer[T]:
        """Return a serializer that decodes values of an old description as `new`'s; else UsageError."""

    def judge(self, description: Description, new: TypeSerializer[T]) -> Compatibility:
        """Return the verdict on reading values of an old description as values of the new serializer."""


_registered: list[Rules] = []


def register(rules: Rules) -> None:
    """Set the rules that all :class:`DescribedSnapshot` objects use, in place of earlier ones."""
    _registered[:] = [rules]


def rules() -> Rules:
    """Return the registered rules; InternalError if `headgate.serde.resolve` was never imported."""
    if not _registered:
        raise InternalError("the rules for described values are not loaded; import headgate.serde.resolve")
    return _registered[0]


class DescribedSnapshot(TypeSerializerSnapshot[T]):
    """Snapshot of a built-in serializer, one chosen by an annotation: the description of what it writes.

    A serializer that takes the place of a built-in one judges such a snapshot.

    Args:
        description: of the values' codec; None: the snapshot is about to be read.
        serializer: that has this description; None: one is made of the description when it is needed.

    Attributes:
        description: kind, version and parameters, such as the names and kinds of fields.

    Example:
        >>> import headgate as hg
        >>> hg.serializer_for(list[int]).snapshot().description
        {'kind': 'list', 'version': 1, 'of': {'kind': 'int', 'version': 1}}
    """

    def __init__(
        self, description: Description | None = None, serializer: TypeSerializer[T] | None = None
    ) -> None:
        self.description: dict[str, Plain] = dict(description or {})
        self._serializer = serializer

    def current_version(self) -> int:
        """Return the version of the layout that :meth:`write_snapshot` writes."""
        return _VERSION

    def write_snapshot(self, out: DataOutputView) -> None:
        """Write the description as msgpack."""
        out.write_bytes(msgspec.msgpack.encode(self.description))

    def read_snapshot(self, read_version: int, in_: DataInputView) -> None:
        """Read the description; StorageError if it is damaged or of another version."""
        if read_version != _VERSION:
            raise StorageError(
                f"a description is stored in version {read_version}; this Headgate reads {_VERSION}"
            )
        try:
            found = _descriptions.decode(in_.read_bytes())
        except msgspec.MsgspecError as error:
            raise StorageError(f"a stored description does not decode ({error})") from None
        if not isinstance(found.get("kind"), str):
            raise StorageError("a stored description has no kind; it is damaged")
        self.description = found

    def restore_serializer(self) -> TypeSerializer[T]:
        """Return the constructor's serializer, or one of classes imported by name (else UsageError)."""
        if self._serializer is None:
            self._serializer = rules().serializer_of(self.description)
        return self._serializer

    def restore_serializer_for(self, new_serializer: TypeSerializer[T]) -> TypeSerializer[T]:
        """Return a serializer that reads the described values as those of `new_serializer`.

        Their former class is only needed if `new_serializer` is a program's own. UsageError: values misfit.
        """
        if isinstance(new_serializer.snapshot(), DescribedSnapshot):
            return rules().reading(self.description, new_serializer)
        return self.restore_serializer()

    def resolve_schema_compatibility(
        self, old_snapshot: TypeSerializerSnapshot[T]
    ) -> TypeSerializerSchemaCompatibility[T]:
        """Return the verdict by the rules for changed types; incompatible if a custom serializer wrote it."""
        if not isinstance(old_snapshot, DescribedSnapshot):
            return TypeSerializerSchemaCompatibility.incompatible(
                f"the values were written by a serializer with snapshot {logical_name(type(old_snapshot))}, "
                "and a built-in serializer reads only what one has written"
            )
        new = self.restore_serializer()
        verdict = rules().judge(old_snapshot.description, new)
        return TypeSerializerSchemaCompatibility(verdict, new if isinstance(verdict, Reconfigured) else None)
