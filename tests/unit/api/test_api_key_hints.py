"""A key function that says that it gives what can be no key is refused where it stands."""

from __future__ import annotations

import enum
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, Protocol, TypedDict, TypeVar

import pytest

import headgate as hg

T = TypeVar("T")


@dataclass(frozen=True)
class Shop:
    name: str


class Pair(NamedTuple):
    left: int
    right: int


class Line(TypedDict):
    n: int


@dataclass(frozen=True)
class Box(Generic[T]):
    content: T


class Color(enum.Enum):
    RED = 1


class Named(Protocol):
    name: str


def gives(hint: Any) -> Any:
    """A key function annotated with a type."""

    def key(record: Any) -> Any:
        return record

    key.__annotations__["return"] = hint
    return key


@pytest.mark.parametrize(
    ("hint", "shown"),
    [
        (Shop, "Shop"),
        (Pair, "Pair"),
        (Line, "Line"),
        (Box[str], "Box[str]"),
        (Color, "Color"),
        (list[int], "list[int]"),
        (tuple[int, Color], "tuple[int, Color]"),
        (tuple[Shop, ...], "tuple[Shop, ...]"),
    ],
)
def test_a_function_annotated_to_give_no_key_is_refused(hint: Any, shown: str) -> None:
    """One sentence at the line of `key_by`: the type, what keys are, and what to do."""
    stream = hg.Environment().from_collection([1])
    with pytest.raises(hg.PlanError) as caught:
        stream.key_by(gives(hint))
    text = str(caught.value)
    assert f"got a function annotated to give a key of type {shown}; expected int, str" in text
    assert "test_api_key_hints.py:" in text
    assert "give it the fields that tell records apart, or the value of an Enum" in text


def test_a_class_is_a_function_of_its_own_type() -> None:
    """`key_by(Color)` gives members."""
    with pytest.raises(hg.PlanError, match="key of type Color"):
        hg.Environment().from_collection([1]).key_by(Color)


@pytest.mark.parametrize(
    "hint",
    [
        int,
        str,
        bool | None,
        tuple[int, str],
        tuple[int, ...],
        tuple,
        object,
        Any,
        Hashable,
        Named,
        T,
        None,
        Shop | int,
    ],
)
def test_what_may_give_a_key_passes(hint: Any) -> None:
    """A type that says nothing, or of which one part can be a key, is not judged."""
    hg.Environment().from_collection([1]).key_by(gives(hint))


@dataclass
class Order:
    number: int
    pair: tuple[int, str] | None
    anything: Any
    shop: Shop
    color: Color
    lines: list[int]


def orders() -> Any:
    """Records of a declared class."""

    def order(n: int) -> Order:
        return Order(n, None, n, Shop("a"), Color.RED, [])

    return hg.Environment().from_collection([1]).map(order)


@pytest.mark.parametrize(("name", "shown"), [("shop", "Shop"), ("color", "Color"), ("lines", "list[int]")])
def test_a_field_that_can_be_no_key_is_refused(name: str, shown: str) -> None:
    """The records' class says it, so nobody has to wait for the first record; alone and among others."""
    for names in ((name,), ("number", name)):
        with pytest.raises(hg.PlanError) as caught:
            orders().key_by(*names)
        text = str(caught.value)
        assert f"got field {name!r} of Order, which is of type {shown} and cannot be a key" in text
        assert "test_api_key_hints.py:" in text
        assert "give it a function that makes one of it" in text


@pytest.mark.parametrize("name", ["number", "pair", "anything"])
def test_a_field_that_may_be_a_key_passes(name: str) -> None:
    """What may be None, too, and what nobody tells."""
    orders().key_by(name)
