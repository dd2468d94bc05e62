"""Declared operator state: known from the class, shown by the plan, and refused where it could not live."""

from __future__ import annotations

from typing import Any

import pytest
from api_fakes import Numbers, Shelf

import headgate as hg
from headgate.api.declared.operator_state import declared_operator_state


class Base(hg.ProcessFunction):
    """Declares a list of each redistribution."""

    waiting: hg.OperatorListState[int] = hg.operator_list_state()
    seen: hg.OperatorListState[dict[str, int]] = hg.operator_list_state(redistribution="union")

    def process(self, record: Any, ctx: Any) -> Any:
        yield record


class Both(hg.KeyedProcessFunction):
    """Declares keyed state and operator state."""

    count: hg.ValueState[int] = hg.value_state(default=0)
    total: hg.OperatorListState = hg.operator_list_state()

    def process(self, record: Any, ctx: Any) -> Any:
        yield record


def planned(function: Any, **config: Any) -> str:
    """The plan of a job with the function, as text."""
    env = hg.Environment(config=config)
    stream = env.from_source(Numbers(), uid="numbers")
    if isinstance(function, hg.KeyedProcessFunction):
        stream.key_by(str).process(function).sink_to(Shelf(), uid="shelf")
    elif isinstance(function, hg.ProcessFunction):
        stream.process(function).sink_to(Shelf(), uid="shelf")
    else:
        stream.map(function).sink_to(Shelf(), uid="shelf")
    env.plan()
    return env.explain()


def refused(function: Any, **config: Any) -> str:
    """The sentence that refuses the function, with its place."""
    with pytest.raises(hg.PlanError) as caught:
        planned(function, **config)
    assert "test_api_operator_state.py:" in str(caught.value)
    return str(caught.value)


def test_declarations_are_found_in_order_with_their_types() -> None:
    """Inherited ones first; without type arguments the types are any."""

    class More(Base):
        rules: hg.BroadcastState[str, float] = hg.broadcast_state(serializer="given")
        plain: hg.OperatorListState = hg.operator_list_state()

    found = declared_operator_state(More())
    assert [(d.name, d.mode, d.types, d.serializers) for d in found.values()] == [
        ("waiting", "split", (int,), (None,)),
        ("seen", "union", (dict[str, int],), (None,)),
        ("rules", "broadcast", (str, float), (None, "given")),
        ("plain", "split", (Any,), (None,)),
    ]
    assert list(declared_operator_state(Both())) == ["total"]
    assert declared_operator_state(None) == {}


def test_the_plan_shows_it() -> None:
    """Beside keyed state."""
    assert "state waiting: split list[int]" in planned(Base())
    assert "state seen: union list[dict[str, int]]" in planned(Base())
    assert "state count: value[int]" in planned(Both())
    assert "state total: split list[Any]" in planned(Both())


def test_a_redistribution_that_is_none_is_refused() -> None:
    """Where it is declared; broadcast is another declaration."""
    with pytest.raises(hg.PlanError, match=r"test_api_operator_state.py:\d+ got redistribution='broadcast'"):
        hg.operator_list_state(redistribution="broadcast")


def test_a_wrong_annotation_is_refused() -> None:
    """The right one is named."""

    class Wrong(hg.ProcessFunction):
        waiting: hg.ListState[int] = hg.operator_list_state()

        def process(self, record: Any, ctx: Any) -> Any:
            yield record

    assert "annotate it as hg.OperatorListState[...]" in refused(Wrong())


def test_a_name_declared_twice_is_refused() -> None:
    """Also when the two are of different sorts, in one class or in a subclass."""

    class Twice(hg.KeyedProcessFunction):
        total: hg.ValueState[int] = hg.value_state()
        total: hg.OperatorListState[int] = hg.operator_list_state()  # type: ignore[no-redef]  # noqa: PIE794

        def process(self, record: Any, ctx: Any) -> Any:
            yield record

    class Again(Both):
        count: hg.OperatorListState[int] = hg.operator_list_state()  # type: ignore[assignment]

    assert "Twice is lost" in refused(Twice())
    assert "state 'count'" in refused(Again())


def test_state_on_the_object_is_refused() -> None:
    """It would not be known in the plan."""
    function = Base()
    function.late = hg.operator_list_state()  # type: ignore[attr-defined]
    assert "declares state 'late' on the object" in refused(function)


def test_a_type_without_a_serializer_is_refused() -> None:
    """Before anything runs."""

    class Odd(Base):
        odd: hg.OperatorListState[object] = hg.operator_list_state()

    assert "operator state 'odd'" in refused(Odd())


def test_state_that_nobody_would_bring_to_life_is_refused() -> None:
    """Keyed state without a key, broadcast state without a broadcast stream, any state in a map."""

    class Keyless(Base):
        count: hg.ValueState[int] = hg.value_state()

    class Alone(Base):
        rules: hg.BroadcastState[str, int] = hg.broadcast_state()

    class Mapping:
        count: hg.OperatorListState[int] = hg.operator_list_state()

        def __call__(self, record: Any) -> Any:
            return record

    assert "declares keyed state 'count'" in refused(Keyless())
    assert "declares broadcast state 'rules'" in refused(Alone())
    assert "only functions given to process() have state" in refused(Mapping())


def test_operator_state_needs_a_uid_when_checkpoints_are_on() -> None:
    """Or it could not be found again."""
    config = {"execution.checkpointing.interval": "1s", "execution.checkpointing.dir": "kept/here"}
    assert "has operator state but no uid" in refused(Base(), **config)
