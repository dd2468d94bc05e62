"""The columns of a read: those of the state's canonical table, and when entries were written.

Their types are those in which Spark itself reads Parquet, so what is read through the data source and what
`spark.read.parquet` reads of the tables have one schema.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import pyarrow as pa

from headgate.common.errors import UsageError
from headgate.common.plain_data import Description
from headgate.state.canonical.table_layout import TIMER, new_table_info, row_of
from headgate.state.canonical.value_columns import TableRows

WRITTEN_AT: Final = "ttl_written_at"
"""The column of last-access times."""
_STAMP: Final = pa.field(WRITTEN_AT, pa.timestamp("us", "UTC"))


@dataclass(frozen=True)
class Shape:
    """One keyed state, or all timers of an operator, as a table of a read.

    `schema` is the state's description, `key` that of its keys (None: no column holds them); `stamps` is the
    state of its last-access times (None: no TTL). `rows` makes table rows of entries.
    """

    name: str
    schema: Description
    key: Description | None  # of the typed column of keys; None: there is none
    stamps: str | None = None  # the state of last-access times; None: entries do not expire

    @cached_property
    def rows(self) -> TableRows:
        return TableRows(new_table_info(self.name, self.schema, self.key, 1, (0, 0)))

    @cached_property
    def columns(self) -> pa.Schema:
        return self.rows.schema if self.stamps is None else self.rows.schema.append(_STAMP)

    def __reduce__(self) -> tuple[type[Shape], tuple[str, Description, Description | None, str | None]]:
        # Arrow's builders cannot be pickled, and are made again.
        return Shape, (self.name, self.schema, self.key, self.stamps)

    @property
    def rows_are(self) -> str:
        """What one row of the table holds, such as a list's element; see `table_layout.TableInfo`."""
        return row_of(self.schema)

    @property
    def timers(self) -> bool:
        return self.rows_are == TIMER


def chosen(columns: Sequence[str], wanted: Sequence[str]) -> list[str]:
    """Return the `wanted` columns in the table's order, all if it is empty; UsageError: one is unknown.

    Example:
        >>> chosen(["key_group", "key", "value"], ["value", "key"])
        ['key', 'value']
    """
    strange = [name for name in wanted if name not in columns]
    if strange:
        raise UsageError(f"there is no column {strange[0]!r}; the columns are {', '.join(columns)}")
    return [name for name in columns if not wanted or name in wanted]


# -- as Spark reads Parquet

_AS: Final[dict[pa.DataType, pa.DataType]] = {
    pa.uint8(): pa.int16(),
    pa.uint16(): pa.int32(),
    pa.uint32(): pa.int64(),
    pa.uint64(): pa.decimal128(20, 0),
    # Parquet has no duration: Arrow stores a number, and its meaning in the file's metadata.
    pa.duration("us"): pa.int64(),
}


def spark_type(kind: pa.DataType) -> pa.DataType:
    """Return the Arrow type that a Parquet column of type `kind` has once Spark has read it.

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
    """Return the schema that Spark gives Parquet columns on reading: its own types, all nullable."""
    return pa.schema([pa.field(field.name, spark_type(field.type)) for field in columns])


Convert = Callable[[pa.RecordBatch], pa.RecordBatch]


def converter(columns: pa.Schema, names: Sequence[str]) -> Convert:
    """Return a function that reduces batches of schema `columns` to the columns `names` in Spark's types.

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
