"""State whose type or serializer changed between a checkpoint and its restore: the four verdicts.

The serializer of the tests has several formats, and its snapshot judges as a test wants it.
"""

from __future__ import annotations

from typing import Any, Final

import pytest

from headgate.api.declared.keyed_states import (
    AggregateFunction,
    AggregatingState,
    ListState,
    MapState,
    ReducingState,
    StateDescriptor,
    ValueState,
    aggregating_state,
    declared_state,
    list_state,
    map_state,
    reducing_state,
    value_state,
)
from headgate.common.errors import UsageError
from headgate.common.plain_data import mappings_in
from headgate.serde.serializer import (
    TypeSerializer,
    TypeSerializerSchemaCompatibility,
    TypeSerializerSnapshot,
)
from headgate.serde.snapshots.snapshot_views import DataInputView, DataOutputView
from headgate.serde.snapshots.snapshot_wire import snapshot_from_bytes
from headgate.state.backend import KeyedBackend
from headgate.state.heap.heap_blob import BytesBlob, read_header
from headgate.state.snapshots import KeyedStateHandle
from headgate.testing.suites.backend.bench import Bench
from headgate.testing.suites.backend.states import GROUPS, bound
from headgate.testing.suites.backend.suite_bench import BackendTests

Value = tuple[str, int]
Compatibility = TypeSerializerSchemaCompatibility[Value]


class VersionedSerializer(TypeSerializer[Value]):
    """A text and a number: odd versions of the format write the text first, even ones the number.

    It migrates values of the versions `migrates`, and goes on with the format of those in `reconfigures`.
    """

    immutable = True

    def __init__(
        self, version: int, migrates: tuple[int, ...] = (), reconfigures: tuple[int, ...] = ()
    ) -> None:
        self.version, self.migrates, self.reconfigures = version, migrates, reconfigures

    def encode(self, value: Value) -> bytes:
        """Both as text, with a bar between them."""
        text, number = value
        return "|".join((text, str(number)) if self.version % 2 else (str(number), text)).encode()

    def decode(self, data: bytes) -> Value:
        """In the order of the version."""
        first, second = data.decode().split("|")
        return (first, int(second)) if self.version % 2 else (second, int(first))

    def snapshot(self) -> VersionedSnapshot:
        """The version."""
        return VersionedSnapshot(self)


class VersionedSnapshot(TypeSerializerSnapshot[Value]):
    """Which version wrote the values."""

    def __init__(self, serializer: VersionedSerializer | None = None) -> None:
        self.serializer = serializer or VersionedSerializer(0)

    def current_version(self) -> int:
        """The first one."""
        return 1

    def write_snapshot(self, out: DataOutputView) -> None:
        """The serializer's version."""
        out.write_int(self.serializer.version)

    def read_snapshot(self, read_version: int, in_: DataInputView) -> None:
        """The serializer's version."""
        self.serializer = VersionedSerializer(in_.read_int())

    def restore_serializer(self) -> VersionedSerializer:
        """Of the version that was stored."""
        return self.serializer

    def resolve_schema_compatibility(self, old_snapshot: TypeSerializerSnapshot[Value]) -> Compatibility:
        """As the new serializer wants it."""
        if not isinstance(old_snapshot, VersionedSnapshot):
            return TypeSerializerSchemaCompatibility.incompatible("these values had no version")
        old, new = old_snapshot.serializer.version, self.serializer
        if old == new.version:
            return TypeSerializerSchemaCompatibility.compatible_as_is()
        if old in new.migrates:
            return TypeSerializerSchemaCompatibility.compatible_after_migration("the order changed")
        if old in new.reconfigures:
            return TypeSerializerSchemaCompatibility.compatible_with_reconfigured_serializer(
                VersionedSerializer(old)
            )
        return TypeSerializerSchemaCompatibility.incompatible(f"version {old} is not known")


class _Last(AggregateFunction[Value, Value, Value]):
    def create_accumulator(self) -> Value:
        return "", 0

    def add(self, value: Value, accumulator: Value) -> Value:
        return value

    def get_result(self, accumulator: Value) -> Value:
        return accumulator


KINDS = ["one", "many", "named", "keyed", "most", "last"]
"""States of :func:`versioned`; the fourth has the serializer for the keys of a map."""


