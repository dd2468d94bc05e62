"""Sorts a DataFrame by key group into contiguous ranges of key groups; Spark computes the key groups itself.

The hash is that of `common.keys.keygroups`, written as expressions of Spark, so that rows need not pass
through Python to be sorted. The task that gets the sorted rows computes it once more with the running
program's own code: should a key's two groups differ so that rows are out of order, the write fails.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f
from pyspark.sql import types as t

from headgate.common.keys.keygroups_vectorised import hashes_of_arrow

GROUP: Final = "__headgate_key_group"
_HASH: Final = "__headgate_key_hash"
_MASK: Final = 0xFFFFFFFF


def in_ranges(
    frame: DataFrame, keys: Sequence[str], max_parallelism: int, parallelism: int, then: Sequence[str] = ()
) -> DataFrame:
    """Return the rows of a DataFrame in one partition for each of `parallelism` ranges of key groups.

    Partition `i` has the key groups of subtask `i`, of `max_parallelism` in all. Its rows are sorted by key
    group, then by the columns `keys` (several make the tuple that is the key), then by the columns `then`.
    The column :data:`GROUP`, the key group, is added. Nothing is computed yet.
    """
    grouped = with_key_group(frame, keys, max_parallelism)
    owner = (f.col(GROUP) * parallelism / max_parallelism).cast("int")
    ranges = grouped.repartitionById(parallelism, owner)
    return ranges.sortWithinPartitions(f.col(GROUP), *(_sortable(frame, name) for name in (*keys, *then)))


def quoted(name: str) -> str:
    """Return a column's name quoted for Spark's functions, so that dots and backticks have no meaning.

    Example:
        >>> quoted("user.name"), quoted("a`b")
        ('`user.name`', '`a``b`')
    """
    return "`" + name.replace("`", "``") + "`"


def with_key_group(frame: DataFrame, keys: Sequence[str], max_parallelism: int) -> DataFrame:
    # Wrong for null and NaN, which the task refuses.
    hashes = [_hash(frame, name) for name in keys]
    total = hashes[0]
    if len(hashes) > 1:
        total = reduce(lambda so_far, one: _low_bits(so_far * 31 + one), hashes, f.lit(1).cast("long"))
    # A column of its own, as the mixing uses it many times and computes it once.
    hashed = frame.withColumn(_HASH, f.coalesce(total, f.lit(0).cast("long")))
    group = (_murmur(f.col(_HASH)) % max_parallelism).cast("int")
    return hashed.withColumn(GROUP, group).drop(_HASH)


def _low_bits(value: Column) -> Column:
    return value.bitwiseAND(_MASK)


def _hash(frame: DataFrame, name: str) -> Column:
    column, kind = f.col(quoted(name)), frame.schema[name].dataType
    if isinstance(kind, (t.StringType, t.BinaryType)):
        return f.crc32(column.cast("binary"))
    if isinstance(kind, (t.ByteType, t.ShortType, t.IntegerType)):
        return _low_bits(column.cast("long"))
    if isinstance(kind, t.BooleanType):
        return column.cast("int").cast("long")
    if isinstance(kind, t.DateType):
        return _low_bits(f.unix_date(column).cast("long"))
    if isinstance(kind, t.LongType):
        return _hash_of_long(column)
    if isinstance(kind, t.TimestampType):
        return _hash_of_long(f.unix_micros(column))
    return _hashed_in_python(column)


def _hash_of_long(column: Column) -> Column:
    small = column.between(-0x80000000, 0x7FFFFFFF)
    return _low_bits(f.when(small, column).otherwise(column.bitwiseXOR(f.shiftright(column, 32))))


def _hashed_in_python(column: Column) -> Column:
    # For types that Spark hashes otherwise, such as whole floats.
    def hashes(values: pa.Array) -> pa.Array:
        usable = values.is_valid()
        if pa.types.is_floating(values.type):
            usable = pc.and_(usable, pc.invert(pc.is_nan(values).fill_null(True)))
        found = np.zeros(len(values), np.int64)
        found[usable.to_numpy(zero_copy_only=False)] = hashes_of_arrow(values.filter(usable))
        return pa.array(found)

    # Type hints tell Spark what the function takes; written above they would be texts.
    hashes.__annotations__ = {"values": pa.Array, "return": pa.Array}
    arrow_udf = getattr(f, "arrow_udf")  # noqa: B009 - missing in PySpark's own type hints
    hashed: Column = arrow_udf(hashes, t.LongType())(column)
    return hashed


def _murmur(value: Column) -> Column:
    # 32 bits in a long, so that products fit.
    mixed = _times(value, 0xCC9E2D51)
    mixed = _times(_rotated(mixed, 15), 0x1B873593)
    mixed = _low_bits(_rotated(mixed, 13) * 5 + 0xE6546B64).bitwiseXOR(4)
    mixed = _times(_shifted(mixed, 16), 0x85EBCA6B)
    mixed = _times(_shifted(mixed, 13), 0xC2B2AE35)
    mixed = _shifted(mixed, 16)
    return f.abs(mixed.bitwiseXOR(0x80000000) - 0x80000000).bitwiseAND(0x7FFFFFFF)


def _times(value: Column, factor: int) -> Column:
    # The factor as a signed one, so that the product fits into a long; its low bits are the same.
    return _low_bits(value * (factor if factor < 0x80000000 else factor - 0x100000000))


def _rotated(value: Column, bits: int) -> Column:
    return _low_bits(f.shiftleft(value, bits).bitwiseOR(f.shiftright(value, 32 - bits)))


def _shifted(value: Column, bits: int) -> Column:
    return value.bitwiseXOR(f.shiftright(value, bits))


def _sortable(frame: DataFrame, name: str) -> Column:
    column = f.col(quoted(name))
    return column.cast("string") if isinstance(frame.schema[name].dataType, t.StringType) else column
