"""State with serializers of the user's: annotations before and after them, and what their code raises.

The four verdicts, for every kind of state and backend, are in `headgate.testing.suites.backend.schemas`.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest

import headgate as hg
from headgate.api.declared.keyed_states import StateDescriptor, declared_state
from headgate.common.errors import StorageError, UsageError
from headgate.state.heap.backend import HeapKeyedBackend
from headgate.state.rocksdb.backend import RocksKeyedBackend
from headgate.state.rocksdb.rocksdb_memory import LIMIT_MIN, RocksMemory
from headgate.testing.suites.backend.formats import VersionedSerializer, held, put, versioned
from headgate.testing.suites.value_checks import snapshot_blob

GROUPS = 8
VALUE = ("foo", 1456)
Compatibility = hg.TypeSerializerSchemaCompatibility
Make = Callable[[dict[str, StateDescriptor]], Any]


@pytest.fixture(params=["heap", pytest.param("rocksdb", marks=pytest.mark.ci)])
def make(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Make]:
    """Makes backends of one kind; what does not depend on it is tried with RocksDB in the long run only."""
    opened: list[Any] = []
    numbers, memory = count(), RocksMemory(LIMIT_MIN)

    def made(declared: dict[str, StateDescriptor]) -> Any:
        groups = (0, GROUPS - 1, GROUPS)
        if request.param == "heap":
            return HeapKeyedBackend(declared, *groups)
        directory = tmp_path / str(next(numbers))
        opened.append(RocksKeyedBackend(declared, *groups, directory=directory, memory=memory))
        return opened[-1]

    yield made
    for backend in opened:
        backend.close()


def written(make: Make, kind: str, serializer: Any, value: Any = VALUE) -> bytes:
    """A snapshot with one value."""
    backend = make(versioned(kind, serializer))
    backend.bind("a")
    put(kind, backend.handles[kind], value)
    backend.store()
    return blob_of(backend)


def blob_of(backend: Any) -> bytes:
    """The canonical blob of a snapshot."""
    return snapshot_blob(backend.snapshot_sync())


@pytest.mark.parametrize("kind", ["one", "many", "named"])
def test_a_serializer_gets_the_place_of_an_annotation_and_not_back(make: Make, kind: str) -> None:
    """Only where the new snapshot takes what was there; a built-in serializer takes nothing of the user's."""
    blob = written(make, kind, None)
    with pytest.raises(UsageError, match=f"state '{kind}' .*these values had no version"):
        make(versioned(kind, VersionedSerializer(1))).restore([blob])
    backend = make(versioned(kind, TakesAny(1)))
    backend.restore([blob])
    backend.bind("a")
    assert held(kind, backend.handles[kind]) == [VALUE]
    backend.store()
    with pytest.raises(UsageError, match=f"state '{kind}' .*a built-in serializer reads only"):
        make(versioned(kind, None)).restore([blob_of(backend)])


class TakesAny(VersionedSerializer):
    """Also what an annotation stored."""

    def snapshot(self) -> Any:
        return TakesAnySnapshot()


class TakesAnySnapshot(hg.SimpleTypeSerializerSnapshot[Any]):
    def __init__(self) -> None:
        super().__init__(lambda: TakesAny(1))

    def resolve_schema_compatibility(self, old_snapshot: Any) -> Compatibility[Any]:
        if isinstance(old_snapshot, hg.DescribedSnapshot):
            return Compatibility.compatible_after_migration()
        return super().resolve_schema_compatibility(old_snapshot)


class Given:
    """Built-in serializers that are given, and annotations that say something else."""

    one: hg.ValueState[Any] = hg.value_state(serializer=hg.serializer_for(list[int]))
    many: hg.ListState[Any] = hg.list_state(serializer=hg.serializer_for(int))
    free: hg.ListState[int] = hg.list_state(serializer=hg.serializer_for(Any))
    named: hg.MapState[Any, Any] = hg.map_state(
        key_serializer=hg.serializer_for(str), serializer=hg.serializer_for(int)
    )
    half: hg.MapState[str, Any] = hg.map_state(serializer=hg.serializer_for(int))
    total: hg.ReducingState[Any] = hg.reducing_state(operator.add, serializer=hg.serializer_for(int))


class Annotated:
    """The same by annotations alone."""

    one: hg.ValueState[list[int]] = hg.value_state()
    many: hg.ListState[int] = hg.list_state()
    free: hg.ListState[Any] = hg.list_state()
    named: hg.MapState[str, int] = hg.map_state()
    half: hg.MapState[str, int] = hg.map_state()
    total: hg.ReducingState[int] = hg.reducing_state(operator.add)


@pytest.mark.parametrize("writer", [Given, Annotated])
@pytest.mark.parametrize("reader", [Given, Annotated])
def test_a_built_in_serializer_that_is_given_is_what_its_annotation_is(
    make: Make, writer: Any, reader: Any
) -> None:
    """The description does not tell them apart, so their bytes are the same."""
    backend = make(declared_state(writer()))
    backend.bind("a")
    handles = backend.handles
    handles["one"].value = [1, 2**70]
    handles["many"].extend([1, 2])
    handles["free"].extend([1, ("x", 2)])
    for name in ("named", "half"):
        handles[name].put("b", 3)
    handles["total"].add(4)
    backend.store()
    blob = blob_of(backend)
    restored = make(declared_state(reader()))
    restored.restore([blob])
    restored.bind("a")
    handles = restored.handles
    assert (handles["one"].value, handles["many"].get()) == ([1, 2**70], [1, 2])
    assert (handles["free"].get(), handles["total"].get()) == ([1, ("x", 2)], 4)
    assert [list(handles[name].items()) for name in ("named", "half")] == [[("b", 3)]] * 2
    assert blob_of(restored) == blob


def test_what_the_users_decoder_raises_names_the_state(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """An exception in the user's code at a restore is a damaged value, with the state's name."""
    blob = written(make, "one", Broken(1))
    monkeypatch.setattr(Broken, "restoring", True)
    with pytest.raises(StorageError, match=r"'one', key group .*: stored values do not decode as Broken"):
        make(versioned("one", Broken(1))).restore([blob])


class Broken(VersionedSerializer):
    """Reads nothing that comes from a checkpoint."""

    restoring = False

    def decode(self, data: bytes) -> Any:
        if self.restoring:
            raise LookupError("not there")
        return super().decode(data)

    def snapshot(self) -> Any:
        return BrokenSnapshot()


class BrokenSnapshot(hg.SimpleTypeSerializerSnapshot[Any]):
    def __init__(self) -> None:
        super().__init__(lambda: Broken(1))


def test_a_value_that_does_not_fit_is_refused_with_the_states_name(make: Make) -> None:
    """When it is written, not when it is restored."""
    why = "state 'one' cannot be stored: 'no pair' of type str is not a Versioned"
    with pytest.raises(UsageError, match=why):
        written(make, "one", VersionedSerializer(1), "no pair")


@pytest.mark.parametrize("wrong", [VersionedSerializer, "text"])
def test_what_is_no_serializer_is_refused(make: Make, wrong: Any) -> None:
    """A class, and something else."""
    with pytest.raises(UsageError, match="state 'one' got"):
        make(versioned("one", wrong))
