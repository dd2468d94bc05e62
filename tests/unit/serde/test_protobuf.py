"""Protobuf messages: stored as their own bytes, judged by number, never misread."""

from __future__ import annotations

import contextlib
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from message_samples import message, with_map

import headgate as hg
from headgate.serde.evolution.judging_types import judge, reader_for
from headgate.serde.resolve import record_serializer, serializer_for
from headgate.serde.verdicts import AfterMigration, AsIs, Compatibility, Incompatible, Reconfigured

Visit = message(page="string 1", count="int64 2", tags="repeated string 3", next="Visit 4", rate="double 5")
Counts = with_map()


def verdict(old: Any, new: Any) -> Compatibility:
    """The judgement of one class on another, after what is stored has passed through the codec."""
    description = msgspec.msgpack.decode(msgspec.msgpack.encode(serializer_for(old).describe()))
    judged = judge(description, serializer_for(new))
    if isinstance(judged, Incompatible):
        with pytest.raises(hg.UsageError) as caught:
            reader_for(description, serializer_for(new))
        assert str(caught.value) == judged.why
    return judged


def read(old: Any, new: Any, value: Any) -> Any:
    """A value written as one class and read as another, which can be written again."""
    stored = serializer_for(old)
    (found,) = reader_for(stored.describe(), serializer_for(new))(stored.encode_checked([value]), 1)
    assert type(found) is new
    serializer_for(new).encode_checked([found])
    return found


# -- what is stored


@settings(max_examples=40)
@given(
    st.builds(
        lambda page, count, tags, inner: Visit(page=page, count=count, tags=tags, next=Visit(page=inner)),
        st.text(st.characters(exclude_categories=["Cs"])),
        st.integers(-(2**63), 2**63 - 1),
        st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=3), max_size=3),
        st.sampled_from(["", "a"]),
    )
)
def test_messages_come_back(value: Any) -> None:
    """Equal, of the same class, as itself and inside other types."""
    for hint, wrapped in [(Visit, value), (Visit | None, value), (list[Visit], [value])]:
        serializer = serializer_for(hint)
        assert serializer.decode_many(serializer.encode_checked([wrapped]), 1) == [wrapped]


def test_the_bytes_are_protobufs_own_and_deterministic() -> None:
    """Another tool finds the message; equal maps give equal bytes, whatever the order of insertion."""
    serializer = serializer_for(Visit)
    (raw,) = msgspec.msgpack.decode(serializer.encode(Visit(page="a"))[1:])
    assert Visit.FromString(raw) == Visit(page="a")
    pages = [str(number) for number in range(50)]
    one, other = Counts(), Counts()
    for page in pages:
        one.by_page[page] = 1
    for page in reversed(pages):
        other.by_page[page] = 1
    assert serializer_for(Counts).encode(one) == serializer_for(Counts).encode(other)


def test_the_description_holds_every_message_once() -> None:
    """A message that contains itself is described, and its map's entries, too."""
    description = serializer_for(Visit).describe()
    assert (description["kind"], description["name"], list(description["messages"])) == (
        "protobuf", "shop.Visit", ["shop.Visit"],
    )  # fmt: skip
    assert description["messages"]["shop.Visit"][3] == {
        "number": 4, "name": "next", "type": "message", "label": "optional", "of": "shop.Visit",
    }  # fmt: skip
    assert serializer_for(Counts).describe()["messages"]["shop.Counts"][0]["label"] == "map"


def test_what_cannot_be_written_or_read_back_is_refused() -> None:
    """Another class, a required field that is missing, and what is no message."""
    strict = message("Strict", syntax="proto2", n="required int64 1")
    for cls, value in [(Visit, Counts()), (strict, strict()), (Visit, {"page": "a"})]:
        with pytest.raises(hg.UsageError, match=cls.DESCRIPTOR.full_name):
            serializer_for(cls).encode_checked([value])


def _decodes_or_refuses(serializer: Any, data: bytes) -> None:
    with contextlib.suppress(hg.StorageError):
        serializer.decode_many(data, 1)


