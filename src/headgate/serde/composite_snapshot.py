"""Snapshot of a serializer that nests others: their snapshots, and the outer one's own configuration."""

from __future__ import annotations

import enum
from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, Final, Generic, Self, TypeVar

from headgate.common.errors import StorageError, UsageError
from headgate.serde.logical_names import logical_name
from headgate.serde.serializer import (
    AnySerializer,
    AnySnapshot,
    TypeSerializer,
    TypeSerializerSchemaCompatibility,
    TypeSerializerSnapshot,
)
from headgate.serde.snapshots.snapshot_views import DataInputView, DataOutputView
from headgate.serde.snapshots.snapshot_wire import NestsSnapshots, read_versioned, write_versioned
from headgate.serde.verdicts import AfterMigration, AsIs, Compatibility, Incompatible, combined, placed

T = TypeVar("T")
S = TypeVar("S", bound=AnySerializer)

_VERSION: Final = 3
_MAGIC: Final = 911108
_NESTED_MAGIC: Final = 1333245
_NESTED_VERSION: Final = 1
_SMALLEST_NESTED: Final = 10  # bytes of a nested snapshot with neither name nor body

_OUTER_HOOKS: Final = ("write_outer_snapshot", "read_outer_snapshot", "resolve_outer_schema_compatibility")


class OuterSchemaCompatibility(enum.Enum):
    """Verdict on stored bytes by the outer serializer's own configuration, nested serializers apart."""

    COMPATIBLE_AS_IS = "as is"
    COMPATIBLE_AFTER_MIGRATION = "after migration"
    INCOMPATIBLE = "incompatible"


_OUTER_VERDICTS: Final[dict[OuterSchemaCompatibility, Compatibility]] = {
    OuterSchemaCompatibility.COMPATIBLE_AS_IS: AsIs(),
    OuterSchemaCompatibility.COMPATIBLE_AFTER_MIGRATION: AfterMigration(("the outer serializer changed",)),
    OuterSchemaCompatibility.INCOMPATIBLE: Incompatible("the outer serializers do not fit"),
}


