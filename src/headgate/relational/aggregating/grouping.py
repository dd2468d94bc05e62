"""Tables of accumulators: rows, or accumulators, of equal keys become one row."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headgate.relational.aggregating.accumulators import Accumulator, AnyAccumulator, Fields, Joint
from headgate.relational.aggregating.groups import Groups
from headgate.relational.rules import RowsFailed
from headgate.relational.spark_types import text_of

_ROW: Final = "__row"


def accumulator_column(name: str, accumulator: str) -> str:
    """Return the name of the column of one accumulator of the aggregate `name`."""
    return f"{name}/{accumulator}"


def columns_of_parts(name: str, parts: Sequence[AnyAccumulator]) -> list[tuple[str, AnyAccumulator]]:
    """Return (name, accumulator) for each of the aggregate `name`'s `parts`, for `Grouping.columns`."""
    return [
        (accumulator_column(name, each.name) if isinstance(each, Accumulator) else name, each)
        for each in parts
    ]


def fields_of(name: str, each: AnyAccumulator) -> Fields:
    """Return names and types of the columns that an accumulator called `name` has in a `Grouping`."""
    if isinstance(each, Accumulator):
        return ((name, each.type),)
    return tuple((accumulator_column(name, field), kind) for field, kind in each.fields)


class Grouping(NamedTuple):
    """How rows, or accumulators, of equal keys become one row of accumulators.

    `columns` has the accumulators by name: a simple one by its column's, a joint one by its aggregate's, with
    which the names of its columns begin. A sum that does not fit its type raises RowsFailed.
    """

    keys: tuple[str, ...]
    columns: tuple[tuple[str, AnyAccumulator], ...]

    @property
    def fields(self) -> Fields:
        """Names and types of the columns of accumulators, in order."""
        return tuple(field for name, each in self.columns for field in fields_of(name, each))

    def of_rows(self, table: pa.Table) -> pa.Table:
        """Return a table with one row per key: the keys, and the accumulators made of the key's rows.
        `table` has the keys, and under each accumulator's name the values that `prepared` gave.
        """
        return self._aggregated(table, [(name, each, each.of_rows) for name, each in self._simple()])

    def merged(self, table: pa.Table) -> pa.Table:
        """Return a table with one row per key, in which the key's accumulators in `table` are merged."""
        return self._aggregated(table, [(name, each, each.merge) for name, each in self._simple()])

    def _simple(self) -> list[tuple[str, Accumulator]]:
        return [(name, each) for name, each in self.columns if isinstance(each, Accumulator)]

    def _aggregated(self, table: pa.Table, simple: list[tuple[str, Accumulator, str]]) -> pa.Table:
        asked: list[tuple[str | list[str], str]] = []
        for name, _, kernel in simple:
            asked.append(([], kernel) if kernel == "count_all" else (name, kernel))
        narrow = _overflowing(table, simple)
        wide = _with_types(table, {name: _wider(kind) for name, kind in narrow.items()})
        names = [*self.keys, *(name for name, _, _ in simple)]
        if len(simple) < len(self.columns):
            wide = wide.select([name for name in names if name in table.column_names])
            wide = wide.append_column(_ROW, pa.array(np.arange(table.num_rows)))
            names, asked = [*names, _ROW], [*asked, (_ROW, "list")]
        found = wide.group_by(list(self.keys), use_threads=False).aggregate(asked)
        # Arrow names its columns "price_sum"; the order is that of the request, keys first.
        found = _with_types(found.rename_columns(names), narrow)
        return found if _ROW not in names else self._with_joint(table, found)

    def _with_joint(self, table: pa.Table, found: pa.Table) -> pa.Table:
        lists = found.column(_ROW).combine_chunks()
        starts = lists.offsets.to_numpy()[:-1].astype(np.int64)
        order, groups = lists.flatten(), Groups(starts, table.num_rows)
        arrays = {name: found.column(name) for name in self.keys}
        for name, each in self.columns:
            if not isinstance(each, Joint):
                arrays[name] = found.column(name)
                continue
            names = [column for column, _ in fields_of(name, each)]
            members = [_arranged(table.column(column), order) for column in names]
            arrays |= zip(names, each.merged(groups, members), strict=True)
        return pa.table(arrays)


def _arranged(column: pa.ChunkedArray, order: pa.Array) -> pa.Array:
    return column.combine_chunks().take(order)


def _overflowing(table: pa.Table, simple: list[tuple[str, Accumulator, str]]) -> dict[str, pa.DataType]:
    # Arrow's own sum would wrap.
    found = {}
    for name, each, kernel in simple:
        if kernel == "sum" and not pa.types.is_floating(each.type) and table.num_rows:
            low, high = pc.min_max(table.column(name)).as_py().values()
            if low is not None and max(-low, high) * table.num_rows >= _limit(each.type):
                found[name] = each.type
    return found


def _limit(kind: pa.DataType) -> int:
    return 10 ** (kind.precision - kind.scale) if pa.types.is_decimal(kind) else 2**63


def _wider(kind: pa.DataType) -> pa.DataType:
    return pa.decimal256(76, kind.scale) if pa.types.is_decimal(kind) else pa.decimal128(38, 0)


def _with_types(table: pa.Table, types: dict[str, pa.DataType]) -> pa.Table:
    for name, kind in types.items():
        place = table.schema.get_field_index(name)
        try:
            column = table.column(name).cast(kind)
        except pa.ArrowInvalid:
            why = f"the sum of a group does not fit {text_of(kind)}"
            raise RowsFailed("ARITHMETIC_OVERFLOW", why) from None
        table = table.set_column(place, name, column)
    return table
