"""Which stored keys a declared type finds: those that may equal one of its keys."""

from __future__ import annotations

import datetime as dt
import enum
import uuid
from typing import Annotated, Any, Literal, NamedTuple, NewType

import pytest

from headgate.state.key_types import fits, hint_words, misfit


class Color(enum.IntEnum):
    RED = 1


class Word(enum.StrEnum):
    ANT = "ant"


class Point(NamedTuple):
    x: int
    y: int


class Other:
    """No type that keys may have, so it says nothing."""


UserId = NewType("UserId", int)


@pytest.mark.parametrize(
    ("key", "declared", "expected"),
    [
        (1, str, False),
        ("a", int, False),
        ("a", str, True),
        (True, int, True),
        (1, bool, True),
        (1, float, True),
        (1.5, int, False),
        (b"a", str, False),
        (1, Color, True),
        ("a", Color, False),
        ("a", Word, True),
        (1, Word, False),
        (dt.date(2026, 1, 1), dt.datetime, False),
        (dt.datetime(2026, 1, 1), dt.date, False),
        (uuid.UUID(int=1), uuid.UUID, True),
        ((1, "a"), tuple[int, str], True),
        (("a", 1), tuple[int, str], False),
        ((1,), tuple[int, str], False),
        ((1, 2, 3), tuple[int, ...], True),
        ((1, "a"), tuple[int, ...], False),
        ((1, 2), Point, True),
        (1, tuple[int], False),
        (1, tuple, False),
        ((1,), int, False),
        (1, int | str, True),
        (b"a", int | str, False),
        ("a", Literal["a", "b"], True),
        (1, UserId, True),
        ("a", UserId, False),
        ("a", Annotated[int, "note"], False),
        ("a", Any, True),
        (1, Other, True),
    ],
)
def test_the_rules(key: object, declared: Any, expected: bool) -> None:
    """A key fits exactly when a key of the declared type may equal it."""
    assert (misfit([key], declared) is None) is expected


def test_one_of_many_is_found() -> None:
    """All keys count, and nothing declared finds everything."""
    assert misfit([1] * 1000 + ["a"], int) is str
    assert misfit([(1, 2), (1, "a")], tuple[int, int]) == (int, str)
    assert misfit([1, "a", (1,)], None) is None
    assert fits(type(None), str | None)
    assert hint_words(tuple[int, str]) == "tuple[int, str]"
