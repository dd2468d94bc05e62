# ruff: noqa: UP045 - both spellings of unions are under test
"""Serializers from type hints: lossless round trips, checks, immutability, descriptions."""

from __future__ import annotations

import datetime as dt
import pickle
import re
import uuid
from dataclasses import dataclass, make_dataclass
from decimal import Decimal
from enum import Enum, IntEnum, StrEnum
from typing import Any, Literal, NewType, Optional, TypeVar

import pytest
from case_ids import case_id
from hypothesis import given, settings
from hypothesis import strategies as st
from serializer_samples import (
    NOW,
    Address,
    Colour,
    Event,
    Keyword,
    Marked,
    Money,
    Options,
    Pair,
    Person,
)  # fmt: skip
from typing_extensions import TypeAliasType

from headgate.common.errors import StorageError, UsageError
from headgate.serde.evolution.older_shapes import reading_serializer
from headgate.serde.resolve import serializer_for
from headgate.serde.verdicts import Incompatible, compare

T = TypeVar("T")
Listed = TypeAliasType("Listed", list[T], type_params=(T,))

small = settings(max_examples=40, derandomize=True, deadline=None, database=None)


@small
@given(
    st.lists(
        st.tuples(st.text(alphabet=st.characters()), st.integers(), st.none() | st.floats(allow_nan=False)),
        max_size=5,
    )
)
def test_rows_of_any_content_round_trip(rows: list[tuple[str, int, float | None]]) -> None:
    """Typed rows hold any text, any integer and any float."""
    serializer = serializer_for(tuple[str, int, float | None])
    assert rows == serializer.decode_many(serializer.encode_checked(rows), len(rows))


@pytest.mark.parametrize(
    ("hint", "wrong"),
    [
        (int, "a"), (int, 1.0), (int, None), (bool, 1), (float, "1"), (str, b"a"), (bytes, "a"), (None, 0),
        (dt.date, NOW), (dt.datetime, "2024-01-01"), (Decimal, 1), (Colour, "RED"), (uuid.UUID, "x"),
        (list[int], (1,)), (list[int], ["a"]), (tuple[int, str], [1, "a"]), (tuple[int, str], (1,)),
        (tuple[int, ...], ("a",)), (set[int], frozenset({1})), (dict[str, int], {1: 1}),
        (dict[str, int], {"a": "b"}),
        (dict[dt.date, int], {1: 1}), (int | str, b""), (Optional[list[int]], 3), (Literal["a"], "b"),
        (Literal[1], True), (Money | Person, Address("s")), (Address, Person("a", 1)),
        (Person, Person("a", "b")),  # type: ignore[arg-type]
        (Pair, (1, [2])), (Options, {"nome": "a"}), (Options, {"name": "a", "x": 1}),
        (Event, Keyword(first_name="")),
        (list[Any], [object()]), (Address, object()),
    ],
    ids=case_id,
)  # fmt: skip
def test_wrong_values_are_refused_when_written(hint: Any, wrong: Any) -> None:
    """A value that the annotation does not allow fails the checked encoding, not a later restore."""
    with pytest.raises(UsageError):
        serializer_for(hint).encode_checked([wrong])


def test_the_first_wrong_value_is_shown() -> None:
    """The message shows the value, its type and the declared one."""
    with pytest.raises(UsageError, match=r"'two' of type str is not a int"):
        serializer_for(int).encode_checked([1, "two", 3])
    with pytest.raises(UsageError, match=r"\['two'\] of type list is not a list\[int\]"):
        serializer_for(list[int]).encode_checked([[1], ["two"], ["three"]])


@pytest.mark.parametrize(
    ("hint", "immutable"),
    [
        (int, True), (str, True), (dt.datetime, True), (Colour, True), (tuple[int, str], True),
        (tuple[int, ...], True), (frozenset[int], True), (Optional[int], True), (Money, True), (Event, True),
        (Literal["a"], True), (list[int], False), (dict[str, int], False), (set[int], False), (Any, False),
        (tuple[list[int], int], False), (Address, False), (Person, False), (Pair, False), (Options, False),
        (Keyword, False), (Marked, False), (Optional[list[int]], False), (tuple, False),
    ],
    ids=case_id,
)  # fmt: skip
def test_immutability_is_known(hint: Any, immutable: bool) -> None:
    """Only types none of whose parts can be changed in place are immutable."""
    assert immutable is serializer_for(hint).immutable


@dataclass
class Node:
    children: list[Node]


@pytest.mark.parametrize(
    ("hint", "why"),
    [
        (object, "no serializer is known for object"),
        (complex, "no serializer is known for complex"),
        (list[complex], "no serializer is known for complex"),
        (Node, "contains itself"),
        (list[int] | list[str], "cannot be told apart"),
        (Literal[Colour.RED], "enumeration"),
        ("int", "no serializer"),
        (type[int], "no serializer"),
        (Listed[int], "no serializer is known for Listed"),
    ],
    ids=case_id,
)
def test_types_without_serializer_are_refused(hint: Any, why: str) -> None:
    """The refusal names where the type was declared and what is wrong with it."""
    with pytest.raises(UsageError, match=why) as caught:
        serializer_for(hint, "state 'x'")
    assert str(caught.value).startswith("state 'x' is declared as ")


