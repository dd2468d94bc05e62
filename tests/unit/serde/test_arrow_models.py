"""Pydantic models as Arrow columns: their fields, and which of them were set."""

from __future__ import annotations

import pytest
from column_batches import from_arrow, to_arrow

from headgate.serde.arrow.arrow_types import arrow_type
from headgate.serde.resolve import serializer_for

pydantic = pytest.importorskip("pydantic")


class Model(pydantic.BaseModel):
    a: int
    b: set[int] = pydantic.Field(default_factory=set)


def test_models_round_trip_with_the_fields_that_were_set() -> None:
    """A field without a type is bytes; a value that does not fit makes the whole model bytes."""
    models = [Model(a=1), Model(a=2, b={1, 2}), Model(a=2**70, b=set())]
    serializer = serializer_for(Model)
    assert str(arrow_type(serializer.describe())) == "struct<a: int64, b: binary, _fields_set: int64>"
    batch = to_arrow(serializer, models)
    assert [row and row["_fields_set"] for row in batch.column("value").to_pylist()] == [1, 3, None]
    back = from_arrow(batch, serializer.describe(), serializer)
    assert back == models
    assert [model.model_fields_set for model in back] == [{"a"}, {"a", "b"}, {"a", "b"}]
