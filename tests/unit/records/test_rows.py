"""Row views: what they read, how long they live, what their names may be."""

from __future__ import annotations

import copy
import datetime as dt
import pickle
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.records.arrow_batch import ArrowBatch
from headgate.records.column_values import python_values
from headgate.records.row import Row, make_row, row_type
from headgate.runtime.job.public_names import say_public_names

ODD = [
    *(
        "class",
        "_c",
        "_i",
        "_names",
        "_index",
        "values",
        "keys",
        "of",
        "as_dict",
        "a b",
        "",
        "1x",
        "né",
        "c0",
    ),
    *("__bool__", "__del__", "__len__", "__class__", "mro", "self"),
]


def batch(**columns: Sequence[Any]) -> ArrowBatch:
    """A batch of these columns."""
    return ArrowBatch(pa.RecordBatch.from_pydict({name: list(values) for name, values in columns.items()}))


def test_views_read_every_way() -> None:
    """Attribute, name, index, iteration, `as_dict`, `keys`, `values`, `in` and `len` agree."""
    row = batch(a=[1, 2], b=["x", None]).rows()[1]
    assert (row.a, row.b, row["a"], row[0], row[-1]) == (2, None, 2, 2, None)
    assert (list(row), row.keys(), row.values(), row.as_dict()) == (
        [2, None],
        ("a", "b"),
        (2, None),
        {"a": 2, "b": None},
    )
    assert ("a" in row, "z" in row, len(row), repr(row)) == (True, False, 2, "Row(a=2, b=None)")


def test_what_is_not_there_is_named() -> None:
    """A missing field is refused in the manner of each access, with the fields that exist."""
    row = Row.of(author="ada", lines=3)
    with pytest.raises(KeyError, match="no field 'x'; the row has author, lines"):
        row["x"]
    with pytest.raises(AttributeError, match="no attribute 'x'") as caught:
        row.x
    say_public_names(caught.value)  # as where a job fails
    assert str(caught.value) == "no field 'x'; the row has author, lines"
    for either in (row, batch(author=["ada"], lines=[3]).rows()[0]):
        for index in (2, -3):
            with pytest.raises(IndexError):
                either[index]


def test_rows_cannot_be_changed() -> None:
    """Setting a field, known or not, is refused: other rows share the columns."""
    for row in (Row.of(a=1), batch(a=[1]).rows()[0]):
        with pytest.raises(AttributeError):
            row.a = 2
        with pytest.raises(AttributeError):
            row.z = 2


@pytest.mark.parametrize("view", [True, False], ids=["view", "own"])
def test_odd_column_names_are_read_by_subscript(view: bool) -> None:
    """Names that are keywords, no identifiers or already mean something still work with row[name]."""
    values = list(range(len(ODD)))
    row = (
        ArrowBatch(pa.RecordBatch.from_arrays([pa.array([value]) for value in values], ODD)).rows()[0]
        if view
        else make_row(tuple(ODD), values)
    )
    assert [row[name] for name in ODD] == values
    assert row.as_dict() == dict(zip(ODD, values, strict=True))
    assert (row.c0, row.né, row.self) == (ODD.index("c0"), ODD.index("né"), ODD.index("self"))
    assert bool(row)
    assert len(row) == len(ODD)
    assert pickle.loads(pickle.dumps(row)) == row


def test_of_two_columns_of_one_name_the_last_is_meant_everywhere() -> None:
    """Duplicate names: attribute, subscript and dict agree, and position tells them apart."""
    row = ArrowBatch(pa.RecordBatch.from_arrays([pa.array([1]), pa.array([2])], ["a", "a"])).rows()[0]
    assert (row.a, row["a"], row.as_dict(), tuple(row), row[0], row[1]) == (2, 2, {"a": 2}, (1, 2), 1, 2)


@given(st.lists(st.tuples(st.integers(), st.text()), min_size=1, max_size=5))
def test_rows_are_equal_by_names_and_values(values: list[tuple[int, str]]) -> None:
    """A view equals a row of its own, its copies and its pickled self, with the same hash."""
    small = [(number % 2**40, text) for number, text in values]
    views = batch(n=[n for n, _ in small], s=[s for _, s in small]).rows()
    for view, (n, s) in zip(views, small, strict=True):
        own = Row.of(n=n, s=s)
        for other in (own, copy.copy(view), copy.deepcopy(view), pickle.loads(pickle.dumps(view))):
            assert view == other
            assert hash(view) == hash(other)
        assert view != Row.of(n=n + 1, s=s)
        assert view != Row.of(s=s, n=n)
        assert view != (n, s)


def test_a_pickled_view_takes_only_its_own_values_along() -> None:
    """Pickling one row of a large batch does not ship the batch."""
    row = batch(text=[f"{n:>1000}" for n in range(1000)]).rows()[500]
    assert len(pickle.dumps(row)) < 2000


