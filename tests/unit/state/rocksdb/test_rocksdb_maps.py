"""Maps in RocksDB are dicts, entry by entry: order, equal keys, changes in place, restores, formats."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from native_bench import GROUPS, STATES, NativeBench, bound, contents, keyed, maps, put

from headgate.common.errors import StorageError, UsageError
from headgate.common.keys.keygroups import key_group
from headgate.state.heap.handles import MISSING
from headgate.state.rocksdb import live_map, map_layout, map_table, migration
from headgate.state.rocksdb.database import ColumnStore
from headgate.state.rocksdb.key_bytes import storage_key
from headgate.state.rocksdb.map_layout import MAP_ENTRIES
from headgate.state.rocksdb.native_files import details_of
from headgate.state.rocksdb.value_layout import PLAIN_VALUES, VERSIONED_VALUES
from headgate.testing.suites.value_checks import snapshot_blob


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[NativeBench]:
    """A storage and backends that are closed at the end."""
    made = NativeBench(tmp_path)
    yield made
    made.close()


@pytest.fixture
def apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """No map is small."""
    _small(monkeypatch, 0)


def _small(patch: pytest.MonkeyPatch, size: int) -> None:
    for module in (map_table, map_layout, live_map):
        patch.setattr(module, "SMALL_MAX", size)


KEYS, ENTRIES = st.sampled_from(["a", "b", 3]), st.sampled_from(["x", "y", "z", "ü", ""])
OPERATIONS = st.lists(
    st.one_of(
        *[st.tuples(st.just("put"), KEYS, ENTRIES)] * 5,
        *[st.tuples(st.just("remove"), KEYS, ENTRIES)] * 2,
        st.tuples(st.just("change"), KEYS, ENTRIES),
        st.tuples(st.sampled_from(["clear", "look", "prefetch"]), KEYS, ENTRIES),
        st.tuples(st.just("flush"), KEYS, ENTRIES),
        st.tuples(st.just("restore"), st.integers(1, 3), st.booleans()),
    ),
    max_size=40,
)


QUIETLY = {
    "derandomize": True,
    "deadline": None,
    "database": None,
    "phases": [Phase.explicit, Phase.generate],
}


@settings(max_examples=4, **QUIETLY)
@given(OPERATIONS, st.sampled_from([int, list[int]]), st.integers(0, 3))
def test_random_programs_read_what_a_dict_holds(taken: list[Any], value: Any, small: int) -> None:
    """With a cache that overflows, maps that grow, ranges that are deleted, restores at any scale."""
    _in_small(taken, value, small)


@pytest.mark.proof
@settings(max_examples=40, **QUIETLY)
@given(OPERATIONS, st.sampled_from([int, list[int]]), st.integers(0, 3))
def test_many_random_programs_read_what_a_dict_holds(taken: list[Any], value: Any, small: int) -> None:
    """The same at length."""
    _in_small(taken, value, small)


def _in_small(taken: list[Any], value: Any, small: int) -> None:
    with tempfile.TemporaryDirectory() as root, pytest.MonkeyPatch.context() as patch:
        _small(patch, small)
        patch.setattr(map_table, "RANGE_MIN", 3)
        patch.setattr(map_table, "WHOLE_MAX", 2)
        patch.setattr(map_layout, "_SKIPPED_MIN", 2)
        bench = NativeBench(Path(root))
        _run(bench, value, taken)
        bench.close()


def _run(bench: NativeBench, value: Any, taken: list[Any]) -> None:
    more = {"states": maps(str, value), "cache_entries": 3}
    model: dict[Any, dict[str, Any]] = {}
    running = bench.subtasks(1, [], **more)
    for number, (action, key, other) in enumerate(taken, 1):
        if action == "restore":
            drawn = [keyed(bench.draw(made, number, subtask=i)()) for i, made in enumerate(running)]
            running = bench.subtasks(key, drawn, **more, map_entries=other)
            continue
        made = next(m for m in running if m.groups[0] <= key_group(key, GROUPS) <= m.groups[1])
        new = number if value is int else [number]
        _do(made, action, key, other, new)
        _do_model(model, action, key, other, number if value is int else [number])
        handle, expected = bound(made, key), model.get(key, {})
        assert (len(handle), other in handle, handle.get(other)) == (
            len(expected), other in expected, expected.get(other),
        )  # fmt: skip
    for key in ("a", "b", 3):
        made = next(m for m in running if m.groups[0] <= key_group(key, GROUPS) <= m.groups[1])
        assert list(bound(made, key).items()) == list(model.get(key, {}).items())
        assert list(bound(made, key)) == list(model.get(key, {}))
    found = {key: items for made in running for key, items in contents(made).items()}
    assert found == {key: list(entries.items()) for key, entries in model.items() if entries}
    assert {key for made in running for key in made.keys("m")} == found.keys()


def _do(made: Any, action: str, key: Any, entry: str, new: Any) -> None:
    handle = bound(made, key)
    if action == "put":
        handle.put(entry, new)
    elif action == "remove":
        handle.remove(entry)
    elif action == "change":
        held = dict(handle.items()).get(entry) if new == [1] else handle.get(entry)
        if isinstance(held, list):
            for other in "xyz":
                handle.get(other)  # whatever else is read, it may be changed until the next key
            held.append(0)
    elif action == "clear":
        handle.clear()
    elif action == "prefetch":
        made.prefetch([key, "a", "b"])
    elif action == "flush":
        made.snapshot_sync().release()


def _do_model(model: dict[Any, dict[str, Any]], action: str, key: Any, entry: str, new: Any) -> None:
    entries = model.setdefault(key, {})
    if action == "put":
        entries[entry] = new
    elif action == "remove":
        entries.pop(entry, None)
    elif action == "change" and isinstance(entries.get(entry), list):
        entries[entry] = [*entries[entry], 0]
    elif action == "clear":
        entries.clear()


def test_an_access_costs_the_same_whatever_the_size(bench: NativeBench, monkeypatch: Any) -> None:
    """One entry is read, and one entry and the head are written, of a map of 3,000."""
    made = bench.backend(states=maps(int, int))
    handle = bound(made, "k")
    for n in range(3000):
        handle.put(n, n)
    again = bench.backend(stored=[keyed(bench.snapshot(made, 1))], states=maps(int, int))
    store = again._database.stores["m"]
    read, written = [], []
    monkeypatch.setattr(store, "get", lambda key, get=store.get: read.append(key) or get(key))
    monkeypatch.setattr(
        store, "write", lambda batch, write=store.write: written.extend(kept := list(batch)) or write(kept)
    )
    monkeypatch.setattr(store, "items", None)
    handle = bound(again, "k")
    assert (len(handle), handle.get(7), 9999 in handle) == (3000, 7, False)
    handle.put(7, 8)
    again._tables["m"].flush()
    assert (len(read), len(written)) == (3, 2)


def test_a_large_map_is_cleared_as_a_range(bench: NativeBench, monkeypatch: Any) -> None:
    """Without reading it; the maps beside it stay, also one whose key begins alike."""
    monkeypatch.setattr(map_table, "RANGE_MIN", 100)
    made = bench.backend(states=maps(int, int))
    for key, size in (("k", 500), ("k2", 3), ("l", 40)):
        for n in range(size):
            bound(made, key).put(n, n)
    made.snapshot_sync().release()
    store = made._database.stores["m"]
    ranges = []
    delete = store.delete_range
    monkeypatch.setattr(store, "delete_range", lambda *edges: ranges.append(edges) or delete(*edges))
    bound(made, "k").clear()
    bound(made, "k").put(1, 5)
    bound(made, "l").clear()
    assert contents(made) == {"k": [(1, 5)], "k2": [(0, 0), (1, 1), (2, 2)]}
    assert len(ranges) == 1
    bound(made, "k").remove(1)
    assert set(made.keys("m")) == {"k2"}
    assert len(list(store.items())) == 1


def test_the_canonical_blob_is_that_of_the_heap(bench: NativeBench) -> None:
    """Byte for byte: a map is one value there, in its order."""
    heap = type(bench.heap([]))(maps(), 0, GROUPS - 1, GROUPS)
    rocks = bench.backend(states=maps(), incremental=False)
    for made in (heap, rocks):
        for word in ("c", "a", "b", "d"):
            bound(made, "k").put(word, len(word))
        bound(made, "k").remove("a")
        bound(made, "k").put("c", 7)
        bound(made, "k").put("a", 9)
    assert snapshot_blob(rocks.snapshot_sync()) == snapshot_blob(heap.snapshot_sync())
    assert rocks.peek("m", "k") == heap.peek("m", "k")
    assert rocks.peek("m", "other") is None


@pytest.mark.parametrize("old", [PLAIN_VALUES, VERSIONED_VALUES])
def test_checkpoints_of_formats_with_whole_maps_are_restored(
    bench: NativeBench, apart: None, old: int
) -> None:
    """Each map is taken apart once; nothing is written anew for it after that."""
    made = bench.backend(states=maps(), map_entries=False)
    for n in range(50):
        for word in ("b", "a"):
            bound(made, n).put(word, n)
    made._tables["m"].flush()
    store = made._database.stores["m"]
    if old == PLAIN_VALUES:
        store.write([(key, data[1:]) for key, data in store.items()])
    handle = keyed(bench.snapshot(made, 1))
    assert handle.native is not None
    details = {"checkpoint": 1, "formats": {"m": old}}
    native = msgspec.structs.replace(handle.native, details=details)
    stored = [msgspec.structs.replace(handle, native=native)]
    expected = {n: [("b", n), ("a", n)] for n in range(50)}
    for parallelism in (1, 2):
        parts = bench.subtasks(parallelism, stored, states=maps())
        assert {k: v for made in parts for k, v in contents(made).items()} == expected
    two = bench.snapshot(parts[0], 2, completed=1)
    assert two.files_shared == 0  # the database is another one
    assert details_of(keyed(two).native).formats["m"] == MAP_ENTRIES  # type: ignore[arg-type]
    again = bench.backend(parts[0].groups, [keyed(two)], maps())
    assert bench.snapshot(again, 3, completed=2).bytes_written == 0


@pytest.mark.parametrize("small", [0, 32])
def test_values_of_an_older_type_are_rewritten_map_by_map_or_entry_by_entry(
    bench: NativeBench, monkeypatch: pytest.MonkeyPatch, small: int
) -> None:
    """Maps, heads and entries carry the number of their type; what is read is written back."""
    monkeypatch.setattr(migration, "SLICE_S", 0.0)
    _small(monkeypatch, small)
    old = bench.backend(states=maps(str, int))
    for n in range(5):
        for word in ("b", "a", "c"):
            bound(old, n).put(word, n)
    made = bench.backend(stored=[keyed(bench.snapshot(old, 1))], states=maps(str, float))
    for _ in range(4):
        made.settle()
    assert type(bound(made, 4).get("a")) is float
    half = keyed(bench.snapshot(made, 2, completed=1))
    again = bench.backend(stored=[half], states=maps(str, float | None))
    while again.migration_progress():
        again.settle()
    numbers = {data[0] for _, data in again._database.stores["m"].items()}
    assert len(numbers) == 1
    expected = {n: [(word, float(n)) for word in ("b", "a", "c")] for n in range(5)}
    for restored in (again, *bench.subtasks(1, [half], states=maps(str, float | None))):
        assert contents(restored) == expected
        assert {type(value) for items in contents(restored).values() for _, value in items} == {float}
    heap = bench.heap([half], maps(str, float | None))
    assert list(bound(heap, 3).items()) == expected[3]


def test_a_value_of_another_type_fails_by_the_state_s_name(bench: NativeBench) -> None:
    """Before it is written, as for whole maps."""
    made = bench.backend(states=maps())
    bound(made, 1).put("a", "text")
    with pytest.raises(UsageError, match=r"state 'm' cannot be stored: "):
        made.snapshot_sync()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda stored, data: (stored, data[:-1]), "has 17 bytes and is no map"),
        (lambda stored, data: (stored, data[:1] + b"\x02" + data[2:]), "has 18 bytes and is no map"),
        (lambda stored, data: (stored, data[:9] + b"\x09" + data[10:]), "has 2 entries, and its head says 9"),
        (lambda stored, data: (stored, b"\0\1\0\x91\x80"), "has 2 entries, and its head says 0"),
        (lambda stored, data: (stored + b"\xa1z", b"\0abc"), "a map is damaged|do not decode"),
        (lambda stored, data: (stored + b"\xa1z", b"\0abcdefgh\0\x91\x80"), "one of its entries is none"),
        (lambda stored, data: (stored[:3], data), "a key stored in RocksDB has 3 bytes"),
    ],
)
def test_damage_is_told(bench: NativeBench, apart: None, change: Any, message: str) -> None:
    """By whichever way a map is read as a whole."""
    made = bench.backend(states=maps())
    for word in "ab":
        bound(made, 1).put(word, 1)
    made._tables["m"].flush()
    store = made._database.stores["m"]
    stored = storage_key(1, GROUPS)
    store.write([change(stored, store.get(stored))])
    again = bench.backend(stored=[keyed(bench.snapshot(made, 1))], states=maps())
    with pytest.raises(StorageError, match=message):
        contents(again)
    with pytest.raises(StorageError, match=message):
        again.snapshot_sync()
        list(bench.heap([keyed(bench.snapshot(made, 2))], maps()).scan("m"))


def test_keys_are_given_one_by_one(bench: NativeBench, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many there are: of maps, whole or apart, and of values."""
    made = bench.backend(states=maps(int, int) | STATES)
    put(made, dict.fromkeys(range(500), "x"))
    for n in range(100):
        for entry in range(40 if n % 2 else 1):
            bound(made, n).put(entry, n)
    items, read = ColumnStore.items, []

    def noting(*arguments: Any, **options: Any) -> Iterator[tuple[bytes, bytes]]:
        for item in items(*arguments, **options):
            read.append(item)
            yield item

    monkeypatch.setattr(ColumnStore, "items", noting)
    for name, count in (("m", 100), ("v", 500)):
        read.clear()
        keys = iter(made.keys(name))
        first = [next(keys) for _ in range(5)]
        assert len(read) == 5
        assert {*first, *keys} == set(range(count))


