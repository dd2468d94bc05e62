"""Filters that Spark pushes down to a read: which key groups they leave, and which rows of a batch.

They only save work. Spark evaluates every one of them again, so a condition that is not understood here is
left out, and one that is must never drop a row that Spark would keep.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import and_
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from headgate.common.keys.keygroups import key_groups_of_keys

KEY_GROUP: Final = "key_group"
KEY: Final = "key"

Constant = bool | int | float | str | bytes | dt.date | None


@dataclass(frozen=True, slots=True)
class Condition:
    """One test, pushed down by Spark, of a column (its name, then fields in it) for `values` or null."""

    column: tuple[str, ...]  # the column, then the names of the fields that lead into it
    test: str  # "=", "<", "<=", ">", ">=", "in", "null", "not null" or "begins"
    values: tuple[Constant, ...] = ()  # any number for "in", none for the tests for null, else one


_COMPARISONS: Final[Mapping[str, Callable[[pa.Array, pa.Scalar], pa.BooleanArray]]] = {
    "=": pc.equal,
    "<": pc.less,
    "<=": pc.less_equal,
    ">": pc.greater,
    ">=": pc.greater_equal,
}


def understood(condition: Condition, schema: pa.Schema) -> bool:
    """Return whether a condition can be evaluated here just as Spark does it.

    That is so for tests for null, and where integers, text or truth values are compared with constants of
    their type. Floats have their own order of NaN in Spark, and times depend on the session.

    Example:
        >>> schema = pa.schema([("key", pa.string()), ("value", pa.float64())])
        >>> understood(Condition(("key",), "=", ("a",)), schema)
        True
        >>> understood(Condition(("value",), "<", (1.5,)), schema)
        False
        >>> understood(Condition(("value",), "not null"), schema)
        True
    """
    kind = _type_of(condition.column, schema)
    if kind is None:
        return False
    if condition.test in ("null", "not null"):
        return True
    if pa.types.is_integer(kind):
        bounds = -(2 ** (kind.bit_width - 1)), 2 ** (kind.bit_width - 1) - 1
        return all(type(value) is int and bounds[0] <= value <= bounds[1] for value in condition.values)
    wanted = str if pa.types.is_string(kind) else bool if pa.types.is_boolean(kind) else None
    return wanted is not None and all(type(value) is wanted for value in condition.values)


def _type_of(column: Sequence[str], schema: pa.Schema) -> pa.DataType | None:
    if column[0] not in schema.names:
        return None
    kind = schema.field(column[0]).type
    for name in column[1:]:
        place = kind.get_field_index(name) if pa.types.is_struct(kind) else -1
        if place < 0:
            return None
        kind = kind.field(place).type
    return kind


def kept(batch: pa.RecordBatch, conditions: Sequence[Condition]) -> pa.RecordBatch:
    """Return the rows for which all conditions hold; each of them must be :func:`understood`.

    Example:
        >>> batch = pa.RecordBatch.from_pydict({"key": ["a", "b", None]})
        >>> kept(batch, [Condition(("key",), "in", ("b", "c"))]).to_pydict()
        {'key': ['b']}
    """
    masks = [_mask(batch, condition) for condition in conditions]
    return batch.filter(reduce(pc.and_kleene, masks)) if masks else batch


def _mask(batch: pa.RecordBatch, condition: Condition) -> pa.BooleanArray:
    array = batch.column(condition.column[0])
    if condition.column[1:]:
        array = pc.struct_field(array, list(condition.column[1:]))
    if condition.test == "null":
        return pc.is_null(array)
    if condition.test == "not null":
        return pc.is_valid(array)
    if condition.test == "in":
        return pc.is_in(array, pa.array(condition.values, array.type))
    (value,) = condition.values
    if condition.test == "begins":
        return pc.starts_with(array, value)
    return _COMPARISONS[condition.test](array, pa.scalar(value, array.type))


def wanted_groups(
    conditions: Iterable[Condition], schema: pa.Schema, max_parallelism: int
) -> frozenset[int] | None:
    """Return the key groups in which rows can fulfil the conditions on key group and key; None: all.

    Example:
        >>> schema = pa.schema([("key_group", pa.int32()), ("key", pa.string())])
        >>> some = [Condition(("key_group",), ">", (3,)), Condition(("key_group",), "<=", (5,))]
        >>> sorted(wanted_groups(some, schema, 128))
        [4, 5]
        >>> wanted_groups([Condition(("key",), "=", ("a",))], schema, 128)
        frozenset({27})
    """
    found = [_groups(each, max_parallelism) for each in conditions if understood(each, schema)]
    sets = [groups for groups in found if groups is not None]
    return reduce(and_, sets) if sets else None


def _groups(condition: Condition, max_parallelism: int) -> frozenset[int] | None:
    if condition.column == (KEY_GROUP,) and condition.test not in ("null", "not null"):
        all_groups = pa.RecordBatch.from_pydict({KEY_GROUP: pa.array(range(max_parallelism), pa.int32())})
        return frozenset(kept(all_groups, [condition]).column(0).to_pylist())
    if condition.column == (KEY,) and condition.test in ("=", "in"):
        keys = [value for value in condition.values if value is not None]
        return frozenset(key_groups_of_keys(keys, max_parallelism).tolist()) if keys else frozenset()
    return None
