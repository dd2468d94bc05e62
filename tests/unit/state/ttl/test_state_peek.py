"""A look at live state from outside: the value as it is, for any kind and backend, and without effects."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ttl_samples import (
    HEAP,
    KINDS,
    LOGGED_HEAP,
    LOGGED_ROCKS,
    ROCKS,
    Files,
    blob_of,
    states,
    workbench,
    write,
)

import headgate as hg
from headgate.api.declared.keyed_states import StateDescriptor, StateKind
from headgate.api.declared.state_ttl import StateTtl, TtlUpdate, TtlVisibility
from headgate.common.errors import UsageError
from headgate.state.stored.value_readers import value_of
from headgate.state.targets import target_of

STORES = (HEAP, ROCKS)
SHOWN = {
    "count": 5, "log": [5], "totals": {"n5": 5}, "sum": 5, "mean": (1, 5), "basket": [5], "spread": [5, 5],
}  # fmt: skip
"""What is stored after one `write` of 5: of aggregating states the accumulator."""

Descriptors = dict[str, StateDescriptor]


def peeked(backend: Any, descriptors: Descriptors, key: Any) -> dict[str, Any]:
    """The values under a key of all states that hold any."""
    found = {name: backend.peek(name, key) for name in descriptors}
    return {
        name: value_of(name, stored, target_of(descriptors[name]))
        for name, stored in found.items()
        if stored is not None
    }


@pytest.mark.parametrize("store", STORES)
@pytest.mark.parametrize("ttl", [None, StateTtl(10)])
def test_every_kind_of_state_shows_what_it_holds(store: str, ttl: StateTtl | None) -> None:
    """Before anything is stored, live, while a snapshot is written, and restored."""
    declared = states(ttl)
    with workbench() as bench:
        backend = bench.make(store, declared)
        assert peeked(backend, declared, "ada") == {}
        write(backend, "ada", 5)
        write(backend, "bob", 7)
        assert peeked(backend, declared, "ada") == SHOWN
        pending = backend.snapshot_sync(1)
        assert peeked(backend, declared, "ada") == SHOWN
        blob = pending.store("uid", Files()).handle.data
        backend.settle()
        again = bench.make(store, declared, blob)
        assert peeked(backend, declared, "ada") == peeked(again, declared, "ada") == SHOWN
        assert peeked(again, declared, "cy") == {}


@pytest.mark.parametrize("store", STORES)
def test_what_was_shown_does_not_change_and_changes_nothing(store: str) -> None:
    """The live object stays with the state: a list that grows afterwards is another one, either way."""
    declared = states(None, "basket", "log")
    with workbench() as bench:
        backend = bench.make(store, declared)
        write(backend, "ada", 1)
        before = peeked(backend, declared, "ada")
        backend.bind("ada")
        backend.handles["basket"].value.append(2)
        backend.handles["log"].add(2)
        assert before == {"basket": [1], "log": [1]}
        after = peeked(backend, declared, "ada")
        after["basket"].append(3)
        assert peeked(backend, declared, "ada") == {"basket": [1, 2], "log": [1, 2]}


@pytest.mark.parametrize("store", STORES)
@pytest.mark.parametrize("visibility", list(TtlVisibility))
def test_what_is_over_is_not_shown_and_a_look_is_no_read(store: str, visibility: TtlVisibility) -> None:
    """A look does not prolong a life that reads prolong, nor remove what is over; elements end one by one."""
    ttl = StateTtl(10, update=TtlUpdate.ON_READ_AND_WRITE, visibility=visibility)
    declared = states(ttl)
    with workbench() as bench:
        backend = bench.make(store, declared)
        write(backend, "ada", 5)
        bench.clock.now = 9
        assert peeked(backend, declared, "ada") == SHOWN
        backend.handles["log"].bind("ada")
        backend.handles["log"].add(6)
        bench.clock.now = 10
        assert peeked(backend, declared, "ada") == {"log": [6]}
        assert all(each.removed == 0 for each in backend.statistics().values())


def test_restored_values_without_a_time_are_shown_from_the_restore_on() -> None:
    """Where a time to live was switched on, what was stored counts as written at the restore."""
    with workbench() as bench:
        plain = bench.make(HEAP, states(None, "count"))
        write(plain, "ada", 5)
        blob = plain.snapshot_sync(1).store("uid", Files()).handle.data
        bench.clock.now = 100
        declared = states(StateTtl(10), "count")
        backend = bench.make(HEAP, declared, blob)
        assert peeked(backend, declared, "ada") == {"count": 5}
        bench.clock.now = 110
        assert peeked(backend, declared, "ada") == {}


@pytest.mark.parametrize("store", STORES)
def test_a_value_of_another_type_is_refused_by_name(store: str) -> None:
    """What could not be stored cannot be shown; the state itself is as it was."""
    declared = states(None, "basket")
    with workbench() as bench:
        backend = bench.make(store, declared)
        backend.bind("ada")
        backend.handles["basket"].value = ["no number"]
        with pytest.raises(UsageError, match=r"'basket' cannot be shown: .*'no number'"):
            backend.peek("basket", "ada")
        assert backend.handles["basket"].value == ["no number"]


OPERATIONS = st.lists(
    st.tuples(st.sampled_from("abc"), st.integers(0, 3), st.booleans()), min_size=1, max_size=12
)


@settings(max_examples=4)
@given(OPERATIONS)
def test_a_look_at_any_time_gives_what_the_last_write_left(operations: list[tuple[str, int, bool]]) -> None:
    """Looks between any writes, removals and cuts, with a cache that holds hardly anything."""
    declared = {"count": states(None, "count")["count"], "basket": states(None, "basket")["basket"]}
    with workbench() as bench:
        for store in STORES:
            backend = bench.make(store, declared, cache=2)
            model: dict[str, Any] = {}
            for key, number, cut in operations:
                write(backend, key, number)
                model[key] = {"count": number, "basket": [number]}
                if number == 0:
                    # The default, and nothing: neither leaves an entry.
                    backend.bind(key)
                    backend.handles["basket"].clear()
                    backend.store()
                    model[key] = {}
                if cut:
                    backend.snapshot_sync(1).release()
                for each in "abc":
                    assert peeked(backend, declared, each) == model.get(each, {}), (store, each)


def test_stored_values_name_their_kind() -> None:
    """The description tells a list from its elements, as in a checkpoint."""
    with workbench() as bench:
        backend = bench.make(HEAP, states(None, *KINDS))
        write(backend, "ada", 5)
        kinds = {name: backend.peek(name, "ada").schema["kind"] for name in KINDS}
    assert kinds == {
        "count": StateKind.VALUE, "log": StateKind.LIST, "totals": StateKind.MAP, "sum": StateKind.REDUCING,
        "mean": StateKind.AGGREGATING, "basket": StateKind.VALUE, "spread": StateKind.AGGREGATING,
    }  # fmt: skip


class Words(hg.TypeSerializer[str]):
    """A word as its place in a list that every program has in an order of its own.

    Args:
        known: the list.
    """

    immutable = True

    def __init__(self, *known: str) -> None:
        self.known = list(known)

    def encode(self, value: str) -> bytes:
        return bytes([self.known.index(value)])

    def decode(self, data: bytes) -> str:
        return self.known[data[0]]

    def snapshot(self) -> hg.TypeSerializerSnapshot[str]:
        return WordsSnapshot(self)


class WordsSnapshot(hg.TypeSerializerSnapshot[str]):
    """Goes on with the stored list, and the new words behind it."""

    def __init__(self, words: Words | None = None) -> None:
        self.words = words or Words()

    def current_version(self) -> int:
        return 1

    def write_snapshot(self, out: Any) -> None:
        out.write_utf(" ".join(self.words.known))

    def read_snapshot(self, read_version: int, in_: Any) -> None:
        self.words = Words(*in_.read_utf().split())

    def restore_serializer(self) -> Words:
        return self.words

    def resolve_schema_compatibility(
        self, old_snapshot: hg.TypeSerializerSnapshot[Any]
    ) -> hg.TypeSerializerSchemaCompatibility[str]:
        assert isinstance(old_snapshot, WordsSnapshot)
        stored, declared = old_snapshot.words.known, self.words.known
        if stored == declared:
            return hg.TypeSerializerSchemaCompatibility.compatible_as_is()
        both = list(dict.fromkeys([*stored, *declared]))
        if both == stored:
            return hg.TypeSerializerSchemaCompatibility.compatible_with_reconfigured_serializer(Words(*both))
        return hg.TypeSerializerSchemaCompatibility.incompatible("there are new words")


def said(words: Words, ttl: StateTtl | None) -> Descriptors:
    """A state of one word and one of several."""
    return {
        "one": StateDescriptor("one", StateKind.VALUE, (str,), str, serializers=(words,), ttl=ttl),
        "many": StateDescriptor("many", StateKind.LIST, (str,), list, serializers=(words,), ttl=ttl),
    }


@pytest.mark.parametrize("store", [HEAP, ROCKS, LOGGED_HEAP, LOGGED_ROCKS])
@pytest.mark.parametrize("ttl", [None, StateTtl(10)])
def test_what_a_reconfigured_serializer_writes_is_shown(store: str, ttl: StateTtl | None) -> None:
    """A look goes by the serializer that the restore has put in place: the declared one knows less."""
    with workbench() as bench:
        old = bench.make(store, said(Words("low", "high"), ttl))
        old.bind("ada")
        old.handles["one"].value = "high"
        old.handles["many"].extend(["low", "high"])
        old.store()
        declared = said(Words("low"), ttl)
        backend = bench.make(store, declared, blob_of(old))
        shown = {"one": "high", "many": ["low", "high"]}
        assert peeked(backend, declared, "ada") == shown
        assert backend.peek("one", "ada").schema == backend.state_types()["one"]
