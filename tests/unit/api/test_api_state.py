"""Declared state: known from the class, and every conflict of names refused."""

from __future__ import annotations

from typing import Any

import pytest
from api_fakes import Numbers, Shelf

import headgate as hg
from headgate.api.declared.keyed_states import StateKind, declared_state


class Base(hg.KeyedProcessFunction):
    """Declares one of each kind."""

    count: hg.ValueState[int] = hg.value_state(default=0)
    seen: hg.ListState[str] = hg.list_state()
    totals: hg.MapState[str, float] = hg.map_state()

    def process(self, record: Any, ctx: Any) -> Any:
        yield record


def refused(function: hg.KeyedProcessFunction) -> str:
    """The sentence that refuses the function."""
    env = hg.Environment()
    env.from_source(Numbers()).key_by(str).process(function).sink_to(Shelf())
    with pytest.raises(hg.PlanError) as caught:
        env.plan()
    assert "test_api_state.py:" in str(caught.value)
    return str(caught.value)


def test_declarations_are_found_in_order_with_their_types() -> None:
    """Name, kind and type arguments come from the class, inherited ones first."""

    class More(Base):
        last: hg.ValueState[bytes] = hg.value_state()

    found = declared_state(More())
    assert [(d.name, d.kind, d.types) for d in found.values()] == [
        ("count", StateKind.VALUE, (int,)),
        ("seen", StateKind.LIST, (str,)),
        ("totals", StateKind.MAP, (str, float)),
        ("last", StateKind.VALUE, (bytes,)),
    ]


def test_a_name_declared_twice_in_one_class_is_refused() -> None:
    """Python keeps only the last; the lost one is named by its line."""

    class Twice(hg.KeyedProcessFunction):
        count: hg.ValueState[int] = hg.value_state(default=0)
        count: hg.ListState[int] = hg.list_state()  # type: ignore[no-redef]  # noqa: PIE794

        def process(self, record: Any, ctx: Any) -> Any:
            yield record

    assert "in test_a_name_declared_twice_in_one_class_is_refused.<locals>.Twice is lost" in refused(Twice())


def test_an_inherited_name_declared_again_is_refused() -> None:
    """Two classes would share one state without knowing."""

    class Again(Base):
        count: hg.ValueState[str] = hg.value_state(default="")  # type: ignore[assignment]

    assert "state 'count'" in refused(Again())


def test_an_inherited_name_covered_by_something_else_is_refused() -> None:
    """A method of the state's name would hide it."""

    class Covered(Base):
        def seen(self) -> int:  # type: ignore[override]
            return 1

    assert "state 'seen'" in refused(Covered())


def test_state_declared_on_the_object_is_refused() -> None:
    """It would not be known without running the constructor."""

    class Late(hg.KeyedProcessFunction):
        def __init__(self) -> None:
            self.count = hg.value_state(default=0)

        def process(self, record: Any, ctx: Any) -> Any:
            yield record

    assert "declares state 'count' on the object" in refused(Late())


def test_an_annotation_of_another_kind_is_refused_with_the_place() -> None:
    """The declaration and the annotation must agree."""

    class Confused(hg.KeyedProcessFunction):
        count: hg.ListState[int] = hg.value_state(default=0)

        def process(self, record: Any, ctx: Any) -> Any:
            yield record

    assert "annotate it as hg.ValueState[...]" in refused(Confused())


def test_a_default_that_changes_in_place_is_fresh_every_time() -> None:
    """No two keys share a default list."""

    class Lists(hg.KeyedProcessFunction):
        items: hg.ValueState[list[int]] = hg.value_state(default=[])

        def process(self, record: Any, ctx: Any) -> Any:
            yield record

    default = declared_state(Lists())["items"].default
    default().append(1)
    assert default() == []
