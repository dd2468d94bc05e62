"""State with serializers of the user's, on both backends: stored, migrated, reconfigured and refused."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest

import headgate as hg
from headgate.api.state import StateDescriptor, declared_state
from headgate.common.errors import StorageError, UsageError
from headgate.serde.snapshot_wire import snapshot_from_bytes
from headgate.state.heap.backend import HeapKeyedBackend
from headgate.state.heap.blob import BytesBlob, read_header
from headgate.state.rocksdb.backend import RocksKeyedBackend
from headgate.state.rocksdb.memory import LIMIT_MIN, RocksMemory

GROUPS = 8
HEAP_FIRST = pytest.mark.parametrize(
    "make", ["heap", pytest.param("rocksdb", marks=pytest.mark.ci)], indirect=True
)
"""What does not depend on the backend is tried with RocksDB in the long run only."""

VALUES = {1: ("foo", 1456), 2: ("bar", 478), 3: ("hello", 189)}
Compatibility = hg.TypeSerializerSchemaCompatibility
Value = tuple[str, int]
Make = Callable[..., Any]


class PairSerializer(hg.TypeSerializer[Value]):
    """A text and a number, which format says in which order; version 3 may stand for version 1."""

    immutable = True

    def __init__(
        self, version: int, accepts: tuple[int, ...] = (), reconfigures: tuple[int, ...] = ()
    ) -> None:
        self.version, self.accepts, self.reconfigures = version, accepts, reconfigures

    def encode(self, value: Value) -> bytes:
        text, number = value
        parts = (text, str(number)) if self.version == 1 else (str(number), text)
        return "|".join(parts).encode()

    def decode(self, data: bytes) -> Value:
        first, second = data.decode().split("|")
        return (first, int(second)) if self.version == 1 else (second, int(first))

    def snapshot(self) -> PairSnapshot:
        return PairSnapshot(self)


class PairSnapshot(hg.TypeSerializerSnapshot[Value]):
    def __init__(self, serializer: PairSerializer | None = None) -> None:
        self.serializer = serializer or PairSerializer(0)

    def current_version(self) -> int:
        return 1

    def write_snapshot(self, out: hg.DataOutputView) -> None:
        out.write_int(self.serializer.version)

    def read_snapshot(self, read_version: int, in_: hg.DataInputView) -> None:
        self.serializer = PairSerializer(in_.read_int())

    def restore_serializer(self) -> PairSerializer:
        return self.serializer

    def resolve_schema_compatibility(self, old_snapshot: Any) -> Compatibility[Value]:
        if not isinstance(old_snapshot, PairSnapshot):
            return Compatibility.incompatible("these were no pairs")
        old, new = old_snapshot.serializer.version, self.serializer
        if old == new.version:
            return Compatibility.compatible_as_is()
        if old in new.accepts:
            return Compatibility.compatible_after_migration("the order changed")
        if old in new.reconfigures:
            return Compatibility.compatible_with_reconfigured_serializer(PairSerializer(old))
        return Compatibility.incompatible(f"version {old} is not known")


FIRST = PairSerializer(1)
SECOND = PairSerializer(2, accepts=(1,))
RECONFIGURING = PairSerializer(3, reconfigures=(1,))
STRANGER = PairSerializer(4)


def states(serializer: Any, only: str = "") -> dict[str, StateDescriptor]:
    """A program with one state of every kind, or of one."""

    class Program:
        one: hg.ValueState[Any] = hg.value_state(serializer=serializer)
        many: hg.ListState[Any] = hg.list_state(serializer=serializer)
        named: hg.MapState[str, Any] = hg.map_state(serializer=serializer)
        keyed: hg.MapState[Any, int] = hg.map_state(key_serializer=serializer)
        most: hg.ReducingState[Any] = hg.reducing_state(max, serializer=serializer)
        last: hg.AggregatingState[Any, Any] = hg.aggregating_state(Last(), serializer=serializer)

    return {name: state for name, state in declared_state(Program()).items() if only in ("", name)}


class Last(hg.AggregateFunction[Any, Any, Any]):
    def create_accumulator(self) -> Any:
        return ("", 0)

    def add(self, value: Any, accumulator: Any) -> Any:
        return value

    def get_result(self, accumulator: Any) -> Any:
        return accumulator


@pytest.fixture(params=["heap", "rocksdb"])
def make(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Make]:
    """Makes backends of one kind, with all key groups or a part of them."""
    opened: list[Any] = []
    numbers = count()

    def made(declared: dict[str, StateDescriptor], groups: tuple[int, int] = (0, GROUPS - 1)) -> Any:
        if request.param == "heap":
            return HeapKeyedBackend(declared, *groups, GROUPS)
        directory = tmp_path / str(next(numbers))
        memory = RocksMemory(LIMIT_MIN)
        opened.append(RocksKeyedBackend(declared, *groups, GROUPS, directory=directory, memory=memory))
        return opened[-1]

    yield made
    for backend in opened:
        backend.close()


def fill(backend: Any) -> None:
    """Put the values into each state."""
    for key, value in VALUES.items():
        backend.bind(key)
        for name, handle in backend.handles.items():
            match name:
                case "one":
                    handle.value = value
                case "many":
                    handle.extend([value, (value[0], 7)])
                case "named":
                    handle.put(value[0], value)
                case "keyed":
                    handle.put(value, value[1])
                case _:
                    handle.add(value)
        backend.store()


def blob_of(backend: Any) -> bytes:
    """The canonical blob of a snapshot."""
    return b"".join(bytes(part) for part in backend.snapshot_sync().write())


def check(backend: Any) -> None:
    """What was put in is there."""
    for key, value in VALUES.items():
        backend.bind(key)
        held = {
            "one": lambda handle: handle.value,
            "many": lambda handle: handle.get(),
            "named": lambda handle: list(handle.items()),
            "keyed": lambda handle: list(handle.items()),
            "most": lambda handle: handle.get(),
            "last": lambda handle: handle.get(),
        }
        expected = {
            "one": value,
            "many": [value, (value[0], 7)],
            "named": [(value[0], value)],
            "keyed": [(value, value[1])],
            "most": value,
            "last": value,
        }
        for name, handle in backend.handles.items():
            assert held[name](handle) == expected[name]


def versions(blob: bytes) -> dict[str, list[int]]:
    """State -> the versions in which its parts are stored; of built-in parts none."""
    header, _ = read_header(BytesBlob(blob))
    found: dict[str, list[int]] = {}
    for section in header.sections:
        parts = [part for part in section.schema["of"] if part["kind"] == "custom"]
        snapshots: list[Any] = [snapshot_from_bytes(part["snapshot"]) for part in parts]
        found[section.name] = [one.serializer.version for one in snapshots]
    return found


KINDS = ["one", "many", "named", "keyed", "most", "last"]
MIGRATED = ["one", "many", "named", "most", "last"]


def written(make: Make, only: str = "", serializer: Any = FIRST) -> bytes:
    """A snapshot in the first version."""
    backend = make(states(serializer, only))
    fill(backend)
    return blob_of(backend)


def test_every_kind_of_state_holds_values_of_the_users_serializer(make: Make) -> None:
    """Stored and restored as they are; the descriptions say which parts are the user's."""
    blob = written(make)
    assert {name: found for name, found in versions(blob).items() if found} == {name: [1] for name in KINDS}
    backend = make(states(FIRST))
    backend.restore([blob])
    check(backend)
    assert blob_of(backend) == blob