def test_kept_views_stay_valid_when_the_batch_is_gone() -> None:
    """A view holds on to its columns, converted or not."""
    source = batch(a=list(range(10)), b=[str(n) for n in range(10)])
    kept = list(source.rows())
    del source
    assert [(row.a, row.b) for row in kept] == [(n, str(n)) for n in range(10)]


def test_a_column_is_converted_once_and_only_when_touched() -> None:
    """Rows of a batch share converted columns; an untouched column is never converted."""
    source = batch(a=[1, 2], b=["x", "y"])
    rows = source.rows()
    rows[0].a
    shared = source.views()
    assert shared is rows[1]._c
    assert shared.column(0) is shared.column(0)
    assert "c1" not in [name for name in ("c0", "c1") if _filled(shared, name)]


def _filled(columns: Any, slot: str) -> bool:
    try:
        object.__getattribute__(columns, slot)
    except AttributeError:
        return False
    return True


MOMENTS = st.datetimes()
SIMPLE = st.sampled_from(
    [
        *((kind, st.integers(-128, 127)) for kind in (pa.int8(), pa.int16(), pa.int32(), pa.int64())),
        (pa.uint64(), st.integers(0, 2**64 - 1)),
        (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
        (pa.float64(), st.floats()),
        (pa.float32(), st.floats(width=32)),
        *((kind, st.text()) for kind in (pa.string(), pa.large_string())),
        (pa.bool_(), st.booleans()),
        (pa.binary(), st.binary()),
        (pa.date32(), st.dates()),
        (pa.time64("us"), st.times()),
        (pa.duration("us"), st.timedeltas(dt.timedelta(-10_000), dt.timedelta(10_000))),
        (pa.decimal128(12, 3), st.decimals(-9_999, 9_999, places=3)),
        (pa.timestamp("us"), MOMENTS),
        (pa.timestamp("us", "UTC"), MOMENTS),
        (pa.timestamp("us", "Asia/Kolkata"), st.datetimes(dt.datetime(1950, 1, 1), dt.datetime(2100, 1, 1))),
        (pa.timestamp("ms", "UTC"), MOMENTS.map(lambda each: each.replace(microsecond=0))),
        (pa.timestamp("s"), MOMENTS.map(lambda each: each.replace(microsecond=0))),
    ]
)


def nested(part: tuple[pa.DataType, Any]) -> list[tuple[pa.DataType, Any]]:
    """Types with this one inside."""
    kind, values = part
    inner = st.none() | values
    return [
        (pa.list_(kind), st.lists(inner, max_size=4)),
        (pa.large_list(kind), st.lists(inner, max_size=4)),
        (pa.list_(kind, 2), st.lists(inner, min_size=2, max_size=2)),
        (pa.struct({"a": kind, "b": pa.int64()}), st.fixed_dictionaries({"a": inner, "b": st.just(1)})),
        (
            pa.map_(pa.string(), kind),
            st.dictionaries(st.text(max_size=3), inner, max_size=3).map(lambda found: list(found.items())),
        ),
    ]


KINDS = SIMPLE | SIMPLE.flatmap(lambda part: st.sampled_from(nested(part)))
KINDS |= KINDS.flatmap(lambda part: st.sampled_from(nested(part)))
COLUMNS = KINDS.flatmap(lambda part: st.tuples(st.just(part[0]), st.lists(st.none() | part[1], max_size=12)))


@given(COLUMNS, st.integers(0, 12), st.integers(0, 12))
@settings(max_examples=400, deadline=None)
def test_columns_become_the_same_objects_by_every_way(
    column: tuple[pa.DataType, list[Any]], start: int, length: int
) -> None:
    """The fast conversions give what Arrow's own gives, also for slices, nulls, and lists and structs."""
    kind, values = column
    array = pa.array(values, kind).slice(start, length)
    # repr tells types, time zones and NaN apart, where `==` does not
    assert repr(python_values(array)) == repr(array.to_pylist())


@pytest.mark.parametrize("kind", [pa.timestamp("s"), pa.timestamp("us", "UTC"), pa.date32()])
def test_times_beyond_the_years_of_python_are_refused_as_by_arrow(kind: pa.DataType) -> None:
    """No number takes the place of a time."""
    far = pa.array([0, 2**31 - 1 if kind == pa.date32() else 2**62], kind)
    with pytest.raises((OverflowError, ValueError)) as expected:
        far.to_pylist()
    with pytest.raises(expected.type):
        python_values(far)


def test_float16_and_dictionaries_are_read() -> None:
    """Types without a fast way are converted all the same."""
    import numpy as np

    assert python_values(pa.array(np.array([1.5, 2.0], np.float16))) == [1.5, 2.0]
    assert python_values(pa.array(["a", "b", "a"]).dictionary_encode()) == ["a", "b", "a"]


def test_row_classes_are_shared() -> None:
    """Rows of equal fields have one class, however many batches there are."""
    assert batch(a=[1]).row_class() is batch(a=[2]).row_class() is row_type(("a",))
