"""The kinds of types, each as the text of a module that defines one.

A kind's text defines ``Record`` (the annotation of what flows), ``make(n)`` and ``check(record)``, which
raises where a record is not what `make` gives, in value and in class; ``order(record)`` is a number that
tells records apart. ``Row``, ``make_row``, ``row_check``, ``row_n`` and ``plain_row(n)`` are the same
for what is read, written and handed to Spark: a record with fields.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True)
class Kind:
    """One kind.

    Attributes:
        name: for the table.
        text: what defines it.
        row: what stands for it where a record with fields is needed; empty: itself.
    """

    name: str
    text: str
    row: str = ""


_SAME: Final = """

def check(record):
    assert type(record) is CLASS, f"it is a {type(record)}, and not the {CLASS} of the program"
    assert record == make(record.n), f"it is {record!r}"
    assert type(record.name) is str and type(record.n) is int, f"it holds {record!r}"


def order(record):
    return record.n


Row, make_row, row_check, row_n = Record, make, check, order


def plain_row(n):
    return {"name": f"name {n}", "n": n}


columns_of = stored_columns_of = plain_row
"""

_FIELDS: Final = """
    name: str
    n: int


Record = CLASS = Shape


def make(n: int) -> Record:
    return Shape(name=f"name {n}", n=n)
"""


def _simple(name: str, head: str, tail: str = "") -> Kind:
    return Kind(name, head.strip("\n") + _FIELDS + _SAME + tail)


KINDS: Final = (
    _simple(
        "dataclass",
        """
from dataclasses import dataclass


@dataclass
class Shape:
    def double(self):
        return 2 * self.n
""",
    ),
    _simple(
        "frozen slotted dataclass",
        """
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Shape:
""",
    ),
    _simple(
        "NamedTuple",
        """
from typing import NamedTuple


class Shape(NamedTuple):
""",
    ),
    Kind(
        "TypedDict",
        """from typing import TypedDict


class Shape(TypedDict):
    name: str
    n: int


Record = Shape


def make(n: int) -> Shape:
    return Shape(name=f"name {n}", n=n)


def check(record):
    assert type(record) is dict, f"it is a {type(record)}"
    assert record == make(record["n"]), f"it is {record!r}"
    assert type(record["name"]) is str and type(record["n"]) is int, f"it holds {record!r}"


def order(record):
    return record["n"]


Row, make_row, row_check, row_n = Record, make, check, order


def plain_row(n):
    return {"name": f"name {n}", "n": n}


columns_of = stored_columns_of = plain_row
""",
    ),
    _simple(
        "attrs class",
        """
import attrs


@attrs.define
class Shape:
""",
    ),
    _simple(
        "msgspec.Struct",
        """
import msgspec


class Shape(msgspec.Struct):
""",
    ),
    _simple(
        "pydantic model",
        """
import pydantic


class Shape(pydantic.BaseModel):
""",
        """

def stored_columns_of(n):
    return {**plain_row(n), "_fields_set": 3}
""",
    ),
    Kind(
        "Enum",
        """import enum
from dataclasses import dataclass


class Shape(enum.Enum):
    ROUND = "round"
    FLAT = "flat"
    CIRCULAR = "round"


@dataclass
class Row:
    shape: Shape
    n: int


Record = Shape


def make(n: int) -> Shape:
    return list(Shape)[n % 2]


def check(record):
    assert type(record) is Shape, f"it is a {type(record)}, and not the {Shape} of the program"
    assert record is Shape.ROUND or record is Shape.FLAT, f"it is {record!r}"
    assert Shape["CIRCULAR"] is Shape.ROUND, "the alias is lost"


def order(record):
    return 0 if record is Shape.ROUND else 42  # keys of two subtasks


def make_row(n: int) -> Row:
    return Row(make(n), n)


def row_check(row):
    assert type(row) is Row, f"it is a {type(row)}, and not the {Row} of the program"
    check(row.shape)
    assert row == make_row(row.n), f"it is {row!r}"


def row_n(row):
    return row.n


def plain_row(n):
    return {"shape": make(n).value, "n": n}


columns_of = plain_row


def stored_columns_of(n):
    return {"shape": make(n).name, "n": n}
""",
        row="a dataclass that holds one",
    ),
    Kind(
        "nested classes",
        """import enum
from dataclasses import dataclass
from typing import NamedTuple


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Corner(NamedTuple):
    x: int
    y: int


@dataclass(frozen=True)
class Side:
    length: float
    ends: tuple[Corner, Corner]
    colour: Colour


@dataclass
class Shape:
    @dataclass
    class Label:
        text: str | None

    n: int
    sides: list[Side]
    labels: dict[str, Label]


Record = Shape


def make(n: int) -> Shape:
    side = Side(n / 2, (Corner(n, 0), Corner(0, n)), Colour.BLUE)
    return Shape(n, [side, side], {"a": Shape.Label(f"label {n}"), "b": Shape.Label(None)})


def check(record):
    assert type(record) is Shape, f"it is a {type(record)}, and not the {Shape} of the program"
    assert record == make(record.n), f"it is {record!r}"
    side = record.sides[0]
    assert type(side) is Side and type(side.ends[0]) is Corner, f"it holds {side!r}"
    assert side.colour is Colour.BLUE and type(record.labels["a"]) is Shape.Label, f"it is {record!r}"


def order(record):
    return record.n


Row, make_row, row_check, row_n = Record, make, check, order


def plain_row(n):
    side = {"length": n / 2, "ends": [[n, 0], [0, n]], "colour": "blue"}
    return {"n": n, "sides": [side, side], "labels": {"a": {"text": f"label {n}"}, "b": {"text": None}}}


def columns_of(n):
    ends = [{"x": n, "y": 0}, {"x": 0, "y": n}]
    side = {"length": n / 2, "ends": ends, "colour": "blue"}
    return {**plain_row(n), "sides": [side, side]}


def stored_columns_of(n):
    ends = {"_1": {"x": n, "y": 0}, "_2": {"x": 0, "y": n}}
    side = {"length": n / 2, "ends": ends, "colour": "BLUE"}
    return {**columns_of(n), "sides": [side, side]}
""",
    ),
    Kind(
        "generic dataclass",
        """from dataclasses import dataclass
from typing import Generic, TypeVar

T = TypeVar("T")


@dataclass
class Shape(Generic[T]):
    n: int
    content: T
    more: list[T]


Record = Shape[str]


def make(n: int) -> Shape[str]:
    return Shape(n, f"content {n}", ["x", "y"])


def check(record):
    assert type(record) is Shape, f"it is a {type(record)}, and not the {Shape} of the program"
    assert record == make(record.n), f"it is {record!r}"
    assert type(record.content) is str, f"it holds {record!r}"


def order(record):
    return record.n


Row, make_row, row_check, row_n = Record, make, check, order


def plain_row(n):
    return {"n": n, "content": f"content {n}", "more": ["x", "y"]}


columns_of = stored_columns_of = plain_row
""",
    ),
)
"""In the order of the table."""