@pytest.mark.parametrize(
    ("stored", "current", "why"),
    [
        (int, str, "kind was int and is str"),
        (list[int], list[str], "of.kind was int and is str"),
        (tuple[int, int], tuple[int], "of had 2 parts and has 1"),
        (Address, Money, "kind|name"),
        (Money, Event, "kind was dataclass and is struct"),
        (int | str, str | int, r"of\[0\].kind was int and is str"),
    ],
)
def test_changed_types_are_incompatible(stored: Any, current: Any, why: str) -> None:
    """The verdict names the first difference by its path."""
    verdict = compare(serializer_for(stored).describe(), serializer_for(current).describe())
    assert isinstance(verdict, Incompatible)
    assert re.search(why, verdict.why)


def test_changed_fields_are_incompatible() -> None:
    """A field added, removed or moved is told by name."""
    base = {"kind": "dataclass", "version": 1, "fields": {"a": {"kind": "int"}, "b": {"kind": "str"}}}
    added = {**base, "fields": {**base["fields"], "c": {"kind": "int"}}}  # type: ignore[dict-item]
    moved = {**base, "fields": {"b": {"kind": "str"}, "a": {"kind": "int"}}}
    assert Incompatible("fields.c is int and was not there") == compare(base, added)
    assert Incompatible("fields.c was int and was removed") == compare(added, base)
    assert Incompatible("fields changed their order") == compare(base, moved)


@pytest.mark.parametrize(
    ("data", "count"),
    [(b"", 1), (b"\x00\x91\xa1a", 1), (b"\x00\x91\x01", 2), (b"\x00\xc1", 1), (b"\x01\xc1", 1)],
)
def test_wrong_bytes_are_refused_by_typed_serializers(data: bytes, count: int) -> None:
    """Bytes of another type, of another count or of nothing at all are refused."""
    with pytest.raises(StorageError):
        serializer_for(int).decode_many(data, count)


@pytest.mark.parametrize("mode", [2, 0x7F, 0xFF])
@pytest.mark.parametrize("hint", [int, list[str], Any])
def test_a_mode_of_no_batch_is_damage(hint: Any, mode: int) -> None:
    """Although what follows would read well in one of the modes that there are."""
    serializer = serializer_for(hint)
    data = serializer.encode_many([])
    assert serializer.decode_many(data, 0) == []
    with pytest.raises(StorageError, match=f"mode {mode} is unknown"):
        serializer.decode_many(bytes((mode,)) + data[1:], 0)


def test_a_class_of_no_module_is_no_riddle() -> None:
    """One that was made at run time: refused as any other, or stored as what it is."""
    plain, record = type("Plain", (), {}), make_dataclass("Made", [("x", int)])
    plain.__module__ = record.__module__ = None  # type: ignore[assignment]
    with pytest.raises(UsageError, match=r"no serializer is known for .*Plain"):
        serializer_for(plain)
    serializer = serializer_for(record)
    assert serializer.decode_many(serializer.encode_many([record(1)]), 1) == [record(1)]


def test_a_new_type_is_stored_as_the_one_below_it() -> None:
    """Also the one of None."""
    assert serializer_for(NewType("Nothing", None)).describe() == serializer_for(None).describe()
    assert serializer_for(NewType("Number", int)).describe() == serializer_for(int).describe()


def test_a_serializer_is_shipped_as_its_annotation() -> None:
    """One that is nested in a serializer of the user's goes to the workers; what reads older values stays."""
    for hint in (int, dict[str, list[Person]], Optional[Colour], Any):
        shipped = pickle.loads(pickle.dumps(serializer_for(hint)))
        assert shipped.describe() == serializer_for(hint).describe()
    reading = reading_serializer(serializer_for(int).describe(), serializer_for(float))
    with pytest.raises(TypeError, match="stays in its process"):
        pickle.dumps(reading)


class Shade(IntEnum):
    DARK = 1


class Letter(StrEnum):
    A = "a"


class Spread(Enum):
    WIDE = 2**70


@pytest.mark.parametrize(
    ("hint", "value", "beyond", "read"),
    [
        (int, Shade.DARK, 2**70, 1),
        (int, Spread.WIDE, 1, 2**70),
        (str, Letter.A, "\ud800", "a"),
        (list[int], [Shade.DARK], [2**70], [1]),
        (dict[str, int], {Letter.A: Shade.DARK}, {"b": 2**70}, {"a": 1}),
        (tuple[bytes, int], (bytearray(b"x"), 1), (b"", 2**70), (b"x", 1)),
        (tuple[int, str] | None, (Shade.DARK, Letter.A), (2**70, "b"), (1, "a")),
    ],
)
def test_a_value_is_taken_in_every_company(hint: Any, value: Any, beyond: Any, read: Any) -> None:
    """What msgpack takes as something else is taken so, too, beside what msgpack cannot hold."""
    serializer = serializer_for(hint)
    together = serializer.decode_many(serializer.encode_many([value, beyond]), 2)
    assert together == [read, beyond]
    assert type(together[0]) is type(read)
    assert serializer.decode_many(serializer.encode_many([value]), 1) == [read]


def test_a_value_of_no_type_at_all_is_refused_in_every_company() -> None:
    """The message is the same whether or not something beside it is beyond msgpack."""
    for beside in (1, 2**70):
        with pytest.raises(UsageError, match="does not fit its type int"):
            serializer_for(int).encode_many([object(), beside])
