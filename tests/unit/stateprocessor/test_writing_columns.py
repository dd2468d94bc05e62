"""Columns of a DataFrame become what the runtime itself would have written, or are refused by name."""

from __future__ import annotations

import datetime as dt
import enum
import uuid
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Literal, NamedTuple

import pyarrow as pa
import pytest
from column_batches import from_arrow, to_arrow

from headgate.common.errors import UsageError
from headgate.serde.arrow.arrow_columns import ArrowColumn
from headgate.serde.resolve import serializer_for
from headgate.stateprocessor.writing.writing_columns import fit_of

UTC_MOMENT = dt.datetime(2024, 5, 6, 7, 8, 9, 10, dt.UTC)


class Color(enum.Enum):
    """Stored by name."""

    RED = 1


class Pair(NamedTuple):
    """A record in a record."""

    left: int
    right: str | None


@dataclass
class Everything:
    """Fields in another order than the DataFrame has them."""

    pair: Pair
    at: dt.datetime
    tags: list[str]
    sizes: dict[str, float] | None


EVERYTHING = pa.struct(
    [
        ("tags", pa.list_(pa.large_string())),
        ("sizes", pa.map_(pa.string(), pa.float32())),
        ("at", pa.timestamp("us", "Europe/Paris")),
        ("pair", pa.struct([("right", pa.string()), ("left", pa.int16())])),
    ]
)

FITS = [
    (int, pa.int32(), [1, -2], [1, -2]),
    (int | None, pa.int64(), [1, None], [1, None]),
    (float, pa.float32(), [0.5], [0.5]),
    (float, pa.int32(), [3], [3.0]),
    (str, pa.large_string(), ["é", ""], ["é", ""]),
    (bytes, pa.binary(), [b"x"], [b"x"]),
    (bool, pa.bool_(), [True], [True]),
    (dt.date, pa.date32(), [dt.date(1, 1, 1)], [dt.date(1, 1, 1)]),
    (dt.timedelta, pa.duration("us"), [dt.timedelta(1, 2, 3)], [dt.timedelta(1, 2, 3)]),
    (dt.datetime, pa.timestamp("us", "UTC"), [UTC_MOMENT], [UTC_MOMENT]),
    (dt.datetime, pa.timestamp("us"), [dt.datetime(2024, 1, 1)], [dt.datetime(2024, 1, 1)]),
    (Decimal, pa.decimal128(9, 2), [Decimal("1.00"), Decimal("-0.05")], [Decimal("1.00"), Decimal("-0.05")]),
    (uuid.UUID, pa.string(), [str(uuid.UUID(int=5))], [uuid.UUID(int=5)]),
    (uuid.UUID, pa.binary(), [uuid.UUID(int=5).bytes], [uuid.UUID(int=5)]),
    (Color, pa.string(), ["RED"], [Color.RED]),
    (tuple[int, str], pa.struct([("a", pa.int64()), ("b", pa.string())]), [{"a": 1, "b": "x"}], [(1, "x")]),
    (tuple[int, ...], pa.list_(pa.int64()), [[1, 2], []], [(1, 2), ()]),
    (list[list[int | None]], pa.list_(pa.list_(pa.int64())), [[[1, None], []], []], [[[1, None], []], []]),
    (
        Everything | None,
        EVERYTHING,
        [
            None,
            {"tags": ["x"], "sizes": [("a", 0.5)], "at": UTC_MOMENT, "pair": {"right": None, "left": 1}},
            {"tags": [], "sizes": None, "at": UTC_MOMENT, "pair": {"right": "r", "left": 2}},
        ],
        [
            None,
            Everything(Pair(1, None), UTC_MOMENT, ["x"], {"a": 0.5}),
            Everything(Pair(2, "r"), UTC_MOMENT, [], None),
        ],
    ),
]


def batch_of(hint: Any, typed: Any) -> Any:
    """A typed column as the table of such values has it."""
    fields = ArrowColumn("value", serializer_for(hint).describe()).fields
    arrays = [typed, *(pa.nulls(len(typed), field.type) for field in fields[1:])]
    return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields))


@pytest.mark.parametrize(("hint", "given", "column", "values"), FITS)
def test_columns_are_what_the_runtime_writes(hint: Any, given: Any, column: Any, values: Any) -> None:
    """The same Arrow columns as values through the serializer, also for a slice; and they read back."""
    serializer = serializer_for(hint)
    fit = fit_of(serializer.describe(), given, "value")
    array = pa.array(column, given)
    made = batch_of(hint, fit(array))
    assert made.to_pydict() == to_arrow(serializer, values).to_pydict()
    assert made.schema.types == to_arrow(serializer, values).schema.types
    assert from_arrow(made, serializer.describe(), serializer) == values
    assert fit(array.slice(1)).to_pylist() == made.column(0).slice(1).to_pylist()


@pytest.mark.parametrize(
    ("hint", "given", "why"),
    [
        (int, pa.string(), "column 'value' is of type string, which does not fit into the declared int"),
        (int, pa.uint64(), "type uint64"),
        (int, pa.bool_(), "type bool"),
        (float, pa.int64(), "type int64"),
        (list[int], pa.list_(pa.string()), r"column 'value\[\]' is of type string"),
        (dict[str, int], pa.map_(pa.string(), pa.float64()), r"column 'value.value' is of type double"),
        (
            Pair,
            pa.struct([("left", pa.int64())]),
            "column 'value' has the fields left; the declared Pair has",
        ),
        (Pair, pa.struct([("left", pa.string()), ("right", pa.string())]), "column 'value.left'"),
        (int | str, pa.int64(), "give convert="),
        (Literal["a"], pa.string(), "give convert="),
        (Any, pa.int64(), "give convert="),
    ],
)
def test_a_type_that_does_not_fit_is_refused_by_name(hint: Any, given: Any, why: str) -> None:
    """Before any value is there; a part is named with what it is part of."""
    with pytest.raises(UsageError, match=why):
        fit_of(serializer_for(hint).describe(), given, "value")


@pytest.mark.parametrize(
    ("hint", "array", "why"),
    [
        (int, pa.array([1, None]), "column 'value' holds null, and the declared type takes no None"),
        (Pair, pa.array([{"left": None, "right": "x"}]), None),
        (Pair | None, pa.array([None, {"left": 1, "right": None}]), ""),
        (Color, pa.array(["BLUE"]), "holds 'BLUE'; expected one of"),
        (uuid.UUID, pa.array(["no"]), "holds what is no UUID"),
        (uuid.UUID, pa.array([b"short"]), "holds what"),
        (list[int], pa.array([[1, None]]), r"column 'value\[\]' holds null"),
    ],
)
def test_a_value_that_does_not_fit_is_refused(hint: Any, array: Any, why: str | None) -> None:
    """What only the values tell; a null inside a null record is none."""
    given = array.type
    if hint in (Pair, Pair | None):
        given = pa.struct([("left", pa.int64()), ("right", pa.string())])
        array = array.cast(given)
    fit = fit_of(serializer_for(hint).describe(), given, "value")
    if why == "":
        assert fit(array).to_pylist() == array.to_pylist()
        return
    with pytest.raises(UsageError, match=why or "column 'value.left' holds null"):
        fit(array)
