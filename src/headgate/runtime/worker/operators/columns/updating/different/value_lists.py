"""Sets of values in the form in which they are stored: rows with lists, one or more for each group."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headgate.relational.aggregating.lists import kept_list, of_lengths, owners
from headgate.relational.passes.distinct_values import DistinctValues
from headgate.runtime.worker.operators.columns.sorting import order_of_numbers
from headgate.runtime.worker.operators.columns.updating.different.finding_values import codes_of

if TYPE_CHECKING:
    from numpy.typing import NDArray


def stored_fields(sets: Sequence[DistinctValues]) -> list[pa.Field]:
    """Return the columns of lists in which sets are stored, after those of accumulators."""
    return [
        pa.field(f"{name}/{field}", kept_list(kind))
        for one in sets
        for name, field, kind in (*one.value_fields, *one.told_fields)
    ]


def rows_with(plan: DistinctValues, table: pa.Table) -> NDArray[np.bool_]:
    """Return which rows of a stored table have lists of a set."""
    found: NDArray[np.bool_] = pc.is_valid(table.column(stored_fields([plan])[0].name)).to_numpy()
    return found


def of_one_row_each(plan: DistinctValues, rows: pa.Table, keys: Sequence[str]) -> pa.Table:
    """Return rows with lists of a set as one for each key, in whose lists each value is once, as it came
    last.
    """
    rows = rows.combine_chunks()
    groups = codes_of([rows.column(name).combine_chunks() for name in keys]).without_gaps()
    fields = stored_fields([plan])
    lists = [rows.column(field.name).combine_chunks() for field in fields]
    of_values, flat = groups.codes[owners(lists[0])], [each.flatten() for each in lists]
    # From the last to the first: then the first of a value is the last.
    values = [each.take(pa.array(np.arange(len(each) - 1, -1, -1))) for each in flat[: len(plan.values)]]
    firsts = codes_of(values, of_values[::-1], groups.numbers).firsts
    last = len(of_values) - 1 - firsts[firsts >= 0]
    last = last[order_of_numbers(of_values[last])]
    offsets = np.searchsorted(of_values[last], np.arange(groups.numbers + 1))
    found = rows.take(pa.array(groups.firsts))
    for field, each in zip(fields, flat, strict=True):
        place = found.schema.get_field_index(field.name)
        joined = of_lengths(each.take(pa.array(last)), offsets, field.type)
        found = found.set_column(place, field.name, joined)
    return found
