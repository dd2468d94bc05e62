"""Enumerations whose members are texts, bytes, numbers or tuples as well."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Any

import pytest

from headgate.serde.resolve import serializer_for


class Word(enum.StrEnum):
    ANT = "ant"
    BEE = "bee"


class Text(str, enum.Enum):  # noqa: UP042 - as it was written before there was StrEnum
    ANT = "ant"


class Code(bytes, enum.Enum):
    ANT = b"ant"


class Size(float, enum.Enum):
    ANT = 1.5


class Place(tuple[int, int], enum.Enum):
    ANT = (1, 2)


class Rank(enum.IntEnum):
    ANT = 1


@dataclass
class Animal:
    kind: Word


MEMBERS: list[Any] = [Word.BEE, Text.ANT, Code.ANT, Size.ANT, Place.ANT, Rank.ANT]


@pytest.mark.parametrize("member", MEMBERS, ids=lambda member: type(member).__name__)
def test_members_come_back_as_themselves(member: Any) -> None:
    """As a value, as a key and a value of a dict, and as an element."""
    cls = type(member)
    cases = [(cls, member), (dict[cls, int], {member: 1}), (list[cls], [member]), (cls | None, member)]
    for hint, value in cases:
        serializer = serializer_for(hint)
        found = serializer.decode(serializer.encode(value))
        assert found == value
        assert _member(found) is member


def _member(found: Any) -> Any:
    return next(iter(found)) if isinstance(found, (dict, list)) else found


def test_a_record_has_such_a_member_in_a_field() -> None:
    """So it crosses processes, and is stored, with its record."""
    serializer = serializer_for(Animal)
    assert serializer.decode(serializer.encode(Animal(Word.BEE))).kind is Word.BEE