@pytest.mark.parametrize("kind", MIGRATED)
def test_ss7_values_are_migrated(make: Make, kind: str) -> None:
    """sS7: read by the old serializer, written by the new one; updates and a second snapshot work."""
    backend = make(states(SECOND, kind))
    backend.restore([written(make, kind)])
    check(backend)
    blob = blob_of(backend)
    assert versions(blob)[kind] == [2]
    backend = make(states(PairSerializer(2), kind))
    backend.restore([blob])
    check(backend)
    backend.bind(1)
    if kind == "one":
        backend.handles["one"].value = ("new", 1)
        assert backend.handles["one"].value == ("new", 1)
    backend.store()
    assert versions(blob_of(backend))[kind] == [2]


@HEAP_FIRST
@pytest.mark.parametrize("kind", KINDS)
def test_ss7_a_reconfigured_serializer_goes_on(make: Make, kind: str) -> None:
    """sS7, G25: it reads and writes in place of the declared one, for keys of map state, too."""
    backend = make(states(RECONFIGURING, kind))
    backend.restore([written(make, kind)])
    check(backend)
    blob = blob_of(backend)
    assert versions(blob)[kind] == [1]
    assert backend.state_types()[kind]["of"] == make(states(FIRST, kind)).state_types()[kind]["of"]
    backend = make(states(FIRST, kind))
    backend.restore([blob])
    check(backend)


@HEAP_FIRST
@pytest.mark.parametrize("kind", KINDS)
def test_ss7_an_incompatible_serializer_is_refused(make: Make, kind: str) -> None:
    """sS7, G8: the error names the state, both serializers and why."""
    pair = "PairSerializer"
    with pytest.raises(
        UsageError,
        match=f"state '{kind}' .*serializer .*{pair}.*{pair}.* which wrote.*version 1 is not known",
    ):
        make(states(STRANGER, kind)).restore([written(make, kind)])


@HEAP_FIRST
def test_g25_keys_of_map_state_are_not_migrated(make: Make) -> None:
    """They decide what an entry is."""
    with pytest.raises(
        UsageError, match=r"state 'keyed' .* the type of its keys changed .*the order changed"
    ):
        make(states(SECOND, "keyed")).restore([written(make, "keyed")])


