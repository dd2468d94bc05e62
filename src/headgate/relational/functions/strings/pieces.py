"""Single pieces of texts that were split, for `split_part`."""

from __future__ import annotations

import pyarrow as pa

from headgate.relational.functions.kernels import repeated
from headgate.relational.resolved import Values


def piece_of(lists: Values, number: int) -> Values:
    """Return of each list the piece `number`, from 1, or from the end below 0; "" where there is none.

    Example:
        >>> piece_of(pa.array([["a", "b"], [], None]), -1).to_pylist()
        ['b', '', None]
    """
    if isinstance(lists, pa.Scalar):
        return piece_of(repeated(lists, 1), number)[0]
    offsets = lists.offsets.to_numpy()
    begin, end = offsets[:-1], offsets[1:]
    places = begin + number - 1 if number > 0 else end + number
    there = (places >= begin) & (places < end)
    found = lists.values.take(pa.array(places, mask=~there)).fill_null("")
    if not lists.null_count:
        return found
    return pa.compute.if_else(lists.is_valid(), found, pa.scalar(None, found.type))
