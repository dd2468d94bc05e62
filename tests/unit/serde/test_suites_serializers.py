"""Every built-in serializer, and such as users write, keep the contract of the conformance suite."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from column_samples import COLUMN_CASES
from custom_samples import Celsius, Pair, Points, Text
from format_samples import FORMAT_CASES, MESSAGES
from hypothesis import strategies as st
from serializer_samples import CASES

import headgate as hg
from headgate.serde.composites import ListSerializer, MapSerializer
from headgate.serde.serializer import Buffer
from headgate.testing.suites import SerializerSuite

QUICK = {"int", "str", "Any", "Person", "dict[str, int]", "Order"}
"""Those that stand for the others in the quick tier."""
LONG_TAKES = 5
"""One of so many others is run in the long tier; all are run with the full counts."""


def cases(*found: tuple[Any, list[Any]]) -> list[Any]:
    """A parameter for each case, named by its type."""
    made = []
    for number, (hint, values) in enumerate(found):
        name = hint.__name__ if type(hint) is type else str(hint).replace("typing.", "")
        rest = pytest.mark.ci if number % LONG_TAKES == 0 else pytest.mark.proof
        marks = () if name in QUICK else (rest,)
        made.append(pytest.param((hint, values), id=name[:60], marks=marks))
    return made


class Suite(SerializerSuite):
    """The suite; what starts a process is for the long tier."""

    @pytest.mark.ci
    def test_it_works_where_it_is_shipped_to(self) -> None:
        """See the suite."""
        super().test_it_works_where_it_is_shipped_to()


class TestBuiltIn(Suite):
    """Serializers that an annotation stands for; whatever is wrong with bytes, they say it themselves."""

    @pytest.fixture(autouse=True, params=cases(*CASES, *COLUMN_CASES, *FORMAT_CASES))
    def case(self, request: pytest.FixtureRequest) -> None:
        """One type and its values."""
        self.hint, self.its_values = request.param

    def serializer(self) -> hg.TypeSerializer[Any]:
        return hg.serializer_for(self.hint)

    def values(self) -> Sequence[Any]:
        return self.its_values

    def read(self, serializer: hg.TypeSerializer[Any], data: Buffer, count: int) -> list[Any]:
        return serializer.decode_many(data, count)


@pytest.mark.ci
class TestMessages(SerializerSuite):
    """Protobuf, whose messages are changed in a way of their own."""

    def serializer(self) -> hg.TypeSerializer[Any]:
        return hg.serializer_for(type(MESSAGES[0]))

    def values(self) -> Sequence[Any]:
        return MESSAGES

    def change_in_place(self, value: Any) -> bool:
        value.name += "changed"
        return True

    def read(self, serializer: hg.TypeSerializer[Any], data: Buffer, count: int) -> list[Any]:
        return serializer.decode_many(data, count)


class TestText(Suite):
    """One value at a time, drawn by a strategy."""

    def serializer(self) -> hg.TypeSerializer[Any]:
        return Text()

    def values(self) -> Sequence[Any]:
        return ["", "żółw"]

    def strategy(self) -> Any:
        return st.text(max_size=5)


CUSTOM: dict[str, tuple[hg.TypeSerializer[Any], list[Any]]] = {
    "of the guide": (Celsius(2, 4), [0.0, -271.15, 21.5]),
    "batches": (Points(), [[1.0, 2.0], [-0.0, float("nan")]]),
    "composite": (Pair(Text(), hg.serializer_for(list[int])), [("a", [1]), ("", [])]),
    "list": (ListSerializer(Text()), [["a", "b"], [], ["c"]]),
    "list of built-in": (ListSerializer(hg.serializer_for(int)), [[2**70], [1]]),
    "map": (MapSerializer(Text(), Points()), [{"a": [1.0, 2.0], "": [0.0, 1.0]}, {}]),
    "map of built-in": (MapSerializer(Text(), hg.serializer_for(list[int])), [{"a": [1]}, {"b": []}]),
    "nested": (ListSerializer(MapSerializer(Text(), ListSerializer(Text()))), [[{"a": ["b"]}], []]),
}


class TestCustom(Suite):
    """Serializers of the user's, and lists and maps over them."""

    @pytest.fixture(
        autouse=True,
        params=[
            pytest.param(name, marks=() if name in ("of the guide", "map") else (pytest.mark.ci,))
            for name in CUSTOM
        ],
    )
    def case(self, request: pytest.FixtureRequest) -> None:
        """One serializer and its values."""
        self.made, self.its_values = CUSTOM[request.param]

    def serializer(self) -> hg.TypeSerializer[Any]:
        restored: hg.TypeSerializer[Any] = self.made.snapshot().restore_serializer()
        return restored

    def values(self) -> Sequence[Any]:
        return self.its_values
