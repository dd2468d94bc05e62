"""When the entries of a state with a time to live were written: a stamp for each row of its table.

Stamps are a state of their own, of the same shape as the values: one for a value, a list for a list, a map
from the same keys for a map. How long entries live is the program's to say; no snapshot knows it.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from itertools import zip_longest
from typing import Any, TypeVar

import pyarrow as pa

from headgate.serde.arrow.stored_values import Beyond
from headgate.state.canonical.table_layout import BYTES, ELEMENT, ENTRY
from headgate.stateprocessor.reading.reading_shape import Shape

K = TypeVar("K")
V = TypeVar("V")


def stamps_of(
    shape: Shape, keys: Sequence[Hashable], values: Sequence[Any], told: Mapping[Hashable, V]
) -> pa.Array:
    """The column of stamps for some entries, null where none is stored; `told` has by key what is stored of
    its stamps.
    """
    stamps: list[int | None] = []
    for key, value in zip(keys, values, strict=True):
        stamps += _rows(shape.rows_are, value, _plain(told.get(key)))
    # Stamps are milliseconds; one from before event time was known is far beyond what a time can be.
    known = [None if stamp is None or abs(stamp) >= 2**53 else stamp * 1000 for stamp in stamps]
    return pa.array(known, pa.int64()).cast(pa.timestamp("us", "UTC"))


def _rows(rows_are: str, value: Any, stamps: Any) -> list[int | None]:
    """The stamps of one entry, one for each row that it takes."""
    if rows_are == BYTES:
        return [stamps if type(stamps) is int else None]
    if rows_are == ELEMENT:
        length = max(1, len(_plain(value)))
        return [stamp for _, stamp in zip_longest(range(length), (stamps or [])[:length])]
    if rows_are == ENTRY:
        by_key = {_name(key): stamp for key, stamp in _pairs(stamps or {})}
        return [by_key.get(_name(key)) for key, _ in _pairs(_plain(value))] or [None]
    return [stamps]


def _plain(value: V | Beyond) -> V:
    return value.plain if isinstance(value, Beyond) else value


def _pairs(entries: dict[K, V] | Sequence[tuple[K, V]]) -> list[tuple[K, V]]:
    return list(entries.items()) if isinstance(entries, dict) else list(entries)


def _name(key: K) -> K | str:
    """Plain keys may be lists, which no dict takes."""
    return key if type(key) in (str, int) else repr(key)
