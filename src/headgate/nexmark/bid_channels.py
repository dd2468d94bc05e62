"""The channels of bids, each with one URL: four that half of the bids use, and 10,000 others."""

from __future__ import annotations

from functools import cache, lru_cache
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headgate.nexmark.random_numbers import Draws, Integers, Purpose
from headgate.nexmark.random_texts import word_places, words_pool

CHANNELS: Final = 10_000
"""Channels that are not hot."""

_HOT_NAMES: Final = ("Google", "Facebook", "Baidu", "Apple")
HOT_CHANNELS: Final = len(_HOT_NAMES)
"""Hot channels; they have the numbers from 0, and the others follow."""

_PATH_PARTS: Final = 3
_PATH_WORD_BELOW: Final = 5  # words of the path have three or four characters
_URL_SEEDS: Final = 4  # how many seeds' URLs stay in memory, 1 MB each


@cache
def channel_names() -> pa.StringArray:
    """Return the names of the hot channels, then those of the others.

    Example:
        >>> channel_names()[3:6].to_pylist()
        ['Apple', 'channel-0', 'channel-1']
    """
    return pa.array([*_HOT_NAMES, *(f"channel-{number}" for number in range(CHANNELS))])


@lru_cache(maxsize=_URL_SEEDS)
def channel_urls(seed: int) -> pa.StringArray:
    """Return the URL of each channel: a path of three random words, and mostly the channel's id.

    Hot channels have no id in their URL, and one in ten of the others has none.

    Example:
        >>> channel_urls(1)[0].as_py()
        'https://www.nexmark.com/piao/fev/xb__/item.htm?query=1'
    """
    numbers = np.arange(HOT_CHANNELS + CHANNELS) - HOT_CHANNELS
    draws = Draws(seed, np.arange(len(numbers) * _PATH_PARTS))
    starts, lengths = word_places(draws, Purpose.PATH_LENGTH, Purpose.PATH_START, _PATH_WORD_BELOW)
    words = words_pool(seed, "_").cut(starts, lengths)
    parts = (words[part::_PATH_PARTS] for part in range(_PATH_PARTS))
    url = pc.binary_join_element_wise("https://www.nexmark.com", *parts, "item.htm?query=1", "/")
    shown = Draws(seed, numbers.clip(0)).below(Purpose.CHANNEL_HAS_ID, 10) > 0
    ending = pc.binary_join_element_wise("&channel_id=", pa.array(_mirrored(numbers)).cast(pa.string()), "")
    return pc.binary_join_element_wise(url, pc.if_else(pa.array(shown & (numbers >= 0)), ending, ""), "")


def _mirrored(numbers: Integers) -> Integers:
    # As a signed number of 32 bits, without its sign.
    mirrored = np.zeros_like(numbers)
    for bit in range(32):
        mirrored |= (numbers >> bit & 1) << 31 - bit
    return np.abs(np.where(mirrored >> 31, mirrored - (1 << 32), mirrored))
