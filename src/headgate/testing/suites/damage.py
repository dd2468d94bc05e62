"""Stored bytes as a fault leaves them: cut short, longer, changed in a bit, or with a size that is a lie."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Final

COUNT_LIE: Final = 4_000_000
"""A number of values that no batch of a test has; enough to be noticed in memory, too little to do harm."""


def cut_short(data: bytes, at_most: int = 100) -> Iterator[bytes]:
    """Proper beginnings of the bytes, all of them where there are few."""
    step = max(1, len(data) // at_most)
    return (data[:end] for end in range(0, len(data), step))


def with_a_flipped_bit(data: bytes, at_most: int = 300) -> Iterator[bytes]:
    """The bytes with one bit changed, each of all bits where there are few, else the same random ones."""
    places = list(range(8 * len(data)))
    if len(places) > at_most:
        places = random.Random(len(data)).sample(places, at_most)
    for place in places:
        damaged = bytearray(data)
        damaged[place // 8] ^= 1 << place % 8
        yield bytes(damaged)


def with_large_sizes(data: bytes, at_most: int = 24) -> Iterator[bytes]:
    """The bytes with a huge number in the place of one, two, four or eight of them."""
    step = max(1, len(data) // at_most)
    for width in (1, 2, 4, 8):
        for place in range(0, len(data) - width + 1, step):
            for number in (b"\xff" * width, b"\x7f" + b"\xff" * (width - 1), b"\xff" * (width - 1) + b"\x7f"):
                yield data[:place] + number + data[place + width :]
