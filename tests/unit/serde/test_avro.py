"""Avro values: what is stored, what is refused when it is written, and what a schema must be."""

from __future__ import annotations

import datetime as dt
import io
import json
import math
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any
from uuid import UUID

import fastavro
import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import headgate as hg
from headgate.serde.resolve import serializer_for

VISIT: dict[str, Any] = {
    "type": "record",
    "name": "Visit",
    "namespace": "shop",
    "doc": "not part of the description",
    "fields": [
        {"name": "page", "type": "string"},
        {"name": "count", "type": ["null", "long"], "default": None},
        {"name": "rates", "type": {"type": "array", "items": "double"}},
        {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["NEW", "OLD"]}},
        {"name": "former", "type": {"type": "map", "values": "Kind"}},
    ],
}
UTC, EAST = dt.UTC, dt.timezone(dt.timedelta(hours=1))

visits = st.fixed_dictionaries(
    {
        "page": st.text(st.characters(exclude_categories=["Cs"]), max_size=5),
        "count": st.none() | st.integers(-(2**63), 2**63 - 1),
        "rates": st.lists(st.floats(), max_size=3),
        "kind": st.sampled_from(["NEW", "OLD"]),
        "former": st.dictionaries(st.sampled_from("ab"), st.sampled_from(["NEW", "OLD"])),
    }
)


def avro(schema: Any, hint: Any = Any) -> Any:
    """The serializer of a schema's values."""
    return serializer_for(Annotated[hint, hg.avro(schema)])


def refusal(schema: Any, value: Any) -> str:
    """Why a value is not written."""
    with pytest.raises(hg.UsageError) as caught:
        avro(schema).encode_checked([value])
    return str(caught.value)


# -- what is stored


@settings(max_examples=40)
@given(visits)
def test_values_come_back(value: dict[str, Any]) -> None:
    """As they were, NaN and the sign of zero included, as themselves and inside other types."""
    hint = Annotated[dict, hg.avro(VISIT)]
    value = {field["name"]: value[field["name"]] for field in VISIT["fields"]}  # in the order of the schema
    for wrapped_hint, wrapped in [(hint, value), (hint | None, value), (list[hint], [value])]:
        serializer = serializer_for(wrapped_hint)
        (found,) = serializer.decode_many(serializer.encode_checked([wrapped]), 1)
        assert repr(found) == repr(wrapped)


def test_the_bytes_are_avros_own() -> None:
    """Another reader finds the value with the schema of the description."""
    value = {"page": "a", "count": 3, "rates": [0.5], "kind": "OLD", "former": {"x": "NEW"}}
    serializer = avro(VISIT, dict)
    (raw,) = msgspec.msgpack.decode(serializer.encode(value)[1:])
    described = msgspec.msgpack.decode(msgspec.msgpack.encode(serializer.describe()))
    assert fastavro.schemaless_reader(io.BytesIO(raw), described["schema"], None) == value
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(VISIT), value)
    assert raw == out.getvalue()


def test_the_description_is_canonical() -> None:
    """Full names; what does not matter to values is left out, so it may change freely."""
    described = avro(VISIT).describe()
    assert (described["kind"], described["name"]) == ("avro", "shop.Visit")
    assert described["schema"]["fields"][4] == {
        "name": "former", "type": {"type": "map", "values": "shop.Kind"},
    }  # fmt: skip
    told = {**VISIT, "doc": "another text", "namespace": "", "name": "shop.Visit", "owner": "us"}
    assert avro(told).describe() == described


def test_a_schema_is_text_a_dict_or_a_file(tmp_path: Path) -> None:
    """All say the same; a primitive is its name."""
    file = tmp_path / "visit.avsc"
    file.write_text(json.dumps(VISIT))
    for schema in (json.dumps(VISIT), file, str(file)):
        assert avro(schema).describe() == avro(VISIT).describe()
    assert avro("long").describe() == avro('"long"').describe() == avro({"type": "long"}).describe()


LOGICAL: list[tuple[dict[str, Any], Any]] = [
    ({"type": "long", "logicalType": "timestamp-micros"}, dt.datetime(2024, 2, 3, 4, 5, 6, 7, UTC)),
    ({"type": "long", "logicalType": "timestamp-millis"}, dt.datetime(2024, 2, 3, 4, 5, 6, 7000, UTC)),
    ({"type": "long", "logicalType": "local-timestamp-micros"}, dt.datetime(2024, 2, 3)),
    ({"type": "int", "logicalType": "date"}, dt.date(2024, 2, 3)),
    ({"type": "long", "logicalType": "time-micros"}, dt.time(1, 2, 3, 4)),
    ({"type": "bytes", "logicalType": "decimal", "precision": 6, "scale": 2}, Decimal("1234.56")),
    ({"type": "string", "logicalType": "uuid"}, UUID(int=7)),
]


@pytest.mark.parametrize(("schema", "value"), LOGICAL, ids=[schema["logicalType"] for schema, _ in LOGICAL])
def test_logical_types(schema: Any, value: Any) -> None:
    """Values are of the class that the logical type means, and immutable."""
    serializer = avro(schema, type(value))
    assert serializer.decode(serializer.encode_checked([value])) == value
    assert serializer.immutable


