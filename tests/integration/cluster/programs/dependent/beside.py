"""A module beside the program; executors on other machines have it only if somebody brings it."""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass
class Word:
    """A word and how long it is."""

    number: int
    text: str
    length: int


WORDS = ("one", "three", "seven", "eleven")


def measured(number: int) -> Word:
    """One of them with its length."""
    text = WORDS[number % len(WORDS)]
    return Word(number, text, len(text))
