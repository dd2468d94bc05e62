"""Columns of state in the types in which Spark itself reads them from Parquet.

So what is read through the data source and what `spark.read.parquet` reads of the tables have one schema.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import pyarrow as pa

_AS: Final[dict[pa.DataType, pa.DataType]] = {
    pa.uint8(): pa.int16(),
    pa.uint16(): pa.int32(),
    pa.uint32(): pa.int64(),
    pa.uint64(): pa.decimal128(20, 0),
    # Parquet has no duration: Arrow stores a number and says beside it what it means.
    pa.duration("us"): pa.int64(),
}


def spark_type(kind: pa.DataType) -> pa.DataType:
    """The Arrow type of what Spark makes of a Parquet column of another one.

    Example:
        >>> print(spark_type(pa.struct({"id": pa.binary(16), "took": pa.list_(pa.duration("us"))})))
        struct<id: binary, took: list<element: int64>>
    """
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(field.name, spark_type(field.type)) for field in kind])
    if pa.types.is_map(kind):
        return pa.map_(spark_type(kind.key_type), spark_type(kind.item_type))
    if pa.types.is_list(kind):
        return pa.list_(pa.field("element", spark_type(kind.value_type)))
    if pa.types.is_fixed_size_binary(kind):
        return pa.binary()
    return _AS.get(kind, kind)


def spark_schema(columns: pa.Schema) -> pa.Schema:
    """All columns so, each of which may be null, as Parquet files are read."""
    return pa.schema([pa.field(field.name, spark_type(field.type)) for field in columns])


Convert = Callable[[pa.RecordBatch], pa.RecordBatch]


def converter(columns: pa.Schema, names: Sequence[str]) -> Convert:
    """What makes batches of some columns ones in Spark's types; nothing is copied where they are the same.

    Example:
        >>> made = converter(pa.schema([("a", pa.int64()), ("b", pa.uint8())]), ["b"])
        >>> made(pa.RecordBatch.from_pydict({"a": [1], "b": pa.array([2], pa.uint8())})).schema
        b: int16
    """
    target = spark_schema(pa.schema([columns.field(name) for name in names]))

    def convert(batch: pa.RecordBatch) -> pa.RecordBatch:
        arrays = [_as(batch.column(field.name), field.type) for field in target]
        return pa.RecordBatch.from_arrays(arrays, schema=target)

    return convert


def _as(array: pa.Array, kind: pa.DataType) -> pa.Array:
    return array if array.type == kind else array.cast(kind)
