"""The heap backend: handles, snapshots that changes do not reach, restore at any parallelism, damage."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.api.state import (
    ListState,
    MapState,
    StateDescriptor,
    ValueState,
    declared_state,
    list_state,
    map_state,
    value_state,
)
from headgate.common.errors import InternalError, StorageError, UsageError
from headgate.common.keygroups import key_group, key_group_range
from headgate.state.heap.backend import HeapKeyedBackend
from headgate.state.heap.blob import BytesBlob, read_header
from headgate.state.heap.handles import ImmutableValueState, MutableValueState

GROUPS = 16


@dataclass
class Basket:
    items: list[str] = field(default_factory=list)


class Everything:
    """One state of every kind."""

    count: ValueState[int] = value_state(default=0)
    basket: ValueState[Basket] = value_state(default_factory=Basket)
    seen: ListState[str] = list_state()
    nested: ListState[list[int]] = list_state()
    totals: MapState[str, int] = map_state()
    lists: MapState[int, list[int]] = map_state()
    free: ValueState[Any] = value_state()


def backend(first: int = 0, last: int = GROUPS - 1, program: object = None) -> HeapKeyedBackend:
    """An empty backend of a program's states."""
    return HeapKeyedBackend(declared_state(program or Everything()), first, last, GROUPS)


def touch(made: HeapKeyedBackend, key: Any, number: int) -> None:
    """Change every state of a key, in place wherever a program can."""
    made.bind(key)
    made.handles["count"].value += number
    made.handles["basket"].value.items.append(str(number))
    made.handles["seen"].add(f"s{number}")
    made.handles["nested"].add([number])
    for inner in made.handles["nested"].get():
        inner.append(number)
    made.handles["totals"].put("t", number)
    made.handles["lists"].put(number, [number])
    for _, inner in made.handles["lists"].items():
        inner.append(number)
    free = made.handles["free"].value or {"n": []}
    free["n"].append(number)
    made.handles["free"].value = free
    made.store()
    made.event_timers.register(number, key)
    made.processing_timers.register(-number, key)


def contents(*backends: HeapKeyedBackend) -> dict[str, Any]:
    """All state and timers, independent of how they are spread."""
    found: dict[str, Any] = {"event": [], "processing": []}
    for made in backends:
        for name, table in made._tables.items():
            found.setdefault(name, {}).update({key: repr(value) for key, value in table.entries.items()})
        found["event"] += made.event_timers.snapshot()
        found["processing"] += made.processing_timers.snapshot()
    found["event"].sort(key=repr)
    found["processing"].sort(key=repr)
    return found


def blob_of(made: HeapKeyedBackend) -> bytes:
    """The bytes of a snapshot."""
    return b"".join(made.snapshot_sync().write())


def spread(blobs: list[bytes], parallelism: int) -> list[HeapKeyedBackend]:
    """Backends of all subtasks, restored from the blobs."""
    made = []
    for index in range(parallelism):
        made.append(backend(*key_group_range(GROUPS, parallelism, index)))
        made[-1].restore(blobs)
    return made


def test_value_state_reads_its_default_and_drops_it() -> None:
    """An absent key reads as the default; storing the default or clearing removes the entry."""
    made = backend()
    count = made.handles["count"]
    assert isinstance(count, ImmutableValueState)
    for key, value in (("a", 5), ("b", 6)):
        count.load(key)
        assert count.value == 0
        count.value = value
        count.store()
    assert count.table == {"a": 5, "b": 6}
    count.load("a")
    count.clear()
    count.store()
    count.load("b")
    count.value = 0
    count.store()
    assert count.table == {}


def test_immutable_handle_fits_the_generated_loop() -> None:
    """Slots value, table and default are all that a loop needs, and its table is the backend's own."""
    made = backend()
    handle: Any = made.handles["count"]
    assert tuple(sorted(handle.__slots__, key="value table default key".index)) == (
        "value",
        "table",
        "default",
        "key",
    )
    for key in "aba":
        before = handle.value = handle.table.get(key, handle.default)
        handle.value += 1
        if handle.value is not before:
            handle.table[key] = handle.value
    assert handle.table == {"a": 2, "b": 1}
    restored = backend()
    table = restored.handles["count"].table
    restored.restore([blob_of(made)])
    assert table == {"a": 2, "b": 1}


def test_a_mutable_default_is_kept_once_read() -> None:
    """What a program changes in the default it got is there at the next record."""
    made = backend()
    basket: Any = made.handles["basket"]
    assert isinstance(basket, MutableValueState)
    basket.bind("a")
    basket.value.items.append("x")
    basket.bind("b")
    assert basket.value.items == []
    basket.bind("a")
    assert basket.value.items == ["x"]
    basket.clear()
    assert basket.value.items == []


def test_a_default_of_none_is_not_stored_by_reading() -> None:
    """Reading a state whose default cannot be changed leaves no entry."""
    made = backend()
    made.bind("a")
    assert made.handles["free"].value is None
    assert made._tables["free"].entries == {}


