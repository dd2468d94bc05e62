"""Pydantic models: stored by field, read without validation, refused where something would be lost."""

from __future__ import annotations

import datetime as dt
from typing import Any, Generic, TypeVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.common.errors import StorageError, UsageError
from headgate.serde.resolve import serializer_for

pydantic = pytest.importorskip("pydantic")
BaseModel, ConfigDict, Field, PrivateAttr = (
    pydantic.BaseModel, pydantic.ConfigDict, pydantic.Field, pydantic.PrivateAttr,
)  # fmt: skip

T = TypeVar("T")
validations: list[str] = []


class Place(BaseModel):
    model_config = ConfigDict(frozen=True)
    city: str
    at: tuple[float, float] = (0.0, 0.0)


class Order(BaseModel):
    number: int = Field(alias="orderNumber")
    lines: list[str] = Field(default_factory=list)
    place: Place | None = None
    when: dt.datetime | None = None
    extra: Any = None

    @pydantic.field_validator("lines")
    @classmethod
    def note(cls, lines: list[str]) -> list[str]:
        validations.append("lines")
        return lines

    def model_post_init(self, context: Any) -> None:
        validations.append("post")


class Box(BaseModel, Generic[T]):
    inside: T


class Root(pydantic.RootModel[list[int]]):
    pass


class Empty(BaseModel):
    pass


class Open(BaseModel):
    model_config = ConfigDict(extra="allow")


class Hidden(BaseModel):
    _seen: int = PrivateAttr(default=0)


class Ring(BaseModel):
    inner: Ring | None = None


class Child(Place):
    street: str = ""


class Waiting(BaseModel):
    later: Undefined  # type: ignore[name-defined]  # noqa: F821


places = st.builds(
    Place, city=st.text(), at=st.tuples(st.floats(allow_nan=False), st.floats(allow_nan=False))
)
orders = st.fixed_dictionaries(
    {"orderNumber": st.integers()},
    optional={"lines": st.lists(st.text()), "place": st.none() | places, "when": st.none() | st.datetimes()},
).map(lambda fields: Order(**fields))


@settings(max_examples=50, derandomize=True, deadline=None, database=None)
@given(st.lists(orders, max_size=4))
def test_models_come_back_equal(values: list[Any]) -> None:
    """Values, classes of nested models, and which fields were set."""
    serializer = serializer_for(Order)
    back = serializer.decode_many(serializer.encode_checked(values), len(values))
    assert back == values
    assert [type(one.place) for one in back] == [type(one.place) for one in values]
    assert [one.model_fields_set for one in back] == [one.model_fields_set for one in values]


def test_reading_does_not_validate_again() -> None:
    """Validators and initialisers ran when the program made the model; reading has no such effect."""
    serializer, value = serializer_for(Order), Order(orderNumber=1, lines=["a"])
    data = serializer.encode(value)
    validations.clear()
    assert serializer.decode(data) == value
    assert validations == []


def test_a_model_that_was_read_is_a_whole_one() -> None:
    """It can be dumped, copied, changed and validated like any other."""
    serializer = serializer_for(Order)
    back = serializer.decode(serializer.encode(Order(orderNumber=1)))
    assert back.model_dump(exclude_unset=True) == {"number": 1}
    back.lines = ["b"]
    assert back.model_copy(deep=True).lines == ["b"]
    assert back.model_fields_set == {"number", "lines"}


@pytest.mark.parametrize(
    "value", [Box[int](inside=2**70), Root([1, 2]), Empty(), Child(city="a", street="b")], ids=repr
)
def test_all_shapes_of_models_are_stored(value: Any) -> None:
    """Generic, root, empty and inherited models."""
    serializer = serializer_for(type(value))
    back = serializer.decode(serializer.encode_checked([value]))
    assert back == value
    assert type(back) is type(value)


def test_frozen_models_of_immutable_values_are_immutable() -> None:
    """Others are copied, and their copies are apart."""
    assert serializer_for(Place).immutable
    mutable = serializer_for(Order)
    value = Order(orderNumber=1, lines=["a"])
    copied = mutable.copy(value)
    value.lines.append("b")
    assert copied.lines == ["a"]
    assert not mutable.immutable
    assert not serializer_for(Empty).immutable


def test_the_description_tells_the_fields() -> None:
    """By name, in order, below the name of the class."""
    description = serializer_for(Place).describe()
    assert (description["kind"], list(description["fields"])) == ("model", ["city", "at"])
    assert description["name"].endswith("test_models.Place")


@pytest.mark.parametrize(
    ("cls", "why"),
    [
        (Open, "allows extra values"),
        (Hidden, r"private attributes \(_seen\)"),
        (Ring, "contains itself"),
        (Waiting, r"call Waiting\.model_rebuild\(\)"),
        (BaseModel, "no serializer is known for BaseModel"),
    ],
    ids=str,
)
def test_models_that_would_lose_something_are_refused(cls: type, why: str) -> None:
    """Before anything is stored, with what to do."""
    with pytest.raises(UsageError, match=why):
        serializer_for(cls)


def test_values_that_were_never_validated_are_refused() -> None:
    """A field holds something else than its annotation says, or the value is of a subclass."""
    for wrong in (Order.model_construct(number="a"), Order.model_construct(lines=[]), Child(city="a")):
        with pytest.raises(UsageError):
            serializer_for(Place if isinstance(wrong, Place) else Order).encode_checked([wrong])


def test_a_mask_of_fields_that_do_not_exist_is_refused() -> None:
    """The set of fields that were set is within the fields."""
    serializer = serializer_for(Empty)
    data = serializer.encode(Empty())
    assert data.endswith(b"\x90\x00")
    with pytest.raises(StorageError, match="which of 0 fields"):
        serializer.decode(data[:-1] + b"\x01")
