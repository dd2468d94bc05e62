"""Avro values of older schemas: Avro's rules of resolution, judged first, and read as judged."""

from __future__ import annotations

import datetime as dt
from typing import Annotated, Any

import msgspec
import pytest
from hypothesis import assume, event, given, settings
from hypothesis import strategies as st

import headgate as hg
from headgate.serde.evolution.judging_types import judge, reader_for
from headgate.serde.resolve import serializer_for
from headgate.serde.verdicts import AfterMigration, AsIs, Compatibility, Incompatible, Reconfigured


def avro(schema: Any) -> Any:
    """The serializer of a schema's values."""
    return serializer_for(Annotated[Any, hg.avro(schema)])


def verdict(old: Any, new: Any) -> Compatibility:
    """The judgement of one schema on another, after what is stored has passed through the codec."""
    description = msgspec.msgpack.decode(msgspec.msgpack.encode(avro(old).describe()))
    judged = judge(description, avro(new))
    if isinstance(judged, Incompatible):
        with pytest.raises(hg.UsageError) as caught:
            reader_for(description, avro(new))
        assert str(caught.value) == judged.why
    return judged


def why(old: Any, new: Any) -> str:
    """Why a schema cannot read another's values."""
    judged = verdict(old, new)
    assert isinstance(judged, Incompatible)
    return judged.why


def read(old: Any, new: Any, *values: Any) -> list[Any]:
    """Values of one schema read with another; they can be written again."""
    stored = avro(old)
    found = reader_for(stored.describe(), avro(new))(stored.encode_checked(list(values)), len(values))
    assert avro(new).decode_many(avro(new).encode_checked(found), len(found)) == found
    return found


def record(*fields: Any, name: str = "shop.Visit", **more: Any) -> dict[str, Any]:
    """A record's schema; a field is (name, type) or the whole dict."""
    made = [{"name": f[0], "type": f[1]} if isinstance(f, tuple) else f for f in fields]
    return {"type": "record", "name": name, "fields": made, **more}


def enum(*symbols: str, **more: Any) -> dict[str, Any]:
    """An enumeration's schema."""
    return {"type": "enum", "name": "shop.Kind", "symbols": list(symbols), **more}


def fixed(size: int) -> dict[str, Any]:
    """A fixed number of bytes."""
    return {"type": "fixed", "name": "shop.F", "size": size}


MICROS = {"type": "long", "logicalType": "timestamp-micros"}


# -- verdicts


def test_the_same_schema_is_as_is() -> None:
    """Also with another text; another default or alias changes no bytes."""
    one = record(("a", "long"), {"name": "b", "type": "string", "default": ""})
    assert verdict(one, record(("a", "long"), ("b", "string"), doc="x") | {"doc": "y"}) == Reconfigured(
        ("defaults or aliases of shop.Visit changed",)
    )
    assert verdict(one, {**one, "doc": "text"}) == AsIs()
    assert read(one, record(("a", "long"), ("b", "string")), {"a": 1, "b": "x"}) == [{"a": 1, "b": "x"}]


def test_fields() -> None:
    """Added with a default, removed, moved and renamed, all at once, in the words of the verdict."""
    old = record(("page", "string"), ("gone", {"type": "array", "items": "long"}), ("count", "int"))
    new = record(
        ("count", "double"),
        {"name": "url", "type": "string", "aliases": ["page"]},
        {"name": "tags", "type": {"type": "array", "items": "string"}, "default": []},
    )
    judged = verdict(old, new)
    assert isinstance(judged, AfterMigration)
    assert set(judged.changes) == {
        "field 'count' of shop.Visit: int became double",
        "field 'page' of shop.Visit became 'url'",
        "field 'tags' of shop.Visit was added",
        "field 'gone' of shop.Visit was removed",
        "the fields of shop.Visit are in another order",
    }
    found = read(old, new, {"page": "a", "gone": [1, 2], "count": 3}, {"page": "b", "gone": [], "count": 4})
    assert found == [{"count": 3.0, "url": "a", "tags": []}, {"count": 4.0, "url": "b", "tags": []}]


def test_each_value_has_its_own_default() -> None:
    """A change in place of one is not seen in another, nor within one value."""
    old = {"type": "array", "items": record(("a", "long"))}
    added = {"name": "tags", "type": {"type": "array", "items": "string"}, "default": []}
    new = {"type": "array", "items": record(("a", "long"), added)}
    one, other = read(old, new, [{"a": 1}, {"a": 2}], [{"a": 3}])
    one[0]["tags"].append("x")
    assert (one[1]["tags"], other[0]["tags"]) == ([], [])


