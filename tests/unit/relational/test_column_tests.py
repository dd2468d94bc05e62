"""Conditions on single columns: what passes them, and what may pass them between two bounds."""

from __future__ import annotations

from typing import Any, get_args

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import headgate as hg
from headgate.relational.column_tests import ColumnTest, Comparison

SMALL = st.integers(-3, 3)
COMPARED = st.sampled_from([each for each in get_args(Comparison) if "null" not in each and each != "in"])
TESTS = st.one_of(
    st.builds(ColumnTest, st.just("n"), st.just(pa.int64()), COMPARED, st.tuples(SMALL), st.booleans()),
    st.builds(
        lambda values, null: ColumnTest("n", pa.int64(), "in", tuple(values), null),
        st.lists(SMALL, max_size=3),
        st.booleans(),
    ),
    st.sampled_from([ColumnTest("n", pa.int64(), "is null"), ColumnTest("n", pa.int64(), "is not null")]),
)


@given(TESTS, st.lists(SMALL, min_size=1))
def test_a_value_that_passes_may_pass_between_any_bounds_around_it(test: ColumnTest, values: Any) -> None:
    """So what the bounds exclude, no value of them passes."""
    if any(map(test.passes, values)):
        assert test.may_pass(min(values), max(values))


@pytest.mark.parametrize(
    ("test", "passing"),
    [
        (ColumnTest("n", pa.int64(), "=", (2,)), [2]),
        (ColumnTest("n", pa.int64(), "<", (2,)), [1]),
        (ColumnTest("n", pa.int64(), "<=", (2,), or_null=True), [1, 2, None]),
        (ColumnTest("n", pa.int64(), ">", (2,)), [3]),
        (ColumnTest("n", pa.int64(), ">=", (2,)), [2, 3]),
        (ColumnTest("n", pa.int64(), "in", (1, 3)), [1, 3]),
        (ColumnTest("n", pa.int64(), "in", ()), []),
        (ColumnTest("n", pa.int64(), "is null"), [None]),
        (ColumnTest("n", pa.int64(), "is not null"), [1, 2, 3]),
    ],
    ids=str,
)
def test_what_passes(test: ColumnTest, passing: list[int | None]) -> None:
    """A comparison with null is not true, as in SQL, unless the test says that null passes."""
    assert [value for value in (1, 2, 3, None) if test.passes(value)] == passing


def test_wrong_tests_are_refused() -> None:
    """By the comparison's name, and by the number of values."""
    with pytest.raises(hg.UsageError, match="got comparison='<>'; expected one of '='"):
        ColumnTest("n", pa.int64(), "<>", (1,))  # type: ignore[arg-type]
    with pytest.raises(hg.UsageError, match="got 2 values for '='; expected 1"):
        ColumnTest("n", pa.int64(), "=", (1, 2))
    with pytest.raises(hg.UsageError, match="got 1 values for 'is null'; expected 0"):
        ColumnTest("n", pa.int64(), "is null", (1,))