def test_list_state_does_what_it_says() -> None:
    """Add, extend, get, update and clear; an empty list leaves no entry; get gives a copy."""
    made = backend()
    seen: Any = made.handles["seen"]
    seen.bind("a")
    assert seen.get() == []
    seen.add("1")
    seen.extend(["2", "3"])
    seen.get().append("not stored")
    assert seen.get() == ["1", "2", "3"]
    seen.bind("b")
    seen.extend([])
    seen.extend(["9"])
    assert seen.get() == ["9"]
    seen.update([])
    seen.bind("a")
    seen.update(["4"])
    assert made._tables["seen"].entries == {"a": ["4"]}
    seen.clear()
    assert made._tables["seen"].entries == {}


def test_map_state_does_what_it_says() -> None:
    """Put, get, remove, membership, iteration and length; an empty map leaves no entry."""
    made = backend()
    totals: Any = made.handles["totals"]
    totals.bind("a")
    assert (
        totals.get("x"),
        totals.get("x", 7),
        len(totals),
        "x" in totals,
        list(totals),
    ) == (None, 7, 0, False, [])
    totals.put("x", 1)
    totals.put("y", 2)
    assert (totals.items(), len(totals), "y" in totals) == ([("x", 1), ("y", 2)], 2, True)
    for name in totals:
        totals.remove(name)
    totals.remove("absent")
    assert made._tables["totals"].entries == {}


keyed_steps = st.lists(
    st.tuples(st.sampled_from(["a", 1, ("b", 2.5), b"c", 2**70, "d", "e", "f"]), st.integers(1, 9)),
    max_size=25,
)


@settings(max_examples=25, derandomize=True, deadline=None, database=None)
@given(keyed_steps, keyed_steps)
def test_restore_at_other_parallelism_keeps_everything(before: list[Any], after: list[Any]) -> None:
    """State and timers are the same at 1, 2 and 3 subtasks, and so is what is done with them."""
    one = backend()
    for key, number in before:
        touch(one, key, number)
    two = spread([blob_of(one)], 2)
    three = spread([blob_of(made) for made in two], 3)
    again = spread([blob_of(made) for made in three], 1)
    assert contents(one) == contents(*two) == contents(*three) == contents(*again)
    for key, number in after:
        touch(one, key, number)
        index = key_group(key, GROUPS) * 3 // GROUPS
        touch(three[index], key, number)
    assert contents(one) == contents(*three)


@settings(max_examples=25, derandomize=True, deadline=None, database=None)
@given(keyed_steps, keyed_steps, keyed_steps)
def test_changes_after_the_cut_do_not_reach_the_snapshot(
    first: list[Any], second: list[Any], third: list[Any]
) -> None:
    """Values changed in place while snapshots are pending, also two at once, stay as they were."""
    made = backend()
    for key, number in first:
        touch(made, key, number)
    expected_one, cut_one = contents(made), made.snapshot_sync()
    for key, number in second:
        touch(made, key, number)
    expected_two, cut_two = contents(made), made.snapshot_sync()
    for key, number in third:
        touch(made, key, number)
    blob_two = b"".join(cut_two.write())
    for key, number in first:
        touch(made, key, number)
    assert expected_two == contents(*spread([blob_two], 1))
    assert expected_one == contents(*spread([b"".join(cut_one.write())], 2))


def test_values_are_copied_once_per_snapshot_and_not_without() -> None:
    """A value is copied at its first access after the cut, kept then, and left alone afterwards."""
    made = backend()
    basket: Any = made.handles["basket"]
    basket.bind("a")
    original = basket.value
    pending = made.snapshot_sync()
    copied = basket.value
    assert copied is not original
    assert copied is basket.value
    pending.release()
    pending.release()
    assert copied is basket.value
    made.snapshot_sync().write()
    assert copied is basket.value


def test_shared_defaults_stay_apart() -> None:
    """The default of one key, changed in place, is not another key's default."""
    made = HeapKeyedBackend({"v": StateDescriptor("v", "value", (list[int],), list)}, 0, GROUPS - 1, GROUPS)
    value: Any = made.handles["v"]
    value.bind("a")
    value.value.append(1)
    value.bind("b")
    assert value.value == []


def test_values_of_another_type_fail_the_snapshot_by_state_name() -> None:
    """What could not be read back is refused when it is written."""
    made = backend()
    made.bind("a")
    made.handles["count"].value = "many"
    made.store()
    with pytest.raises(UsageError, match=r"state 'count' cannot be stored: 'many' of type str is not a int"):
        made.snapshot_sync().write()


def filled() -> HeapKeyedBackend:
    """A backend with a few keys in every state."""
    made = backend()
    for number, key in enumerate(["a", "b", 3, (4, "x")], 1):
        touch(made, key, number)
    return made


def test_every_flipped_bit_and_every_cut_is_refused() -> None:
    """Damage anywhere in the blob, of any section, is found before anything is decoded."""
    blob = blob_of(filled())
    for place in range(len(blob)):
        damaged = bytearray(blob)
        damaged[place] ^= 1 << (place % 8)
        with pytest.raises(StorageError):
            backend().restore([bytes(damaged)])
    for length in range(0, len(blob), 7):
        with pytest.raises(StorageError):
            backend().restore([blob[:length]])
    with pytest.raises(StorageError):
        backend().restore([blob + b"\0"])


