"""Columns that rows have twice: they are often ordered by columns that they show as well.

Stored rows have both, as a later program may order by something else. Rows that are sent, and rows in memory,
have such a column once.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from headgate.relational.relations import OfKeys, Order, Project
from headgate.relational.resolved import Column


class Once:
    """The columns of the rows of `plan.child` that are no copies of earlier ones.

    Attributes:
        whole: all columns.
        schema: the columns that are left.
    """

    def __init__(self, plan: OfKeys) -> None:
        originals = _originals(plan)
        kept = sorted(set(originals))
        self.whole = pa.schema([pa.field(each.name, each.type) for each in plan.child.schema.fields])
        self.schema = pa.schema([self.whole.field(place) for place in kept])
        self._places = [kept.index(place) for place in originals]

    def order(self, order: Sequence[Order]) -> list[Order]:
        """Return an order of the same rows by the columns that are left."""
        return [each._replace(place=self._places[each.place]) for each in order]

    def widened(self, rows: pa.Table) -> pa.Table:
        """Return rows with all columns, given those that are left; nothing is copied."""
        return pa.Table.from_arrays([rows.column(place) for place in self._places], schema=self.whole)


def _originals(plan: OfKeys) -> list[int]:
    # For each column the place of the first one with its values. Keys are changed on their way, so copies of
    # them are none.
    first: dict[int, int] = {}
    found: list[int] = []
    child = plan.child
    columns: Sequence[object] = child.columns if isinstance(child, Project) else [None] * len(child.schema)
    for place, column in enumerate(columns):
        if isinstance(column, Column) and place >= plan.keys:
            found.append(first.setdefault(column.index, place))
        else:
            found.append(place)
    return found
