"""The columns in which different values of a batch travel: lists beside the accumulators of each group."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa

from headgate.relational.aggregating.lists import kept_list, of_lengths, owners
from headgate.relational.passes.distinct_values import DistinctValues

if TYPE_CHECKING:
    from headgate.records.batch import Int64s


class SentValues(NamedTuple):
    """Values of one set, each once for a group: the index of its group's row, ascending; columns of values;
    and what is told of them, as :class:`ValueSet` takes it.
    """

    rows: Int64s
    values: Sequence[pa.Array]
    told: Sequence[Int64s]


def sent_fields(one: DistinctValues) -> list[pa.Field]:
    """Return the columns in which values of a set travel."""
    told = [f"{one.name}/seen"] if one.weight is None else [f"{each.name}/rows" for each in one.told]
    fields = [(f"{name}/{field}", kind) for name, field, kind in one.value_fields]
    return [
        pa.field(name, kept_list(kind)) for name, kind in (*fields, *((name, pa.int64()) for name in told))
    ]


def as_lists(sent: SentValues, groups: int) -> Iterator[pa.Array]:
    """Yield the columns of `sent_fields`, with a row for each of so many groups."""
    offsets = np.searchsorted(sent.rows, np.arange(groups + 1))
    for each in (*sent.values, *map(pa.array, sent.told)):
        yield of_lengths(each, offsets, kept_list(each.type))


def out_of_lists(one: DistinctValues, columns: Sequence[pa.Array]) -> SentValues:
    """Return what `as_lists` made columns of."""
    flat = [each.flatten() for each in columns]
    values = len(one.values)
    return SentValues(owners(columns[0]), flat[:values], [each.to_numpy() for each in flat[values:]])
