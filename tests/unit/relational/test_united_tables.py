"""Which columns of two tables a union puts together."""

from __future__ import annotations

import pyarrow as pa
import pytest

from headgate.common.errors import PlanError
from headgate.relational.schema import Field, Schema
from headgate.relational.united_tables import by_name


def schema(*names: str) -> Schema:
    """Columns of integers."""
    return Schema(tuple(Field(name, pa.int64(), False) for name in names))


def test_columns_go_together_by_name() -> None:
    """In the order of the left, whatever their case; what only the right has comes last."""
    pairs = by_name(schema("a", "b"), schema("B", "c", "a"), allow_missing=True)
    assert [tuple(pair) for pair in pairs] == [("a", 0, 2), ("b", 1, 0), ("c", None, 1)]


def test_one_column_is_not_taken_twice() -> None:
    """Its values would come out in two columns."""
    with pytest.raises(PlanError, match="several of the columns a, A are called the same but for case"):
        by_name(schema("a", "A"), schema("a"), allow_missing=False)
