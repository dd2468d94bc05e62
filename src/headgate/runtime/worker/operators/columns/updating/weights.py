"""Rows with weights: how often each is there, or, below zero, how often one like it is gone."""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headgate.relational.changes import CHANGE, Change

WEIGHT: Final = "__weight"
"""Name of the column of weights."""

_ADDS: Final = np.array([1 if change.adds else -1 for change in Change], np.int64)


def weighted(rows: pa.Table) -> pa.Table:
    """Return changes with their weights, 1 or -1, in place of `CHANGE`."""
    weights = _ADDS[rows.column(CHANGE).to_numpy()]
    return rows.drop_columns(CHANGE).append_column(WEIGHT, pa.array(weights))


def net_rows(rows: pa.Table) -> pa.Table:
    """Return the different rows with the sum of their weights, without those of which the sum is zero.

    Columns that cannot be compared (arrays, maps) leave all rows as they are.
    """
    names = [name for name in rows.column_names if name != WEIGHT]
    if any(pa.types.is_nested(rows.schema.field(name).type) for name in names):
        return rows
    found = rows.group_by(names, use_threads=False).aggregate([(WEIGHT, "sum")])
    found = found.rename_columns([*names, WEIGHT])
    return found.filter(pc.not_equal(found.column(WEIGHT), 0)).select(rows.column_names)


def repeated(rows: pa.Table) -> pa.Table:
    """Return rows as often as their weights say, without weights; none is below zero once all have come."""
    weights = rows.column(WEIGHT).to_numpy()
    rows = rows.drop_columns(WEIGHT)
    if (weights == 1).all():
        return rows
    return rows.take(pa.array(np.repeat(np.arange(len(weights)), np.maximum(weights, 0))))


def changes_of(rows: pa.Table) -> pa.Table:
    """Return rows with weights as changes: as many as the weight says, with `CHANGE` last; deletions
    first.
    """
    weights = rows.column(WEIGHT).to_numpy()
    order = np.argsort(weights > 0, kind="stable")
    places = np.repeat(order, np.abs(weights[order]))
    kinds = np.where(weights[places] > 0, Change.INSERT, Change.DELETE).astype(np.int8)
    return rows.drop_columns(WEIGHT).take(pa.array(places)).append_column(CHANGE, pa.array(kinds))


def netted(changes: pa.Table) -> pa.Table:
    """Return changes without those that cancel each other; rows that only come stay as they are."""
    if CHANGE not in changes.column_names or (_ADDS[changes.column(CHANGE).to_numpy()] > 0).all():
        return changes
    return changes_of(net_rows(weighted(changes))).select(changes.column_names)
