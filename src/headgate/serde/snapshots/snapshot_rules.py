"""Checks a program's own serializers before anything is stored with them: a later program must find them."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator, Sequence
from typing import TypeVar

from headgate.common.errors import HeadgateError, UsageError
from headgate.common.hints import Hint
from headgate.common.process.process_exceptions import let_pass
from headgate.common.refusals.users_frames import text_with_line
from headgate.serde.composite_snapshot import CompositeTypeSerializerSnapshot
from headgate.serde.logical_names import logical_name
from headgate.serde.resolve import serializer_for
from headgate.serde.serializer import TypeSerializer, TypeSerializerSnapshot
from headgate.serde.snapshots.snapshot_wire import snapshot_from_bytes, snapshot_to_bytes

V = TypeVar("V")
T = TypeVar("T")

_PAIRS = (("encode", "decode"), ("encode_many", "decode_many"))


class SerializerRegistry:
    """The serializers that one program declares, checked one by one as they are registered."""

    def __init__(self) -> None:
        self._owners: dict[type, type] = {}

    def register(self, serializer: TypeSerializer[T], where: str) -> None:
        """Check a serializer and those nested in it; UsageError if a later program cannot read their bytes.

        That is so if methods are missing, or the snapshot's class cannot be found again, serves another
        registered class, too, or does not read what it wrote. `where` names state and place, for errors.
        """
        check_is_serializer(serializer, where)
        for one in _with_nested(serializer, where):
            _check_methods(one, where)
            snapshot = _snapshot_of(one, where)
            _check_class(type(snapshot), where)
            self._check_owner(type(snapshot), type(one), where)
            _check_round_trip(snapshot, where)

    def _check_owner(self, snapshot: type, serializer: type, where: str) -> None:
        if snapshot.__module__.partition(".")[0] == "headgate":
            return
        owner = self._owners.setdefault(snapshot, serializer)
        if owner is not serializer:
            raise UsageError(
                f"{where}: {snapshot.__qualname__} is the snapshot class of {owner.__qualname__} and of "
                f"{serializer.__qualname__}; give each serializer a snapshot class of its own, as one class "
                "cannot say which of them to restore"
            )


def check_is_serializer(serializer: V, where: str) -> None:
    """Raise UsageError unless `serializer` is a TypeSerializer instance; `where` names its state."""
    if isinstance(serializer, type):
        name = serializer.__qualname__
        raise UsageError(f"{where} got the class {name}; pass an instance of a TypeSerializer: {name}()")
    if not isinstance(serializer, TypeSerializer):
        raise UsageError(f"{where} got {serializer!r:.80} as its serializer; expected an hg.TypeSerializer")


def part_serializers(
    types: Sequence[Hint | None], given: Sequence[TypeSerializer[T] | None], what: str
) -> list[TypeSerializer[T]]:
    """Return a serializer for each part of a state: the one in `given`, or, where that is None, its type's.
    `types` are the parts' annotations; `given` is as long, or empty. UsageError, naming the state `what`, if
    an object is no serializer, or a type has none.
    """
    for serializer in given:
        if serializer is not None:
            check_is_serializer(serializer, what)
    pairs = zip(types, given or (None,) * len(types), strict=True)
    return [serializer_for(hint, what) if serializer is None else serializer for hint, serializer in pairs]


def _with_nested(serializer: TypeSerializer[T], where: str) -> Iterator[TypeSerializer[T]]:
    snapshot = _snapshot_of(serializer, where)
    if isinstance(snapshot, CompositeTypeSerializerSnapshot):
        for nested in snapshot.nested_serializers(serializer):
            check_is_serializer(nested, f"{where}: {serializer.name}")
            yield from _with_nested(nested, where)
    yield serializer


def _check_methods(serializer: TypeSerializer[T], where: str) -> None:
    cls = type(serializer)
    missing = [
        [name for name in pair if getattr(cls, name) is getattr(TypeSerializer, name)] for pair in _PAIRS
    ]
    for pair, names in zip(_PAIRS, missing, strict=True):
        if len(names) == 1:
            both = " and ".join(f"{name}()" for name in pair)
            raise UsageError(f"{where}: {cls.__qualname__} has no {names[0]}(); it needs both {both}")
    if all(missing):
        raise UsageError(
            f"{where}: {cls.__qualname__} neither has encode() and decode() for one value nor encode_many() "
            "and decode_many() for a batch; implement one pair"
        )


def _snapshot_of(serializer: TypeSerializer[T], where: str) -> TypeSerializerSnapshot[T]:
    try:
        snapshot: TypeSerializerSnapshot[T] | None = serializer.snapshot()
    except HeadgateError:
        raise
    except BaseException as error:  # the user's code raises whatever it likes
        let_pass(error)
        raise UsageError(
            f"{where}: {serializer.name}.snapshot() raised {text_with_line(error)}; it must work as "
            "soon as the serializer is made"
        ) from error
    if not isinstance(snapshot, TypeSerializerSnapshot):
        raise UsageError(
            f"{where}: {serializer.name}.snapshot() gave {snapshot!r:.80}; expected an "
            "hg.TypeSerializerSnapshot"
        )
    return snapshot


def _check_class(cls: type, where: str) -> None:
    name = f"snapshot class {cls.__qualname__}"
    if "." in cls.__qualname__:
        raise UsageError(
            f"{where}: {name} is local or nested, so a later program cannot find it by its name; move it to "
            "the top of a module"
        )
    if cls.__module__ != "__main__" and not _importable(cls.__module__):
        raise UsageError(
            f"{where}: {name} is of module {cls.__module__}, which cannot be imported, so a later program "
            "cannot find it; put it into a file on the import path"
        )
    module = sys.modules.get(cls.__module__)
    if module is not None and getattr(module, cls.__qualname__, None) is not cls:
        raise UsageError(
            f"{where}: {name} is not what its module calls {cls.__qualname__}, so it is anonymous to a later "
            "program; define it with a class statement at the top of the module, under a name of its own"
        )


def _importable(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except (ImportError, ValueError):
        return False


def _check_round_trip(snapshot: TypeSerializerSnapshot[T], where: str) -> None:
    try:
        restored = snapshot_from_bytes(snapshot_to_bytes(snapshot), [type(snapshot)])
    except HeadgateError as error:
        raise UsageError(f"{where}: {error}") from error
    if type(restored) is not type(snapshot):
        raise UsageError(
            f"{where}: {logical_name(type(snapshot))} is read back as {logical_name(type(restored))}; give "
            "each snapshot class a name of its own"
        )
