"""What sinks of columns make of a record: fields by name, and nothing inside that Arrow does not know."""

from __future__ import annotations

import enum
import gc
import weakref
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

import attrs
import msgspec
import pyarrow as pa
import pydantic
import pytest

from headgate.common.errors import UsageError
from headgate.connectors.fields import fields_of


class Color(enum.Enum):
    RED = "red"


class Corner(NamedTuple):
    x: int
    color: Color


@dataclass
class Side:
    ends: tuple[Corner, ...]
    at: datetime


@attrs.define
class Attrs:
    side: Side | None
    n: int


class Struct(msgspec.Struct):
    attrs: Attrs


class Model(pydantic.BaseModel):
    n: int
    inner: Struct | None = None

    model_config = pydantic.ConfigDict(arbitrary_types_allowed=True)


AT = datetime(2026, 1, 2)
PLAIN_SIDE = {"ends": ({"x": 1, "color": "red"},), "at": AT}
SIDE = Side((Corner(1, Color.RED),), AT)


@pytest.mark.parametrize(
    ("record", "fields"),
    [
        ({"a": 1}, {"a": 1}),
        ({"a": [SIDE]}, {"a": [PLAIN_SIDE]}),
        ({"a": {"b": Color.RED}}, {"a": {"b": "red"}}),
        ((1, Color.RED), {"_1": 1, "_2": "red"}),
        (Corner(1, Color.RED), {"x": 1, "color": "red"}),
        (SIDE, PLAIN_SIDE),
        (Attrs(SIDE, 2), {"side": PLAIN_SIDE, "n": 2}),
        (Struct(Attrs(None, 2)), {"attrs": {"side": None, "n": 2}}),
        (Model(n=1, inner=Struct(Attrs(None, 2))), {"n": 1, "inner": {"attrs": {"side": None, "n": 2}}}),
    ],
    ids=lambda value: type(value).__name__,
)
def test_every_kind_of_record_has_fields(record: Any, fields: dict[str, Any]) -> None:
    """Records inside are dicts, members of an Enum their values, and plain values as they are."""
    assert fields_of(record) == fields


def test_what_has_no_fields_is_refused() -> None:
    """By its type, with what to do."""
    with pytest.raises(UsageError, match="type Color has no columns; map it to a dict"):
        fields_of(Color.RED)


def test_a_class_of_a_program_is_not_kept() -> None:
    """What is remembered of classes goes with them."""

    @dataclass
    class Local:
        n: int

    assert fields_of(Local(1)) == {"n": 1}
    gone = weakref.ref(Local)
    del Local
    gc.collect()
    assert gone() is None


def test_pairs_of_a_map_stay_pairs() -> None:
    """Arrow takes a map as pairs, and a pair only as a tuple, whatever else is in it."""
    kind = pa.list_(pa.map_(pa.string(), pa.struct([("color", pa.string())])))
    record = {"mixed": [[("k", {"color": Color.RED})]], "sides": ({"n": 1}, {"n": 2})}
    fields = fields_of(record)
    assert fields == {"mixed": [[("k", {"color": "red"})]], "sides": ({"n": 1}, {"n": 2})}
    assert pa.array([fields["mixed"]], kind).to_pylist() == [[[("k", {"color": "red"})]]]
    assert pa.array([fields["sides"]]).to_pylist() == [[{"n": 1}, {"n": 2}]]
