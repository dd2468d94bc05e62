"""Fused map, filter and flat_map: results, shapes, times, and whom an error names."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from operator_samples import Recorder, columns, context, opened, rows

from headgate.common.errors import UserFunctionError
from headgate.graph.logical import FilterNode, FlatMapNode, MapNode
from headgate.records.arrow_batch import ArrowBatch
from headgate.runtime.worker.operators.fused import FusedOperator

MAKERS = {"map": MapNode, "filter": FilterNode, "flat_map": FlatMapNode}


def fused(*steps: tuple[str, Callable[[Any], Any]]) -> tuple[FusedOperator, Recorder]:
    """An operator of these steps, named step-0, step-1, ..."""
    nodes: list[Any] = [MAKERS[kind](n, kind, function=function) for n, (kind, function) in enumerate(steps)]
    operator = FusedOperator([context(f"step-{n}") for n in range(len(steps))], nodes)
    return operator, opened(operator)[0]


STEPS: list[tuple[str, Callable[[Any], Any]]] = [
    ("map", lambda n: n * 3 + 1),
    ("filter", lambda n: n % 2),
    ("flat_map", lambda n: range(n % 4)),
    ("flat_map", lambda n: [n, -n]),
    ("filter", lambda n: n % 5 != 0),
    ("map", lambda n: n - 7),
]


@given(
    st.lists(st.integers(0, 100), min_size=1, max_size=30),
    st.lists(st.sampled_from(range(len(STEPS))), min_size=1, max_size=6),
    st.booleans(),
)
def test_any_run_of_steps_does_what_they_do_one_by_one(
    numbers: list[int], picks: list[int], timed: bool
) -> None:
    """The generated loop equals applying each function in turn; outputs carry their origin's times."""
    operator, out = fused(*[STEPS[pick] for pick in picks])
    expected: list[tuple[Any, Any, Any]] = []
    for index, number in enumerate(numbers):
        values = [number]
        for kind, function in (STEPS[pick] for pick in picks):
            if kind == "map":
                values = [function(value) for value in values]
            elif kind == "filter":
                values = [value for value in values if function(value)]
            else:
                values = [output for value in values for output in function(value)]
        expected += [(value, *((10 * index, 10 * index - 1) if timed else (None, None))) for value in values]
    times = [10 * n for n in range(len(numbers))]
    operator.process(rows(numbers, times, [t - 1 for t in times]) if timed else rows(numbers))
    assert out.log == expected


def test_nothing_left_means_no_batch() -> None:
    """When all records are dropped, nothing is passed on, in either shape."""
    operator, out = fused(("filter", lambda _: False))
    operator.process(rows([1, 2], [1, 2], [0, 0]))
    operator.process(columns([{"a": 1}]))
    assert out.batches == []


def test_filters_on_columns_stay_columnar() -> None:
    """Filters alone take rows out of the columns; the records never leave them."""
    operator, out = fused(("filter", lambda r: r.a > 1), ("filter", lambda r: r["b"] != "z"))
    operator.process(
        columns([{"a": n, "b": b} for n, b in enumerate("vwxyz")], [0, 1, 2, 3, 4], [0, 0, 1, 1, 2])
    )
    (batch,) = out.batches
    assert isinstance(batch, ArrowBatch)
    assert batch.columns.to_pylist() == [{"a": 2, "b": "x"}, {"a": 3, "b": "y"}]
    assert [entry[1:] for entry in out.log] == [(2, 1), (3, 1)]


def test_rows_of_columns_may_be_passed_on() -> None:
    """A view that a map returns stays what it was."""
    operator, out = fused(("map", lambda r: r))
    operator.process(columns([{"a": 1}, {"a": 2}]))
    assert [row.a for row in out.records] == [1, 2]


def boom(_: Any) -> Any:
    """Raise."""
    raise ValueError("not today")


