"""Serializers in declarations: checked when the job is planned, shown by ``headgate types``."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

import headgate as hg
from headgate.cli.types import render
from headgate.common.errors import PlanError


class Text(hg.TypeSerializer[str]):
    immutable = True

    def encode(self, value: str) -> bytes:
        return value.encode()

    def decode(self, data: bytes) -> str:
        return data.decode()

    def snapshot(self) -> Any:
        return TextSnapshot()


class TextSnapshot(hg.SimpleTypeSerializerSnapshot[str]):
    def __init__(self) -> None:
        super().__init__(Text)


class OtherText(Text):
    """Has the snapshot class of another one."""


class Opaque:
    """No serializer is known for it."""


class Function(hg.KeyedProcessFunction[Any, Any, Any]):
    def process(self, record: Any, ctx: Any) -> Iterator[Any]:
        yield record


class Good(Function):
    one: hg.ValueState[Opaque] = hg.value_state(serializer=Text())
    many: hg.ListState[Opaque] = hg.list_state(serializer=Text())
    named: hg.MapState[int, Opaque] = hg.map_state(serializer=Text())
    most: hg.ReducingState[Opaque] = hg.reducing_state(max, serializer=Text())
    plain: hg.ValueState[int] = hg.value_state()


def with_one(serializer: Any) -> Function:
    """A function with one state of a serializer."""

    class One(Function):
        one: hg.ValueState[str] = hg.value_state(serializer=serializer)

    return One()


def with_keys(serializer: Any) -> Function:
    """A function with a map whose keys have a serializer."""

    class Keys(Function):
        named: hg.MapState[str, int] = hg.map_state(key_serializer=serializer)

    return Keys()


def program(*functions: Any) -> hg.Environment:
    """One function behind the other."""
    env = hg.Environment(parallelism=1)
    stream = env.from_collection(["a"], uid="in")
    for number, function in enumerate(functions):
        stream = stream.key_by(lambda word: word).process(function, uid=f"f{number}")
    stream.write_json("out", uid="out")
    return env


def test_a_declared_serializer_takes_the_place_of_the_type() -> None:
    """A type that nobody can store needs nothing else; the rest of the program is as it was."""
    facts = program(Good()).describe()
    rows = {row["state"]: row for row in facts["types"]["states"]}
    assert {name: row["serializer"] for name, row in rows.items()} == {
        "one": ["custom Text"],
        "many": ["custom Text"],
        "named": ["int", "custom Text"],
        "most": ["custom Text"],
        "plain": ["int"],
    }
    assert [row["why"] for row in rows.values()] == ["serializer in the declaration"] * 4 + ["annotation"]
    assert {name for name, row in rows.items() if row["immutable"]} == {"one", "most", "plain"}
    assert "custom Text" in render("job", facts["types"])
    program(Good()).plan()


@pytest.mark.parametrize("make", [with_one, with_keys])
@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        (Text, r"got the class Text; pass an instance of a TypeSerializer: Text\(\)"),
        ("text", "got 'text' as its serializer"),
    ],
)
def test_what_is_no_serializer_is_refused_at_its_place(
    make: Callable[[Any], Any], wrong: Any, why: str
) -> None:
    """The error names the operator, the state, and the line of the declaration."""
    with pytest.raises(
        PlanError, match=rf"operator '(One|Keys)'.*state '\w+' \(test_api_serializers.py:\d+\) {why}"
    ):
        program(make(wrong)).plan()


def test_g20_one_snapshot_class_for_two_serializers_is_refused_across_operators() -> None:
    """Two functions of one program; the same serializer class in both is right."""
    program(with_one(Text()), with_keys(Text())).plan()
    with pytest.raises(
        PlanError, match=r"operator 'Keys'.*TextSnapshot is the snapshot class of Text and of OtherText"
    ):
        program(with_one(Text()), with_keys(OtherText())).plan()


def test_operator_state_is_checked_as_well() -> None:
    """Its declarations take serializers, too."""

    class Listing(hg.ProcessFunction[str, str]):
        seen: hg.OperatorListState[str] = hg.operator_list_state(serializer=Text)

        def process(self, record: str, ctx: Any) -> Iterator[str]:
            yield record

    env = hg.Environment(parallelism=1)
    env.from_collection(["a"], uid="in").process(Listing(), uid="list").write_json("out", uid="out")
    with pytest.raises(PlanError, match=r"state 'seen'.* got the class Text"):
        env.plan()


def test_a_program_with_a_wrong_serializer_can_still_be_explained() -> None:
    """What is wrong stands in its row."""
    (row,) = program(with_one(Text)).describe()["types"]["states"]
    assert (row["serializer"], "got the class Text" in row["refused"]) == (None, True)