def test_a_map_that_grows_is_taken_apart_and_a_new_small_one_is_whole(bench: NativeBench) -> None:
    """At 32 entries; it stays apart until it is cleared."""
    made = bench.backend(states=maps(int, int))
    store, sizes = made._database.stores["m"], []
    handle = bound(made, "k")
    for steps in (range(32), range(32, 33), range(33, 40)):
        for n in steps:
            handle.put(n, n)
        made._tables["m"].flush()
        sizes.append(len(list(store.items())))
    for n in range(5, 40):
        handle.remove(n)
    made._tables["m"].flush()
    sizes.append(len(list(store.items())))
    handle.clear()
    handle.put(1, 1)
    made._tables["m"].flush()
    sizes.append(len(list(store.items())))
    assert sizes == [1, 34, 41, 6, 1]


@pytest.mark.parametrize("size", [3, 100])
def test_whole_maps_may_be_worked_with_as_dicts(bench: NativeBench, size: int) -> None:
    """What is built around the tables does so; what it changes in place is written back."""
    made = bench.backend(states=maps(int, int))
    table = made.tables["m"]
    table.put("k", {n: n for n in range(size)})
    assert table.own("other") is MISSING
    for step in ({size: 1}, dict.fromkeys(range(200), 2), {}):
        made.snapshot_sync().release()
        table.own("k").update(step)
        table.own("k").pop(0, None)
    expected = dict.fromkeys(range(1, 200), 2)
    assert (table.entries.get("k"), len(bound(made, "k"))) == (expected, 199)
    table.own("k").update({1000: 1})
    assert len(bound(made, "k")) == 200
    table.own("k").pop(1000)
    again = bench.backend(stored=[keyed(bench.snapshot(made, 1))], states=maps(int, int))
    assert sorted(again.tables["m"].entries.get("k").items()) == sorted(expected.items())
    again.tables["m"].own("k").clear()
    again.snapshot_sync().release()
    assert (contents(again), list(again._database.stores["m"].items())) == ({}, [])
    again.tables["m"].put("k", {1: 1})
    again.tables["m"].remove("k")
    assert contents(again) == {}
