"""Damage by chance, repeatable by a seed: what fuzzes where no coverage is measured, and what tests use."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence

LENGTH_MAX = 1 << 16
_TELLING = (0, 1, 0x7F, 0x80, 0xFF, 0x90, 0xC1, 0xC7, 0xD9, 0xDD)
"""Bytes that mean something to msgpack, or are at a border."""


def mutations(seeds: Sequence[bytes], seed: int) -> Iterator[bytes]:
    """Endless damaged forms of seeds, one to four damages each; now and then of two seeds in one."""
    chance = random.Random(seed)
    while True:
        data = bytearray(chance.choice(seeds))
        for _ in range(chance.randint(1, 4)):
            chance.choice(_DAMAGES)(data, seeds, chance)
        yield bytes(data[:LENGTH_MAX])


Damage = Callable[[bytearray, Sequence[bytes], random.Random], None]


def _at(data: bytearray, chance: random.Random) -> int:
    return chance.randrange(len(data) + 1)


def _flip(data: bytearray, _: Sequence[bytes], chance: random.Random) -> None:
    if data:
        data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)


def _set(data: bytearray, _: Sequence[bytes], chance: random.Random) -> None:
    if data:
        data[chance.randrange(len(data))] = chance.choice(_TELLING)


def _cut(data: bytearray, _: Sequence[bytes], chance: random.Random) -> None:
    start = _at(data, chance)
    del data[start : start + chance.choice((1, 2, 4, 8, 64))]


def _truncate(data: bytearray, _: Sequence[bytes], chance: random.Random) -> None:
    del data[_at(data, chance) :]


def _insert(data: bytearray, _: Sequence[bytes], chance: random.Random) -> None:
    start = _at(data, chance)
    data[start:start] = chance.randbytes(chance.choice((1, 2, 4, 8)))


def _repeat(data: bytearray, _: Sequence[bytes], chance: random.Random) -> None:
    start = _at(data, chance)
    data[start:start] = data[start : start + chance.randint(1, 8)] * chance.choice((1, 2, 16, 2000))


def _number(data: bytearray, _: Sequence[bytes], chance: random.Random) -> None:
    """A length that is too large, too small or negative."""
    start, width = _at(data, chance), chance.choice((1, 2, 4, 8))
    value = chance.choice((0, 1, 2 ** (8 * width - 1) - 1, 2 ** (8 * width - 1), 2 ** (8 * width) - 1))
    data[start : start + width] = value.to_bytes(width, chance.choice(("little", "big")))


def _splice(data: bytearray, seeds: Sequence[bytes], chance: random.Random) -> None:
    other = chance.choice(seeds)
    start = chance.randrange(len(other) + 1)
    data[_at(data, chance) :] = other[start:]


_DAMAGES: tuple[Damage, ...] = (_flip, _flip, _set, _cut, _truncate, _insert, _repeat, _number, _splice)
