"""Records as rows of scalars: every kind of class comes back as what it was, or is left to its serializer."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import msgspec
import pytest

from headgate.serde.codecs.field_rows import field_rows


@dataclass
class Plain:
    """Counts how often it is initialised."""

    a: int
    b: str = "x"
    made: int = field(init=False, default=0)

    def __post_init__(self) -> None:
        self.made += 1


@dataclass(frozen=True, slots=True)
class Frozen:
    """Has no __dict__, and refuses to be changed."""

    a: int


@dataclass
class Empty:
    """Has no fields."""


class Named(NamedTuple):
    """Is a tuple."""

    a: int
    b: float


class Struct(msgspec.Struct, frozen=True):
    """Is made by position."""

    a: int
    b: bytes | None = None


class Keywords(msgspec.Struct, kw_only=True):
    """Is made by keyword only."""

    a: int


@pytest.mark.parametrize(
    "records",
    [
        [Plain(1), Plain(2, "y")],
        [Frozen(1), Frozen(-(2**63))],
        [Empty(), Empty()],
        [Named(1, 2.5)],
        [Struct(1), Struct(2, b"z")],
    ],
    ids=lambda records: type(records[0]).__name__,
)
def test_records_come_back(records: list[Any]) -> None:
    """Equal, of their class, and without an initialiser having run again."""
    fields = field_rows(type(records[0]))
    assert fields is not None
    data = fields.encode(records)
    assert data is not None
    back = fields.decode(data, len(records))
    assert back == records
    assert [type(record) for record in back] == [type(record) for record in records]


def test_what_is_no_scalar_is_left_to_the_serializer() -> None:
    """Lists, integers beyond 64 bits, lone surrogates, and fields that were deleted."""
    fields = field_rows(Plain)
    assert fields is not None
    gone = Plain(1)
    del gone.a
    for record in (Plain([1]), Plain(2**70), Plain(1, "\ud800"), gone):  # type: ignore[arg-type]
        assert fields.encode([Plain(1), record]) is None


def test_classes_that_rows_cannot_make_are_left_out() -> None:
    """A maker that takes keywords only, and a class that is no record."""
    assert field_rows(Keywords) is None
    assert field_rows(int) is None
