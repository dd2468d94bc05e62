"""Types that are built in other ways than those of the matrix: a script defines each, for every use.

They are siblings of its kinds that have failed where these worked: what a class gets from its base, from its
defaults or from its arguments is lost in other ways than its fields.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from proof.types.cells import PLACES, Place, Way, run
from proof.types.kinds import Kind

USES = """

def order(record):
    return check(record)


Row, make_row, row_check, row_n = Record, make, check, order
"""

EXTENDED = """
from typing import NotRequired, TypedDict


class Named(TypedDict, total=False):
    name: str


class Shape(Named):
    n: int
    more: NotRequired[list[str]]


Record = Shape


def make(n: int) -> Shape:
    return Shape(name=f"name {n}", n=n)


def check(record):
    assert type(record) is dict and record == make(record["n"]), f"it is {record!r}"
    return record["n"]


def plain_row(n):
    return {"name": f"name {n}", "n": n}
"""

DEFAULTS = """
import enum
from dataclasses import dataclass, field
from typing import Annotated, Literal, NewType, Optional


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


Id = NewType("Id", int)


@dataclass
class Base:
    n: Id


@dataclass(kw_only=True)
class Shape(Base):
    more: list[str] = field(default_factory=list)
    level: Level = Level.LOW
    side: Literal["left", "right"] = "left"
    size: Optional[Annotated[int, "in cm"]] = None
    twice: int = field(init=False, default=0)

    def __post_init__(self):
        self.twice = 2 * self.n


Record = Shape


def make(n: int) -> Shape:
    return Shape(n)


def check(record):
    assert type(record) is Shape and record == make(record.n), f"it is {record!r}"
    assert type(record.more) is list and record.level is Level.LOW, f"it holds {record!r}"
    return record.n


def plain_row(n):
    return {"n": n, "more": [], "level": 1, "side": "left", "size": None, "twice": 2 * n}
"""

GENERIC_MODEL = """
from typing import Generic, TypeVar

import pydantic

T = TypeVar("T")


class Inner(pydantic.BaseModel):
    k: int = 3


class Shape(pydantic.BaseModel, Generic[T]):
    n: int
    item: T
    inner: Inner = pydantic.Field(default_factory=Inner)


Record = Shape[str]


def make(n: int) -> Shape[str]:
    return Shape[str](n=n, item=f"item {n}")


def check(record):
    assert type(record) is Shape[str] and record == make(record.n), f"it is {record!r}"
    return record.n


def plain_row(n):
    return {"n": n, "item": f"item {n}", "inner": {"k": 3}}
"""

KINDS = {
    "a TypedDict that extends another": EXTENDED,
    "a dataclass with defaults that are made": DEFAULTS,
    "a generic pydantic model with its arguments": GENERIC_MODEL,
}


def refused_as_key_only(name: str, place: Place, folder: Path) -> None:
    """No record is a key; everything else works, as for the kinds of the matrix."""
    found = run(Kind(name, KINDS[name] + USES), place, Way.PLAIN, folder)
    assert found.pop("key").state == "refused"
    assert {use: one for use, one in found.items() if one.state != "works"} == {}


@pytest.mark.ci
@pytest.mark.parametrize("name", KINDS)
def test_each_works_in_every_use(name: str, tmp_path: Path) -> None:
    """In a script, whose classes lie in no module of the workers."""
    refused_as_key_only(name, PLACES[0], tmp_path)


@pytest.mark.ci
def test_a_generic_model_that_a_cell_defines_again_is_the_last_one(tmp_path: Path) -> None:
    """The notebook's module keeps the class of the first definition under the same name."""
    (notebook,) = [place for place in PLACES if place.name == "notebook cell"]
    refused_as_key_only("a generic pydantic model with its arguments", notebook, tmp_path)