def test_records_of_a_stream_travel_as_protobuf() -> None:
    """A class of messages has a serializer between workers, so unaligned checkpoints store it."""
    found = record_serializer(Visit)
    assert found is not None
    assert found.describe()["kind"] == "protobuf"


# -- evolution


def test_the_same_shape_is_as_is() -> None:
    """Also where the source lists the fields in another order."""
    one = message(page="string 1", count="int64 2")
    assert verdict(one, message(count="int64 2", page="string 1")) == AsIs()


def test_added_and_renamed_fields_are_a_reconfiguration() -> None:
    """The bytes mean the same; unknown fields that a producer sent stay in the message."""
    old, new = message(page="string 1"), message(url="string 1", count="int64 2")
    assert verdict(old, new) == Reconfigured(
        ("field 1 'page' of shop.Visit became 'url'", "field 2 'count' of shop.Visit was added")
    )
    unknown = old.FromString(old(page="a").SerializeToString() + b"\x10\x07\x18\x05")
    found = read(old, new, unknown)
    assert (found.url, found.count, found.SerializeToString()[-2:]) == ("a", 7, b"\x18\x05")


def test_removed_fields_are_dropped_so_that_their_numbers_cannot_come_back() -> None:
    """A later program that uses the number again does not find what an older one stored."""
    first = message(page="string 1", count="int64 2")
    second, third = message(page="string 1"), message(page="string 1", note="string 2")
    assert verdict(first, second) == AfterMigration(("field 2 'count' of shop.Visit was removed",))
    value = read(first, second, first(page="a", count=9))
    assert value.SerializeToString() == second(page="a").SerializeToString()
    assert read(second, third, value) == third(page="a")


WIDENED = [
    ("int32", "int64", -5), ("uint32", "uint64", 2**32 - 1), ("uint32", "int64", 2**32 - 1),
    ("bool", "int32", True), ("bool", "uint64", True), ("sint32", "sint64", -(2**31)),
    ("string", "bytes", "ä"),
]  # fmt: skip


@pytest.mark.parametrize(("old", "new", "value"), WIDENED)
@pytest.mark.parametrize("label", ["optional", "repeated"])
def test_types_become_wider(old: str, new: str, value: Any, label: str) -> None:
    """The same bytes, and the value is what it was."""
    was, now = message(x=f"{label} {old} 1"), message(x=f"{label} {new} 1")
    assert isinstance(verdict(was, now), AfterMigration)
    many = label == "repeated"
    found = read(was, now, was(x=[value] if many else value)).x
    assert (list(found) if many else [found]) == [value.encode() if new == "bytes" else value]


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ("int64", "int32", "not every stored value would stay what it was"),
        ("int32", "uint32", "not every stored value would stay what it was"),
        ("int32", "uint64", "not every stored value would stay what it was"),
        ("int32", "bool", "not every stored value would stay what it was"),
        ("fixed32", "sfixed32", "not every stored value would stay what it was"),
        ("bytes", "string", "not every stored value would stay what it was"),
        ("int32", "sint32", "the number is used for an incompatible type"),
        ("string", "int64", "the number is used for an incompatible type"),
        ("double", "fixed64", "the number is used for an incompatible type"),
        ("int64", "repeated int32", "not every stored value would stay what it was"),
    ],
)
def test_a_number_used_for_another_type_is_refused(old: str, new: str, why: str) -> None:
    """With the field, both types and the way out."""
    judged = verdict(message(x=f"{old} 1"), message(x=f"{new} 1"))
    assert isinstance(judged, Incompatible)
    assert judged.why.startswith(f"field 1 'x' of shop.Visit was {old} and is {new.split()[-1]}: ")
    assert why in judged.why


def test_labels() -> None:
    """One value may become several, and not several one; nothing becomes required."""
    one, many = message(x="string 1"), message(x="repeated string 1")
    assert isinstance(verdict(one, many), AfterMigration)
    assert list(read(one, many, one(x="a")).x) == ["a"]
    assert "was repeated and is optional" in verdict(many, one).why  # type: ignore[union-attr]
    loose = message(syntax="proto2", x="optional string 1")
    strict = message(syntax="proto2", x="required string 1")
    assert isinstance(verdict(strict, loose), Reconfigured)
    assert "was optional and is required" in verdict(loose, strict).why  # type: ignore[union-attr]
    added = message(syntax="proto2", x="optional string 1", y="required string 2")
    assert "required field 2 'y' was added" in verdict(loose, added).why  # type: ignore[union-attr]


