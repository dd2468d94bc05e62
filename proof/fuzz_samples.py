"""What is written to have bytes to damage: a type of every kind that has a serializer, and values of it."""

from __future__ import annotations

import datetime as dt
import enum
from dataclasses import dataclass, field
from decimal import Decimal
from functools import lru_cache
from typing import Annotated, Any, Literal, NamedTuple, TypedDict, cast
from uuid import UUID
from zoneinfo import ZoneInfo

import msgspec
import numpy as np
import pyarrow as pa
from google.protobuf.struct_pb2 import ListValue, Value  # type: ignore[import-untyped]
from numpy.typing import NDArray

import headgate as hg
from headgate.serde.resolve import serializer_for
from headgate.serde.serializer import TypeSerializer


class Colour(enum.Enum):
    """Stored by name."""

    RED = 1
    BLUE = 2


class Rights(enum.Flag):
    """Stored by value."""

    READ = 1
    WRITE = 2


class Point(NamedTuple):
    """A record that is a tuple."""

    x: int
    y: float = 0.0


class Labels(TypedDict, total=False):
    """A record that is a dict."""

    name: str
    size: int


class Order(msgspec.Struct):
    """A record that is a struct."""

    item: str
    amount: int = 1


@dataclass
class Visit:
    """A record with parts of many types."""

    page: str
    at: dt.datetime
    where: Point | None = None
    tags: list[str] = field(default_factory=list)
    price: Decimal = Decimal(0)
    extra: Any = None


@dataclass
class OldVisit:
    """The same before it changed: `serde.evolution` reads one as the other."""

    site: str
    at: dt.datetime
    tags: list[str]
    gone: dict[str, int]


@hg.formerly("proof.fuzz_samples.OldVisit")
@dataclass
class NewVisit:
    """Gained, lost, renamed and widened fields."""

    page: Annotated[str, hg.alias("site")]
    at: dt.datetime | None
    tags: list[str | None]
    added: int = 7


class Celsius(hg.TypeSerializer[float]):
    """A serializer of the user's."""

    immutable = True

    def encode(self, value: float) -> bytes:
        """Tenths of a degree."""
        return round(value * 10).to_bytes(2, "big", signed=True)

    def decode(self, data: bytes) -> float:
        """Back."""
        return int.from_bytes(data, "big", signed=True) / 10

    def snapshot(self) -> hg.TypeSerializerSnapshot[float]:
        """Nothing but its class."""
        return CelsiusSnapshot()


class CelsiusSnapshot(hg.SimpleTypeSerializerSnapshot[float]):
    """Of :class:`Celsius`."""

    def __init__(self) -> None:
        super().__init__(Celsius)


NOON = dt.datetime(2024, 5, 6, 12, 0, 0, 10, tzinfo=ZoneInfo("Europe/Warsaw"))
FOLDED = dt.datetime(2024, 10, 27, 2, 30, fold=1, tzinfo=dt.timezone(dt.timedelta(hours=1), "CET"))
VISIT = Visit("/a", NOON, Point(1, 2.5), ["x", "\ud800"], Decimal("1.50"), {"k": (1, {2})})
PLAIN = [None, 2**70, "\ud800", (1, [2.5, b"\x00"]), {"a": 1, 2: "b"}, {1, 2}, frozenset("a"), NOON,
         NOON.date(), NOON.timetz(), dt.timedelta(days=-1), Decimal("NaN"), UUID(int=7)]  # fmt: skip
INNER = ListValue(values=[Value(number_value=1)])
MESSAGE = ListValue(values=[Value(string_value="a"), Value(list_value=INNER)])
AVRO = {
    "type": "record",
    "name": "Reading",
    "fields": [
        {"name": "celsius", "type": ["null", "double"]},
        {"name": "days", "type": {"type": "array", "items": {"type": "int", "logicalType": "date"}}},
        {"name": "counts", "type": {"type": "map", "values": "long"}},
    ],
}
READING = {"celsius": 1.5, "days": [NOON.date()], "counts": {"a": 2**40}}

