"""Which row groups of Parquet files are left out by statistics, and that positions stay what they were."""

from __future__ import annotations

import datetime as dt
import tempfile
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.api.source import Source
from headgate.connectors.files import parquet_source, parquet_statistics
from headgate.connectors.files.parquet_cursor import ParquetCursor
from headgate.connectors.files.parquet_statistics import RowGroupTests
from headgate.connectors.generator import throttled
from headgate.relational.column_tests import ColumnTest, Comparison
from headgate.relational.spark_types import LOCAL_TIMESTAMP, TIMESTAMP, normal_type

UTC = dt.UTC
AMOUNTS = [Decimal(text) for text in ("-1.5", "-0.1", "0.1", "0.2", "9", "99")]


def written(folder: Path, values: Any, kind: Any = None, **settings: Any) -> pq.ParquetFile:
    """A file with the column `c`, in row groups of two rows."""
    table = values if isinstance(values, pa.Table) else pa.table({"c": pa.array(values, kind)})
    pq.write_table(table, folder / "x.parquet", row_group_size=2, **settings)
    return pq.ParquetFile(folder / "x.parquet")


def left_out(file: pq.ParquetFile, *tests: ColumnTest) -> list[int]:
    """The row groups that are not read."""
    groups = RowGroupTests(file, tests)
    return [group for group in range(file.num_row_groups) if not groups.may_pass(group)]


@pytest.mark.parametrize(
    ("values", "kind", "value"),
    [
        ([1, 2, 3, 4, 5, 6], pa.int64(), 3),
        ([1, 2, 3, 4, 250, 255], pa.uint8(), 3),
        ([1, 2, 3, 4, 2**31, 2**32 - 1], pa.uint32(), 3),
        (["a", "b", "c", "d", "é", "ü"], pa.string(), "c"),
        (["a", "b", "c", "d", "é", "ü"], pa.large_string(), "c"),
        (["a", "b", "c", "d", "é", "ü"], pa.dictionary(pa.int32(), pa.string()), "c"),
        ([b"a", b"b", b"c", b"d", b"\xff", b"\xff\xff"], pa.binary(), b"c"),
        (AMOUNTS, pa.decimal128(9, 2), Decimal("0.1")),
        (AMOUNTS, pa.decimal128(38, 2), Decimal("0.1")),
        ([dt.date(2024, 5, n) for n in range(1, 7)], pa.date32(), dt.date(2024, 5, 3)),
        ([dt.datetime(1960, 5, n) for n in range(1, 7)], pa.timestamp("us"), dt.datetime(1960, 5, 3)),
        ([dt.datetime(1960, 5, n) for n in range(1, 7)], pa.timestamp("ms"), dt.datetime(1960, 5, 3)),
        ([dt.datetime(1960, 5, n, tzinfo=UTC) for n in range(1, 7)], pa.timestamp("us", "Asia/Tokyo"),
            dt.datetime(1960, 5, 3, tzinfo=UTC)),
    ],
    ids=lambda each: None,
)  # fmt: skip
def test_row_groups_are_left_out_by_their_bounds(tmp_path: Path, values: Any, kind: Any, value: Any) -> None:
    """`value` is the least of the second of three groups, whose values ascend."""
    file = written(tmp_path, values, kind)
    expected: dict[Comparison, list[int]] = {"=": [0, 2], "<": [1, 2], "<=": [2], ">": [0], ">=": [0]}
    for comparison, groups in expected.items():
        assert left_out(file, ColumnTest("c", normal_type(kind), comparison, (value,))) == groups
    assert left_out(file, ColumnTest("c", normal_type(kind), "in", (value,))) == [0, 2]
    assert left_out(file, ColumnTest("c", normal_type(kind), "is null")) == [0, 1, 2]