@pytest.mark.parametrize(
    ("schema", "default", "value"),
    [
        ("bytes", "\u00ff", b"\xff"),
        ("double", 1, 1.0),
        ({"type": "fixed", "name": "F", "size": 2}, "ab", b"ab"),
        (MICROS, 1_000_000, dt.datetime(1970, 1, 1, 0, 0, 1, tzinfo=dt.UTC)),
        (["null", "string"], None, None),
        (["null", "string"], "text", "text"),
        (["string", "null"], "text", "text"),
        (["null", "float"], 0.1, 0.10000000149011612),
        ({"type": "map", "values": "long"}, {"a": 1}, {"a": 1}),
        (
            record(("x", "long"), {"name": "y", "type": "bytes", "default": "z"}, name="In"),
            {"x": 1},
            {"x": 1, "y": b"z"},
        ),
        (enum("A", "B"), "B", "B"),
    ],
)
def test_defaults_are_values_of_their_type(schema: Any, default: Any, value: Any) -> None:
    """Not the JSON that stands for them in the schema."""
    new = record(("a", "long"), {"name": "b", "type": schema, "default": default})
    assert read(record(("a", "long")), new, {"a": 1}) == [{"a": 1, "b": value}]


PROMOTIONS = [
    ("int", "long", 7, 7), ("int", "float", 7, 7.0), ("int", "double", 7, 7.0), ("long", "float", 7, 7.0),
    ("long", "double", 7, 7.0), ("float", "double", 0.5, 0.5), ("string", "bytes", "ä", "ä".encode()),
    ("bytes", "string", "ä".encode(), "ä"),
]  # fmt: skip


@pytest.mark.parametrize(("old", "new", "value", "expected"), PROMOTIONS)
def test_promotions(old: str, new: str, value: Any, expected: Any) -> None:
    """Every one that Avro has, alone and inside."""
    for wrap, into in [
        (lambda x: x, lambda v: v),
        (lambda x: {"type": "array", "items": x}, lambda v: [v]),
        (lambda x: {"type": "map", "values": x}, lambda v: {"k": v}),
        (lambda x: ["null", x], lambda v: v),
        (lambda x: record(("f", x)), lambda v: {"f": v}),
    ]:
        (found,) = read(wrap(old), wrap(new), into(value))
        assert (found, repr(found)) == (into(expected), repr(into(expected)))


def test_bytes_that_are_no_text_end_the_restore() -> None:
    """Avro allows the change; the value does not."""
    stored = avro("bytes")
    with pytest.raises(hg.StorageError, match="avro string"):
        reader_for(stored.describe(), avro("string"))(stored.encode_checked([b"\xff"]), 1)


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("long", "int", "was long and is int; a type may become wider, not narrower"),
        ("double", "float", "may become wider, not narrower"),
        ("string", "long", "was string and is long"),
        ("boolean", "int", "was boolean and is int"),
        (["null", "long"], "long", "null may be stored and has no place in long"),
        (["null", "long", "string"], ["null", "long"], "string may be stored and has no place in null |"),
        ("string", ["null", "long"], "string is none of null | long"),
        (record(("a", "long")), record(("a", "long"), ("b", "long")), "'b' was added to shop.Visit without"),
        (
            record(("a", "long")),
            record(("a", "long"), {"name": "b", "type": ["null", "long"], "default": True}),
            "with a default of another type",
        ),
        (record(("a", "long")), record(("a", "int")), "field 'a' of shop.Visit: was long and is int"),
        (record(("a", "long")), record(("a", "long"), name="shop.Other"), '"aliases": ["shop.Visit"]'),
        (record(("a", "long")), record(("a", "long"), name="mall.Visit"), "was shop.Visit and is mall.Visit"),
        (enum("A", "B"), enum("A"), "enum shop.Kind has no B any more"),
        (enum("A"), {**enum("A"), "name": "Kind"}, "was shop.Kind and is Kind"),
        (fixed(2), fixed(3), "shop.F had 2 bytes and has 3"),
        ("long", MICROS, "a logical type may not change"),
        (MICROS, "long", "a logical type may not change"),
        (
            {"type": "bytes", "logicalType": "decimal", "precision": 6, "scale": 2},
            {"type": "bytes", "logicalType": "decimal", "precision": 6, "scale": 3},
            "a logical type may not change",
        ),
        ({"type": "int", "logicalType": "date"}, "long", "was int (date) and is long"),
        (
            record(("a", "long")),
            record(*[{"name": name, "type": "long", "aliases": ["a"]} for name in "xy"]),
            "fields 'x' and 'y' of shop.Visit both have the alias 'a'",
        ),
        (
            ["string", "bytes", record(("a", "int"))],
            ["string", "bytes", record(("a", "long"))],
            "text and bytes cannot be told apart",
        ),
    ],
)  # fmt: skip
def test_what_cannot_be_resolved(old: Any, new: Any, reason: str) -> None:
    """Refused before anything is read, with the place and what to do."""
    assert reason in why(old, new)


