"""Hashes of rows, by which Spark spreads them: Murmur3 of 32 bits (`hash`) and XXH64 (`xxhash64`).

The hash of a value is the seed of the next one's; null leaves the seed as it is. No library has these with a
seed for each row, and Spark's Murmur3 takes the last bytes of a text in a way of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headgate.relational.functions.kernels import missing, numbers, with_arrays
from headgate.relational.functions.nested.ragged import lists_of
from headgate.relational.rules import Kernel, Rule, Signature, Types, add

FAMILY: Final = "hashes"
_SEED: Final = 42
_LONG_DIGITS: Final = 18
"""Decimals of so many digits are hashed as a long."""

Words = npt.NDArray[np.uint32] | npt.NDArray[np.uint64]


@dataclass(frozen=True)
class _Bytes:
    """Bytes of all rows in one array; for each row where its bytes begin, and how many they are."""

    data: npt.NDArray[np.uint8]
    starts: npt.NDArray[np.int64]
    lengths: npt.NDArray[np.int64]

    def word(self, rows: npt.NDArray[np.int64], offset: npt.NDArray[np.int64] | int, size: int) -> Words:
        """Return `size` bytes of some rows from an offset on, the lowest first, as a number."""
        place = self.starts[rows] + offset
        found: Words = np.zeros(len(rows), np.uint64)
        for byte in range(size):
            found |= self.data[place + byte].astype(np.uint64) << np.uint64(8 * byte)
        return found


@dataclass(frozen=True)
class _Hash:
    """A hash function with values of type `width`, for ints, longs and bytes, with a seed for each row."""

    width: type[np.uint32] | type[np.uint64]
    of_ints: Callable[[Words, Words], Words]
    of_longs: Callable[[Words, Words], Words]
    of_bytes: Callable[[_Bytes, Words], Words]


def _turned(value: Words, by: int) -> Words:
    bits = value.dtype.itemsize * 8
    return (value << value.dtype.type(by)) | (value >> value.dtype.type(bits - by))


# -- Murmur3


def _mixed(seed: Words, word: Words) -> Words:
    word = _turned(word * np.uint32(0xCC9E2D51), 15) * np.uint32(0x1B873593)
    return _turned(seed ^ word, 13) * np.uint32(5) + np.uint32(0xE6546B64)


def _murmur_end(value: Words, length: npt.NDArray[np.int64] | int) -> Words:
    value = value ^ np.asarray(length, np.uint32)
    value = (value ^ (value >> np.uint32(16))) * np.uint32(0x85EBCA6B)
    value = (value ^ (value >> np.uint32(13))) * np.uint32(0xC2B2AE35)
    return value ^ (value >> np.uint32(16))


def _murmur_of_ints(value: Words, seed: Words) -> Words:
    return _murmur_end(_mixed(seed, value.astype(np.uint32)), 4)


def _murmur_of_longs(value: Words, seed: Words) -> Words:
    low, high = value.astype(np.uint32), (value >> np.uint64(32)).astype(np.uint32)
    return _murmur_end(_mixed(_mixed(seed, low), high), 8)


def _murmur_of_bytes(texts: _Bytes, seed: Words) -> Words:
    found = seed.copy()
    for place in range(int(texts.lengths.max(initial=0)) // 4):
        rows = np.flatnonzero(texts.lengths // 4 > place)
        found[rows] = _mixed(found[rows], texts.word(rows, place * 4, 4).astype(np.uint32))
    for place in range(3):
        rows = np.flatnonzero(texts.lengths % 4 > place)
        byte = texts.word(rows, texts.lengths[rows] // 4 * 4 + place, 1)
        # A byte has a sign in Java.
        found[rows] = _mixed(
            found[rows], byte.astype(np.uint8).view(np.int8).astype(np.int32).view(np.uint32)
        )
    return _murmur_end(found, texts.lengths)


# -- XXH64


_P1, _P2, _P3, _P4, _P5 = (
    np.uint64(prime)
    for prime in (
        0x9E3779B185EBCA87,
        0xC2B2AE3D27D4EB4F,
        0x165667B19E3779F9,
        0x85EBCA77C2B2AE63,
        0x27D4EB2F165667C5,
    )
)


def _xxh_end(value: Words) -> Words:
    value = (value ^ (value >> np.uint64(33))) * _P2
    value = (value ^ (value >> np.uint64(29))) * _P3
    return value ^ (value >> np.uint64(32))


def _with_int(found: Words, value: Words) -> Words:
    return _turned(found ^ (value * _P1), 23) * _P2 + _P3


def _with_long(found: Words, value: Words) -> Words:
    return _turned(found ^ (_turned(value * _P2, 31) * _P1), 27) * _P1 + _P4


def _xxh_of_ints(value: Words, seed: Words) -> Words:
    return _xxh_end(_with_int(seed + _P5 + np.uint64(4), value & np.uint64(0xFFFFFFFF)))


def _xxh_of_longs(value: Words, seed: Words) -> Words:
    return _xxh_end(_with_long(seed + _P5 + np.uint64(8), value))


def _xxh_of_bytes(texts: _Bytes, seed: Words) -> Words:
    found = seed + _P5
    long = np.flatnonzero(texts.lengths >= 32)
    if len(long):
        found[long] = _of_stripes(texts, long, seed[long])
    found = found + texts.lengths.astype(np.uint64)
    # What is left over of 32 bytes: words of eight, one of four, and bytes.
    start, left = texts.lengths // 32 * 32, texts.lengths % 32
    for place in range(3):
        rows = np.flatnonzero(left // 8 > place)
        found[rows] = _with_long(found[rows], texts.word(rows, start[rows] + place * 8, 8))
    rows = np.flatnonzero(left % 8 >= 4)
    found[rows] = _with_int(found[rows], texts.word(rows, texts.lengths[rows] // 8 * 8, 4))
    for place in range(3):
        rows = np.flatnonzero(texts.lengths % 4 > place)
        byte = texts.word(rows, texts.lengths[rows] // 4 * 4 + place, 1)
        found[rows] = _turned(found[rows] ^ (byte * _P5), 11) * _P1
    return _xxh_end(found)


def _of_stripes(texts: _Bytes, rows: npt.NDArray[np.int64], seed: Words) -> Words:
    lanes = [seed + _P1 + _P2, seed + _P2, seed.copy(), seed - _P1]
    lengths = texts.lengths[rows]
    for stripe in range(int(lengths.max()) // 32):
        some = np.flatnonzero(lengths // 32 > stripe)
        for number, lane in enumerate(lanes):
            word = texts.word(rows[some], stripe * 32 + number * 8, 8)
            lane[some] = _turned(lane[some] + word * _P2, 31) * _P1
    found = _turned(lanes[0], 1) + _turned(lanes[1], 7) + _turned(lanes[2], 12) + _turned(lanes[3], 18)
    for lane in lanes:
        found = (found ^ (_turned(lane * _P2, 31) * _P1)) * _P1 + _P4
    return found


# -- values


def _with_column(by: _Hash, values: pa.Array, seeds: Words) -> Words:
    known = np.flatnonzero(~missing(values))
    found = seeds.copy()
    if not len(known):
        return found
    present = values.take(pa.array(known))
    found[known] = _hashed(by, present, seeds[known])
    return found


def _hashed(by: _Hash, values: pa.Array, seeds: Words) -> Words:
    kind = values.type
    if pa.types.is_struct(kind):
        for field in values.flatten():
            seeds = _with_column(by, field, seeds)
        return seeds
    if pa.types.is_list(kind):
        return _of_lists(by, values, seeds)
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        return by.of_bytes(_bytes_of(pc.cast(values, pa.binary())), seeds)
    if pa.types.is_decimal(kind):
        return _of_decimals(by, values, seeds)
    if pa.types.is_floating(kind):
        values = pc.add(values, pa.scalar(0.0, kind))  # -0.0 becomes 0.0
        values = pc.if_else(pc.is_nan(values), pa.scalar(float("nan"), kind), values)
        bits = pa.int32() if kind == pa.float32() else pa.int64()
        values = values.view(bits)
    plain = numbers(values)
    if plain.dtype == np.int64:
        return by.of_longs(plain.view(np.uint64), seeds)
    return by.of_ints(plain.astype(np.int64).view(np.uint64), seeds)


def _of_lists(by: _Hash, values: pa.Array, seeds: Words) -> Words:
    lists, found = lists_of(values), seeds.copy()
    starts = lists.starts
    for place in range(int(lists.lengths.max(initial=0))):
        rows = np.flatnonzero(lists.lengths > place)
        elements = lists.elements.take(pa.array(starts[rows] + place))
        found[rows] = _with_column(by, elements, found[rows])
    return found


def _of_decimals(by: _Hash, values: pa.Array, seeds: Words) -> Words:
    scale = values.type.scale
    whole = [int(value.scaleb(scale)) for value in values.to_pylist()]
    if values.type.precision <= _LONG_DIGITS:
        return by.of_longs(np.array(whole, np.int64).view(np.uint64), seeds)
    # As Java's BigInteger: the highest byte first, as few as there must be.
    data = [
        value.to_bytes((value + (value < 0)).bit_length() // 8 + 1, "big", signed=True) for value in whole
    ]
    return by.of_bytes(_bytes_of(pa.array(data, pa.binary())), seeds)


def _bytes_of(values: pa.Array) -> _Bytes:
    offsets = np.frombuffer(values.buffers()[1], np.int32)[values.offset : values.offset + len(values) + 1]
    buffer = values.buffers()[2]
    data = np.zeros(0, np.uint8) if buffer is None else np.frombuffer(buffer, np.uint8)
    return _Bytes(data, offsets[:-1].astype(np.int64), np.diff(offsets).astype(np.int64))


def _kernel(by: _Hash) -> Kernel:
    def kernel(result: pa.DataType, *values: pa.Array) -> pa.Array:
        seeds: Words = np.full(len(values[0]), _SEED, np.uint64)
        if by.width is np.uint32:
            seeds = seeds.astype(np.uint32)
        with np.errstate(over="ignore"):
            for column in values:
                seeds = _with_column(by, column, seeds)
        return pa.array(seeds.view(np.int32 if by.width is np.uint32 else np.int64), result)

    return with_arrays(kernel)


def _judge(result: pa.DataType) -> Callable[[Types], Signature | None]:
    def judge(given: Types) -> Signature | None:
        return Signature(given, result, nullable=False) if given and not any(map(has_map, given)) else None

    return judge


def has_map(kind: pa.DataType) -> bool:
    """Return whether a type is a map, or has one in it."""
    inner = [kind.field(place).type for place in range(kind.num_fields)]
    return bool(pa.types.is_map(kind)) or any(map(has_map, inner))


_MURMUR: Final = _Hash(np.uint32, _murmur_of_ints, _murmur_of_longs, _murmur_of_bytes)
_XXH: Final = _Hash(np.uint64, _xxh_of_ints, _xxh_of_longs, _xxh_of_bytes)
add(Rule("hash", FAMILY, _judge(pa.int32()), _kernel(_MURMUR), "values without maps"))
add(Rule("xxhash64", FAMILY, _judge(pa.int64()), _kernel(_XXH), "values without maps"))