@HEAP_FIRST
@pytest.mark.parametrize("kind", ["one", "many", "named"])
def test_a_serializer_gets_the_place_of_an_annotation_and_back(make: Make, kind: str) -> None:
    """Only where the new snapshot takes what was there; a built-in serializer takes nothing of the user's."""
    blob = written(make, kind, None)
    with pytest.raises(UsageError, match=f"state '{kind}' .*these were no pairs"):
        make(states(FIRST, kind)).restore([blob])
    backend = make(states(TAKES_ANY, kind))
    backend.restore([blob])
    check(backend)
    with pytest.raises(UsageError, match=f"state '{kind}' .*a built-in serializer reads only"):
        make(states(None, kind)).restore([blob_of(backend)])


class TakesAny(PairSerializer):
    def snapshot(self) -> Any:
        return TakesAnySnapshot()


class TakesAnySnapshot(hg.SimpleTypeSerializerSnapshot[Value]):
    def __init__(self) -> None:
        super().__init__(lambda: TakesAny(1))

    def resolve_schema_compatibility(self, old_snapshot: Any) -> Compatibility[Value]:
        if isinstance(old_snapshot, hg.DescribedSnapshot):
            return Compatibility.compatible_after_migration()
        return super().resolve_schema_compatibility(old_snapshot)


TAKES_ANY = TakesAny(1)


@HEAP_FIRST
def test_all_subtasks_write_one_format(make: Make) -> None:
    """One without entries is reconfigured like its neighbours, so the next restore reads one format."""
    blob = written(make, "one")
    split = [(0, 2), (3, 3), (4, GROUPS - 1)]
    blobs = []
    for groups in split:
        backend = make(states(RECONFIGURING, "one"), groups)
        backend.restore([blob])
        blobs.append(blob_of(backend))
    assert [versions(one)["one"] for one in blobs] == [[1]] * 3
    # Also when its own old blob held no entry of the state.
    for groups, one in zip(split, blobs, strict=True):
        backend = make(states(RECONFIGURING, "one"), groups)
        backend.restore([one])
        assert versions(blob_of(backend))["one"] == [1]


@HEAP_FIRST
def test_state_without_entries_may_change_in_any_way(make: Make) -> None:
    """Nothing of it has to be read."""
    blob = written(make, "one")
    with pytest.raises(UsageError, match="state 'one'"):
        make(states(STRANGER, "one")).restore([blob])
    backend = make(states(STRANGER, "one"))
    backend.restore([blob_of(make(states(FIRST, "one")))])
    assert versions(blob_of(backend))["one"] == [4]


@HEAP_FIRST
def test_two_formats_in_one_checkpoint_are_both_read(make: Make) -> None:
    """Blobs of one checkpoint that were written by serializers of different versions."""
    halves = [(0, GROUPS // 2 - 1), (GROUPS // 2, GROUPS - 1)]
    stored, blobs = written(make, "one"), []
    for groups, serializer in zip(halves, (FIRST, PairSerializer(5)), strict=True):
        part = make(states(PairSerializer(serializer.version, accepts=(1,)), "one"), groups)
        part.restore([stored])
        blobs.append(blob_of(part))
    backend = make(states(PairSerializer(2, accepts=(1, 5)), "one"))
    backend.restore(blobs)
    check(backend)
    assert versions(blob_of(backend))["one"] == [2]


@HEAP_FIRST
def test_what_the_users_decoder_raises_names_the_state(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """An exception in the user's code at a restore is a damaged value, with the state's name."""
    blob = written(make, "one", Broken(1))
    monkeypatch.setattr(Broken, "restoring", True)
    with pytest.raises(StorageError, match=r"'one', key group .*: stored values do not decode as Broken"):
        make(states(Broken(1), "one")).restore([blob])


class Broken(PairSerializer):
    """Reads nothing that comes from a checkpoint."""

    restoring = False

    def decode(self, data: bytes) -> Value:
        if self.restoring:
            raise LookupError("not there")
        return super().decode(data)

    def snapshot(self) -> Any:
        return BrokenSnapshot()


class BrokenSnapshot(hg.SimpleTypeSerializerSnapshot[Value]):
    def __init__(self) -> None:
        super().__init__(lambda: Broken(1))


@HEAP_FIRST
def test_a_value_that_does_not_fit_is_refused_with_the_states_name(make: Make) -> None:
    """When it is written, not when it is restored."""
    backend = make(states(FIRST, "one"))
    backend.bind(1)
    backend.handles["one"].value = "no pair"
    backend.store()
    with pytest.raises(UsageError, match="state 'one' cannot be stored: 'no pair' of type str is not a Pair"):
        blob_of(backend)


@HEAP_FIRST
@pytest.mark.parametrize("wrong", [PairSerializer, "text"])
def test_what_is_no_serializer_is_refused(make: Make, wrong: Any) -> None:
    """A class, and something else."""
    with pytest.raises(UsageError, match="state 'one' got"):
        make(states(wrong, "one"))
