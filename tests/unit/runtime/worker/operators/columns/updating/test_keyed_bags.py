"""Rows of keys that lie in tables which are merged again and again, against a dict of lists."""

from __future__ import annotations

from collections import Counter, defaultdict

import numpy as np
import pyarrow as pa
import pytest

from headgate.runtime.worker.operators.columns.updating.by_key import keyed_bags
from headgate.runtime.worker.operators.columns.updating.by_key.keyed_bags import KeyedBags
from headgate.runtime.worker.operators.columns.updating.weights import WEIGHT

ROWS = pa.schema({"value": pa.int64(), WEIGHT: pa.int64()})
KEYS = np.arange(30)
Model = dict[int, Counter[int]]


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("gone", [0.0, 0.4], ids=["only grow", "are taken back"])
def test_rows_are_found_after_merges_of_merged_tables(seed: int, gone: float) -> None:
    """The sum of weights of each row of each key is that of all that were added, at any time."""
    random, bags, there = (
        np.random.default_rng(seed),
        KeyedBags(ROWS),
        defaultdict[int, Counter[int]](Counter),
    )
    for batch in range(3 * keyed_bags.TOGETHER**2 // 2):
        _add(bags, there, random, gone)
        if batch % 40 == 39:
            _check(bags, there)
    _check(bags, there)
    assert len(bags.view()) < 3 * keyed_bags.TOGETHER


def _add(bags: KeyedBags, there: Model, random: np.random.Generator, gone: float) -> None:
    count = int(random.integers(0, 6))
    keys, values = random.integers(0, len(KEYS), count), random.integers(0, 5, count)
    weights = np.ones(count, np.int64)
    known = [(key, value) for key, counts in there.items() for value, many in counts.items() if many]
    if known and random.random() < gone:
        back = np.array([known[number] for number in random.permutation(len(known))[:3]])
        keys, values = np.concatenate([keys, back[:, 0]]), np.concatenate([values, back[:, 1]])
        weights = np.concatenate([weights, np.full(len(back), -1)])
    for key, value, weight in zip(keys.tolist(), values.tolist(), weights.tolist(), strict=True):
        there[key][value] += weight
    bags.add(keys, pa.table([pa.array(values), pa.array(weights)], schema=ROWS))


def _check(bags: KeyedBags, there: Model) -> None:
    wanted = {key: Counter({v: n for v, n in counts.items() if n}) for key, counts in there.items()}
    found: Model = {key: Counter() for key in wanted}
    indices, places = bags.find(KEYS)
    for key, row in zip(KEYS[indices].tolist(), bags.take(places).to_pylist(), strict=True):
        found[key][row["value"]] += row[WEIGHT]
    assert {key: Counter({v: n for v, n in counts.items() if n}) for key, counts in found.items()} == wanted
    in_parts = Counter[int]()
    for part in bags.view():
        weights = part.table.column(WEIGHT).to_numpy()[part.rows]
        np.add.at(sums := np.zeros(len(KEYS), np.int64), np.repeat(part.numbers, part.counts), weights)
        in_parts.update(dict(enumerate(sums.tolist())))
    assert all(in_parts[key] == sum(counts.values()) for key, counts in wanted.items())