def test_names_by_alias() -> None:
    """Records, enumerations and fixed; an alias without a namespace is in that of its type."""
    old = record(("k", {"type": "enum", "name": "Kind", "symbols": ["A"]}))
    sort = {"type": "enum", "name": "Sort", "aliases": ["Kind"], "symbols": ["A"]}
    new = record(("k", sort), name="shop.View", aliases=["Visit"])
    assert verdict(old, new) == AfterMigration(
        ("shop.Visit became shop.View", "field 'k' of shop.View: shop.Kind became shop.Sort")
    )
    assert read(old, new, {"k": "A"}) == [{"k": "A"}]


def test_symbols() -> None:
    """They may be added and moved; one that is gone is read as the default."""
    assert read(enum("A", "B"), enum("B", "C", "A"), "A", "B") == ["A", "B"]
    assert read(enum("A", "B"), enum("A", default="A"), "A", "B") == ["A", "A"]


def test_unions_take_the_nearest_alternative() -> None:
    """Not the first that would do: a number stays what it was where it can."""
    assert read(["null", "long"], ["double", "long", "null"], 2**60, None) == [2**60, None]
    assert read(["int", "float"], ["null", "double", "long"], 7, 0.5) == [7, 0.5]
    assert read("int", ["double", "long"], 7) == [7]
    assert read(["string", "null"], ["null", "bytes", "string"], "a") == ["a"]


def test_alternatives_of_one_short_name_are_told_apart() -> None:
    """Two records that differ in their namespace only, of which one changes."""
    old = [record(("x", "long"), name="a.Point"), record(("y", "long"), name="b.Point")]
    new = [record(("x", "long"), name="a.Point"), record(("y", "double"), name="b.Point")]
    assert read(old, new, {"x": 1}, {"y": 2}) == [{"x": 1}, {"y": 2.0}]


def test_text_and_bytes_stay_apart_where_nothing_changes() -> None:
    """A union of both in a field that did not change is read as it was written."""
    old = record(("v", ["string", "bytes"]), ("n", "int"))
    new = record(("v", ["string", "bytes"]), ("n", "long"))
    assert read(old, new, {"v": b"a", "n": 1}, {"v": "a", "n": 2}) == [
        {"v": b"a", "n": 1},
        {"v": "a", "n": 2},
    ]


def test_an_old_name_that_another_field_has_now() -> None:
    """The alias comes first: the name was given away."""
    old = record(("page", "string"))
    new = record(
        {"name": "url", "type": "string", "aliases": ["page"]}, {"name": "page", "type": "long", "default": 0}
    )
    assert read(old, new, {"page": "a"}) == [{"url": "a", "page": 0}]


def test_a_type_used_twice_changes_in_both_places() -> None:
    """Its name stands for its definition wherever it is."""

    def outer(kind: str) -> dict[str, Any]:
        inner = record(("n", kind), name="shop.Inner")
        return record(
            ("a", inner), ("b", ["null", "shop.Inner"]), ("c", {"type": "array", "items": "shop.Inner"})
        )

    value = {"a": {"n": 1}, "b": {"n": 2}, "c": [{"n": 3}]}
    (found,) = read(outer("int"), outer("double"), value)
    assert repr(found) == repr({"a": {"n": 1.0}, "b": {"n": 2.0}, "c": [{"n": 3.0}]})


def test_other_kinds_do_not_become_avro() -> None:
    """Nor the other way."""
    plain = serializer_for(dict[str, int])
    assert isinstance(judge(plain.describe(), avro({"type": "map", "values": "long"})), Incompatible)
    judged = judge(avro({"type": "map", "values": "long"}).describe(), plain)
    assert "keep hg.avro in the annotation" in judged.why  # type: ignore[union-attr]


# -- any pair of schemas


PRIMITIVES = ["null", "boolean", "int", "long", "float", "double", "string", "bytes"]


def takes_bytes(schema: Any) -> bool:
    """Whether arrays of it are allowed."""
    if isinstance(schema, dict) and schema["type"] == "record":
        return any(takes_bytes(field["type"]) for field in schema["fields"])
    return bool(schema != "null")


