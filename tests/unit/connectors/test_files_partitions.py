"""Folders of partitions: names as Spark's, records divided in order, and what cannot be divided."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.common.errors import UsageError
from headgate.connectors.files.folder_layout import Layout
from headgate.connectors.files.partitions import DEFAULT, Partitions, escaped
from headgate.records.row import Row


def divided(records: Any, *names: str) -> dict[str, Any]:
    """Folder -> its records, as dicts."""
    found = {}
    for folder, some in Partitions(names).split(records):
        found[folder] = some.to_pylist() if isinstance(some, pa.RecordBatch) else some
    return found


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("plain", "plain"),
        ("", DEFAULT),
        (None, DEFAULT),
        ("a/b=c%d:e", "a%2Fb%3Dc%25d%3Ae"),
        ("..", ".."),
        ("\x00\n\x7f", "%00%0A%7F"),
        ("Zürich ø 漢", "Zürich ø 漢"),
        (7, "7"),
        (True, "true"),
        (0.5, "0.5"),
        (1e20, "1.0E20"),
        (Decimal("1.50"), "1.50"),
        (dt.date(2024, 5, 6), "2024-05-06"),
        (dt.datetime(2024, 5, 6, 7, 8, tzinfo=dt.UTC), "2024-05-06 07%3A08%3A00"),
        (dt.datetime(2024, 5, 6, 7, 8, 0, 500), "2024-05-06 07%3A08%3A00.0005"),
    ],
)
def test_folders_are_named_as_sparks(value: Any, text: str) -> None:
    """Of rows and of columns alike."""
    row = {"n": 1, "k": value}
    assert divided([row], "k") == {f"k={text}": [{"n": 1}]}
    assert divided(pa.RecordBatch.from_pylist([row]), "k") == {f"k={text}": [{"n": 1}]}


@given(
    st.lists(st.tuples(st.sampled_from(["a", "b/", "", None]), st.integers(0, 2) | st.none()), min_size=1),
    st.booleans(),
)
def test_records_are_divided_in_order(keys: list[tuple[str | None, int | None]], columns: bool) -> None:
    """Each is in one folder, after those that came before it."""
    rows = [{"x": x, "y": y, "n": n} for n, (x, y) in enumerate(keys)]
    schema = pa.schema({"x": pa.string(), "y": pa.int64(), "n": pa.int64()})
    expected: dict[str, list[dict[str, int]]] = {}
    for n, (x, y) in enumerate(keys):
        folder = f"y={DEFAULT if y is None else y}/x={escaped(x) if x else DEFAULT}"
        expected.setdefault(folder, []).append({"n": n})
    assert divided(pa.RecordBatch.from_pylist(rows, schema) if columns else rows, "y", "x") == expected


VALUES = [1, 2.5, True, "1", "a", None, Decimal("1.5"), Decimal("1.50"), Decimal(10), dt.date(2024, 5, 6)]
VALUES += [dt.datetime(2024, 5, 6, 7), dt.datetime(2024, 5, 6, 7, tzinfo=dt.UTC), dt.datetime.max, 0.0, -7]


@given(st.lists(st.sampled_from(VALUES), min_size=1))
def test_a_folder_depends_on_its_record_alone(values: list[Any]) -> None:
    """Not on the other records of the batch, whatever their types."""
    found = divided([{"k": value, "n": n} for n, value in enumerate(values)], "k")
    folders = {row["n"]: folder for folder, rows in found.items() for row in rows}
    alone = [next(iter(divided([{"k": value, "n": 0}], "k"))) for value in values]
    assert [folders[n] for n in range(len(values))] == alone


def test_rows_of_any_kind_are_divided() -> None:
    """They become dicts without the columns of partitions; the records themselves stay as they are."""
    row = Row.of(k="a", n=1)
    assert divided([row, {"k": "b", "n": 2}], "k") == {"k=a": [{"n": 1}], "k=b": [{"n": 2}]}
    assert row.as_dict() == {"k": "a", "n": 1}


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([{"n": 1}], "partition_by has 'k', and record {'n': 1} has no such field"),
        ([{"k": 1}], "partition_by has every column"),
        ([{"k": [1], "n": 1}], r"'k', which is array<bigint>; expected text, numbers"),
        ([{"k": b"x", "n": 1}], "which is binary"),
        ([{"k": 2**64, "n": 1}], "'k', and its values are of no type of columns"),
        ([{"k": "x" * 300, "n": 1}], "more than 255 bytes"),
    ],
)
def test_what_cannot_be_divided(rows: list[dict[str, Any]], message: str) -> None:
    """Named: the column, and the record or value."""
    with pytest.raises(UsageError, match=message):
        divided(rows, "k")


def test_columns_that_cannot_be_divided() -> None:
    """A column that is not there, and a batch of nothing else."""
    with pytest.raises(UsageError, match="partition_by has 'k', and the records have n, m"):
        divided(pa.record_batch({"n": [1], "m": [2]}), "k")
    with pytest.raises(UsageError, match="partition_by has every column"):
        divided(pa.record_batch({"k": [1]}), "k")


@pytest.mark.parametrize("names", [("",), ("a", "a"), (".a",), (7,)])
def test_wrong_layouts_are_refused(names: Any) -> None:
    """When the sink is made."""
    with pytest.raises(UsageError, match="expected names of columns"):
        Layout(names)
    with pytest.raises(UsageError, match="open_files=0"):
        Layout("a", open_files=0)
