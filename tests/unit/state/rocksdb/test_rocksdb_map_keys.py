"""Which keys of a map in RocksDB are one, by what they are found, and which maps lie entry by entry."""

from __future__ import annotations

import datetime as dt
import enum
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from native_bench import NativeBench, bound, contents, keyed, maps

from headgate.common.errors import UsageError
from headgate.state.rocksdb import live_map, map_layout, map_table
from headgate.state.rocksdb.map_layout import MapEntries
from headgate.state.rocksdb.map_table import RocksMapState


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[NativeBench]:
    """A storage and backends that are closed at the end."""
    made = NativeBench(tmp_path)
    yield made
    made.close()


@pytest.fixture
def apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """No map is small."""
    for module in (map_table, map_layout, live_map):
        monkeypatch.setattr(module, "SMALL_MAX", 0)


class Color(enum.IntEnum):
    """Numbers by name."""

    RED = 1


def test_equal_keys_are_one_entry_and_come_back_as_they_were_put(bench: NativeBench) -> None:
    """As in a dict: the first of equal keys stays, until it is removed."""
    made = bench.backend(states=maps(int, str))
    handle = bound(made, "k")
    handle.put(True, "a")
    made.snapshot_sync().release()
    again = bench.backend(stored=[keyed(bench.snapshot(made, 1))], states=maps(int, str))
    handle = bound(again, "k")
    handle.put(1, "b")
    assert (handle.get(1.0), handle.get(Color.RED), handle.get(Decimal(2)), len(handle)) == (
        "b",
        "b",
        None,
        1,
    )
    again.snapshot_sync().release()
    ((key, value),) = bound(again, "k").items()
    assert (type(key), value) == (bool, "b")
    handle.remove(1)
    handle.put(Color.RED, "c")
    again.snapshot_sync().release()
    assert (
        bound(bench.backend(stored=[keyed(bench.snapshot(again, 2))], states=maps(int, str)), "k").get(1)
        == "c"
    )
    with pytest.raises(TypeError, match="unhashable"):
        handle.get([1])


class Word(enum.StrEnum):
    """Texts by name."""

    A = "a"


class Pair(NamedTuple):
    """A tuple of a class of its own."""

    word: str
    number: int


class Day(dt.date):
    """A date of a class of its own."""


@pytest.mark.parametrize("kept", [0, 1000])
@pytest.mark.parametrize(
    ("kind", "stored", "equal"),
    [
        (tuple[str, int], ("a", 1), (Word.A, 1)), (tuple[str, int], ("a", 1), ("a", Color.RED)),
        (tuple[str, int], ("a", 1), Pair("a", 1)), (tuple[int, ...], (1, 2), (Color.RED, 2)),
        (int, 1, np.int64(1)), (int, 1, Decimal(1)), (int, 1, np.float64(1)), (str, "a", Word.A),
        (dt.date, dt.date(2024, 2, 29), Day(2024, 2, 29)), (bytes, b"a", memoryview(b"a")),
    ],
)  # fmt: skip
def test_an_entry_is_found_by_whatever_a_dict_would_find_it_by(
    bench: NativeBench, apart: None, monkeypatch: Any, kind: Any, stored: Any, equal: Any, kept: int
) -> None:
    """Parts of keys may be members of enumerations, and a look may be taken by a number of NumPy's."""
    monkeypatch.setattr(map_table, "WHOLE_MAX", kept)
    made = bench.backend(states=maps(kind))
    bound(made, "k").put(stored, 1)
    one = [keyed(bench.snapshot(made, 1))]
    assert (equal in bound(made, "k"), bound(made, "k").get(equal)) == (True, 1)
    for look in (lambda handle: equal in handle, lambda handle: handle.get(equal) == 1):
        assert look(bound(bench.backend(stored=one, states=maps(kind)), "k"))
    changed = bench.backend(stored=one, states=maps(kind))
    bound(changed, "k").put(equal, 5)
    ((key, value),) = contents(changed)["k"]
    assert (key, type(key), value) == (stored, type(stored), 5)
    removed = bench.backend(stored=one, states=maps(kind))
    bound(removed, "k").remove(equal)
    assert (len(bound(removed, "k")), contents(removed)) == (0, {})


def test_members_of_enumerations_are_parts_of_new_keys(bench: NativeBench, apart: None) -> None:
    """They are stored as what they are made from; what is no key at all is told by the state's name."""
    made = bench.backend(states=maps(tuple[str, int]))
    bound(made, "k").put((Word.A, Color.RED), 1)
    again = bench.backend(stored=[keyed(bench.snapshot(made, 1))], states=maps(tuple[str, int]))
    assert (contents(again), bound(again, "k").get(("a", 1))) == ({"k": [(("a", 1), 1)]}, 1)
    wrong = bench.backend(states=maps(bytes))
    bound(wrong, "k").put(memoryview(b"a"), 1)
    with pytest.raises(UsageError, match=r"state 'm' cannot be stored: a value of type builtins\.memoryview"):
        wrong.snapshot_sync()


@dataclass(frozen=True)
class Point:
    """A key of a program's own class."""

    x: int


@pytest.mark.parametrize(
    ("key", "apart"),
    [
        (str, True), (int, True), (bytes, True), (tuple[str, int], True), (str | None, True),
        (tuple[int, ...], True), (float, False), (Any, False), (Point, False), (Color, False),
        (Decimal, False), (frozenset[int], False), (tuple[str, float], False),
    ],
)  # fmt: skip
def test_only_keys_that_have_one_form_each_lie_apart(bench: NativeBench, key: Any, apart: bool) -> None:
    """Of others two that are equal may differ in their bytes: such maps are kept whole, as before."""
    made = bench.backend(states=maps(key, int))
    assert isinstance(made.handles["m"], RocksMapState) is apart
    assert isinstance(made._tables["m"].layout, MapEntries) is apart
