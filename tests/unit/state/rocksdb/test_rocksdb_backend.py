"""The RocksDB backend does what a dict does, across restore, rescaling and change of backend."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import count, pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from headgate.api.state import (
    ListState,
    MapState,
    ValueState,
    declared_state,
    list_state,
    map_state,
    value_state,
)
from headgate.common.errors import ConfigError, InternalError, StorageError, UsageError
from headgate.common.keygroups import key_group, key_group_range
from headgate.state.heap.backend import HeapKeyedBackend
from headgate.state.rocksdb.backend import RocksKeyedBackend
from headgate.state.rocksdb.memory import LIMIT_MIN, RocksMemory

GROUPS = 16
MEMORY = RocksMemory(LIMIT_MIN)
Backend = HeapKeyedBackend | RocksKeyedBackend


@dataclass
class Basket:
    items: list[str] = field(default_factory=list)


class Everything:
    """One state of every kind."""

    count: ValueState[int] = value_state(default=0)
    basket: ValueState[Basket] = value_state(default_factory=Basket)
    seen: ListState[str] = list_state()
    totals: MapState[str, int] = map_state()


STATES = declared_state(Everything())


class Workbench:
    """Makes backends in directories of their own, and closes them."""

    def __init__(self, root: Path) -> None:
        self.root, self._numbers, self._open = root, count(), ExitStack()

    def rocks(
        self, first: int = 0, last: int = GROUPS - 1, *, cache: int = 3, states: Any = STATES
    ) -> RocksKeyedBackend:
        """An empty backend with a cache so small that it overflows all the time."""
        directory = self.root / f"attempt-{next(self._numbers)}"
        made = RocksKeyedBackend(
            states, first, last, GROUPS, directory=directory, memory=MEMORY, cache_entries=cache
        )
        self._open.callback(made.close)
        return made

    def subtasks(self, rocks: bool, parallelism: int, blobs: list[bytes]) -> list[Backend]:
        """All subtasks of one backend, restored."""
        made: list[Backend] = []
        for index in range(parallelism):
            groups = key_group_range(GROUPS, parallelism, index)
            made.append(self.rocks(*groups) if rocks else HeapKeyedBackend(STATES, *groups, GROUPS))
            made[-1].restore(blobs)
        return made

    def close(self) -> None:
        """Close everything."""
        self._open.close()


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Workbench]:
    """A workbench in a directory that goes away."""
    made = Workbench(tmp_path)
    yield made
    made.close()


def blob_of(made: Backend) -> bytes:
    """The bytes of a snapshot."""
    return b"".join(made.snapshot_sync().write())


def change(made: Backend, key: Any, action: str, number: int) -> None:
    """One action of a program on one key."""
    made.bind(key)
    handles: Any = made.handles
    if action == "count":
        handles["count"].value += number
    elif action == "basket":
        handles["basket"].value.items.append(str(number))
    elif action == "add":
        handles["seen"].add(str(number))
    elif action == "update":
        handles["seen"].update([str(number)] * (number % 3))
    elif action == "put":
        handles["totals"].put(str(number), number)
    elif action == "remove":
        handles["totals"].remove(str(number))
    elif action == "timer":
        made.event_timers.register(number, key)
        made.processing_timers.register(-number, key)
    else:
        handles[action.removeprefix("clear ")].clear()
    made.store()


def change_model(model: dict[Any, dict[str, Any]], key: Any, action: str, number: int) -> None:
    """The same on plain dicts."""
    state = model.setdefault(key, {"count": 0, "basket": [], "seen": [], "totals": {}, "timers": set()})
    if action == "count":
        state["count"] += number
    elif action == "basket":
        state["basket"].append(str(number))
    elif action == "add":
        state["seen"].append(str(number))
    elif action == "update":
        state["seen"] = [str(number)] * (number % 3)
    elif action == "put":
        state["totals"][str(number)] = number
    elif action == "remove":
        state["totals"].pop(str(number), None)
    elif action == "timer":
        state["timers"].add(number)
    else:
        name = action.removeprefix("clear ")
        state[name] = type(state[name])()


def seen_of(made: Backend, key: Any) -> dict[str, Any]:
    """What a program reads of a key."""
    made.bind(key)
    handles: Any = made.handles
    return {
        "count": handles["count"].value,
        "basket": list(handles["basket"].value.items),
        "seen": handles["seen"].get(),
        "totals": dict(handles["totals"].items()),
        "timers": {timestamp for timestamp, owner in made.event_timers.snapshot() if owner == key},
    }


def owner_of(subtasks: list[Backend], key: Any) -> Backend:
    """The subtask whose key it is."""
    group = key_group(key, GROUPS)
    return next(made for made in subtasks if made.groups[0] <= group <= made.groups[1])


KEYS = ["a", 1, True, 1.0, ("b", 2), b"c", 2**70, "d", "e"]
ACTIONS = [
    "count", "basket", "add", "update", "put", "remove", "timer", "clear count", "clear basket", "clear seen",
    "clear totals",
]  # fmt: skip
steps = st.lists(
    st.one_of(
        *[st.tuples(st.sampled_from(KEYS), st.sampled_from(ACTIONS), st.integers(1, 9))] * 7,
        st.tuples(st.just("restore"), st.booleans(), st.integers(1, 3)),
    ),
    min_size=10,
    max_size=40,
)


# Shrinking would open hundreds of databases and run into the time limit of a test; programs are short.
@settings(
    max_examples=10, derandomize=True, deadline=None, database=None, phases=[Phase.explicit, Phase.generate]
)
@given(steps)
def test_it_is_a_dict_across_restore_rescaling_and_change_of_backend(taken: list[Any]) -> None:
    """Random programs read what a dict would hold, whichever backend stores and restores it."""
    with tempfile.TemporaryDirectory() as root:
        bench = Workbench(Path(root))
        model: dict[Any, dict[str, Any]] = {}
        subtasks = bench.subtasks(True, 1, [])
        for key, action, number in [*taken, ("restore", True, 2), ("restore", False, 1)]:
            if key == "restore":
                subtasks = bench.subtasks(action, number, [blob_of(made) for made in subtasks])
            else:
                change(owner_of(subtasks, key), key, action, number)
                change_model(model, key, action, number)
                assert seen_of(owner_of(subtasks, key), key) == model[key]
        for key, expected in model.items():
            assert seen_of(owner_of(subtasks, key), key) == expected
        bench.close()
        assert list(Path(root).iterdir()) == []


def test_both_backends_write_the_same_blob_for_one_key(bench: Workbench) -> None:
    """The blob is canonical: byte for byte that of the heap backend."""
    heap, rocks = HeapKeyedBackend(STATES, 0, GROUPS - 1, GROUPS), bench.rocks()
    for made in (heap, rocks):
        for action in ("count", "basket", "add", "put", "timer"):
            change(made, "a", action, 4)
    assert blob_of(rocks) == blob_of(heap)
    assert rocks.state_types() == heap.state_types()


def test_the_generated_loop_s_use_of_a_table(bench: Workbench) -> None:
    """Get, set and pop by key are all that the loop uses of an eager handle."""
    made = bench.rocks(cache=2)
    handle: Any = made.handles["count"]
    assert handle.immutable
    for key in "abcabcab":
        before = handle.value = handle.table.get(key, handle.default)
        handle.value += 1
        if handle.value is not before:
            handle.table[key] = handle.value
    assert [handle.table.get(key, 0) for key in "abcd"] == [3, 3, 2, 0]
    handle.table.pop("a", None)
    handle.table.pop("d", None)
    made.prefetch("abcde")
    assert [handle.table.get(key, 0) for key in "abcd"] == [0, 3, 2, 0]


@pytest.mark.parametrize("cache", [4, 100])
def test_prefetch_reads_what_is_stored_and_keeps_what_was_changed(bench: Workbench, cache: int) -> None:
    """Reading ahead never puts an old value over a new one, with room for all keys and without."""
    made = bench.rocks(cache=cache)
    for number, key in enumerate("abcdef", 1):
        change(made, key, "count", number)
    made.snapshot_sync().release()
    made.prefetch("ab")
    change(made, "a", "count", 10)
    made.prefetch("abcdefghij")
    made.prefetch([])
    assert [seen_of(made, key)["count"] for key in "abcdefg"] == [11, 2, 3, 4, 5, 6, 0]


def test_changes_after_the_cut_do_not_reach_the_snapshot(bench: Workbench) -> None:
    """Two snapshots pending at once, and changes in place in between: each holds its own moment."""
    made = bench.rocks(cache=100)
    cuts, expected = [], []
    for round_ in range(1, 4):
        for key in "abcde":
            for action in ("count", "basket", "add", "put", "timer"):
                change(made, key, action, round_)
        expected.append({key: seen_of(made, key) for key in "abcde"})
        cuts.append(made.snapshot_sync())
    for key in "abcde":
        change(made, key, "clear basket", 1)
    for cut, wanted in reversed(list(zip(cuts, expected, strict=True))):
        (restored,) = bench.subtasks(False, 1, [b"".join(cut.write())])
        assert {key: seen_of(restored, key) for key in "abcde"} == wanted


def test_a_snapshot_is_written_while_the_loop_goes_on(bench: Workbench) -> None:
    """The thread that writes sees the cut alone, whatever is written, flushed and deleted meanwhile."""
    made = bench.rocks(cache=50)
    table: Any = made.handles["count"].table  # type: ignore[union-attr]
    for key in range(3000):
        table[key] = key
    pending = made.snapshot_sync()
    with ThreadPoolExecutor(1) as beside:
        blob = beside.submit(pending.write)
        rounds = count()
        while not blob.done() or next(rounds) < 2:
            for key in range(0, 3000, 2):
                table[key] = -1
                table.pop(key + 1, None)
            made.snapshot_sync().release()
    (restored,) = bench.subtasks(False, 1, [b"".join(blob.result())])
    assert restored.handles["count"].table == {key: key for key in range(3000)}  # type: ignore[union-attr]


def test_values_of_another_type_fail_by_state_name(bench: Workbench) -> None:
    """What could not be read back is refused when it leaves the cache."""
    made = bench.rocks()
    made.bind("a")
    made.handles["count"].value = "many"  # type: ignore[union-attr,assignment]
    made.store()
    with pytest.raises(UsageError, match=r"state 'count' cannot be stored: 'many' of type str is not a int"):
        made.snapshot_sync()


def test_only_an_empty_backend_is_restored(bench: Workbench) -> None:
    """A restore over state is refused, also when the state was written back already."""
    made = bench.rocks()
    change(made, "a", "count", 1)
    made.snapshot_sync().release()
    with pytest.raises(InternalError, match="already holds some"):
        made.restore([])


def test_foreign_keys_fail_the_snapshot(bench: Workbench) -> None:
    """A key outside the subtask's groups would be lost at the next rescaling."""
    group = (key_group("a", GROUPS) + 1) % GROUPS
    made = bench.rocks(group, group)
    change(made, "a", "count", 1)
    with pytest.raises(InternalError, match="'a' outside its key groups"):
        made.snapshot_sync().write()


