"""Reducing and aggregating state as declared: accumulator types known from the class, mistakes refused."""

from __future__ import annotations

import functools
import operator
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Generic, TypeVar

import pytest
from api_fakes import Numbers, Shelf

import headgate as hg
from headgate.api.declared.keyed_states import StateKind, declared_state
from headgate.graph.logical import KeyedProcessNode
from headgate.runtime.job.shipped_program import program_from_bytes
from headgate.testing import OperatorHarness

T = TypeVar("T")


class Folding(hg.AggregateFunction[int, list[int], int]):
    """Does nothing by annotations: its accumulator is the base class's type argument."""

    def create_accumulator(self):  # type: ignore[no-untyped-def]
        return []

    def add(self, value: int, accumulator: list[int]) -> list[int]:
        return [*accumulator, value]

    def get_result(self, accumulator: list[int]) -> int:
        return len(accumulator)


class Annotated(Folding):
    """The annotation is closer than the type argument."""

    def create_accumulator(self) -> list[int] | None:
        return []


class Gathering(hg.AggregateFunction[T, list[T], int], Generic[T]):
    """Leaves a type to its subclasses, also in the annotation."""

    def create_accumulator(self) -> list[T]:
        return []

    def add(self, value: T, accumulator: list[T]) -> list[T]:
        return [*accumulator, value]

    def get_result(self, accumulator: list[T]) -> int:
        return len(accumulator)


class GatheringText(Gathering[str]):
    """Fills the type in."""


class Untyped(hg.AggregateFunction):
    """Says nothing of types."""

    def create_accumulator(self) -> Any:
        return 0

    def add(self, value: Any, accumulator: Any) -> Any:
        return accumulator + value

    def get_result(self, accumulator: Any) -> Any:
        return accumulator


class Silent(Untyped):
    """Not even an annotation."""

    def create_accumulator(self):  # type: ignore[no-untyped-def]
        return 0


class Lost(Untyped):
    """Names what is not there."""

    def create_accumulator(self) -> Missing:  # type: ignore[name-defined]  # noqa: F821
        return 0


class Nothing(Untyped):
    """Says that there is no accumulator."""

    def create_accumulator(self) -> None:
        return None


class Unstorable(Untyped):
    """An accumulator that has no serializer."""

    def create_accumulator(self) -> complex:
        return 0j


def function_with(declaration: Any, annotation: Any = None) -> Any:
    """A keyed function with one state."""

    class Some(hg.KeyedProcessFunction):
        folded = declaration

        def process(self, record: Any, ctx: Any) -> Any:
            yield record

    if annotation is not None:
        Some.__annotations__ = {"folded": annotation}
    return Some()


def planned(function: Any) -> hg.Environment:
    """A program around the function."""
    env = hg.Environment()
    env.from_source(Numbers()).key_by(str).process(function).sink_to(Shelf())
    return env


@pytest.mark.parametrize(
    ("function", "stored"),
    [
        (Folding(), list[int]),
        (Annotated(), list[int] | None),
        (GatheringText(), list[str]),
        (Gathering(), Any),
        (Untyped(), Any),
        (Silent(), Any),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, hg.AggregateFunction) else None,
)
def test_the_accumulator_type_is_known_from_the_class(function: Any, stored: Any) -> None:
    """The annotation says it, else the type argument, filled in through classes between; else Any."""
    declared = declared_state(function_with(hg.aggregating_state(function)))["folded"]
    assert (declared.kind, declared.types) == (StateKind.AGGREGATING, (stored,))


def test_a_declared_accumulator_type_goes_before_the_class() -> None:
    """What is said where the state is declared counts, also where the class cannot be read."""
    for function in (Annotated(), Lost()):
        state = function_with(hg.aggregating_state(function, accumulator=set[int]))
        assert declared_state(state)["folded"].types == (set[int],)


def test_the_plan_shows_what_is_stored() -> None:
    """Explain names kind and stored type, with nothing run."""
    reducing = function_with(hg.reducing_state(operator.add), hg.ReducingState[int])
    assert "state folded: reducing[int]" in planned(reducing).explain()
    aggregating = function_with(hg.aggregating_state(Folding()), hg.AggregatingState[str, int])
    assert "state folded: aggregating[list[int]]" in planned(aggregating).explain()