def test_enumerations() -> None:
    """Open ones keep every number; closed ones must keep the numbers that may be stored."""
    small, large = {"Color": {"NONE": 0, "RED": 1}}, {"Color": {"NONE": 0, "RED": 1, "BLUE": 2}}
    few, many = message(c="Color 1", enums=small), message(c="Color 1", enums=large)
    assert isinstance(verdict(few, many), Reconfigured)
    assert isinstance(verdict(many, few), Reconfigured)
    assert read(many, few, many(c=2)).c == 2
    closed_few = message(syntax="proto2", c="Color 1", enums=small)
    closed_many = message(syntax="proto2", c="Color 1", enums=large)
    assert isinstance(verdict(closed_few, closed_many), Reconfigured)
    assert "has no 2 any more" in verdict(closed_many, closed_few).why  # type: ignore[union-attr]
    assert "is a closed one" in verdict(few, closed_few).why  # type: ignore[union-attr]
    number = message(c="int32 1")
    assert read(many, number, many(c=2)).c == 2
    assert read(number, many, number(c=7)).c == 7
    assert isinstance(verdict(number, closed_many), Incompatible)


def test_fields_move_into_a_oneof_one_at_a_time() -> None:
    """Two that could both be stored cannot exclude each other afterwards."""
    apart = message(a="string 1", b="string 2")
    assert isinstance(verdict(apart, message(a="string 1 in kind", b="string 2")), Reconfigured)
    judged = verdict(apart, message(a="string 1 in kind", b="string 2 in kind"))
    assert "fields 1 'a' and 2 'b' of shop.Visit became one oneof 'kind'" in judged.why  # type: ignore[union-attr]
    together = message(a="string 1 in kind", b="string 2 in kind")
    assert isinstance(verdict(together, message(a="string 1 in sort", b="string 2 in sort")), Reconfigured)


def test_messages_inside_are_judged_by_shape_and_not_by_name() -> None:
    """Names of inner messages are not in the bytes; a field of one that changed is named."""
    old = message(of="Page 1", others={"Page": {"url": "string 1", "size": "int32 2"}})
    renamed = message(of="Sheet 1", others={"Sheet": {"url": "string 1", "size": "int32 2"}})
    assert verdict(old, renamed) == Reconfigured(("shop.Page became shop.Sheet",))
    cut = message(of="Page 1", others={"Page": {"url": "string 1"}})
    assert isinstance(verdict(old, cut), AfterMigration)
    value = old()
    value.of.url, value.of.size = "a", 3
    assert read(old, cut, value).of.SerializeToString() == b"\x0a\x01a"
    broken = message(of="Page 1", others={"Page": {"url": "double 1"}})
    assert "field 1 'url' of shop.Page was string and is double" in verdict(old, broken).why  # type: ignore[union-attr]


def test_a_message_that_contains_itself_evolves() -> None:
    """The walk ends, and the change applies at every depth."""
    old, new = message(n="int32 1", next="Visit 2"), message(n="int64 1", next="Visit 2")
    value = old(n=1)
    value.next.n = 2
    assert read(old, new, value).next.n == 2


def test_a_renamed_message_says_what_it_was() -> None:
    """Another name is another message, unless the class says so."""
    old = message("Visit", n="int32 1")
    new = message("PageView", n="int32 1")
    assert "hg.formerly('shop.Visit')(PageView)" in verdict(old, new).why  # type: ignore[union-attr]
    hg.formerly("shop.Visit")(new)
    assert verdict(old, new) == Reconfigured(("shop.Visit became shop.PageView",))
    assert read(old, new, old(n=5)).n == 5


@pytest.mark.parametrize("other", [int, bytes, Any, dict[str, int]])
def test_a_message_does_not_become_another_type(other: Any) -> None:
    """Nor does another type become a message."""
    assert isinstance(verdict(Visit, other), Incompatible)
    assert isinstance(verdict(other, Visit), Incompatible)