def test_an_error_names_the_operator_the_record_and_the_attempt() -> None:
    """The operator that raised is named, with the record that it was given and the user's frames alone."""
    operator, _ = fused(
        ("map", lambda n: n + 1), ("filter", lambda n: n > 0), ("map", lambda n: 10 // (n - 5)), ("map", str)
    )
    with pytest.raises(UserFunctionError) as caught:
        operator.process(rows([1, 2, 4, 9]))
    error = caught.value
    assert error.operator == "operator 'the step-2' (uid 'step-2')"
    assert (error.record, error.attempt) == ("5", 3)
    assert "ZeroDivisionError" in error.traceback_text
    assert "n - 5" in error.traceback_text
    assert "headgate" not in error.traceback_text.replace(__file__, "")


@pytest.mark.parametrize("position", range(5))
@pytest.mark.parametrize("timed", [True, False])
@pytest.mark.parametrize("kind", ["map", "filter", "flat_map"])
def test_every_position_in_a_run_is_told_apart(kind: str, position: int, timed: bool) -> None:
    """Wherever in a mixed run a function raises, its own operator and its own input are named."""
    plain: list[tuple[str, Callable[[Any], Any]]] = [
        ("map", lambda r: (*r, "m")),
        ("flat_map", lambda r: [(*r, "f")]),
        ("filter", lambda _: True),
        ("map", lambda r: (*r, "n")),
    ]
    plain.insert(position, (kind, boom))
    operator, _ = fused(*plain)
    seen: tuple[str, ...] = ("r",)
    for before, _function in plain[:position]:
        if before != "filter":
            seen = _function(seen) if before == "map" else _function(seen)[0]
    with pytest.raises(UserFunctionError) as caught:
        operator.process(rows([("r",)], [1], [0]) if timed else rows([("r",)]))
    assert caught.value.operator == f"operator 'the step-{position}' (uid 'step-{position}')"
    assert caught.value.record == repr(seen)


def test_an_error_inside_a_flat_maps_generator_is_the_flat_maps() -> None:
    """Generators run while the next step is fed; the error is still theirs."""

    def generate(n: int) -> Any:
        yield n
        raise KeyError(n)

    operator, _ = fused(("map", lambda n: n), ("flat_map", generate), ("map", str))
    with pytest.raises(UserFunctionError, match="step-1") as caught:
        operator.process(rows([7]))
    assert "KeyError: 7" in caught.value.traceback_text


def test_builtins_raise_without_a_frame_of_their_own() -> None:
    """Functions written in C have no frame; type and text are told all the same."""
    operator, _ = fused(("map", int))
    with pytest.raises(UserFunctionError, match="invalid literal") as caught:
        operator.process(rows(["1", "x"]))
    assert caught.value.record == "'x'"


def test_our_own_errors_pass_as_they_are() -> None:
    """An error that already says whose move it is, is not wrapped."""
    wrapped = UserFunctionError("inner", "r", "t", 1)

    def raising(_: Any) -> Any:
        raise wrapped

    operator, _ = fused(("map", raising))
    with pytest.raises(UserFunctionError) as caught:
        operator.process(rows([1]))
    assert caught.value is wrapped


def test_a_record_whose_repr_fails_does_not_hide_the_error() -> None:
    """The first error is told, with the type of the record."""

    class Shy:
        def __repr__(self) -> str:
            raise RuntimeError

    operator, _ = fused(("map", boom))
    with pytest.raises(UserFunctionError, match="not today") as caught:
        operator.process(rows([Shy()]))
    assert caught.value.record == "<Shy, whose repr raised RuntimeError>"


def test_long_records_are_shortened() -> None:
    """At most 300 characters of a record are shown."""
    operator, _ = fused(("map", boom))
    with pytest.raises(UserFunctionError) as caught:
        operator.process(rows(["x" * 1000]))
    assert len(caught.value.record) == 300
    assert caught.value.record.endswith("...")