SCRIPT = """
from __future__ import annotations
import sys
from pathlib import Path
sys.path.append({fakes!r})
import headgate as hg
from api_fakes import Numbers, Shelf
from headgate.runtime.job.shipped_program import Program, WorkerSettings

class Fold(hg.AggregateFunction):
    def create_accumulator(self) -> Sizes: return dict()
    def add(self, value, accumulator): return accumulator
    def get_result(self, accumulator): return accumulator

class Some(hg.KeyedProcessFunction):
    folded: hg.AggregatingState[int, int] = hg.aggregating_state(Fold())
    def process(self, record, ctx): yield record

Sizes = dict[str, int]

env = hg.Environment()
env.from_source(Numbers()).key_by(str).process(Some()).sink_to(Shelf())
Path(sys.argv[1]).write_bytes(Program("job", env.plan(), WorkerSettings(), dict()).to_bytes())
"""


def test_the_accumulator_type_travels_with_a_script(tmp_path: Path) -> None:
    """A worker does not have the script's module, where a textual annotation could be looked up."""
    script, shipped = tmp_path / "folds.py", tmp_path / "shipped"
    script.write_text(SCRIPT.replace("{fakes!r}", repr(str(Path(__file__).parent))), encoding="utf-8")
    subprocess.run([sys.executable, str(script), str(shipped)], check=True, timeout=50)
    program = program_from_bytes(shipped.read_bytes())
    chained = [node for vertex in program.plan.vertices for node in vertex.chain]
    function = next(node.function for node in chained if isinstance(node, KeyedProcessNode))
    assert declared_state(function)["folded"].types == (dict[str, int],)


@pytest.mark.parametrize(
    "reduce",
    [operator.add, max, min, lambda a, b: a, functools.partial(lambda x, a, b: a, 1), str.__add__],
)
def test_functions_of_two_values_reduce(reduce: Any) -> None:
    """Builtins that do not tell their arguments are taken at their word."""
    assert declared_state(function_with(hg.reducing_state(reduce)))["folded"].function is reduce


@pytest.mark.parametrize(
    ("declare", "why"),
    [
        (lambda: hg.reducing_state(len), r"got len, which does not take two values"),
        (lambda: hg.reducing_state(lambda a: a), r"<lambda>, which does not take two values"),
        (lambda: hg.reducing_state(7), r"got 7; expected a function of two values"),  # type: ignore[arg-type]
        (lambda: hg.reducing_state(Untyped()), r"expected a function of two values"),  # type: ignore[arg-type]
        (lambda: hg.aggregating_state(Folding), r"got the class Folding; pass an instance: Folding\(\)"),  # type: ignore[arg-type]
        (lambda: hg.aggregating_state(max), r"got max; expected an AggregateFunction"),  # type: ignore[arg-type]
    ],
)
def test_a_wrong_function_is_refused_where_it_stands(declare: Callable[[], Any], why: str) -> None:
    """The class body itself fails, and the sentence names its line."""
    with pytest.raises(hg.PlanError, match=rf"_state\(\) at test_api_aggregate\.py:\d+ .*{why}"):
        declare()


@pytest.mark.parametrize(
    ("declaration", "annotation", "why"),
    [
        (hg.aggregating_state(Lost()), None, r"Lost\.create_accumulator\(\) cannot be read .*'Missing'"),
        (hg.aggregating_state(Nothing()), None, "annotated to return None"),
        (hg.aggregating_state(Unstorable()), None, "no serializer is known for complex"),
        (hg.reducing_state(max), hg.ReducingState[complex], "state 'folded' .*no serializer is known"),
        (hg.reducing_state(max), hg.ValueState[int], r"annotate it as hg\.ReducingState\[\.\.\.\]"),
        (hg.aggregating_state(Folding()), hg.ReducingState[int], r"hg\.AggregatingState\[\.\.\.\]"),
        (hg.value_state(), hg.AggregatingState[int, int], r"annotate it as hg\.ValueState\[\.\.\.\]"),
        (hg.reducing_state(max), "hg.ReducingState[int, str]", "annotations of .*Some cannot be read"),
    ],
)
def test_a_wrong_declaration_is_refused_with_the_plan(declaration: Any, annotation: Any, why: str) -> None:
    """Before anything starts, with the place in the program."""
    with pytest.raises(hg.PlanError, match=why) as caught:
        planned(function_with(declaration, annotation)).plan()
    assert "test_api_aggregate.py:" in str(caught.value)