def test_null_in_a_group() -> None:
    """It passes only tests that say so; a group of nothing but null has no bounds."""
    with tempfile.TemporaryDirectory() as folder:
        file = written(Path(folder), [1, 2, None, 3, None, None], pa.int64())
    assert left_out(file, ColumnTest("c", pa.int64(), ">", (2,))) == [0, 2]
    assert left_out(file, ColumnTest("c", pa.int64(), ">", (2,), or_null=True)) == [0]
    assert left_out(file, ColumnTest("c", pa.int64(), "is null")) == [0]
    assert left_out(file, ColumnTest("c", pa.int64(), "is not null")) == [2]
    assert left_out(file, ColumnTest("c", pa.int64(), "in", ())) == [0, 1, 2]
    both = (ColumnTest("c", pa.int64(), ">", (2,)), ColumnTest("c", pa.int64(), "<", (3,)))
    assert left_out(file, *both) == [0, 1, 2]


@pytest.mark.parametrize(
    ("values", "kind", "test"),
    [
        ([0, 1], pa.timestamp("ns", "UTC"),
            ColumnTest("c", TIMESTAMP, ">", (dt.datetime(2024, 1, 1, tzinfo=UTC),))),
        ([0, 2**62], pa.timestamp("us"), ColumnTest("c", LOCAL_TIMESTAMP, "<", (dt.datetime(1960, 1, 1),))),
        (["1", "2"], pa.string(), ColumnTest("c", pa.int64(), ">", (7,))),
        ([1, 2], pa.int64(), ColumnTest("c", pa.int32(), ">", (7,))),
        (["a", "a" * 64], pa.string(), ColumnTest("c", pa.string(), ">", ("b",))),
        ([1, 2], pa.int64(), ColumnTest("other", pa.int64(), ">", (7,))),
        ([1, 2], pa.int64(), ColumnTest("c", pa.int64(), ">", (dt.date(2024, 1, 1),))),
        ([[1], [2]], pa.list_(pa.int64()), ColumnTest("c", pa.int64(), ">", (7,))),
        ([[1], [2]], pa.list_(pa.int64()), ColumnTest("c.list.element", pa.int64(), ">", (7,))),
        ([{"n": 1}, {"n": 2}], pa.struct([("n", pa.int64())]), ColumnTest("c.n", pa.int64(), ">", (7,))),
        ([1, 2], pa.int64(), None),
    ],
    ids=lambda each: None,
)  # fmt: skip
def test_a_group_without_sure_bounds_is_read(
    tmp_path: Path, values: Any, kind: Any, test: ColumnTest | None
) -> None:
    """Of another type, rounded when read, perhaps cut, beyond Python's years, or no column of the file."""
    assert left_out(written(tmp_path, values, kind), *([test] if test else [])) == []


def test_a_column_whose_name_is_a_path(tmp_path: Path) -> None:
    """The statistics are not taken for those of a field of a struct."""
    table = pa.table({"a": pa.array([{"n": 1}, {"n": 2}]), "a.n": [8, 9]})
    assert left_out(written(tmp_path, table), ColumnTest("a.n", pa.int64(), ">", (7,))) == []
    alone = written(tmp_path, pa.table({"a.n": [8, 9]}))
    assert left_out(alone, ColumnTest("a.n", pa.int64(), "<", (7,))) == [0]


def test_files_without_statistics_are_read(tmp_path: Path) -> None:
    """Nothing is known of their row groups."""
    assert (
        left_out(written(tmp_path, [1, 2], write_statistics=False), ColumnTest("c", pa.int64(), ">", (7,)))
        == []
    )