def versioned(kind: str, serializer: VersionedSerializer) -> dict[str, StateDescriptor]:
    """A program with one state whose values, or keys, have a serializer."""

    class Program:
        one: ValueState[Value] = value_state(serializer=serializer)
        many: ListState[Value] = list_state(serializer=serializer)
        named: MapState[str, Value] = map_state(serializer=serializer)
        keyed: MapState[Value, int] = map_state(key_serializer=serializer)
        most: ReducingState[Value] = reducing_state(max, serializer=serializer)
        last: AggregatingState[Value, Value] = aggregating_state(_Last(), serializer=serializer)

    return {kind: declared_state(Program())[kind]}


def put(kind: str, handle: Any, value: Value) -> None:
    """Put a value into a state, in addition to what it holds where it can hold several."""
    if kind == "one":
        handle.value = value
    elif kind == "named":
        handle.put(value[0], value)
    elif kind == "keyed":
        handle.put(value, value[1])
    else:
        handle.add(value)


def held(kind: str, handle: Any) -> list[Value]:
    """The values that a state holds."""
    if kind == "many":
        found: list[Value] = handle.get()
        return found
    if kind in ("named", "keyed"):
        return [entry[0] if kind == "keyed" else entry[1] for entry in handle.items()]
    return [handle.value if kind == "one" else handle.get()]


VALUES: Final = {1: ("foo", 1456), 2: ("bar", 478), 3: ("hello", 189)}
FIRST: Final = VersionedSerializer(1)
SECOND: Final = VersionedSerializer(2, migrates=(1,))
RECONFIGURING: Final = VersionedSerializer(4, reconfigures=(1,))
UNKNOWN: Final = VersionedSerializer(6)
MIGRATED: Final = [kind for kind in KINDS if kind != "keyed"]