SAMPLES: list[tuple[Any, list[Any]]] = [
    (Any, PLAIN),
    (None, [None, None]),
    (bool, [True, False]),
    (int, [0, -1, 2**63, 2**70]),
    (float, [0.0, float("nan"), 1]),
    (str, ["", "æ", "\ud800"]),
    (bytes, [b"", b"\xff" * 9]),
    (dt.datetime, [NOON, FOLDED, dt.datetime(1, 1, 1)]),  # noqa: DTZ001 - wall clocks are stored, too
    (dt.date, [NOON.date()]),
    (dt.time, [NOON.timetz(), dt.time(1, fold=1)]),
    (dt.timedelta, [dt.timedelta(days=-3, microseconds=1)]),
    (Decimal, [Decimal("1.50"), Decimal("-Infinity")]),
    (UUID, [UUID(int=7)]),
    (Colour, [Colour.RED, Colour.BLUE]),
    (Rights, [Rights.READ | Rights.WRITE]),
    (Literal["a", 1], ["a", 1]),
    (int | str | None, [1, "a", None]),
    (Point | list[int] | None, [Point(1), [2], None]),
    (list[dict[str, int]], [[{"a": 1}], []]),
    (tuple[int, ...], [(1, 2), ()]),
    (tuple[int, str], [(1, "a")]),
    (set[str], [{"a", "b"}, set()]),
    (frozenset[bytes], [frozenset({b"a"})]),
    (dict[Point, Colour], [{Point(1): Colour.RED}]),
    (dict[Any, Any], [{(1, 2): None}]),
    (Point, [Point(1, 2), Point(2**70)]),
    (Labels, [{"name": "a"}, {"size": 2}, {}]),
    (Order, [Order("a"), Order("b", 2)]),
    (Visit, [VISIT, Visit("", FOLDED)]),
    (np.float32, [np.float32(1.5)]),
    (np.ndarray, [np.array([[1, 2]], np.int16), np.array(["ab", "ć"]), np.array(["2024"], "M8[D]")]),
    (NDArray[np.bool_], [np.array([True, False])]),
    (Annotated[Visit, hg.json], [Visit("/a", NOON, Point(1), ["x"], Decimal(2), [1, None])]),
    (Annotated[dict[str, Any], hg.json], [{"a": [1, {"b": 2.5}]}]),
    (ListValue, [MESSAGE, ListValue()]),
    (Annotated[dict[str, Any], hg.avro(AVRO)], [READING, {"celsius": None, "days": [], "counts": {}}]),
    (pa.RecordBatch, [pa.record_batch({"a": [1, None], "b": ["x", "y"]})]),
    (pa.Table, [pa.table({"a": pa.array([[1], []]), "d": pa.array(["x", "x"]).dictionary_encode()})]),
]
"""An annotation and values of it. Pickle is missing: reading it runs code, which no check can tame."""

CHANGED: list[tuple[Any, Any, list[Any]]] = [
    (int, int | None, [1, 2]),
    (int, float, [1, 2**60]),
    (tuple[dt.datetime, str], Any, [(NOON, "a")]),
    (list[int], list[float | None], [[1, 2], []]),
    (set[int], set[float], [{1, 2}]),
    (dict[int, str], dict[int, str | None], [{1: "a"}]),
    (tuple[int, str], tuple[int, str | None], [(1, "a")]),
    (Literal["a"], str, ["a"]),
    (int | Point, int | Point | None, [1, Point(2)]),
    (OldVisit, NewVisit, [OldVisit("/a", NOON, ["x"], {"a": 1})]),
    (Annotated[Point, hg.json], Annotated[Point | None, hg.json], [Point(1)]),
]
"""What was stored, what it is read as, values of the former."""


@lru_cache(maxsize=1)
def serializers() -> list[tuple[TypeSerializer[Any], list[Any]]]:
    """The serializer of every sample, and that of the user's."""
    known: list[tuple[TypeSerializer[Any], list[Any]]] = [
        (serializer_for(hint), values) for hint, values in SAMPLES
    ]
    return [*known, (cast(TypeSerializer[Any], Celsius()), [21.5, -3.0])]
