"""Small functions that serializers are made of."""

from __future__ import annotations

import decimal
from http import HTTPStatus

import pytest

from headgate.common.errors import StorageError, UsageError
from headgate.serde.codecs.avro_schemas import name_of
from headgate.serde.codecs.dynamic import as_plain, encode_tagged, encode_tagged_each
from headgate.serde.codecs.temporal import datetime_from_plain, datetime_to_plain
from headgate.serde.descriptions import kinds_in, parts_of
from headgate.serde.evolution.undecodable import stored_description
from headgate.serde.logical_names import class_named, known_class, logical_name
from headgate.serde.resolve import composite_serializer, serializer_for
from headgate.serde.snapshots.snapshot_rules import SerializerRegistry
from headgate.serde.verdicts import AfterMigration, AsIs, Incompatible, Reconfigured, combined, compare

INT = {"kind": "int", "version": 1}


def test_verdicts_are_combined() -> None:
    """The gravest one decides, and the changes of all are kept."""
    verdicts = [AsIs(), AfterMigration(("x added",)), Reconfigured(("RED moved",))]
    assert combined(verdicts) == AfterMigration(("x added", "RED moved"))


def test_descriptions_are_compared() -> None:
    """Equal ones fit, and the first difference is named."""
    assert compare(INT, dict(INT)) == AsIs()
    assert compare(INT, {"kind": "str", "version": 1}) == Incompatible("kind was int and is str")


def test_parts_and_kinds_of_descriptions() -> None:
    """Parts are direct, kinds are of everything inside."""
    assert [part["kind"] for part in parts_of(serializer_for(dict[str, int]).describe())] == ["str", "int"]
    assert list(kinds_in(serializer_for(list[int | None]).describe())) == ["list", "union", "int", "none"]


def test_a_damaged_description_is_an_error_of_the_storage() -> None:
    """It does not end as a KeyError."""
    with (
        pytest.raises(StorageError, match="stored description of a serializer is damaged"),
        stored_description(),
    ):
        {"version": 1}["kind"]


def test_logical_names() -> None:
    """They lead back to their classes."""
    assert logical_name(decimal.Context) == "decimal.Context"
    assert class_named("decimal.Context") is decimal.Context
    assert known_class("decimal.Context") is decimal.Context


def test_a_registry_takes_serializers_only() -> None:
    """A class instead of an instance is refused with the place of its declaration."""
    SerializerRegistry().register(serializer_for(int), "state 'count' (job.py:7)")
    with pytest.raises(UsageError, match=r"state 'count' \(job.py:7\) got the class int"):
        SerializerRegistry().register(int, "state 'count' (job.py:7)")  # type: ignore[arg-type]


def test_values_of_no_declared_type() -> None:
    """Members of an Enum are plain as what they hold, and each value has bytes of its own."""
    assert as_plain([HTTPStatus.OK, 2**70]) == [200, 2**70]
    assert encode_tagged_each([1, "a"]) == [encode_tagged(1), encode_tagged("a")]


def test_a_datetime_is_the_microseconds_of_its_wall_clock() -> None:
    """Without a zone there is nothing else."""
    assert datetime_to_plain(datetime_from_plain(86_400_000_000)) == 86_400_000_000


def test_names_of_avro_schemas() -> None:
    """Messages name a definition, or all alternatives."""
    assert name_of({"type": "fixed", "name": "shop.Id", "size": 4}) == "shop.Id"
    assert name_of(["null", "long"]) == "null | long"


def test_composite_serializers() -> None:
    """A tuple has one, and what is not declared has none."""
    found = composite_serializer(tuple[str, int])
    assert found is not None
    assert found.name == "tuple[str, int]"
    assert composite_serializer(object) is None
