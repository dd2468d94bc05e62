"""Rows in tables that never change, found by place: the newer tables are merged as they grow."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from headgate.runtime.worker.operators.columns.sorting import order_of_numbers

if TYPE_CHECKING:
    from headgate.records.batch import Int64s


class Piece:
    """A table of rows; row i has the place `first` + i."""

    __slots__ = ("first", "table")

    def __init__(self, first: int, table: pa.Table) -> None:
        self.first, self.table = first, table

    @property
    def places_end(self) -> int:
        end: int = self.first + self.table.num_rows
        return end

    @property
    def places(self) -> Int64s:
        return np.arange(self.first, self.first + self.table.num_rows)


def taken(pieces: list[Piece], places: Int64s, schema: pa.Schema) -> pa.Table:
    """Return the rows at `places`, in order, in columns of one chunk."""
    found, order = taken_by_piece(pieces, places, schema)
    whole = found.combine_chunks()
    if order is None:
        return whole
    back = np.empty(len(places), np.int64)
    back[order] = np.arange(len(places))
    return whole.take(pa.array(back))


def taken_by_piece(pieces: list[Piece], places: Int64s, schema: pa.Schema) -> tuple[pa.Table, Int64s | None]:
    """Return the rows at `places`, those of one piece after the other, and of each its index in `places`;
    None: they are in order. To order wide rows costs as much as to find them.
    """
    firsts = np.array([piece.first for piece in pieces])
    owners = np.searchsorted(firsts, places, "right") - 1
    counts = np.bincount(owners, minlength=len(pieces))
    owning = np.flatnonzero(counts)
    if len(owning) <= 1:
        found = [pieces[number].table.take(pa.array(places - pieces[number].first)) for number in owning]
        return found[0] if found else schema.empty_table(), None
    order = order_of_numbers(owners)
    ends = np.cumsum(counts)
    tables = [schema.empty_table()]
    for number in owning.tolist():
        mine = places[order[ends[number] - counts[number] : ends[number]]]
        tables.append(pieces[number].table.take(pa.array(mine - pieces[number].first)))
    return pa.concat_tables(tables), order


class AppendedRows:
    """Rows of which none changes or goes; each keeps its place, from 0."""

    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema
        self._pieces: list[Piece] = []
        self._taken = 0  # rows, since all were merged
        self.count = 0

    def append(self, table: pa.Table) -> None:
        self._pieces.append(Piece(self.count, table.combine_chunks()))
        self.count += table.num_rows
        pieces = self._pieces
        while len(pieces) > 1 and pieces[-1].table.num_rows * 2 > pieces[-2].table.num_rows:
            self._merge(2)

    def _merge(self, newest: int) -> None:
        merged = self._pieces[-newest:]
        whole = pa.concat_tables([piece.table for piece in merged]).combine_chunks()
        self._pieces[-newest:] = [Piece(merged[0].first, whole)]

    def take(self, places: Int64s) -> pa.Table:
        """Return the rows at `places`, in order."""
        self._taken += len(places)
        if self._taken > self.count:  # then a merge is the smaller part of what is done
            self._taken = 0
            if len(self._pieces) > 1:
                self._merge(len(self._pieces))
        return taken(self._pieces, places, self._schema)

    def view(self) -> list[Piece]:
        """Return the tables as they are now."""
        return list(self._pieces)