def test_an_unknown_logical_type_means_nothing() -> None:
    """As Avro says."""
    assert avro({"type": "long", "logicalType": "our-own"}).describe()["schema"] == "long"


# -- what would be lost


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ("float", 0.1),
        ("double", 2**53 + 1),
        ({"type": "array", "items": "long"}, (1, 2)),
        ({"type": "long", "logicalType": "timestamp-millis"}, dt.datetime(2024, 1, 1, 0, 0, 0, 1, UTC)),
        (
            {"type": "long", "logicalType": "timestamp-micros"},
            dt.datetime(2024, 1, 1, tzinfo=EAST),
        ),
        ("long", True),
        ("bytes", bytearray(b"a")),
        ({"type": "string", "logicalType": "uuid"}, str(UUID(int=7))),
    ],
    ids=repr,
)
def test_what_would_come_back_as_something_else_is_refused(schema: Any, value: Any) -> None:
    """When it is written, and not found missing after a restore."""
    assert "it would come back from Avro as" in refusal(schema, value)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"extra": 1}, "more fields than the schema"),
        ({"page": None}, "Avro schema"),
        ({"count": 2**63}, "Avro schema"),
        ({"kind": "ODD"}, "Avro schema"),
        ({"-type": "shop.Visit"}, "more fields than the schema"),
    ],
)
def test_what_does_not_fit_is_refused(change: dict[str, Any], why: str) -> None:
    """With the schema's name and fastavro's reason."""
    value = {"page": "a", "count": 3, "rates": [0.5], "kind": "OLD", "former": {}} | change
    text = refusal(VISIT, value)
    assert "avro shop.Visit" in text
    assert why in text


def test_a_missing_field_is_refused_although_it_has_a_default() -> None:
    """A default is for readers of older values; a value that came back with it would be another one."""
    assert "missing from the record" in refusal(
        VISIT, {"page": "a", "rates": [], "kind": "OLD", "former": {}}
    )


# -- damage


def test_bytes_behind_a_value_are_noticed() -> None:
    """They would be read as nothing."""
    data = bytes([0]) + msgspec.msgpack.encode([b"\x02\x00"])
    with pytest.raises(hg.StorageError, match="1 bytes follow an Avro value"):
        avro("long").decode_many(data, 1)


# -- schemas


@pytest.mark.parametrize(
    ("schema", "why"),
    [
        ({"type": "record", "name": "R"}, None),
        ({"type": "recor", "name": "R", "fields": []}, "no valid Avro schema"),
        ({"type": "record", "fields": []}, "no valid Avro schema"),
        (
            {"type": "record", "name": "R", "fields": [{"name": "x", "type": "Unknown"}]},
            "no valid Avro schema",
        ),
        (["null", {"type": "error", "name": "E", "fields": []}], "no valid Avro schema"),
        (
            {"type": "record", "name": "R", "fields": [{"name": "next", "type": ["null", "R"]}]},
            "Avro type R contains itself",
        ),
        ({"type": "array", "items": "null"}, "holds nothing but its length"),
        (
            {"type": "array", "items": {"type": "record", "name": "R", "fields": []}},
            "holds nothing but its length",
        ),
    ],
)
def test_schemas_that_cannot_be_stored(schema: Any, why: str | None) -> None:
    """Refused when the program is planned, in a sentence."""
    if why is None:
        avro(schema)
        return
    with pytest.raises(hg.UsageError, match=why):
        avro(schema)


def test_wrong_use_of_the_mark(tmp_path: Path) -> None:
    """No schema, no JSON, no file, a second format, values of another class."""
    for make, why in [
        (lambda: serializer_for(Annotated[dict, hg.avro]), r"write hg\.avro\(schema\)"),
        (lambda: hg.avro("{no json"), "is no JSON"),
        (lambda: hg.avro({"type": {1}}), "is no JSON"),
        (lambda: hg.avro(tmp_path / "absent.avsc"), "cannot be read"),
        (lambda: serializer_for(Annotated[dict, hg.avro(VISIT), hg.json]), "cannot both say"),
        (lambda: avro(VISIT, str), "are dict and no str"),
    ]:
        with pytest.raises(hg.UsageError, match=why):
            make()


def test_without_the_package_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Instead of an import error."""
    monkeypatch.setitem(__import__("sys").modules, "fastavro", None)
    with pytest.raises(hg.UsageError, match=r"install headgate\[avro\]"):
        avro(VISIT)


def test_copies_and_alternatives() -> None:
    """Records can be changed in place; Avro values are told apart from others by their class."""
    serializer = avro(VISIT)
    value = {"page": "a", "count": None, "rates": [1.0], "kind": "NEW", "former": {}}
    copied = serializer.copy(value)
    value["rates"].append(2.0)
    assert (copied["rates"], serializer.immutable) == ([1.0], False)
    either = serializer_for(Annotated[float, hg.avro("double")] | str | None)
    found = either.decode_many(either.encode_checked([1.5, "a", None, 2]), 4)
    assert found == [1.5, "a", None, 2]
    assert math.isnan(avro("double").decode(avro("double").encode_checked([math.nan])))
