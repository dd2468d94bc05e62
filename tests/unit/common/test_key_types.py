"""Which stored keys a declared type finds: those that may equal one of its keys."""

from __future__ import annotations

import datetime as dt
import enum
import itertools
import uuid
from typing import Annotated, Any, Literal, NamedTuple, NewType

import pytest

from headgate.common.keys.key_types import (
    TUPLES_MAX,
    all_of_shape,
    first_misfit,
    fits,
    hint_words,
    may_find,
    says_nothing,
    shape_of,
    shapes_of,
    shapes_of_stored,
    stored_shapes,
)


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
        ((1, "a"), Point, False),
        ((1,), Point, False),
        ((True, 2), Point, True),
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
    assert (first_misfit(shapes_of([key]), declared) is None) is expected


def test_one_of_many_is_found() -> None:
    """All keys count, and nothing declared finds everything."""
    assert first_misfit(shapes_of([1] * 1000 + ["a"]), int) is str
    assert first_misfit(shapes_of([(1, 2), (1, "a")]), tuple[int, int]) == (int, str)
    assert first_misfit(shapes_of([(1, 2), (1,), (1, (2,))]), tuple[int, int]) == (int, (int,))
    assert says_nothing(int | Any)
    assert fits(type(None), str | None)
    assert hint_words(tuple[int, str]) == "tuple[int, str]"


def test_every_type_of_keys_can_be_stored() -> None:
    """What a checkpoint tells comes back as what was seen, tuples inside tuples included."""
    keys: list[Any] = [
        1,
        "a",
        b"a",
        True,
        1.5,
        dt.datetime(2026, 1, 1),
        dt.date(2026, 1, 1),
        uuid.UUID(int=1),
    ]
    shapes = shapes_of([*keys, (), tuple(keys), ((1, "a"), (b"",))])
    assert shapes_of_stored(stored_shapes(shapes)) == shapes
    assert shapes_of_stored(["int", "of a later version"]) is None
    assert shapes_of_stored(None) is None


def test_tuples_of_many_types_count_as_one() -> None:
    """The metadata stays small whatever the keys are; what is left says that some tuples were seen."""
    shapes = shapes_of([(1,) * length for length in range(1, TUPLES_MAX + 2)] + [1])
    assert shapes_of_stored(stored_shapes(shapes)) == {int, tuple}
    assert fits(tuple, tuple[int, str])
    assert not fits(tuple, int)


@pytest.mark.parametrize(
    ("key", "stored", "expected"),
    [
        (int, {bool}, True),
        (bool, {int}, True),
        (float, {int}, True),
        ((bool, str), {(int, str)}, True),
        ((int, float), {(float, int)}, True),
        (str, {int, (str,)}, False),
        ((int,), {(str,)}, False),
    ],
)
def test_equal_keys_of_different_types_find_each_other(key: Any, stored: Any, expected: bool) -> None:
    """In both directions, and inside tuples."""
    assert may_find(key, stored) is expected


KEYS: list[Any] = [1, True, "a", (1, "a"), (2, 3), (2,), (), ((1,), "a"), ((1, 2), "a")]


@pytest.mark.parametrize("keys", [list(pair) for pair in itertools.product(KEYS, repeat=2)])
def test_the_quick_look_agrees_with_the_thorough_one(keys: list[Any]) -> None:
    """What is taken for one shape is of that shape alone; what is not is looked at once more."""
    shapes = set(map(shape_of, keys))
    assert shapes_of(keys) == shapes
    for shape in map(shape_of, KEYS):
        nested = isinstance(shape, tuple) and any(isinstance(one, tuple) for one in shape)
        assert all_of_shape(keys, shape) is (shapes == {shape} and not nested)
