"""Values of formats that are chosen by name, and of models that validate themselves."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass, field
from typing import Annotated, Any

import pydantic
from google.protobuf.api_pb2 import Api, Method

import headgate as hg


class Weights:
    """A class that nothing but pickle holds."""

    def __init__(self, weights: Any) -> None:
        self.weights = weights

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and vars(other) == vars(self)

    __hash__ = None  # type: ignore[assignment]


@dataclass
class Visit:
    """A record as JSON text."""

    page: str
    count: int | None = None
    points: list[float] = field(default_factory=list)


class Place(pydantic.BaseModel):
    """A model that cannot be changed."""

    model_config = pydantic.ConfigDict(frozen=True)
    city: str
    at: tuple[float, float] = (0.0, 0.0)


class Order(pydantic.BaseModel):
    """A model with a model inside."""

    number: int = pydantic.Field(alias="orderNumber")
    lines: list[str] = pydantic.Field(default_factory=list)
    place: Place | None = None
    when: dt.datetime | None = None


SCHEMA = {
    "type": "record",
    "name": "shop.Visit",
    "fields": [
        {"name": "page", "type": "string"},
        {"name": "count", "type": ["null", "long"], "default": None},
        {"name": "rates", "type": {"type": "array", "items": "double"}},
    ],
}

FORMAT_CASES: list[tuple[Any, list[Any]]] = [
    (
        Annotated[dict, hg.avro(SCHEMA)],
        [
            {"page": "żółw", "count": None, "rates": [0.5, float("nan")]},
            {"page": "", "count": 2**60, "rates": []},
        ],
    ),
    (Annotated[Visit, hg.json], [Visit("a", 2**80, [0.5, -0.0]), Visit("")]),
    (Annotated[Weights, hg.pickled], [Weights([1, (2,)]), Weights(None)]),
    (Place, [Place(city="a"), Place(city="ż", at=(1.5, -0.0))]),
    (Order, [Order(orderNumber=2**70), Order(orderNumber=1, lines=["a"], place=Place(city="b"))]),
]

MESSAGES = [Api(name="a", methods=[Method(name="m", request_streaming=True)]), Api()]
"""Messages of a class that was generated and is always there."""
