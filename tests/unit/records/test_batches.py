"""Row batches and column batches keep one contract: slice, take, concat, keys, key groups, times."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.common.errors import UsageError
from headgate.common.keys.keygroups import key_group
from headgate.records.arrow_batch import ArrowBatch, concat_columns
from headgate.records.batch import join_times
from headgate.records.row import Row
from headgate.records.row_batch import RowBatch, concat_rows

RECORD = st.tuples(st.integers(-(2**63), 2**63 - 1), st.text(max_size=5))
RECORDS = st.lists(RECORD, max_size=40)


def times_of(count: int) -> Any:
    """Some event time for `count` records."""
    return np.arange(count, dtype=np.int64) * 10


def both(records: list[tuple[int, str]], timed: bool) -> tuple[RowBatch, ArrowBatch]:
    """The same records in both shapes."""
    times = times_of(len(records)) if timed else None
    marks = times - 5 if timed else None
    numbers, texts = (
        pa.array([n for n, _ in records], pa.int64()),
        pa.array([s for _, s in records], pa.string()),
    )
    rows = RowBatch([Row.of(n=n, s=s) for n, s in records], times, marks)
    return rows, ArrowBatch(pa.RecordBatch.from_arrays([numbers, texts], ["n", "s"]), times, marks)


def content(batch: Any) -> Any:
    """Everything a batch says, comparable."""
    times = None if batch.timestamps is None else batch.timestamps.tolist()
    marks = None if batch.watermarks is None else batch.watermarks.tolist()
    return list(batch.rows()), times, marks, len(batch)


@given(RECORDS, st.booleans(), st.integers(0, 45), st.integers(0, 45))
def test_slices_are_equal_in_both_shapes(
    records: list[tuple[int, str]], timed: bool, start: int, stop: int
) -> None:
    """A slice is the records between its ends with their times, whatever the shape."""
    start, stop = sorted((min(start, len(records)), min(stop, len(records))))
    rows, columns = both(records, timed)
    expected = ([Row.of(n=n, s=s) for n, s in records[start:stop]], stop - start)
    for batch in (rows.slice(start, stop), columns.slice(start, stop)):
        found, times, marks, count = content(batch)
        assert (found, count) == expected
        if timed:
            assert times == times_of(len(records))[start:stop].tolist()
            assert marks == [time - 5 for time in times]
        else:
            assert times is marks is None


@given(st.lists(RECORD, min_size=1, max_size=40), st.booleans(), st.lists(st.integers(0, 1000), max_size=60))
def test_takes_are_equal_in_both_shapes(
    records: list[tuple[int, str]], timed: bool, picks: list[int]
) -> None:
    """A take is the records at the indices, repeated and reordered as asked, with their times."""
    at = np.array([pick % len(records) for pick in picks], dtype=np.int64)
    rows, columns = both(records, timed)
    taken = content(rows.take(at))
    assert taken == content(columns.take(at))
    assert taken[0] == [Row.of(n=records[i][0], s=records[i][1]) for i in at]
    if timed:
        assert taken[1] == [10 * i for i in at]


@given(st.lists(RECORD, max_size=40), st.booleans(), st.lists(st.integers(0, 40), max_size=5))
def test_concat_undoes_slicing(records: list[tuple[int, str]], timed: bool, cuts: list[int]) -> None:
    """Cut anywhere and joined again, a batch is what it was, in both shapes."""
    edges = sorted({0, len(records), *(min(cut, len(records)) for cut in cuts)})
    pairs = list(pairwise(edges)) or [(0, 0)]
    rows, columns = both(records, timed)
    assert content(concat_rows([rows.slice(a, b) for a, b in pairs])) == content(rows)
    assert content(concat_columns([columns.slice(a, b) for a, b in pairs])) == content(columns)


def test_times_of_a_concat_are_all_or_none() -> None:
    """Batches with and without event time make one without."""
    times = times_of(2)
    assert join_times([times, None]) is None
    joined = join_times([times, times])
    assert joined is not None
    assert joined.tolist() == [0, 10, 0, 10]


@given(st.lists(RECORD, max_size=30), st.sampled_from([1, 2, 128, 32_768]))
def test_key_groups_are_the_scalar_ones_in_both_shapes(
    records: list[tuple[int, str]], max_parallelism: int
) -> None:
    """By name, by names and by function, every shape routes a record as the scalar form says."""
    rows, columns = both(records, False)
    selectors: list[tuple[Any, Any]] = [
        ("n", lambda r: r.n),
        ("s", lambda r: r.s),
        (("s", "n"), lambda r: (r.s, r.n)),
        (("s",), lambda r: (r.s,)),
        (lambda r: r["s"] + "!", lambda r: r.s + "!"),
    ]
    for selector, expected in selectors:
        keys = [expected(Row.of(n=n, s=s)) for n, s in records]
        groups = [key_group(key, max_parallelism) for key in keys]
        for batch in (rows, columns):
            assert list(batch.keys(selector)) == keys
            assert batch.key_groups(selector, max_parallelism).tolist() == groups


def test_with_times_leaves_the_batch_as_it_is() -> None:
    """Event time is added to a copy that shares the records."""
    for batch in both([(1, "a"), (2, "b")], False):
        timed = batch.with_times(times_of(2), times_of(2))
        assert content(timed) == (list(batch.rows()), [0, 10], [0, 10], 2)
        assert batch.timestamps is batch.watermarks is None


@pytest.mark.parametrize("selector", ["missing", ("n", "missing")])
def test_a_missing_key_field_is_refused_by_name(selector: Any) -> None:
    """The refusal names the field and shows what the records are like, in both shapes."""
    for batch in both([(1, "a")], False):
        for method in (batch.keys, lambda s, b=batch: b.key_groups(s, 128)):
            with pytest.raises(UsageError, match="missing"):
                method(selector)


def test_keys_of_dicts_tuples_and_objects() -> None:
    """Dicts are read by item, other objects by attribute; an empty batch has no keys."""

    class Thing:
        n = 3

    assert RowBatch([{"n": 1}, {"n": 2}]).keys("n") == [1, 2]
    assert RowBatch([Thing()]).keys(("n",)) == [(3,)]
    assert RowBatch([]).keys("n") == []
    with pytest.raises(UsageError, match="a record is 5; name a field it has, or give a function"):
        RowBatch([5]).keys("n")


def test_a_null_key_is_refused_in_both_shapes() -> None:
    """A record without a key has no subtask to go to."""
    column = pa.RecordBatch.from_pydict({"k": pa.array(["a", None])})
    for batch in (RowBatch([{"k": "a"}, {"k": None}]), ArrowBatch(column)):
        with pytest.raises(UsageError, match=r"None|nulls"):
            batch.key_groups("k", 128)


def test_whole_slices_share_the_batch() -> None:
    """Cutting nothing off costs nothing."""
    for batch in both([(1, "a"), (2, "b")], True):
        assert batch.slice(0, 2) is batch
        assert batch.nbytes() > 0
        assert str(len(batch)) in repr(batch)
