"""The order of rows by columns, as integers: what can be told by numbers is sorted by numbers.

Each column of the order becomes a column of codes, integers that never say another order than the values do.
Rows whose codes are equal and say too little are compared by their values, which are few or none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headgate.relational.relations import Order
from headgate.runtime.worker.operators.columns.updating.by_key.packed_sort import (
    as_integers,
    sorted_by,
    with_first,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from headgate.records.batch import Int64s

RowsAt = Callable[["Int64s"], pa.Table]
"""Gives the rows of these indices, with all columns."""

_NULL: Final = -(2**63)
"""The code of null, which is less than any value."""
_LEAST: Final = _NULL + 1
"""The code of the least integer and of the one after it, which are the only ones that share a code."""
_SIGNLESS: Final = 2**63 - 1
_RUN: Final = "__run"


class First(NamedTuple):
    """Indices of the first rows of each key, key after key and in order, and their places from 1."""

    rows: Int64s
    places: Int64s


class RowOrder:
    """An order by the columns `order` of rows with the columns of `schema`."""

    def __init__(self, schema: pa.Schema, order: Sequence[Order]) -> None:
        self._order = order
        kinds = [schema.field(each.place).type for each in order]
        plain = [_has_codes(kind) for kind in kinds]
        self._coded = order[: plain.index(False)] if False in plain else order
        self._blurs = [not pa.types.is_floating(kind) for kind in kinds[: len(self._coded)]]

    @property
    def coded(self) -> int:
        """How many columns have codes."""
        return len(self._coded)

    def codes(self, rows: pa.Table) -> list[Int64s]:
        """Return codes of the rows' values, for the columns from the first on that have some: where they
        differ first, the row with the lesser code is ahead.
        """
        found = []
        for each in self._coded:
            codes = _codes(rows.column(each.place))
            found.append(~codes if each.descending else codes)
        return found

    def first(self, keys: Sequence[Int64s], codes: Sequence[Int64s], n: int, rows_at: RowsAt) -> First:
        """Return the first `n` rows of each key. `keys` are columns of integers that are the same for equal
        keys; `codes` are those of all rows. Of equal rows the one with the lower index is first.
        """
        sharp = self._sharp(codes)
        found, same = sorted_by([*keys, *codes[:sharp]])
        if sharp < len(self._order):
            self._by_values(found, same, rows_at)
        starts = np.flatnonzero(_new_keys(keys, found))
        places = np.arange(1, len(found) + 1) - np.repeat(starts, np.diff(starts, append=len(found)))
        kept = places <= n
        return First(found, places) if kept.all() else First(found[kept], places[kept])

    def _sharp(self, codes: Sequence[Int64s]) -> int:
        # How many columns of codes differ wherever the values do.
        for number, (each, mine) in enumerate(zip(self._coded, codes, strict=True)):
            if self._blurs[number] and (mine == (~_LEAST if each.descending else _LEAST)).any():
                return number
        return len(self._coded)

    def _by_values(self, found: Int64s, same: NDArray[np.bool_], rows_at: RowsAt) -> None:
        tied = np.flatnonzero(with_first(same))
        if not len(tied):
            return
        runs, rows = np.cumsum(~same)[tied], found[tied]
        columns, directions = {_RUN: pa.array(runs)}, [(_RUN, "ascending")]
        table = rows_at(rows)
        for each in self._order:
            for name, column in _comparable(table.column(each.place), str(each.place)):
                columns[name] = column
                directions.append((name, "descending" if each.descending else "ascending"))
        order = pc.sort_indices(pa.table(columns), sort_keys=directions).to_numpy()
        found[tied] = rows[order]


def first_rows(rows: pa.Table, keys: Sequence[Int64s], order: Sequence[Order], n: int) -> First:
    """Return the first `n` rows of each key, in order; `keys` are columns of integers that are the same for
    equal keys. Of equal rows the one that comes first in the table is first.
    """
    by = RowOrder(rows.schema, order)
    return by.first(keys, by.codes(rows), n, lambda indices: rows.take(pa.array(indices)))


def _new_keys(keys: Sequence[Int64s], found: Int64s) -> NDArray[np.bool_]:
    new = np.zeros(len(found), np.bool_)
    new[:1] = True
    for each in keys:
        mine = each[found]
        new[1:] |= mine[1:] != mine[:-1]
    return new


def _has_codes(kind: pa.DataType) -> bool:
    plain = pa.types.is_signed_integer, pa.types.is_floating, pa.types.is_boolean
    return any(test(kind) for test in plain) or (
        pa.types.is_temporal(kind) and not pa.types.is_interval(kind)
    )


def _codes(column: pa.ChunkedArray) -> Int64s:
    values = column.combine_chunks()
    missing = values.is_null().to_numpy(zero_copy_only=False) if values.null_count else None
    codes = _of_doubles(values) if pa.types.is_floating(values.type) else _of_integers(values)
    if missing is not None:
        codes[missing] = _NULL
    return codes


def _of_integers(values: pa.Array) -> Int64s:
    return np.maximum(as_integers(values), _LEAST)


def _of_doubles(values: pa.Array) -> Int64s:
    doubles = values.cast(pa.float64()).fill_null(0.0).to_numpy() + 0.0  # -0.0 and 0.0 are equal
    doubles[np.isnan(doubles)] = np.nan  # greater than all, whatever its sign was
    bits = doubles.view(np.int64)
    found: Int64s = np.where(bits < 0, bits ^ _SIGNLESS, bits)
    return found


def _comparable(column: pa.ChunkedArray, name: str) -> Iterator[tuple[str, pa.ChunkedArray]]:
    # Null is less than any value, NaN is greater; Arrow puts both at the end whatever the direction.
    if column.null_count:
        yield f"{name}/known", pc.cast(pc.is_valid(column), pa.int8())
    if pa.types.is_floating(column.type):
        nan = pc.fill_null(pc.is_nan(column), False)
        yield f"{name}/nan", pc.cast(nan, pa.int8())
        # -0.0 and 0.0 are equal.
        column = pc.add(pc.if_else(nan, pa.scalar(0, column.type), column), pa.scalar(0, column.type))
    yield name, column