class CompositeTypeSerializerSnapshot(NestsSnapshots, TypeSerializerSnapshot[T], Generic[T, S]):
    """Base of snapshots of serializers that nest other serializers.

    It stores the nested serializers' snapshots and judges them one by one. The worst verdict counts:
    incompatible (as for another number of them), after migration, reconfigured, as is. A subclass defines
    :meth:`current_outer_snapshot_version`, :meth:`nested_serializers` and :meth:`create_outer_serializer`; if
    the outer serializer has a configuration of its own, also the three methods of the outer snapshot, all of
    them.

    Args:
        outer_serializer: of which the snapshot is; None: the snapshot is about to be read.

    Raises:
        UsageError: when the class is made: it has some methods of the outer snapshot and not all.

    Example:
        >>> import headgate as hg
        >>> class PairSnapshot(hg.CompositeTypeSerializerSnapshot[tuple, "Pair"]):
        ...     def current_outer_snapshot_version(self):
        ...         return 1
        ...     def nested_serializers(self, outer_serializer):
        ...         return [outer_serializer.left, outer_serializer.right]
        ...     def create_outer_serializer(self, nested):
        ...         return Pair(*nested)
        >>> class Pair(hg.TypeSerializer[tuple]):
        ...     def __init__(self, left, right):
        ...         self.left, self.right = left, right
        ...     def encode(self, value):
        ...         first = self.left.encode(value[0])
        ...         return len(first).to_bytes(4, "big") + first + self.right.encode(value[1])
        ...     def decode(self, data):
        ...         end = 4 + int.from_bytes(data[:4], "big")
        ...         return self.left.decode(data[4:end]), self.right.decode(data[end:])
        ...     def snapshot(self):
        ...         return PairSnapshot(self)
        >>> old = Pair(hg.serializer_for(str), hg.serializer_for(int)).snapshot()
        >>> new = Pair(hg.serializer_for(str), hg.serializer_for(float)).snapshot()
        >>> new.resolve_schema_compatibility(old).verdict
        AfterMigration(changes=('nested serializer 1: int became float',))
    """

    def __init__(self, outer_serializer: S | None = None) -> None:
        self._nested: tuple[AnySnapshot, ...] = ()
        if outer_serializer is not None:
            self._nested = tuple(one.snapshot() for one in self.nested_serializers(outer_serializer))

    def __init_subclass__(cls, **arguments: Any) -> None:
        super().__init_subclass__(**arguments)
        base = CompositeTypeSerializerSnapshot
        there = [hook for hook in _OUTER_HOOKS if getattr(cls, hook) is not getattr(base, hook)]
        if len(there) not in (0, len(_OUTER_HOOKS)):
            missing = ", ".join(hook for hook in _OUTER_HOOKS if hook not in there)
            raise UsageError(
                f"{cls.__qualname__} has {', '.join(there)} but not {missing}; the outer snapshot needs all "
                "three or none"
            )

    @abstractmethod
    def current_outer_snapshot_version(self) -> int:
        """Return the version of what :meth:`write_outer_snapshot` writes; increase it when that changes."""

    @abstractmethod
    def nested_serializers(self, outer_serializer: S) -> Sequence[AnySerializer]:
        """Return the serializers that `outer_serializer` is made of, always in the same order."""

    @abstractmethod
    def create_outer_serializer(self, nested: Sequence[AnySerializer]) -> S:
        """Return an outer serializer of these nested ones, with this snapshot's configuration."""

    def write_outer_snapshot(self, out: DataOutputView) -> None:
        """Write the outer serializer's own configuration; by default there is none."""

    def read_outer_snapshot(self, read_version: int, in_: DataInputView) -> None:
        """Read the outer serializer's own configuration.

        Args:
            read_version: the version of the outer snapshot in which it was written.
            in_: input at its first byte; the nested snapshots follow, which must be left unread.
        """

    def resolve_outer_schema_compatibility(self, old_snapshot: AnySnapshot) -> OuterSchemaCompatibility:
        """Judge an old snapshot of this class by the outer configuration alone; by default "as is"."""
        return OuterSchemaCompatibility.COMPATIBLE_AS_IS

    @classmethod
    def of_nested(cls, nested: Sequence[AnySnapshot]) -> Self:
        """Make a snapshot without outer configuration, of nested snapshots."""
        made = cls()
        made._nested = tuple(nested)
        return made

    @property
    def nested_snapshots(self) -> tuple[AnySnapshot, ...]:
        """The nested serializers' snapshots, in their order."""
        return self._nested

    def current_version(self) -> int:
        """Return the version of the composite's own layout, which is not that of the outer snapshot."""
        return _VERSION

    def write_snapshot(self, out: DataOutputView) -> None:
        """Write the outer configuration, then the nested snapshots."""
        out.write_int(_MAGIC)
        out.write_int(self.current_outer_snapshot_version())
        self.write_outer_snapshot(out)
        out.write_int(_NESTED_MAGIC)
        out.write_int(_NESTED_VERSION)
        out.write_int(len(self._nested))
        for snapshot in self._nested:
            write_versioned(out, snapshot)

    def read_snapshot(self, read_version: int, in_: DataInputView) -> None:
        """Read the outer configuration and the nested snapshots that :meth:`write_snapshot` wrote.

        Raises:
            StorageError: it was written in another layout, or is damaged.
        """
        self._expect("the version of its layout", read_version, _VERSION)
        self._expect("its mark", in_.read_int(), _MAGIC)
        self.read_outer_snapshot(in_.read_int(), in_)
        self._expect("the mark of the nested snapshots", in_.read_int(), _NESTED_MAGIC)
        self._expect("the version of the nested snapshots", in_.read_int(), _NESTED_VERSION)
        count = in_.read_int()
        if not 0 <= count <= in_.remaining // _SMALLEST_NESTED:
            raise StorageError(
                f"{logical_name(type(self))} is damaged: {count} nested snapshots in {in_.remaining} bytes"
            )
        self._nested = tuple(read_versioned(in_, self.known) for _ in range(count))

    def restore_serializer(self) -> TypeSerializer[T]:
        """Return the outer serializer, made of the serializers that the nested snapshots restore."""
        return self.create_outer_serializer([one.restore_serializer() for one in self._nested])

    def restore_serializer_for(self, new_serializer: TypeSerializer[T]) -> TypeSerializer[T]:
        """Return a reader of old bytes for `new_serializer`, part by part if it has as many parts."""
        new = new_serializer.snapshot()
        if type(new) is not type(self):
            return self.restore_serializer()
        successors = self.nested_serializers(new_serializer)  # type: ignore[arg-type]
        if len(successors) != len(self._nested):
            return self.restore_serializer()
        pairs = zip(self._nested, successors, strict=True)
        return self.create_outer_serializer([old.restore_serializer_for(new) for old, new in pairs])

    def resolve_schema_compatibility(self, old_snapshot: AnySnapshot) -> TypeSerializerSchemaCompatibility[T]:
        """Return the worst verdict on `old_snapshot`: on its outer configuration and its nested snapshots."""
        if not isinstance(old_snapshot, type(self)) or type(old_snapshot) is not type(self):
            return TypeSerializerSchemaCompatibility.incompatible(
                f"the snapshot was {logical_name(type(old_snapshot))} and is {logical_name(type(self))}"
            )
        outer = _OUTER_VERDICTS[self.resolve_outer_schema_compatibility(old_snapshot)]
        if isinstance(outer, Incompatible):
            return TypeSerializerSchemaCompatibility(outer)
        old_nested = old_snapshot.nested_snapshots
        if len(old_nested) != len(self._nested):
            return TypeSerializerSchemaCompatibility.incompatible(
                f"there were {len(old_nested)} nested serializers and are {len(self._nested)}"
            )
        judged = [
            new.resolve_schema_compatibility(old) for new, old in zip(self._nested, old_nested, strict=True)
        ]
        nested = (placed(f"nested serializer {at}", one.verdict) for at, one in enumerate(judged))
        verdict = combined([outer, *nested])
        found: TypeSerializerSchemaCompatibility[T] = TypeSerializerSchemaCompatibility(verdict)
        if not found.is_compatible_with_reconfigured_serializer:
            return found
        return TypeSerializerSchemaCompatibility(verdict, self._reconfigured_outer(judged))

    def _reconfigured_outer(self, judged: Sequence[TypeSerializerSchemaCompatibility[Any]]) -> S:
        nested = [
            one.reconfigured_serializer
            if one.is_compatible_with_reconfigured_serializer
            else new.restore_serializer()
            for one, new in zip(judged, self._nested, strict=True)
        ]
        return self.create_outer_serializer(nested)

    def _expect(self, what: str, found: int, expected: int) -> None:
        if found != expected:
            raise StorageError(
                f"{logical_name(type(self))} is damaged or was stored in another layout: {what} is {found}, "
                f"expected {expected}"
            )
