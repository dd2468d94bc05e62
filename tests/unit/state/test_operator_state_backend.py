"""Operator state of one subtask: what handles do, what a snapshot holds, what a restore takes and refuses."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import headgate as hg
from headgate.api.declared.operator_state import OperatorStateDescriptor
from headgate.common.errors import InternalError, StorageError, UsageError
from headgate.serde.resolve import serializer_for
from headgate.state.operator_state import OperatorStateBackend, blob_parts, read_columns
from headgate.state.snapshots import Inline, OperatorStateHandle

Stored = list[tuple[OperatorStateHandle, bytes]]


@dataclass
class Order:
    """Changes in place."""

    item: str
    count: int


@hg.formerly(f"{__name__}.Order")
@dataclass
class PricedOrder:
    """An order of the next version."""

    item: str
    count: float
    price: int | None = None


@dataclass(frozen=True)
class Place:
    """A key with two parts."""

    town: str
    street: str


@hg.formerly(f"{__name__}.Place")
@dataclass(frozen=True)
class Town:
    """Less of a key."""

    town: str


def backend(**states: tuple[str, Any]) -> OperatorStateBackend:
    """A backend of states, each given by mode and types."""
    declared = {}
    for name, (mode, *types) in states.items():
        declared[name] = OperatorStateDescriptor(name, mode, tuple(types), (None,) * len(types))
    return OperatorStateBackend(declared)


def stored(held: OperatorStateBackend) -> Stored:
    """What a snapshot leaves, as a restore gets it."""
    pending = held.snapshot_sync()
    try:
        handles = pending.store(lambda parts: Inline(b"".join(parts)))
    finally:
        pending.release()
    return [(handle, handle.handle.data) for handle in handles if isinstance(handle.handle, Inline)]


def restored(parts: Stored, **states: tuple[str, Any]) -> OperatorStateBackend:
    """A new backend with what was stored."""
    made = backend(**states)
    made.restore(parts)
    return made


def test_a_list_does_what_it_says() -> None:
    """Elements keep their order; what `get` gives is a list of its own."""
    waiting = backend(waiting=("split", int)).handles["waiting"]
    waiting.add(1)
    waiting.extend(n for n in (2, 3))
    got = waiting.get()
    got.append(4)
    assert (waiting.get(), len(waiting)) == ([1, 2, 3], 3)
    waiting.update(reversed(waiting.get()))
    assert waiting.get() == [3, 2, 1]
    waiting.clear()
    assert (waiting.get(), len(waiting)) == ([], 0)


def test_broadcast_state_does_what_it_says() -> None:
    """A map; iterating over it sees the entries of the moment."""
    rules = backend(rules=("broadcast", str, int)).handles["rules"]
    rules.put("b", 1)
    rules.put("a", 2)
    rules.put("b", 3)
    assert (rules.get("b"), rules.get("c"), rules.get("c", 0)) == (3, None, 0)
    assert ("a" in rules, "c" in rules, len(rules)) == (True, False, 2)
    for key in rules:
        rules.remove(key)
        rules.put(key * 2, 0)
    rules.remove("gone")
    assert rules.items() == [("bb", 0), ("aa", 0)]
    rules.clear()
    assert list(rules) == []


VALUES = st.recursive(st.none() | st.integers() | st.text(), lambda inner: st.lists(inner, max_size=3))


@settings(max_examples=40)
@given(st.lists(VALUES), st.dictionaries(st.text(), VALUES))
def test_a_restore_gives_what_was_stored(elements: list[Any], entries: dict[str, Any]) -> None:
    """Lists and maps of plain values come back equal and in order."""
    states: dict[str, Any] = {"a": ("split", Any), "b": ("union", Any), "c": ("broadcast", str, Any)}
    held = backend(**states)
    held.handles["a"].extend(elements)
    held.handles["b"].extend(elements[::-1])
    for key, value in entries.items():
        held.handles["c"].put(key, value)
    again = restored(stored(held), **states)
    assert again.handles["a"].get() == elements
    assert again.handles["b"].get() == elements[::-1]
    assert again.handles["c"].items() == list(entries.items())


def test_later_changes_do_not_reach_a_snapshot() -> None:
    """Neither those of the list nor those inside an element."""
    held = backend(orders=("split", Order), rules=("broadcast", str, Order))
    tea = Order("tea", 1)
    held.handles["orders"].add(tea)
    held.handles["rules"].put("tea", tea)
    pending = held.snapshot_sync()
    tea.count = 7
    held.handles["orders"].add(Order("milk", 2))
    held.handles["rules"].clear()
    handles = pending.store(lambda parts: Inline(b"".join(parts)))
    again = restored(
        [(handle, handle.handle.data) for handle in handles if isinstance(handle.handle, Inline)],
        orders=("split", Order),
        rules=("broadcast", str, Order),
    )
    assert again.handles["orders"].get() == [Order("tea", 1)]
    assert again.handles["rules"].items() == [("tea", Order("tea", 1))]


def test_what_is_released_is_not_stored() -> None:
    """A snapshot that was given up holds nothing, and can be released again."""
    held = backend(waiting=("split", int))
    held.handles["waiting"].add(1)
    pending = held.snapshot_sync()
    pending.release()
    pending.release()
    assert pending.store(lambda _: Inline(b"")) == []


def test_so2_an_empty_map_is_reported_and_an_empty_list_is_not() -> None:
    """sO2: that a map was reported decides who gets whose; of an empty list nothing is lost."""
    held = backend(waiting=("split", int), rules=("broadcast", str, int))
    ((handle, _),) = stored(held)
    assert (handle.name, handle.mode, handle.count) == ("rules", "broadcast", 0)


def test_parts_of_several_subtasks_are_joined_in_order() -> None:
    """Of each only the elements that are meant."""
    held = backend(waiting=("split", int))
    held.handles["waiting"].extend(range(10))
    ((handle, blob),) = stored(held)
    parts = [
        (msgspec.structs.replace(handle, first=first, stop=stop), blob)
        for first, stop in ((7, 9), (2, 4), (0, 0), (9, None))
    ]
    assert restored(parts, waiting=("split", int)).handles["waiting"].get() == [7, 8, 2, 3, 9]


def test_types_evolve_like_those_of_keyed_state() -> None:
    """Fields are added and widened in elements and in values."""
    held = backend(orders=("split", Order), rules=("broadcast", str, Order))
    held.handles["orders"].add(Order("tea", 1))
    held.handles["rules"].put("t", Order("tea", 2))
    again = restored(stored(held), orders=("split", PricedOrder), rules=("broadcast", str, PricedOrder))
    assert again.handles["orders"].get() == [PricedOrder("tea", 1.0)]
    assert again.handles["rules"].get("t") == PricedOrder("tea", 2.0)
    assert again.state_types()["orders"] == {"kind": "split", "of": [serializer_for(PricedOrder).describe()]}


def test_a_serializer_of_the_declaration_is_used() -> None:
    """Instead of the one that the annotation would give, also at the restore."""
    given = (None, serializer_for(float))
    made = OperatorStateBackend({"r": OperatorStateDescriptor("r", "broadcast", (str, int), given)})
    types = [serializer_for(str).describe(), serializer_for(float).describe()]
    assert made.state_types()["r"] == {"kind": "broadcast", "of": types}
    made.handles["r"].put("a", 0.5)
    again = OperatorStateBackend({"r": OperatorStateDescriptor("r", "broadcast", (str, int), given)})
    again.restore(stored(made))
    assert again.handles["r"].items() == [("a", 0.5)]


def refused(parts: Stored, **states: tuple[str, Any]) -> str:
    """The sentence that refuses a restore."""
    with pytest.raises(UsageError) as caught:
        restored(parts, **states)
    return str(caught.value)


def test_what_does_not_fit_is_refused_by_name() -> None:
    """Another type, another mode, and a state that is gone."""
    held = backend(waiting=("split", str))
    held.handles["waiting"].add("x")
    parts = stored(held)
    narrowed = refused(parts, waiting=("split", int))
    assert "operator state 'waiting' of the checkpoint cannot be read" in narrowed
    assert "was str and is int" in narrowed
    assert "distributed by split and is now declared as union" in refused(parts, waiting=("union", str))
    assert "operator state 'waiting', which the program does not declare (it declares 'other')" in refused(
        parts, other=("split", str)
    )
    assert "(it declares none)" in refused(parts)


def test_an_empty_state_that_is_gone_is_no_loss() -> None:
    """As with keyed state."""
    assert restored(stored(backend(rules=("broadcast", str, int)))).handles == {}


def test_keys_that_became_equal_are_refused() -> None:
    """A rule would vanish silently."""
    held = backend(rules=("broadcast", Place, int))
    held.handles["rules"].put(Place("Ulm", "a"), 1)
    held.handles["rules"].put(Place("Ulm", "b"), 2)
    assert "2 stored keys became 1" in refused(stored(held), rules=("broadcast", Town, int))


def test_a_map_of_two_subtasks_is_refused() -> None:
    """One of them would vanish silently."""
    held = backend(rules=("broadcast", str, int))
    held.handles["rules"].put("a", 1)
    with pytest.raises(InternalError, match="'rules' of two subtasks"):
        restored(stored(held) * 2, rules=("broadcast", str, int))


def test_a_value_of_another_type_is_refused_when_it_is_stored() -> None:
    """Not when the checkpoint is needed."""
    held = backend(waiting=("split", int))
    held.handles["waiting"].extend([1, "two"])
    with pytest.raises(UsageError, match="operator state 'waiting' cannot be stored: 'two' of type str"):
        stored(held)


def test_a_value_of_another_type_in_what_may_change_is_refused_too() -> None:
    """Whether it cannot be encoded, or only not be read back."""
    for element in (Place("a", "b"), Order("tea", "one"), object()):  # type: ignore[arg-type]
        held = backend(orders=("split", Order))
        held.handles["orders"].extend([Order("tea", 1), element])
        with pytest.raises(UsageError, match="operator state 'orders' cannot be stored"):
            stored(held)


def test_a_type_without_a_serializer_is_refused() -> None:
    """The state is named."""
    with pytest.raises(UsageError, match="operator state 'waiting'"):
        backend(waiting=("split", object))


def test_every_flipped_bit_is_refused() -> None:
    """Of the preamble and of both columns."""
    held = backend(rules=("broadcast", str, int))
    held.handles["rules"].put("alpha", 12345)
    ((handle, blob),) = stored(held)
    for bit in range(8 * len(blob)):
        damaged = bytearray(blob)
        damaged[bit // 8] ^= 1 << bit % 8
        with pytest.raises(StorageError, match="operator state 'rules'"):
            restored([(handle, bytes(damaged))], rules=("broadcast", str, int))


def test_every_cut_and_every_addition_is_refused() -> None:
    """A blob that is not whole is nothing."""
    blob = b"".join(blob_parts([b"elements"]))
    for length in range(len(blob)):
        with pytest.raises(StorageError):
            read_columns(blob[:length], 1)
    with pytest.raises(StorageError):
        read_columns(blob + b"\0", 1)
    assert [bytes(column) for column in read_columns(blob, 1)] == [b"elements"]


def test_a_blob_with_another_number_of_columns_is_refused() -> None:
    """A whole blob that is of something else."""
    with pytest.raises(StorageError, match="2 columns, expected 1"):
        read_columns(b"".join(blob_parts([b"k", b"v"])), 1)