@st.composite
def schemas(draw: Any, depth: int = 2) -> Any:
    """Small schemas, out of few names, so that pairs of them often fit."""
    kind = draw(st.sampled_from(["primitive", "primitive", "enum", "record", "array", "map", "union"]))
    if depth == 0 or kind == "primitive":
        return draw(st.sampled_from(PRIMITIVES))
    if kind == "enum":
        names = draw(st.lists(st.sampled_from("ABC"), min_size=1, unique=True))
        return enum(*names, **({"default": names[0]} if draw(st.booleans()) else {}))
    if kind == "record":
        names = draw(st.lists(st.sampled_from(["x", "y", "z"]), min_size=1, unique=True))
        return record(*[(name, draw(schemas(depth - 1))) for name in names], name=f"shop.R{depth}")
    if kind == "array":
        items = draw(schemas(depth - 1).filter(takes_bytes))
        return {"type": "array", "items": items}
    if kind == "map":
        return {"type": "map", "values": draw(schemas(depth - 1))}
    members = draw(
        st.lists(schemas(depth - 1).filter(lambda one: not isinstance(one, list)), min_size=1, max_size=3)
    )
    return list({str(one) if isinstance(one, str) else one["type"]: one for one in members}.values())


@st.composite
def changes(draw: Any, schema: Any) -> Any:
    """A schema that most often can read what another wrote: widened, moved, cut and added to."""
    if isinstance(schema, str):
        wider = {"int": ["long", "double"], "long": ["float"], "float": ["double"], "string": ["bytes"]}
        chosen = draw(st.sampled_from([schema, *wider.get(schema, [])]))
        return draw(st.sampled_from([chosen, [chosen, "boolean"]])) if chosen != "boolean" else chosen
    if isinstance(schema, list):
        alternatives = [draw(changes(one)) for one in schema]
        return draw(st.permutations([one for one in alternatives if not isinstance(one, list)] or ["null"]))
    if schema["type"] == "enum":
        return {**schema, "symbols": draw(st.permutations([*schema["symbols"], "NEW"]))}
    for part in ("items", "values"):
        if part in schema:
            return {**schema, part: draw(changes(schema[part]))}
    fields = [{**field, "type": draw(changes(field["type"]))} for field in schema["fields"]]
    added = {"name": "added", "type": {"type": "array", "items": "long"}, "default": [1]}
    kept = draw(st.permutations([field for field in fields if draw(st.integers(0, 3))] + [added]))
    return {**schema, "fields": kept}


def values(schema: Any) -> Any:
    """Values that a schema holds without loss."""
    if isinstance(schema, list):
        return st.one_of([values(one) for one in schema])
    if isinstance(schema, str):
        return {
            "null": st.none(),
            "boolean": st.booleans(),
            "int": st.integers(-(2**20), 2**20),
            "long": st.integers(-(2**20), 2**20),
            "float": st.integers(-9, 9).map(lambda n: n / 2),
            "double": st.integers(-9, 9).map(lambda n: n / 2),
            "string": st.sampled_from(["", "a"]),
            "bytes": st.sampled_from([b"", b"a"]),
        }[schema]
    if schema["type"] == "enum":
        return st.sampled_from(schema["symbols"])
    if schema["type"] == "array":
        return st.lists(values(schema["items"]), max_size=2)
    if schema["type"] == "map":
        return st.dictionaries(st.sampled_from("kl"), values(schema["values"]), max_size=2)
    return st.fixed_dictionaries({field["name"]: values(field["type"]) for field in schema["fields"]})


def redefined(schema: Any) -> bool:
    """Whether a name is defined twice, which Avro does not allow."""
    text = str(schema)
    return any(text.count(f"'name': '{name}'") > 1 for name in ("shop.Kind", "shop.R1", "shop.R2"))


@settings(max_examples=60)
@given(st.data())
def test_what_is_judged_readable_is_read(data: st.DataObject) -> None:
    """Whatever the two schemas: a judgement is given, and it holds for every value."""
    check_pair(data)


@pytest.mark.proof
@settings(max_examples=1_000)
@given(st.data())
def test_what_is_judged_readable_is_read_many_times(data: st.DataObject) -> None:
    """The same, over many more pairs."""
    check_pair(data)


def check_pair(data: st.DataObject) -> None:
    """One pair of schemas and one value."""
    old = data.draw(schemas(), "old")
    new = data.draw(schemas() | changes(old), "new")
    assume(not redefined(old) and not redefined(new))
    value = data.draw(values(old), "value")
    stored = avro(old)
    try:
        bytes_ = stored.encode_checked([value])
    except hg.UsageError:
        assume(False)  # a union whose alternatives this value cannot tell apart
    if isinstance(judge(stored.describe(), avro(new)), Incompatible):
        return
    event("readable, and another schema" if old != new else "readable, the same")
    (found,) = reader_for(stored.describe(), avro(new))(bytes_, 1)
    avro(new).encode_checked([found])
    if old == new:
        assert found == value
