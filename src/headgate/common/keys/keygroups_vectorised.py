"""Key hashes and key groups of whole batches, equal to those that are computed key by key.

Needs numpy when imported, pyarrow for columns and for long lists of str; use it through the
functions of :mod:`headgate.common.keys.keygroups`, which import it when they are called.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from itertools import repeat
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from headgate.common.errors import UsageError
from headgate.common.files.durable import crc32
from headgate.common.keys.key_hashes import key_hash

if TYPE_CHECKING:
    import pyarrow as pa

Hashes = NDArray[np.uint32]
Groups = NDArray[np.int32]

_CRC_ROWS: Final = 16_384
"""Rows per step: their working arrays stay in the second-level cache (22 M rows/s; 15 at 4,096)."""

_CRC_DEPTH: Final = 64  # longer strings go to zlib one by one: it is faster there

_SAMPLE_ROWS: Final = 1_024
_SAMPLE_DISTINCT_MAX: Final = 768
_DICTIONARY_ROWS_MIN: Final = 8_192
_ARROW_LIST_MIN: Final = 256
_DAY_MS: Final = 86_400_000


def murmur_many(hashes: Hashes) -> NDArray[np.uint32]:
    mixed = hashes * np.uint32(0xCC9E2D51)
    mixed = (mixed << np.uint32(15)) | (mixed >> np.uint32(17))
    mixed *= np.uint32(0x1B873593)
    mixed = (mixed << np.uint32(13)) | (mixed >> np.uint32(19))
    mixed *= np.uint32(5)
    mixed += np.uint32(0xE6546B64)
    mixed ^= np.uint32(4)
    mixed ^= mixed >> np.uint32(16)
    mixed *= np.uint32(0x85EBCA6B)
    mixed ^= mixed >> np.uint32(13)
    mixed *= np.uint32(0xC2B2AE35)
    mixed ^= mixed >> np.uint32(16)
    negative = mixed >= np.uint32(0x80000000)
    np.negative(mixed, out=mixed, where=negative)
    mixed &= np.uint32(0x7FFFFFFF)
    return mixed


def groups_of_hashes(hashes: Hashes, max_parallelism: int) -> Groups:
    """Return the key group, from 0 to `max_parallelism` - 1, of each key by its hash (:func:`key_hash`)."""
    mixed = murmur_many(hashes)
    if max_parallelism & (max_parallelism - 1) == 0:
        return (mixed & np.uint32(max_parallelism - 1)).astype(np.int32)
    return (mixed % np.uint32(max_parallelism)).astype(np.int32)


def hashes_of_ints(values: NDArray[np.integer]) -> Hashes:
    if values.dtype == np.uint64:
        large = values > np.uint64(0x7FFFFFFFFFFFFFFF)
        if large.any():
            hashes = hashes_of_ints(values.astype(np.int64))
            hashes[large] = [key_hash(key) for key in values[large].tolist()]
            return hashes
    wide = values.astype(np.int64, copy=False)
    low = wide.astype(np.uint32)
    if values.dtype.itemsize < 8 and values.dtype != np.uint32:
        return low
    high = (wide >> np.int64(32)).astype(np.uint32)
    # In 32 bits the high word only repeats the sign: then the key is its own hash.
    plain = wide == low.view(np.int32)
    return low if plain.all() else np.where(plain, low, low ^ high)


def hashes_of_floats(values: NDArray[np.floating]) -> Hashes:
    doubles = values.astype(np.float64)
    if np.isnan(doubles).any():
        key_hash(float("nan"))
    bits = doubles.view(np.uint64)
    hashes = (bits ^ (bits >> np.uint64(32))).astype(np.uint32)
    whole = (doubles == np.trunc(doubles)) & np.isfinite(doubles)
    small = whole & (np.abs(doubles) < 2.0**63)
    hashes[small] = hashes_of_ints(doubles[small].astype(np.int64))
    large = whole & ~small
    if large.any():
        hashes[large] = [key_hash(key) for key in doubles[large].tolist()]
    return hashes


def hashes_of_strings(offsets: NDArray[np.integer], data: NDArray[np.uint8]) -> Hashes:
    """Return the CRC-32 of each string, which is its key hash, as an array of unsigned 32-bit numbers.

    The bytes of the strings lie one after the other in `data`; `offsets` has one number more than there are
    strings: where each begins, and where the last one ends.
    """
    ends = offsets[1:].astype(np.int64, copy=False)
    lengths = ends - offsets[:-1]
    hashes = np.empty(len(lengths), np.uint32)
    if not len(lengths):
        return hashes
    long_rows = np.flatnonzero(lengths > _CRC_DEPTH)
    if len(long_rows):
        lengths = np.minimum(lengths, _CRC_DEPTH)
    for start in range(0, len(lengths), _CRC_ROWS):
        part = slice(start, start + _CRC_ROWS)
        hashes[part] = _crc_of_short(ends[part], lengths[part].astype(np.uint8), data)
    for row in long_rows.tolist():
        hashes[row] = crc32(data[offsets[row] : offsets[row + 1]].data)
    return hashes


def _crc_of_short(ends: NDArray[np.int64], lengths: NDArray[np.uint8], data: NDArray[np.uint8]) -> Hashes:
    """Return the CRC-32 of each string of at most 64 bytes: the sum of what each byte contributes.

    Strings end in `data` at `ends`. A contribution depends on the byte's distance from there (CRC is linear).
    Distances are walked one by one over all rows that are long enough; sorting the rows by length (a radix
    sort) makes these rows a prefix.
    """
    longest = int(lengths.max())
    order: NDArray[np.int64] | None = None
    if longest != int(lengths.min()):
        order = np.argsort(lengths, kind="stable")[::-1]
        ends, lengths = ends[order], lengths[order]
    crcs = _CRC_OF_ZEROS.take(lengths)
    positions = ends - 1
    rows = len(ends) - np.cumsum(np.bincount(lengths, minlength=longest + 1))
    for distance, table in enumerate(_CRC_TABLES[:longest]):
        live = positions[: rows[distance]]
        crcs[: rows[distance]] ^= table.take(data.take(live))
        live -= 1
    if order is None:
        return crcs
    unsorted = np.empty_like(crcs)
    unsorted[order] = crcs
    return unsorted


def _crc_tables() -> NDArray[np.uint32]:
    tables = np.zeros((_CRC_DEPTH, 256), np.uint32)
    value = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        value = (value >> np.uint32(1)) ^ (np.uint32(0xEDB88320) * (value & np.uint32(1)))
    tables[0] = value
    for distance in range(1, _CRC_DEPTH):
        before = tables[distance - 1]
        tables[distance] = tables[0][before & np.uint32(0xFF)] ^ (before >> np.uint32(8))
    return tables


_CRC_TABLES: Final = _crc_tables()
_CRC_OF_ZEROS: Final = np.array([crc32(bytes(length)) for length in range(_CRC_DEPTH + 1)], np.uint32)


def hashes_of_arrow(column: pa.Array | pa.ChunkedArray) -> Hashes:
    """Return the key hash of each row of an Arrow column; UsageError: nulls, NaN, or a type no key has."""
    import pyarrow as pa

    if isinstance(column, pa.ChunkedArray):
        parts = [hashes_of_arrow(chunk) for chunk in column.chunks]
        return np.concatenate(parts) if parts else np.empty(0, np.uint32)
    if column.null_count or pa.types.is_null(column.type):
        raise UsageError(f"a key column of type {column.type} has nulls; fill or filter them before key_by")
    if isinstance(column, pa.DictionaryArray):
        if not len(column):
            return np.empty(0, np.uint32)
        # Entries that no row uses may be null; compacting drops them.
        dictionary = column.dictionary
        if dictionary.null_count:
            return hashes_of_arrow(column.cast(column.type.value_type))
        found: Hashes = hashes_of_arrow(dictionary).take(column.indices.to_numpy(zero_copy_only=False))
        return found
    return _hashes_of_plain_arrow(column)


def _hashes_of_plain_arrow(column: pa.Array) -> Hashes:
    import pyarrow as pa

    kind, types = column.type, pa.types
    if types.is_integer(kind):
        return hashes_of_ints(column.to_numpy(zero_copy_only=False))
    if types.is_boolean(kind):
        return hashes_of_ints(column.cast(pa.int8()).to_numpy(zero_copy_only=False))
    if types.is_floating(kind):
        return hashes_of_floats(column.to_numpy(zero_copy_only=False))
    if types.is_timestamp(kind):
        hashes = hashes_of_ints(_microseconds(column))
        odd = kind.tz not in (None, "UTC", "Etc/UTC")  # an hour may be repeated: its moments are one key
        return hashes_of_keys(column.cast(pa.timestamp("us", kind.tz)).to_pylist()) if odd else hashes
    if types.is_date32(kind):
        return hashes_of_ints(column.cast(pa.int32()).to_numpy(zero_copy_only=False))
    if types.is_date64(kind):
        return hashes_of_ints(column.cast(pa.int64()).to_numpy(zero_copy_only=False) // _DAY_MS)
    if isinstance(kind, pa.UuidType):
        return _hashes_of_arrow_strings(column.storage.cast(pa.large_binary()))
    if types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind):
        return _hashes_of_arrow_strings(column.cast(pa.large_string()))
    binary = (types.is_binary, types.is_large_binary, types.is_binary_view, types.is_fixed_size_binary)
    if any(is_kind(kind) for is_kind in binary):
        return _hashes_of_arrow_strings(column.cast(pa.large_binary()))
    raise UsageError(
        f"a key column has type {kind}; expected integers, strings, binary, booleans, floats, timestamps, "
        "dates or UUIDs; cast it before key_by"
    )


def _microseconds(column: pa.Array) -> NDArray[np.int64]:
    import pyarrow as pa

    try:
        cut = column.cast(pa.timestamp("us", tz=column.type.tz))
    except pa.ArrowInvalid:
        raise UsageError(
            f"a key column of type {column.type} has values that no Python datetime holds; "
            "cast it to microseconds before key_by"
        ) from None
    return cut.cast(pa.int64()).to_numpy(zero_copy_only=False)  # type: ignore[no-any-return]


def _hashes_of_arrow_strings(column: pa.Array) -> Hashes:
    if len(column) >= _DICTIONARY_ROWS_MIN and _is_repetitive(column):
        return hashes_of_arrow(column.dictionary_encode())
    _, offsets, data = column.buffers()
    if offsets is None or not len(column):
        return np.full(len(column), crc32(b""), np.uint32)
    starts = np.frombuffer(offsets, np.int64)[column.offset : column.offset + len(column) + 1]
    return hashes_of_strings(starts, np.frombuffer(data or b"", np.uint8))


def _is_repetitive(column: pa.Array) -> bool:
    sample = column.slice(0, _SAMPLE_ROWS).dictionary_encode()
    return len(sample.dictionary) <= _SAMPLE_DISTINCT_MAX


def hashes_of_keys(keys: Sequence[Any]) -> Hashes:
    """Return the :func:`key_hash` of each key, in order; UsageError for NaN and for types that no key has."""
    kinds = set(map(type, keys))
    if len(kinds) == 1:
        kind = kinds.pop()
        if kind is int:
            try:
                return hashes_of_ints(np.fromiter(keys, np.int64, len(keys)))
            except OverflowError:
                pass
        elif kind is str:
            return _hashes_of_python_strings(keys)
        elif kind is bytes:
            return np.fromiter(map(crc32, keys), np.uint32, len(keys))
        elif kind is float:
            return hashes_of_floats(np.fromiter(keys, np.float64, len(keys)))
        elif kind is tuple and len(set(map(len, keys))) == 1:
            return hashes_of_columns(
                [hashes_of_keys(column) for column in zip(*keys, strict=True)], len(keys)
            )
        elif kind is dt.datetime:
            # Equal ones have one hash, and few are different: those of windows, of days.
            known = {key: key_hash(key) for key in dict.fromkeys(keys)}
            return np.fromiter(map(known.__getitem__, keys), np.uint32, len(keys))
    return np.fromiter(map(key_hash, keys), np.uint32, len(keys))


def hashes_of_columns(columns: Sequence[Hashes], rows: int) -> Hashes:
    """Return the key hashes of `rows` tuples; `columns` has, for each element, the hashes in all rows."""
    total = np.ones(rows, np.uint32)
    for column in columns:
        total *= np.uint32(31)
        total += column
    return total


def _hashes_of_python_strings(keys: Sequence[str]) -> Hashes:
    try:
        if len(keys) >= _ARROW_LIST_MIN:
            import pyarrow as pa

            return _hashes_of_arrow_strings(pa.array(keys, pa.large_string()))
        return np.fromiter(map(crc32, map(str.encode, keys)), np.uint32, len(keys))
    except UnicodeEncodeError:
        encoded = map(str.encode, keys, repeat("utf-8"), repeat("surrogatepass"))
        return np.fromiter(map(crc32, encoded), np.uint32, len(keys))
