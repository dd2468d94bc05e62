# ruff: noqa: UP007, UP045 - both spellings of unions are under test
"""Types of every kind that the built-in serializers know, each with values that try its edges.

A module of its own: a second process imports it to read such values, and that should cost little.
"""

from __future__ import annotations

import datetime as dt
import enum
import uuid
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Annotated, Any, Literal, NamedTuple, NewType, NotRequired, Optional, TypedDict, Union

import msgspec


class Colour(enum.Enum):
    RED = "r"
    BLUE = ("b", 1)


class Rank(enum.IntEnum):
    LOW = 1


class Perm(enum.Flag):
    R = 1
    W = 2


@dataclass
class Address:
    street: str
    tags: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Person:
    name: str
    age: int
    address: Address | None = None
    extra: Any = None


@dataclass(frozen=True)
class Money:
    amount: Decimal
    currency: Literal["EUR", "PLN"] = "EUR"


@dataclass
class Counted:
    """Its initialiser has an effect and takes less than there are fields."""

    start: int
    calls: int = field(init=False)

    def __post_init__(self) -> None:
        self.calls = self.start + 1


@dataclass
class Nothing:
    pass


class Pair(NamedTuple):
    left: int
    right: list[int]


class Options(TypedDict):
    name: str
    since: NotRequired[dt.date]


Odd = TypedDict("Odd", {"a-b": int, "class": tuple[int, int]})


class Event(msgspec.Struct, frozen=True):
    kind: str
    size: int = 0


class Keyword(msgspec.Struct, kw_only=True, rename="camel", tag="k"):
    first_name: str


class Marked:
    """Looks like a class made by attrs."""

    class _Attribute(NamedTuple):
        name: str

    __attrs_attrs__ = (_Attribute("x"), _Attribute("y"))
    x: int
    y: set[str]

    def __init__(self, x: int, y: set[str]) -> None:
        raise AssertionError("must not run at restore")

    def __eq__(self, other: object) -> bool:
        return vars(self) == vars(other)


def marked() -> Marked:
    """An instance that no initialiser made."""
    made = Marked.__new__(Marked)
    made.x, made.y = 2**80, {"a"}
    return made


UserId = NewType("UserId", int)
NOW = dt.datetime(2024, 5, 6, 7, 8, 9, 10, tzinfo=dt.UTC)

CASES: list[tuple[Any, list[Any]]] = [
    (None, [None, None]),
    (bool, [True, False]),
    (int, [0, -1, 2**63, 2**64, -(10**50)]),
    (float, [0.5, -0.0, float("inf"), 3, 2**70]),
    (str, ["", "żółw", "\ud800"]),
    (bytes, [b"", b"\xff"]),
    (UserId, [1]),
    (Annotated[int, "note"], [1]),
    (dt.datetime, [NOW, NOW.replace(tzinfo=None), dt.datetime.min]),
    (dt.date, [dt.date.max]),
    (dt.time, [dt.time(1, 2, 3, 4), dt.time(5, tzinfo=dt.UTC)]),
    (dt.timedelta, [dt.timedelta.max, dt.timedelta(microseconds=-1)]),
    (Decimal, [Decimal("1.10")]),
    (uuid.UUID, [uuid.UUID(int=1)]),
    (Colour, [Colour.RED, Colour.BLUE]),
    (Rank, [Rank.LOW]),
    (Perm, [Perm.R | Perm.W, Perm(0)]),
    (list[int], [[1, 2**70], []]),
    (list, [[1, (2,)], []]),
    (dict, [{(1,): {2}}]),
    (tuple, [(1, [2])]),
    (tuple[int, str], [(1, "a"), (2**70, "\ud800")]),
    (tuple[int, ...], [(), (1, 2)]),
    (tuple[()], [()]),
    (set[tuple[int, str]], [{(1, "a")}, set()]),
    (frozenset[dt.date], [frozenset({dt.date(2024, 1, 1)})]),
    (dict[str, int], [{"a": 1, "\ud800": 2**64}]),
    (dict[int, list[Decimal]], [{1: [Decimal(1)]}]),
    (dict[bytes, str], [{b"\x00": "a"}]),
    (dict[tuple[int, str], set[int]], [{(1, "a"): {2}, (2**70, "b"): set()}]),
    (dict[dt.date, Any], [{dt.date(2024, 1, 1): ("x", {1: 2})}]),
    (dict[float, bool], [{0.5: True}]),
    (Optional[int], [None, 2**70, 5]),
    (Optional[dt.datetime], [None, NOW]),
    (Optional[Any], [None, (1,), [2]]),
    (list[Person] | None, [None, [Person("a", 2**64)]]),
    (Union[int, str, None], [1, "a", None, "\ud800", 2**90]),
    (int | float, [1, 1.0]),
    (bool | int | float | str | bytes | None, [True, 1, 1.0, "a", b"a", None, 2**64]),
    (list[int] | dict[str, int] | Colour, [[1], {"a": 1}, Colour.RED, [2**80]]),
    (Money | Person | tuple[int, int], [Money(Decimal(1)), Person("a", 1, Address("s")), (1, 2)]),
    (float | bytes, [1, 1.5, b"x", True]),
    (Literal["a", 1, True, None], ["a", 1, True, None]),
    (Address, [Address("s", ("a",)), Address("\ud800")]),
    (Person, [Person("a", 1), Person("b", 2**100, Address("s"), {"x": (1,)})]),
    (Money, [Money(Decimal("2.50"), "PLN")]),
    (Counted, [Counted(1)]),
    (list[Nothing], [[Nothing()], []]),
    (Pair, [Pair(1, [2]), Pair(2**70, [])]),
    (Options, [{"name": "a"}, {"name": "b", "since": dt.date(2024, 1, 1)}, {"name": "\ud800"}]),
    (Odd, [{"a-b": 1, "class": (1, 2)}]),
    (Event, [Event("k", 2), Event("k", 2**70)]),
    (Keyword, [Keyword(first_name="a")]),
    (Marked, [marked()]),
    (Any, [1, (2,), {3}]),
]