class Basket(hg.KeyedProcessFunction[str, dict, tuple]):
    """Folds in the generated loop and in timers: emits, and empties at every hundredth millisecond."""

    total: hg.ReducingState[int] = hg.reducing_state(operator.add)
    names: hg.ReducingState[list[str]] = hg.reducing_state(operator.iadd)
    amounts: hg.AggregatingState[int, int] = hg.aggregating_state(Folding())

    def process(self, record: dict, ctx: Any) -> Iterator[tuple]:
        self.total.add(record["amount"])
        self.names.add([record["name"]])
        self.amounts.add(record["amount"])
        ctx.timers.register_event_time(100)
        yield ctx.key, self.total.get(), len(self.names.get() or ()), self.amounts.get()

    def on_timer(self, timestamp: int, ctx: Any) -> Iterator[tuple]:
        yield ctx.key, self.total.get(), self.names.get(), self.amounts.get()
        self.total.clear()
        self.names.clear()
        self.amounts.clear()


def bought(user: str, name: str, amount: Any) -> dict[str, Any]:
    """A record."""
    return {"user": user, "name": name, "amount": amount}


def test_the_harness_folds_shows_and_restores() -> None:
    """State of a snapshot goes on where it was; state() shows what get() gives, None for what is empty."""
    harness = OperatorHarness(Basket(), key="user")
    harness.process_batch(
        [bought("ada", "tea", 3), bought("bob", "jam", 1), bought("ada", "rye", 4)], [1, 2, 3]
    )
    assert harness.take() == [("ada", 3, 1, 1), ("bob", 1, 1, 1), ("ada", 7, 2, 2)]
    shown = [harness.state(name, "ada") for name in ("total", "names", "amounts")]
    assert shown == [7, ["tea", "rye"], 2]
    later = OperatorHarness.restore(Basket(), harness.snapshot(), key="user")
    later.process(bought("ada", "oil", 5), timestamp=4)
    later.advance_watermark(100)
    assert sorted(later.take()[1:]) == [("ada", 12, ["tea", "rye", "oil"], 3), ("bob", 1, ["jam"], 1)]
    assert [later.state(name, "ada") for name in ("total", "names", "amounts")] == [None] * 3
    assert harness.state("names", "ada") == ["tea", "rye"]


class Forgetful(hg.KeyedProcessFunction[str, dict, Any]):
    """The classic mistake: the function changes in place and returns nothing."""

    names: hg.ReducingState[list[str]] = hg.reducing_state(list.extend)  # type: ignore[arg-type]

    def process(self, record: dict, ctx: Any) -> None:
        self.names.add([record["name"]])


class Emptying(Folding):
    def add(self, value: int, accumulator: list[int]) -> Any:
        accumulator.append(value)


class ForgetfulToo(hg.KeyedProcessFunction[str, dict, Any]):
    """The same in an AggregateFunction."""

    amounts: hg.AggregatingState[int, int] = hg.aggregating_state(Emptying())

    def process(self, record: dict, ctx: Any) -> None:
        self.amounts.add(record["amount"])


class FrozenToo(hg.KeyedProcessFunction[str, dict, Any]):
    """None where values cannot be changed in place."""

    total: hg.ReducingState[int] = hg.reducing_state(operator.add)

    def process(self, record: dict, ctx: Any) -> None:
        self.total.add(record["amount"])


@pytest.mark.parametrize(
    ("function", "amount", "by"),
    [(Forgetful(), 1, "list.extend"), (ForgetfulToo(), 1, "Emptying.add"), (FrozenToo(), None, "add")],
)
def test_none_is_never_folded_into_state(function: Any, amount: Any, by: str) -> None:
    """It would read as empty; the record at hand and the function are named."""
    harness = OperatorHarness(function, key="user")
    with pytest.raises(hg.UserFunctionError, match=f"None by way of {by}") as caught:
        harness.process_batch([bought("ada", "tea", amount), bought("ada", "rye", amount)])
    assert "'user': 'ada'" in str(caught.value)