class SchemaTests(BackendTests):
    """Values of an older format become those of the program, or the job does not start."""

    @pytest.mark.parametrize("kind", KINDS)
    def test_ss7_values_are_read_as_they_are(self, bench: Bench, kind: str) -> None:
        """An unchanged serializer of the user's, in every kind of state."""
        backend = bench.backend(versioned(kind, FIRST), stored=[_written(bench, kind)])
        _check(backend, kind)
        assert _version_of(backend, kind) == 1

    @pytest.mark.parametrize("kind", MIGRATED)
    def test_ss7_values_are_migrated(self, bench: Bench, kind: str) -> None:
        """Read by the old serializer, written by the new one; updates and further snapshots work."""
        backend = bench.backend(versioned(kind, SECOND), stored=[_written(bench, kind)])
        _check(backend, kind)
        with bound(backend, 1) as handles:
            put(kind, handles[kind], ("new", 9))
            expected = held(kind, handles[kind])
        assert _version_of(backend, kind) == 2
        later = bench.backend(versioned(kind, SECOND), stored=[bench.store(backend, 2, 1)])
        later.bind(1)
        assert held(kind, later.handles[kind]) == expected
        assert _version_of(later, kind) == 2

    @pytest.mark.parametrize("kind", KINDS)
    def test_ss7_a_reconfigured_serializer_goes_on(self, bench: Bench, kind: str) -> None:
        """It reads and writes in place of the declared one, for keys of map state, too (G25)."""
        backend = bench.backend(versioned(kind, RECONFIGURING), stored=[_written(bench, kind)])
        _check(backend, kind)
        assert _version_of(backend, kind) == 1
        assert backend.state_types() == bench.backend(versioned(kind, FIRST)).state_types()
        _check(bench.backend(versioned(kind, FIRST), stored=[bench.store(backend, 2, 1)]), kind)

    @pytest.mark.parametrize("kind", KINDS)
    def test_ss7_an_incompatible_serializer_is_refused(self, bench: Bench, kind: str) -> None:
        """The error names the state, both serializers and why (G8)."""
        name = VersionedSerializer.__name__
        why = f"state '{kind}' .*serializer .*{name}.*{name}.* which wrote.*version 1 is not known"
        with pytest.raises(UsageError, match=why):
            bench.backend(versioned(kind, UNKNOWN), stored=[_written(bench, kind)])

    def test_g25_keys_of_map_state_are_not_migrated(self, bench: Bench) -> None:
        """The keys decide which entry is meant."""
        why = r"state 'keyed' .* the type of its keys changed .*the order changed"
        with pytest.raises(UsageError, match=why):
            bench.backend(versioned("keyed", SECOND), stored=[_written(bench, "keyed")])

    def test_declared_types_may_become_wider(self, bench: Bench) -> None:
        """Values of an annotation follow its change, and stay changed."""
        stored, widened = [_ints(bench)], _of("value", float)
        for number in (2, 3):
            backend = bench.backend(widened, stored=stored)
            found = dict(backend.scan("v"))
            assert found == {key: float(key) for key in range(50)}
            assert {type(value) for value in found.values()} == {float}
            stored = [bench.store(backend, number, number - 1)]

    @pytest.mark.parametrize(
        ("changed", "why"),
        [(("value", str), "was int and is str"), (("list", int), "kind was value and is list")],
        ids=["type", "kind"],
    )
    def test_declared_types_that_do_not_fit_are_refused(
        self, bench: Bench, changed: tuple[str, type], why: str
    ) -> None:
        """By the state's name, before anything is read."""
        with pytest.raises(UsageError, match=f"state 'v' of the checkpoint .*{why}"):
            bench.backend(_of(*changed), stored=[_ints(bench)])

    def test_state_without_entries_may_change_in_any_way(self, bench: Bench) -> None:
        """Nothing of it has to be read."""
        stored = bench.store(bench.backend(versioned("one", FIRST)))
        assert _version_of(bench.backend(versioned("one", UNKNOWN), stored=[stored]), "one") == 6

    def test_all_subtasks_write_one_format(self, bench: Bench) -> None:
        """One without entries is reconfigured like its neighbours, so the next restore reads one format."""
        stored = [_written(bench, "one")]
        for number, parallelism in enumerate((3, 5), 2):
            subtasks = bench.subtasks(parallelism, stored, versioned("one", RECONFIGURING))
            assert [_version_of(one, "one") for one in subtasks] == [1] * parallelism
            stored = bench.store_all(subtasks, number)

    def test_two_formats_in_one_checkpoint_are_both_read(self, bench: Bench) -> None:
        """Parts of one checkpoint that were written by different versions of a serializer."""
        halves = [(0, GROUPS // 2 - 1), (GROUPS // 2, GROUPS - 1)]
        whole, parts = _written(bench, "one"), []
        for subtask, (groups, version) in enumerate(zip(halves, (1, 8), strict=True)):
            states = versioned("one", VersionedSerializer(version, migrates=(1,)))
            parts.append(bench.store(bench.backend(states, groups, [whole]), 2, subtask=subtask))
        both = versioned("one", VersionedSerializer(2, migrates=(1, 8)))
        backend = bench.backend(both, stored=parts)
        _check(backend, "one")
        assert _version_of(backend, "one") == 2


def _written(bench: Bench, kind: str) -> KeyedStateHandle:
    """A checkpoint in the first version."""
    backend = bench.backend(versioned(kind, FIRST))
    for key, value in VALUES.items():
        with bound(backend, key) as handles:
            put(kind, handles[kind], value)
    return bench.store(backend)


def _check(backend: KeyedBackend, kind: str) -> None:
    """Demand that the written values are there."""
    for key, value in VALUES.items():
        with bound(backend, key) as handles:
            assert held(kind, handles[kind]) == [value]


def _version_of(backend: KeyedBackend, kind: str) -> int:
    """The version in which a whole snapshot stores the state."""
    blob = b"".join(bytes(part) for part in backend.snapshot_sync().write())
    (section,) = [one for one in read_header(BytesBlob(blob))[0].sections if one.name == kind]
    (part,) = [part for part in mappings_in(section.schema, "of") if part["kind"] == "custom"]
    stored = part["snapshot"]
    assert isinstance(stored, bytes)
    snapshot = snapshot_from_bytes(stored)
    assert isinstance(snapshot, VersionedSnapshot)
    return snapshot.serializer.version


def _of(kind: str, hint: type) -> dict[str, StateDescriptor]:
    return {"v": StateDescriptor("v", kind, (hint,), lambda: None)}


def _ints(bench: Bench) -> KeyedStateHandle:
    """A checkpoint of numbers under themselves."""
    backend = bench.backend(_of("value", int))
    for key in range(50):
        with bound(backend, key) as handles:
            handles["v"].value = key
    return bench.store(backend)
