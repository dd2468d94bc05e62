"""Tests of state whose type or serializer changed between a checkpoint and its restore."""

from __future__ import annotations

from typing import Final

import pytest

from headgate.api.declared.keyed_states import StateDescriptor
from headgate.common.errors import UsageError
from headgate.common.plain_data import mappings_in
from headgate.serde.snapshots.snapshot_wire import snapshot_from_bytes
from headgate.state.backend import KeyedBackend
from headgate.state.snapshots import KeyedStateHandle
from headgate.state.stored.blob_format import BytesBlob, read_header
from headgate.testing.suites.backend.bench import Bench
from headgate.testing.suites.backend.formats import (
    KINDS,
    VersionedSerializer,
    VersionedSnapshot,
    held,
    put,
    versioned,
)
from headgate.testing.suites.backend.states import GROUPS, bound
from headgate.testing.suites.backend.suite_bench import BackendTests
from headgate.testing.suites.value_checks import snapshot_blob

VALUES: Final = {1: ("foo", 1456), 2: ("bar", 478), 3: ("hello", 189)}
FIRST: Final = VersionedSerializer(1)
SECOND: Final = VersionedSerializer(2, migrates=(1,))
RECONFIGURING: Final = VersionedSerializer(4, reconfigures=(1,))
UNKNOWN: Final = VersionedSerializer(6)
MIGRATED: Final = [kind for kind in KINDS if kind != "keyed"]


class SchemaTests(BackendTests):
    """Tests that values of an older format become values of the program, or that the restore is refused."""

    @pytest.mark.parametrize("kind", KINDS)
    def test_ss7_values_are_read_as_they_are(self, bench: Bench, kind: str) -> None:
        """Values of an unchanged serializer of the user's are read as they are, in every kind of state."""
        backend = bench.backend(versioned(kind, FIRST), stored=[_written(bench, kind)])
        _check(backend, kind)
        assert _version_of(backend, kind) == 1

    @pytest.mark.parametrize("kind", MIGRATED)
    def test_ss7_values_are_migrated(self, bench: Bench, kind: str) -> None:
        """The old serializer reads the values, the new one writes them; later updates and snapshots work."""
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
        """A reconfigured serializer replaces the declared one, for keys of map state, too."""
        backend = bench.backend(versioned(kind, RECONFIGURING), stored=[_written(bench, kind)])
        _check(backend, kind)
        assert _version_of(backend, kind) == 1
        assert backend.state_types() == bench.backend(versioned(kind, FIRST)).state_types()
        _check(bench.backend(versioned(kind, FIRST), stored=[bench.store(backend, 2, 1)]), kind)

    @pytest.mark.parametrize("kind", KINDS)
    def test_ss7_an_incompatible_serializer_is_refused(self, bench: Bench, kind: str) -> None:
        """An incompatible serializer raises UsageError, which names state, both serializers and reason."""
        name = VersionedSerializer.__name__
        why = f"state '{kind}' .*serializer .*{name}.*{name}.* which wrote.*version 1 is not known"
        with pytest.raises(UsageError, match=why):
            bench.backend(versioned(kind, UNKNOWN), stored=[_written(bench, kind)])

    def test_g25_keys_of_map_state_are_not_migrated(self, bench: Bench) -> None:
        """A changed serializer of map keys raises UsageError: the bytes of a key identify its entry."""
        why = r"state 'keyed' .* the type of its keys changed .*the order changed"
        with pytest.raises(UsageError, match=why):
            bench.backend(versioned("keyed", SECOND), stored=[_written(bench, "keyed")])

    def test_declared_types_may_become_wider(self, bench: Bench) -> None:
        """Values of a type that was widened, int to float, are floats after the restore, and stay so."""
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
        """A changed type or kind of state raises UsageError with its name, before anything is read."""
        with pytest.raises(UsageError, match=f"state 'v' of the checkpoint .*{why}"):
            bench.backend(_of(*changed), stored=[_ints(bench)])

    def test_state_without_entries_may_change_in_any_way(self, bench: Bench) -> None:
        """A state without entries may change its serializer in any way, as nothing has to be read."""
        stored = bench.store(bench.backend(versioned("one", FIRST)))
        assert _version_of(bench.backend(versioned("one", UNKNOWN), stored=[stored]), "one") == 6

    def test_all_subtasks_write_one_format(self, bench: Bench) -> None:
        """A subtask without entries is reconfigured like the others, so that all write one format."""
        stored = [_written(bench, "one")]
        for number, parallelism in enumerate((3, 5), 2):
            subtasks = bench.subtasks(parallelism, stored, versioned("one", RECONFIGURING))
            assert [_version_of(one, "one") for one in subtasks] == [1] * parallelism
            stored = bench.store_all(subtasks, number)

    def test_two_formats_in_one_checkpoint_are_both_read(self, bench: Bench) -> None:
        """Parts of one checkpoint that different versions of a serializer wrote are all read."""
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
    backend = bench.backend(versioned(kind, FIRST))
    for key, value in VALUES.items():
        with bound(backend, key) as handles:
            put(kind, handles[kind], value)
    return bench.store(backend)


def _check(backend: KeyedBackend, kind: str) -> None:
    for key, value in VALUES.items():
        with bound(backend, key) as handles:
            assert held(kind, handles[kind]) == [value]


def _version_of(backend: KeyedBackend, kind: str) -> int:
    blob = snapshot_blob(backend.snapshot_sync())
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
    backend = bench.backend(_of("value", int))
    for key in range(50):
        with bound(backend, key) as handles:
            handles["v"].value = key
    return bench.store(backend)
