"""Few combinations in which every two values of different factors meet: an all-pairs design."""

from __future__ import annotations

import itertools
import random
from collections.abc import Mapping, Sequence
from typing import Any, Final

Combination = dict[str, Any]
Pair = tuple[tuple[str, Any], tuple[str, Any]]

_TRIES: Final = 30
"""Combinations that are compared for each one that is taken; more make the design hardly smaller."""


def pairs_of(combination: Mapping[str, Any]) -> set[Pair]:
    """Every two of its values, each with its factor."""
    return set(itertools.combinations(sorted(combination.items()), 2))


def covering(factors: Mapping[str, Sequence[Any]], chance: random.Random) -> list[Combination]:
    """Combinations of a value of each factor; every two values of two factors meet in one of them.

    There are about as many as the product of the two longest factors, which is the least possible.

    Args:
        factors: name -> its values.
        chance: decides between designs that are equally good.

    Example:
        >>> found = covering({"a": (1, 2, 3), "b": "xy", "c": "pq"}, random.Random(1))
        >>> len(found), {(each["b"], each["c"]) for each in found} == set(itertools.product("xy", "pq"))
        (6, True)
    """
    names = sorted(factors)
    left = {
        ((one, a), (other, b))
        for one, other in itertools.combinations(names, 2)
        for a, b in itertools.product(factors[one], factors[other])
    }
    found: list[Combination] = []
    while left:
        tried = [_with(chance.choice(sorted(left, key=repr)), factors, chance) for _ in range(_TRIES)]
        best = max(tried, key=lambda each: len(pairs_of(each) & left))
        left -= pairs_of(best)
        found.append({name: best[name] for name in factors})
    chance.shuffle(found)
    return found


def _with(pair: Pair, factors: Mapping[str, Sequence[Any]], chance: random.Random) -> Combination:
    """A random combination that has these two values."""
    return {name: chance.choice(list(values)) for name, values in factors.items()} | dict(pair)
