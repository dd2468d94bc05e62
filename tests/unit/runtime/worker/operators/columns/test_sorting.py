"""Orders of hashes and times against NumPy's own, which take longer."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.runtime.worker.operators.columns.sorting import distinct, order_of_hashes, order_of_numbers

HASHES = st.lists(st.one_of(st.integers(0, 2**32 - 1), st.integers(0, 9)), max_size=300)


@given(HASHES)
def test_equal_hashes_stay_in_their_order(values: list[int]) -> None:
    """However far they are apart, and few or many of them in order."""
    hashes = np.array(values, dtype=np.uint32)
    assert order_of_hashes(hashes).tolist() == np.argsort(hashes, kind="stable").tolist()
    assert distinct(hashes).tolist() == sorted(set(values))


def test_long_stretches_in_order_are_merged() -> None:
    """As two tables that are in order themselves."""
    hashes = np.concatenate([np.arange(0, 5_000, 3), np.arange(1, 5_000, 2)]).astype(np.uint32)
    assert order_of_hashes(hashes).tolist() == np.argsort(hashes, kind="stable").tolist()


@pytest.mark.parametrize("span", [0, 5, 65_535, 65_536, 2**62])
def test_numbers_close_and_far(span: int) -> None:
    """From some ms to all of event time, negative ones among them."""
    numbers = np.array([span // 2, -span // 2, 0, -span // 2, span // 2 + span % 2], dtype=np.int64)
    assert order_of_numbers(numbers).tolist() == np.argsort(numbers, kind="stable").tolist()


def test_nothing_is_in_order() -> None:
    """Tables without rows have an order, too."""
    none = np.zeros(0, dtype=np.int64)
    assert order_of_numbers(none).tolist() == order_of_hashes(none.astype(np.uint32)).tolist() == []
