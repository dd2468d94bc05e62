"""The random numbers and texts that generated events are made of."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.nexmark import random_numbers
from headgate.nexmark.random_numbers import Draws, Purpose, power_of_two
from headgate.nexmark.random_texts import POOL_BYTES, TEXT_BYTES_MAX, TextPool

CHARACTERS = np.frombuffer((b"ab  c" * (1 << 18))[: POOL_BYTES + TEXT_BYTES_MAX], np.uint8)
POOL = TextPool(CHARACTERS)
FIRST_OF_SPLITMIX = [0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4, 0x06C45D188009454F]


def test_the_hash_is_that_of_splitmix64() -> None:
    """The first numbers of the published generator for seed 0."""
    steps = np.arange(1, 4, dtype=np.uint64) * np.uint64(random_numbers._GAMMA)
    assert random_numbers._mixed(steps).tolist() == FIRST_OF_SPLITMIX


@given(st.lists(st.tuples(st.integers(0, POOL_BYTES - 1), st.integers(0, TEXT_BYTES_MAX)), max_size=20))
def test_texts_are_cut_out_of_the_pool(places: list[tuple[int, int]]) -> None:
    """Short ones, which Arrow stores in another way than long ones, and empty ones."""
    starts, lengths = np.array(places, np.int64).reshape(-1, 2).T
    expected = [CHARACTERS[start : start + length].tobytes().decode() for start, length in places]
    assert POOL.cut(starts, lengths).to_pylist() == expected


def test_words_lose_the_spaces_at_their_ends() -> None:
    """A word of nothing but spaces is empty."""
    draws = Draws(5, np.arange(2000))
    starts = draws.below(Purpose.ITEM_START, POOL_BYTES)
    lengths = 3 + draws.below(Purpose.ITEM_LENGTH, 6)
    pool = TextPool(np.where(ord("c") == CHARACTERS, np.uint8(ord(" ")), CHARACTERS))
    text = CHARACTERS.tobytes().decode().replace("c", " ")
    expected = [text[start : start + length].strip(" ") for start, length in zip(starts, lengths)]
    assert "" in expected
    assert pool.words(draws, Purpose.ITEM_LENGTH, Purpose.ITEM_START, 9).to_pylist() == expected


@given(st.floats(0, 20))
def test_powers_of_two_are_exact_enough(exponent: float) -> None:
    """To twelve digits, so a price may be wrong by a cent once in a while, and the same everywhere."""
    assert power_of_two(np.array([exponent]))[0] == pytest.approx(math.pow(2, exponent), rel=1e-12)


def test_purposes_have_values_of_their_own() -> None:
    """Two purposes with one value would draw the same numbers."""
    assert (
        len(Purpose) == len({int(each) for each in Purpose.__members__.values()}) == len(Purpose.__members__)
    )


def test_purposes_and_seeds_are_independent() -> None:
    """Numbers of two purposes, two seeds or neighbouring ids are not correlated."""
    ids = np.arange(20_000)
    one = Draws(1, ids)
    rows = [
        one.below(Purpose.CITY, 1000),
        one.below(Purpose.STATE, 1000),
        Draws(2, ids).below(Purpose.CITY, 1000),
    ]
    rows.append(np.roll(rows[0], 1))
    assert np.abs(np.corrcoef(rows) - np.eye(4)).max() < 0.03


@pytest.mark.parametrize("bound", [1, 2, 7, 2**31])
def test_numbers_are_below_their_bound(bound: int) -> None:
    """From 0, whether the bound is given once or for each event."""
    draws = Draws(3, np.arange(10_000))
    found = draws.below(Purpose.CITY, bound)
    assert found.min() >= 0
    assert found.max() < bound
    assert found.mean() == pytest.approx((bound - 1) / 2, rel=0.05)
    assert (draws.below(Purpose.CITY, np.full(10_000, bound)) == found).all()