def test_a_damaged_blob_is_refused(bench: Workbench) -> None:
    """Damage is found before anything is decoded."""
    made = bench.rocks()
    change(made, "a", "count", 1)
    blob = bytearray(blob_of(made))
    blob[-1] ^= 1
    with pytest.raises(StorageError, match="checksum does not fit"):
        bench.rocks().restore([bytes(blob)])


def test_memory_is_one_bound_for_all(tmp_path: Path) -> None:
    """Write buffers and blocks of all backends are charged to one cache; a tiny one is refused."""
    memory = RocksMemory(LIMIT_MIN)
    made = [
        RocksKeyedBackend(
            STATES, 0, 15, GROUPS, directory=tmp_path / str(number), memory=memory, cache_entries=100
        )
        for number in range(3)
    ]
    used = [memory.used_bytes]
    for each in made:
        seen: Any = each.handles["seen"]
        for key in range(1000):
            seen.bind(key)
            seen.update(["x" * 1000])
        used.append(memory.used_bytes)
    assert [after - before > 800_000 for before, after in pairwise(used)] == [True, True, True]
    for each in made:
        each.snapshot_sync().release()
        each.close()
    assert memory.used_bytes <= memory.limit_bytes * 1.25
    with pytest.raises(ConfigError, match="expected at least 8388608"):
        RocksMemory(1000)
