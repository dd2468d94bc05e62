"""Rows found by key, against a dict: one row for each key, and any number."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.runtime.worker.operators.columns.updating.by_key.key_index import ABSENT, KeyIndex
from headgate.runtime.worker.operators.columns.updating.by_key.keyed_bags import KeyedBags
from headgate.runtime.worker.operators.columns.updating.by_key.keyed_rows import KeyedRows
from headgate.runtime.worker.operators.columns.updating.weights import WEIGHT

KEYS = {
    "integers": pa.schema({"k": pa.int64()}),
    "texts and integers": pa.schema({"k": pa.int64(), "t": pa.string()}),
}
VALUES = pa.schema({"v": pa.int64(), "t2": pa.string()})
STEPS = st.lists(
    st.tuples(st.sampled_from(["put", "remove"]), st.sets(st.integers(-20, 20), min_size=1)), max_size=25
)


def test_keys_of_one_hash_are_told_apart() -> None:
    """By whoever owns them: here every key has the same hash."""
    index = KeyIndex()
    owned = np.array([5, 6, 7])
    hashes = np.zeros(3, np.uint32)
    index.add(hashes)
    asked = np.array([7, 9, 5])

    def same(rows: Any, numbers: Any) -> Any:
        return asked[rows] == owned[numbers]

    assert index.find(hashes, same).tolist() == [2, ABSENT, 0]


def test_equal_new_keys_of_a_batch_get_one_number() -> None:
    """Also if all have one hash; those of before keep theirs."""
    for alike in (False, True):
        index, owned = KeyIndex(), list[int]()

        def number(asked: list[int], index: Any = index, owned: Any = owned, alike: bool = alike) -> Any:
            keys = np.array(asked)
            return index.find_or_add(
                np.zeros(len(keys), np.uint32) if alike else keys.astype(np.uint32),
                lambda rows, numbers: keys[rows] == np.array(owned)[numbers],
                lambda rows: owned.extend(keys[rows].tolist()),
            )

        found = [*number([5, 9, 5, 7, 9]), *number([7, 1, 1, 5])]
        assert [owned[each] for each in found] == [5, 9, 5, 7, 9, 7, 1, 1, 5]
        assert len(owned) == index.count == 4


def test_an_index_grows_and_finds_all() -> None:
    """While it is filled past its size, many times."""
    rng = np.random.default_rng(1)
    hashes = rng.permutation(1 << 16).astype(np.uint32)
    index = KeyIndex()
    for start in range(0, len(hashes), 999):
        index.add(hashes[start : start + 999])
    order = rng.permutation(len(hashes))
    assert (index.find(hashes[order], lambda rows, numbers: order[rows] == numbers) == order).all()


def keys_of(kind: str, numbers: list[int]) -> pa.Table:
    schema = KEYS[kind]
    columns = {"k": numbers, "t": [str(number % 3) for number in numbers]}
    return pa.table([columns[name] for name in schema.names], schema=schema)


@pytest.mark.parametrize("kind", KEYS)
@given(steps=STEPS)
def test_the_present_row_of_each_key(kind: str, steps: list[tuple[str, set[int]]]) -> None:
    """Against a dict, over puts, removals and merges."""
    rows, model = KeyedRows(KEYS[kind], VALUES), dict[int, tuple[int, str]]()
    for count, (what, wanted) in enumerate(steps):
        asked = sorted(wanted)
        numbers = rows.numbers(keys_of(kind, asked))
        there = rows.there(numbers)
        assert there.tolist() == [key in model for key in asked]
        found = rows.rows(numbers[there])
        assert list(zip(*found.to_pydict().values(), strict=True)) == [model[k] for k in asked if k in model]
        if what == "remove":
            rows.remove(numbers)
            model = {key: value for key, value in model.items() if key not in wanted}
        else:
            new = {key: (count, f"text {key + count}") for key in asked}
            rows.put(numbers, pa.table([*map(list, zip(*new.values(), strict=True))], schema=VALUES))
            model |= new
    view = [row for table in rows.view().tables() for row in table.to_pylist()]
    assert {row["k"]: (row["v"], row["t2"]) for row in view} == model
    assert len(view) == len(model)


def test_a_view_stays_as_it_was() -> None:
    """Whatever is put and merged later."""
    rows = KeyedRows(KEYS["integers"], pa.schema({"v": pa.int64()}))

    def put(value: int) -> None:
        keys = pa.table({"k": list(range(100))})
        rows.put(rows.numbers(keys), pa.table({"v": [value] * 100}))

    put(1)
    view = rows.view()
    for value in range(2, 20):
        put(value)
    assert {row["v"] for table in view.tables() for row in table.to_pylist()} == {1}


@given(
    st.lists(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 3)), min_size=1, max_size=9), max_size=40)
)
def test_all_rows_of_a_key(batches: list[list[tuple[int, int]]]) -> None:
    """Over tables that were merged once and twice."""
    bags, model = KeyedBags(pa.schema({"v": pa.int64()})), Counter[tuple[int, int]]()
    for batch in batches:
        numbers, values = (np.array(column) for column in zip(*batch, strict=True))
        bags.add(numbers, pa.table({"v": values}))
        model.update(batch)
    asked = np.array([3, 11, 0, 3])
    rows, places = bags.find(asked)
    found = Counter(zip(rows.tolist(), bags.take(places).column("v").to_pylist(), strict=True))
    expected = Counter[tuple[int, int]]()
    for row, key in enumerate(asked.tolist()):
        expected.update({(row, value): n for (number, value), n in model.items() if number == key})
    assert found == expected
    stored = Counter[tuple[int, int]]()
    for part in bags.view():
        numbers = np.repeat(part.numbers, part.counts).tolist()
        stored.update(zip(numbers, part.table.take(pa.array(part.rows)).column("v").to_pylist(), strict=True))
    assert stored == model


def test_rows_that_were_taken_back_do_not_stay() -> None:
    """Once tables are merged, what comes and goes takes no room."""
    bags = KeyedBags(pa.schema({"v": pa.int64(), WEIGHT: pa.int64()}))
    for turn in range(640):
        weight = 1 if turn % 2 == 0 else -1
        bags.add(np.array([1, 2]), pa.table({"v": [7, turn], WEIGHT: [weight, 1]}))
    assert bags.count < 640 + 2 * 8 * 8
    _, places = bags.find(np.array([1]))
    assert bags.take(places).column(WEIGHT).to_numpy().sum() == 0
    _, places = bags.find(np.array([2]))
    assert len(places) == 640
