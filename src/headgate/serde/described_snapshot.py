"""The snapshot of a built-in serializer: the description of what it writes, judged by its rules."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import reduce
from operator import or_
from typing import Any, Final

import msgspec

from headgate.common.decoders import msgpack_decoder
from headgate.common.errors import StorageError, UsageError
from headgate.serde.compatibility import Reconfigured
from headgate.serde.evolution import judge, reading_serializer
from headgate.serde.logical_names import class_named, logical_name
from headgate.serde.primitives import BY_KIND
from headgate.serde.resolve import serializer_for
from headgate.serde.serializer import TypeSerializer
from headgate.serde.snapshot import TypeSerializerSchemaCompatibility, TypeSerializerSnapshot
from headgate.serde.snapshot_views import DataInputView, DataOutputView

_VERSION: Final = 1


_descriptions: Final = msgpack_decoder(dict[str, Any])


class DescribedSnapshot(TypeSerializerSnapshot[Any]):
    """What a serializer chosen by an annotation leaves beside the values that it has written.

    A serializer that takes the place of a built-in one judges such a snapshot.

    Args:
        description: what was written.
        serializer: which has written it; None where that is not known any more.

    Attributes:
        description: kind, version and parameters, such as the names and kinds of fields.

    Example:
        >>> import headgate as hg
        >>> hg.serializer_for(list[int]).snapshot().description
        {'kind': 'list', 'version': 1, 'of': {'kind': 'int', 'version': 1}}
    """

    def __init__(
        self, description: Mapping[str, Any] | None = None, serializer: TypeSerializer[Any] | None = None
    ) -> None:
        self.description: dict[str, Any] = dict(description or {})
        self._serializer = serializer

    def current_version(self) -> int:
        """The version of the layout."""
        return _VERSION

    def write_snapshot(self, out: DataOutputView) -> None:
        """Write the description as msgpack."""
        out.write_bytes(msgspec.msgpack.encode(self.description))

    def read_snapshot(self, read_version: int, in_: DataInputView) -> None:
        """Read the description.

        Raises:
            StorageError: it was written in another version, or is damaged.
        """
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

    def restore_serializer(self) -> TypeSerializer[Any]:
        """A serializer of the described type, whose classes are looked up by their names.

        Raises:
            UsageError: the type cannot be found, or is not known any more.
        """
        if self._serializer is None:
            self._serializer = reading_serializer(
                self.description, serializer_for(_hint_of(self.description))
            )
        return self._serializer

    def restore_serializer_for(self, new_serializer: TypeSerializer[Any]) -> TypeSerializer[Any]:
        """What reads the described values as those of another built-in serializer; no class is needed."""
        if isinstance(new_serializer.snapshot(), DescribedSnapshot):
            return reading_serializer(self.description, new_serializer)
        return self.restore_serializer()

    def resolve_schema_compatibility(
        self, old_snapshot: TypeSerializerSnapshot[Any]
    ) -> TypeSerializerSchemaCompatibility[Any]:
        """Judge by the rules of changed types; what a serializer of the user's wrote is incompatible."""
        if not isinstance(old_snapshot, DescribedSnapshot):
            return TypeSerializerSchemaCompatibility.incompatible(
                f"the values were written by a serializer with snapshot {logical_name(type(old_snapshot))}, "
                "and a built-in serializer reads only what one has written"
            )
        new = self.restore_serializer()
        verdict = judge(old_snapshot.description, new)
        return TypeSerializerSchemaCompatibility(verdict, new if isinstance(verdict, Reconfigured) else None)


def _hint_of(description: Mapping[str, Any]) -> Any:
    """The annotation that a description came from."""
    kind = description["kind"]
    if kind == "any":
        return Any
    if kind in BY_KIND:
        (cls,) = BY_KIND[kind].classes
        return cls
    if kind in _GENERIC:
        return _GENERIC[kind](description)
    if "name" in description:
        return class_named(description["name"])
    raise UsageError(f"a stored value of kind {kind} can only be read as the type that a program declares")


_GENERIC: Final[dict[str, Callable[[Mapping[str, Any]], Any]]] = {
    "list": lambda d: list[_hint_of(d["of"])],  # type: ignore[misc]
    "set": lambda d: set[_hint_of(d["of"])],  # type: ignore[misc]
    "frozenset": lambda d: frozenset[_hint_of(d["of"])],  # type: ignore[misc]
    "tuple_of": lambda d: tuple[_hint_of(d["of"]), ...],  # type: ignore[misc]
    "tuple": lambda d: tuple[tuple(map(_hint_of, d["of"]))],  # type: ignore[misc]
    "dict": lambda d: dict[_hint_of(d["key"]), _hint_of(d["value"])],  # type: ignore[misc]
    "union": lambda d: reduce(or_, map(_hint_of, d["of"])),
    "literal": lambda d: _hint_of(d["of"]),
}
