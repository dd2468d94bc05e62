"""What the hashes in memory say of keys on disk: never "no" of one that is stored."""

from __future__ import annotations

from collections import defaultdict

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from headgate.runtime.worker.operators.columns.spilled.stored_hashes import StoredHashes

SETS = st.sets(st.integers(0, 40), max_size=12)
STEP = st.tuples(st.sampled_from(["added", "replaced", "forget"]), st.integers(0, 2), SETS)


def ascending(hashes: set[int]) -> np.ndarray[tuple[int], np.dtype[np.uint32]]:
    """As an operator passes them on."""
    return np.array(sorted(hashes), dtype=np.uint32)


@given(st.lists(STEP, max_size=40), SETS, st.sampled_from([0, 40, 1 << 20]))
def test_what_is_stored_is_found(
    steps: list[tuple[str, int, set[int]]], wanted: set[int], limit: int
) -> None:
    """Whatever was written, replaced or restored before, and however little may be held."""
    known, stored, restored = StoredHashes(limit), defaultdict[int, set[int]](set), set[int]()
    for name, group, hashes in steps:
        if name == "forget":
            known.forget([group])
            stored[group] |= hashes
            restored.add(group)
        elif name == "added":
            known.added(group, ascending(hashes))
            stored[group] |= hashes
        else:
            known.replaced(group, ascending(hashes))
            stored[group] = set(hashes)
            restored.discard(group)
    for group in range(3):
        found = set(known.found(group, ascending(wanted)).tolist())
        assert wanted & stored[group] <= found <= wanted
        if limit > 1_000 and group not in restored:
            assert found == wanted & stored[group]


def test_hashes_take_no_more_than_they_may() -> None:
    """Groups that do not fit are as unknown as restored ones; smaller ones fit again."""
    known = StoredHashes(40)
    known.added(0, ascending(set(range(8))))
    known.added(1, ascending(set(range(8))))
    assert known.found(0, ascending({3, 99})).tolist() == [3]
    assert known.found(1, ascending({3, 99})).tolist() == [3, 99]
    known.replaced(1, ascending({3}))
    assert known.found(1, ascending({3, 99})).tolist() == [3]
