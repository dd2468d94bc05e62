"""Calls of functions of the registry with values of Python."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from headgate.relational.evaluation import evaluate
from headgate.relational.expressions import Call, Literal, Reference, Scalar
from headgate.relational.resolved import Typed
from headgate.relational.resolving import resolve
from headgate.relational.schema import schema_of
from headgate.relational.spark_types import text_of


def typed(function: str, *arguments: Scalar, **columns: pa.Array) -> tuple[Typed, pa.RecordBatch]:
    """Resolve a call of some columns, and then of literals."""
    batch = pa.record_batch(columns or {"row": pa.array([0])})
    parts = (*map(Reference, columns), *map(Literal, arguments))
    return resolve(Call(function, parts), schema_of(batch.schema)), batch


def value(function: str, *arguments: Scalar) -> Any:
    """What a call of literals gives."""
    found = evaluate(*typed(function, *arguments))
    return found[0].as_py()


def column(function: str, values: pa.Array, *arguments: Scalar) -> list[Any]:
    """What a call of a column and of literals gives for each row."""
    found: list[Any] = evaluate(*typed(function, *arguments, column=values)).to_pylist()
    return found


def kind(function: str, given: pa.DataType, *arguments: Scalar) -> str:
    """The type of a call of a column of a type and of literals, in Spark's words."""
    return text_of(typed(function, *arguments, column=pa.array([], given))[0].type)
