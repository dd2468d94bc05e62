"""Histograms: the error of a value read from one, and that merging is adding."""

from __future__ import annotations

from itertools import pairwise
from math import ceil

from hypothesis import example, given
from hypothesis import strategies as st

from headgate.metrics.histograms import CELLS, VALUE_MAX, Histogram, middle_of

EIGHTH = 1 / 8
values = st.one_of(st.integers(0, 64), st.integers(0, 10**7), st.integers(0, VALUE_MAX))


def filled(numbers: list[int]) -> Histogram:
    """A histogram of these."""
    histogram = Histogram()
    for number in numbers:
        histogram.add(number)
    return histogram


def cell_of(value: int) -> int:
    """Where a value is counted."""
    return filled([value]).sparse()[0]


@given(values)
@example(7)
@example(8)
@example(VALUE_MAX)
def test_a_value_is_known_to_within_an_eighth(value: int) -> None:
    """Up to 7 exactly."""
    read = filled([value]).quantile(1.0)
    assert abs(read - value) <= value * EIGHTH
    if value < 8:
        assert read == value


def test_cells_are_in_the_order_of_their_values_without_a_gap() -> None:
    """No value is counted in a cell before that of a smaller one."""
    edges = sorted(
        {edge for bits in range(3, 64) for edge in (1 << bits, (1 << bits) - 1) if edge <= VALUE_MAX}
    )
    cells = [cell_of(value) for value in [*range(2_000), *(edge for edge in edges if edge >= 2_000)]]
    assert cells == sorted(cells)
    assert all(after - before <= 1 for before, after in pairwise(cells[12:2_000]))
    assert max(cells) == CELLS - 1


@given(values, values)
def test_what_stands_for_a_cell_grows_with_it(one: int, other: int) -> None:
    """So quantiles are in order."""
    assert (cell_of(one) <= cell_of(other)) == (middle_of(cell_of(one)) <= middle_of(cell_of(other)))


@given(st.lists(values, max_size=50), st.lists(values, max_size=50))
def test_merging_is_adding(left: list[int], right: list[int]) -> None:
    """Whether values are counted here or there."""
    together = filled(left)
    together.merge(filled(right).sparse())
    assert together.counts == filled(left + right).counts
    assert together.count == len(left) + len(right)


@given(st.lists(values, max_size=50))
def test_a_histogram_travels_as_its_cells(numbers: list[int]) -> None:
    """Only those that are not empty."""
    sparse = filled(numbers).sparse()
    assert Histogram(sparse).counts == filled(numbers).counts
    assert 0 not in sparse[1::2]


@given(st.lists(values, min_size=1, max_size=50), st.floats(0.01, 1))
def test_a_quantile_is_known_to_within_an_eighth(numbers: list[int], share: float) -> None:
    """Of the value that the sorted numbers have there."""
    true = sorted(numbers)[ceil(share * len(numbers)) - 1]
    assert abs(filled(numbers).quantile(share) - true) <= true * EIGHTH


def test_values_beyond_all_count_as_the_greatest() -> None:
    """Nothing is lost, and nothing raises on the way of a batch."""
    assert filled([2**80]).sparse() == [CELLS - 1, 1]


def test_an_empty_histogram_has_no_quantile() -> None:
    """Zero stands for it."""
    assert (Histogram().quantile(0.5), Histogram().count, Histogram().sparse()) == (0.0, 0, [])