@pytest.mark.parametrize(
    ("writer", "believed"),
    [
        ("parquet-cpp-arrow version 26.0.1", True),
        ("parquet-mr version 1.13.1 (build abc)", True),
        ("parquet-mr version 1.10.0 (build abc)", True),
        ("parquet-mr version 1.8.2 (build abc)", False),
        ("parquet-mr", False),
        ("Polars (python) version 2.1.0", True),
        ("impala version 2.0", False),
        ("", False),
    ],
)
def test_texts_are_believed_of_known_writers_only(tmp_path: Path, writer: str, believed: bool) -> None:
    """Others may have ordered them by signed bytes; numbers are in order in any case."""
    file = written(tmp_path, pa.table({"c": ["a", "b"], "n": [1, 2]}))
    real = file.metadata
    metadata = SimpleNamespace(created_by=writer, num_columns=2, row_group=real.row_group)
    claimed: Any = SimpleNamespace(metadata=metadata, schema=file.schema, schema_arrow=file.schema_arrow)
    assert RowGroupTests(claimed, [ColumnTest("c", pa.string(), ">", ("x",))]).may_pass(0) is not believed
    assert not RowGroupTests(claimed, [ColumnTest("n", pa.int64(), ">", (7,))]).may_pass(0)


class _Statistics:
    """Statistics as a file may have them."""

    has_null_count, null_count, has_min_max, min, max = True, 0, True, 1, 2

    def __init__(self, **given: Any) -> None:
        vars(self).update(given)


def test_missing_parts_of_statistics() -> None:
    """Without a count of nulls there may be some; without bounds any value."""

    def passes(test: ColumnTest, **given: Any) -> bool:
        return parquet_statistics._may_pass(test, _Statistics(**given), 5)  # type: ignore[arg-type]

    more, null = ColumnTest("c", pa.int64(), ">", (7,)), ColumnTest("c", pa.int64(), "is null")
    assert not passes(more)
    assert passes(more, has_min_max=False)
    assert not passes(more, has_null_count=False)
    assert passes(ColumnTest("c", pa.int64(), ">", (7,), or_null=True), has_null_count=False, null_count=None)
    assert passes(null, has_null_count=False, null_count=None)
    assert not passes(null)
    assert parquet_statistics._may_pass(more, None, 5)


def test_a_throttled_source_hands_its_tests_on(tmp_path: Path) -> None:
    """A source that takes none stays itself."""
    test = ColumnTest("c", pa.int64(), ">", (7,))
    inner = throttled(parquet_source(tmp_path), 5.0).with_filters([test]).source
    assert inner.filters == (test,)  # type: ignore[attr-defined]

    class Plain(Source[Any]):
        create_enumerator = create_reader = None  # type: ignore[assignment]

    plain = throttled(Plain(), 5.0)
    assert plain.with_filters([test]) is plain


# -- positions


TESTS = st.one_of(
    st.none(),
    st.builds(
        lambda comparison, value: ColumnTest("v", pa.int64(), comparison, (value,)),
        st.sampled_from(["=", "<", ">="]),
        st.integers(0, 4),
    ),
    st.just(ColumnTest("v", pa.int64(), "is null")),
)


@settings(max_examples=150, deadline=None)
@given(
    st.lists(st.integers(0, 4) | st.none(), min_size=1, max_size=40),
    st.integers(1, 7),
    TESTS,
    st.lists(st.tuples(st.integers(1, 9), st.booleans(), TESTS), max_size=25),
)
def test_positions_mean_the_same_with_any_tests(
    values: list[int | None], group: int, test: ColumnTest | None, steps: list[Any]
) -> None:
    """Rows come once and in order, also to a reader with other tests; what is left out fails them."""
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/x.parquet"
        table = pa.table({"i": range(len(values)), "v": pa.array(values, pa.int64())})
        pq.write_table(table, path, row_group_size=group)
        cursor, reached = ParquetCursor(path, ["i"], None, [test] if test else []), 0
        for size, again, other in [*steps, *[(50, False, None)] * 50]:
            if again:
                position, test = cursor.position(), other
                cursor.close()
                cursor = ParquetCursor(path, ["i"], position, [test] if test else [])
            polled = cursor.poll(size)
            rows = [len(values)] if polled is None else polled[0].column("i").to_pylist()
            passed = values[reached : rows[0]]
            assert not any(test is None or test.passes(value) for value in passed)
            if polled is None:
                break
            assert rows == list(range(rows[0], rows[0] + len(rows)))
            reached = rows[-1] + 1
        cursor.close()
        assert polled is None
