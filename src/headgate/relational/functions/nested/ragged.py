"""Arrays of a column as flat elements of all rows with each row's length, and put together again."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headgate.relational.functions.kernels import Truth, missing

Places = npt.NDArray[np.int64]
NOTHING: Final = -1
"""Stands for null among indices and ranks."""


class Lists(NamedTuple):
    """The elements of all rows in order, how many each row has, and which rows are null (they have none)."""

    elements: pa.Array
    lengths: Places
    absent: Truth

    @property
    def starts(self) -> Places:
        """For each row, the index of its first element among `elements`."""
        found: Places = np.cumsum(self.lengths) - self.lengths
        return found

    @property
    def rows(self) -> Places:
        """For each element, the index of its row."""
        return np.repeat(np.arange(len(self.lengths)), self.lengths)

    @property
    def places(self) -> Places:
        """For each element, its index within its row, from 0."""
        found: Places = np.arange(len(self.elements)) - self.starts[self.rows]
        return found


def plain_zeros(lists: Lists) -> Lists:
    """Return arrays with 0.0 in place of -0.0, as functions that compare elements give them in Spark."""
    if not pa.types.is_floating(lists.elements.type):
        return lists
    return lists._replace(elements=pc.add(lists.elements, pa.scalar(0.0, lists.elements.type)))


def lists_of(values: pa.Array) -> Lists:
    """Return a column of arrays, or of maps, as `Lists`; elements of maps are structs of key and value."""
    if pa.types.is_map(values.type):
        kind = values.type
        entry = pa.struct([pa.field("key", kind.key_type), pa.field("value", kind.item_type)])
        values = pc.cast(values, pa.list_(entry))
    lengths = pc.fill_null(pc.list_value_length(values), 0).to_numpy(zero_copy_only=False).astype(np.int64)
    return Lists(values.flatten(), lengths, missing(values))


def list_array(elements: pa.Array, lengths: Places, absent: Truth, kind: pa.DataType) -> pa.Array:
    """Return arrays of type `kind`, `lengths` of `elements` for each row; rows that are `absent` have 0."""
    return pa.ListArray.from_arrays(_offsets(lengths), elements, type=kind, mask=pa.array(absent))


def map_array(keys: pa.Array, items: pa.Array, lengths: Places, absent: Truth, kind: pa.DataType) -> pa.Array:
    """Return maps of type `kind`, `lengths` of `keys` and `items` for each row; `absent` rows have 0."""
    return pa.MapArray.from_arrays(_offsets(lengths), keys, items, type=kind, mask=pa.array(absent))


def _offsets(lengths: Places) -> pa.Array:
    return pa.array(np.concatenate([[0], np.cumsum(lengths)]), pa.int32())


def kept(lists: Lists, keep: Truth, kind: pa.DataType) -> pa.Array:
    """Return the arrays, of list type `kind`, with only the elements for which `keep` is true."""
    lengths = np.bincount(lists.rows[keep], minlength=len(lists.lengths)).astype(np.int64)
    return list_array(lists.elements.filter(pa.array(keep)), lengths, lists.absent, kind)


def taken(pool: pa.Array, places: Places) -> pa.Array:
    """Return the elements of `pool` at some indices; `NOTHING` gives null."""
    return pool.take(pa.array(places, mask=places == NOTHING))


def ranks_of(*arrays: pa.Array) -> list[Places]:
    """Return for each array ranks of its values, comparable between all arrays; null is `NOTHING`.

    The arrays have one type, not a nested one. NaN equals itself and is the largest; 0.0 equals -0.0.
    """
    values = pa.concat_arrays(list(arrays))
    if pa.types.is_floating(values.type):
        values = pc.add(values, pa.scalar(0.0, values.type))  # -0.0 becomes 0.0
    coded = values.dictionary_encode()
    rank = np.zeros(len(coded.dictionary) + 1, np.int64)
    if not pa.types.is_null(values.type):
        rank[pc.sort_indices(coded.dictionary).to_numpy()] = np.arange(len(coded.dictionary))
    rank[-1] = NOTHING
    found = rank[pc.fill_null(coded.indices, len(coded.dictionary)).to_numpy(zero_copy_only=False)]
    return np.split(found, np.cumsum([len(each) for each in arrays])[:-1])


def firsts(rows: Places, ranks: Places) -> Truth:
    """Return for each element whether it is the first of its rank in its row; `rows` has each one's row."""
    found = np.zeros(len(rows), np.bool_)
    if len(rows):
        size = int(ranks.max()) + 2
        found[np.unique(rows * size + ranks + 1, return_index=True)[1]] = True
    return found
