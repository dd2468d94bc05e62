"""Random texts as Arrow columns: pieces of a pool of random characters, cut by one call per column.

A text is a position in the pool and a length, so it costs two random numbers and one copy, whatever its
length.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from headgate.nexmark.random_numbers import Draws, Integers, Purpose

POOL_BYTES: Final = 1 << 20
"""Number of positions in a pool at which a text may begin."""

TEXT_BYTES_MAX: Final = 1024
"""Bytes of the longest text that can be cut out of a pool."""

_WORD_BYTES_MIN: Final = 3
_SPACE: Final = ord(" ")
_POOL_SEEDS: Final = 4  # how many seeds' pools stay in memory, 10 MB each
_INLINE_BYTES: Final = 12  # texts up to this length stand in the view itself, as Arrow's format wants it


class TextPool:
    """A pool of random ASCII characters; texts are cut out of it.

    Arguments:
        characters: `POOL_BYTES` + `TEXT_BYTES_MAX` bytes of ASCII.

    Example:
        >>> pool = letters_pool(1)
        >>> pool.cut(np.array([5, 6]), np.array([4, 3])).to_pylist()
        ['ujzq', 'jzq']
    """

    def __init__(self, characters: NDArray[np.uint8]) -> None:
        assert len(characters) == POOL_BYTES + TEXT_BYTES_MAX, len(characters)
        self._characters = characters
        self._buffer = pa.py_buffer(characters)
        places = np.arange(len(characters), dtype=np.int32)
        full = characters != _SPACE
        self._next_full = np.minimum.accumulate(np.where(full, places, len(places))[::-1])[::-1]
        self._last_full = np.maximum.accumulate(np.where(full, places, -1))

    def cut(self, starts: Integers, lengths: Integers) -> pa.StringArray:
        """Return the texts of `lengths` bytes that begin at `starts`, one per row.
        A start is below `POOL_BYTES`, a length at most `TEXT_BYTES_MAX`.
        """
        # A view is 16 bytes: length, first four bytes, number of the buffer, position in it.
        views = np.zeros((len(starts), 4), dtype="<i4")
        views[:, 0] = lengths
        views[:, 1] = self._windows(4)[starts].view("<i4")
        views[:, 3] = starts
        short = np.flatnonzero(lengths <= _INLINE_BYTES)
        if len(short):
            inline = self._windows(_INLINE_BYTES)[starts[short]].view(np.uint8).reshape(-1, _INLINE_BYTES)
            inline *= np.arange(_INLINE_BYTES) < lengths[short, None]
            views.view(np.uint8)[short, 4:] = inline
        buffers = [None, pa.py_buffer(views), self._buffer]
        return pa.Array.from_buffers(pa.string_view(), len(starts), buffers).cast(pa.string())

    def words(self, draws: Draws, length: Purpose, start: Purpose, below: int) -> pa.StringArray:
        """Return a word per event: 3 to `below` - 1 bytes, less spaces at both ends, so it may be empty."""
        starts, lengths = word_places(draws, length, start, below)
        firsts = self._next_full[starts].astype(np.int64)
        ends = self._last_full[starts + lengths - 1].astype(np.int64) + 1
        # A word of nothing but spaces ends before its first letter, and is empty.
        return self.cut(firsts, (ends - firsts).clip(0))

    def _windows(self, width: int) -> NDArray[np.void]:
        count = len(self._characters) - width + 1
        return np.ndarray((count,), dtype=f"V{width}", buffer=self._characters, strides=(1,))


def word_places(draws: Draws, length: Purpose, start: Purpose, below: int) -> tuple[Integers, Integers]:
    """Return random positions in a pool and lengths of words, one of each per event.
    Lengths are from 3 to `below` - 1 bytes; `length` and `start` are the purposes of the two draws.
    """
    lengths = _WORD_BYTES_MIN + draws.below(length, below - _WORD_BYTES_MIN)
    return draws.below(start, POOL_BYTES), lengths


@lru_cache(maxsize=_POOL_SEEDS)
def letters_pool(seed: int) -> TextPool:
    """Return the pool of a seed that has the letters a to z."""
    return TextPool(_letters(seed))


@lru_cache(maxsize=_POOL_SEEDS)
def words_pool(seed: int, gap: str = " ") -> TextPool:
    """Return the pool of a seed in which each character is `gap` with probability 1/13, else a letter."""
    letters = _letters(seed)
    gaps = _pool_draws(seed).below(Purpose.POOL_GAP, 13) == 0
    return TextPool(np.where(gaps, np.uint8(ord(gap)), letters))


def _letters(seed: int) -> NDArray[np.uint8]:
    return (ord("a") + _pool_draws(seed).below(Purpose.POOL_LETTER, 26)).astype(np.uint8)


def _pool_draws(seed: int) -> Draws:
    return Draws(seed, np.arange(POOL_BYTES + TEXT_BYTES_MAX))