def test_damage_names_its_section_and_key_group() -> None:
    """The message says which state of which key group is damaged."""
    blob = blob_of(filled())
    header, body = read_header(BytesBlob(blob))
    for section in header.sections:
        chunk = section.chunks[-1]
        damaged = bytearray(blob)
        damaged[body + chunk.offset] ^= 1
        with pytest.raises(StorageError, match=f"section '{section.name}' .* key group {chunk.group}"):
            backend().restore([bytes(damaged)])


def test_only_the_wanted_key_groups_are_read() -> None:
    """A subtask reads the header and its own chunks, so damage elsewhere does not concern it."""
    blob = blob_of(filled())
    header, body = read_header(BytesBlob(blob))
    group = key_group("a", GROUPS)
    foreign = next(chunk for chunk in header.sections[0].chunks if chunk.group != group)
    damaged = bytearray(blob)
    damaged[body + foreign.offset] ^= 1
    made = backend(group, group)
    made.restore([bytes(damaged)])
    assert "a" in made._tables["count"].entries


class Renamed:
    counter: ValueState[int] = value_state(default=0)


class Retyped:
    count: ValueState[str] = value_state(default="")


class Rekinded:
    count: ListState[int] = list_state()


class Counting:
    count: ValueState[int] = value_state(default=0)


@pytest.mark.parametrize(
    ("program", "why"),
    [
        (Renamed(), "state 'count', which the program does not declare"),
        (Retyped(), r"state 'count' of the checkpoint .*: was int and is str;"),
        (Rekinded(), r"state 'count' of the checkpoint .*kind was value and is list"),
    ],
    ids=["renamed", "retyped", "rekinded"],
)
def test_changed_declarations_are_refused(program: object, why: str) -> None:
    """State that the program does not read as it was written is refused by name."""
    old = backend(program=Counting())
    old.bind("a")
    old.handles["count"].value = 1
    old.store()
    with pytest.raises(UsageError, match=why):
        backend(program=program).restore([blob_of(old)])


def test_added_state_starts_empty_and_unused_state_may_go() -> None:
    """A new state has its default; a declaration that never held anything may be dropped."""
    old = backend(program=Counting())
    new = backend()
    new.restore([blob_of(old)])
    slim = backend(program=Counting())
    slim.restore([blob_of(new)])
    assert slim._tables["count"].entries == {}


def test_another_max_parallelism_is_refused() -> None:
    """The number of key groups is part of the bytes."""
    other = HeapKeyedBackend(declared_state(Everything()), 0, 31, 32)
    with pytest.raises(UsageError, match="max parallelism 16 and the program has 32"):
        other.restore([blob_of(filled())])


@pytest.mark.parametrize(
    ("ranges", "why"),
    [
        ([(0, 8), (8, 15)], "key group 8 is in two blobs"),
        ([(0, 15), (0, 15)], "key group 0 is in two blobs"),
        ([(0, 6), (8, 15)], "key groups 7 to 7 are in no blob"),
        ([(0, 6)], "key groups 7 to 15 are in no blob"),
        ([(3, 15)], "key groups 0 to 2 are in no blob"),
    ],
)
def test_each_key_group_is_in_exactly_one_blob(ranges: list[tuple[int, int]], why: str) -> None:
    """Twice or missing is a broken assignment, not an empty state."""
    with pytest.raises(InternalError, match=why):
        backend().restore([blob_of(backend(*groups)) for groups in ranges])


def test_foreign_keys_and_second_restores_are_internal_errors() -> None:
    """A key outside the subtask's groups, and a restore over state, are refused."""
    group = key_group("a", GROUPS)
    made = backend((group + 1) % GROUPS, (group + 1) % GROUPS)
    touch(made, "a", 1)
    with pytest.raises(InternalError, match="outside its key groups"):
        made.snapshot_sync().write()
    with pytest.raises(InternalError, match="already holds some"):
        made.restore([])


def test_no_blobs_leave_the_backend_empty() -> None:
    """A fresh start restores from nothing."""
    made = backend()
    made.restore([])
    assert contents(made) == contents(backend())


def test_timers_fire_in_order_of_time_after_restore() -> None:
    """Restored timers come by timestamp, whatever the order of key groups in the blob."""
    made = backend()
    for timestamp in (5, 1, 4, 2, 3):
        for key in "abc":
            made.event_timers.register(timestamp, key)
    restored = backend()
    restored.restore([blob_of(made)])
    fired = list(restored.event_timers.pop_due(10))
    assert [timestamp for timestamp in range(1, 6) for _ in "abc"] == [timestamp for timestamp, _ in fired]
    assert sorted(fired) == sorted((t, k) for t in range(1, 6) for k in "abc")


def test_state_types_describe_every_state() -> None:
    """The metadata's description names kind and types of each state, and no timers."""
    types = backend().state_types()
    assert list(types) == ["count", "basket", "seen", "nested", "totals", "lists", "free"]
    assert types["totals"] == {
        "kind": "map",
        "of": [{"kind": "str", "version": 1}, {"kind": "int", "version": 1}],
    }
