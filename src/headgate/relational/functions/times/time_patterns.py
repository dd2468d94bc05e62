"""Patterns of dates and times, such as "yyyy-MM-dd HH:mm": a closed list of Java's letters.

A pattern is read into parts: a text that stands for itself, or a letter and how often it comes.
"""

from __future__ import annotations

import itertools
from functools import lru_cache
from typing import Final, NamedTuple

from headgate.common.errors import PlanError


class Part(NamedTuple):
    """A letter of a pattern, and how often it stands there; `letter` is "" where `text` stands for itself."""

    letter: str
    times: int
    text: str = ""


_MOST: Final = {
    "y": 6, "M": 4, "L": 4, "d": 2, "D": 3, "E": 4, "a": 1,
    "H": 2, "k": 2, "h": 2, "K": 2, "m": 2, "s": 2, "S": 9,
}  # fmt: skip
"""For each letter, how often it may come at most."""


@lru_cache(256)
def parts_of(pattern: str) -> tuple[Part, ...]:
    """Return the parts of a pattern.

    Raises:
        PlanError: it has a letter that is not taken, or one too often, or a ' without its partner.

    Example:
        >>> [part.letter * part.times or part.text for part in parts_of("yyyy-MM'T'")]
        ['yyyy', '-', 'MM', 'T']
    """
    found: list[Part] = []
    pieces = pattern.split("'")
    if len(pieces) % 2 == 0:
        raise PlanError(f"the pattern {pattern!r} has a ' without its partner")
    for place, piece in enumerate(pieces):
        if place % 2 or (piece == "" and 0 < place < len(pieces) - 1):
            # Two quotes side by side stand for one, within a quoted text and outside.
            found.append(Part("", 0, piece or "'"))
            continue
        for letter, run in itertools.groupby(piece):
            found.append(_part(pattern, letter, len(list(run))))
    return tuple(found)


def _part(pattern: str, letter: str, times: int) -> Part:
    if letter in "[]{}#":
        raise PlanError(f"the pattern {pattern!r} has a {letter}, which is not taken; quote it with '")
    if not (letter.isascii() and letter.isalpha()):
        return Part("", 0, letter * times)
    if times > _MOST.get(letter, 0):
        known = ", ".join(f"{one} to {one * most}" for one, most in _MOST.items())
        raise PlanError(f"the pattern {pattern!r} has {letter * times!r}; taken are {known}")
    return Part(letter, times)
