"""Every declared type is judged when the program is planned: refused, told of, or silently fine."""

from __future__ import annotations

import json
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Annotated, Any

import pytest
from api_fakes import Numbers, Shelf

import headgate as hg
from headgate.api.checking import program_checks
from headgate.api.declared.keyed_states import declared_state


class Odd:
    """A class without serializer."""


class Base(hg.KeyedProcessFunction[str, Any, Any]):
    def process(self, record: Any, ctx: Any) -> Any:
        yield record


class OddSum(hg.AggregateFunction[int, Odd, int]):
    """Folds into what cannot be stored."""

    def create_accumulator(self) -> Odd:
        return Odd()

    def add(self, value: int, accumulator: Odd) -> Odd:
        return accumulator

    def get_result(self, accumulator: Odd) -> int:
        return 0


class JsonSum(hg.AggregateFunction[int, dict, int]):
    """Folds into JSON text."""

    def create_accumulator(self) -> Annotated[dict, hg.json]:
        return {}

    def add(self, value: int, accumulator: dict) -> dict:
        return accumulator

    def get_result(self, accumulator: dict) -> int:
        return 0


def planned(function: Any, **config: Any) -> hg.Environment:
    """A program around one keyed function."""
    env = hg.Environment(config=config)
    env.from_source(Numbers(), uid="in").key_by("a").process(function, uid="f").sink_to(Shelf(), uid="out")
    return env


def declaring(declaration: Any, hint: Any) -> Any:
    """A function with one state."""
    return type("F", (Base,), {"__annotations__": {"held": hint}, "held": declaration})()


@pytest.mark.parametrize(
    ("declaration", "hint"),
    [
        (hg.value_state(), hg.ValueState[Odd]),
        (hg.list_state(), hg.ListState[Odd]),
        (hg.map_state(), hg.MapState[Odd, int]),
        (hg.map_state(), hg.MapState[str, list[Odd]]),
        (hg.reducing_state(max), hg.ReducingState[Odd]),
        (hg.aggregating_state(OddSum()), hg.AggregatingState[int, int]),
        (hg.operator_list_state(), hg.OperatorListState[Odd]),
    ],
)
def test_every_kind_of_state_is_refused_without_a_serializer(declaration: Any, hint: Any) -> None:
    """With the operator, the state, the place of its declaration, the type and what to do."""
    with pytest.raises(hg.PlanError) as caught:
        planned(declaring(declaration, hint)).plan()
    text = str(caught.value)
    for part in ("operator 'F' (", "state 'held'", "Odd", "no serializer is known for Odd; use None, bool"):
        assert part in text


def test_whoever_explains_the_program_sees_what_is_refused() -> None:
    """The plan can be shown, with the reason in it."""
    env = planned(declaring(hg.value_state(), hg.ValueState[Odd]))
    (row,) = json.loads(env.explain(format="json"))["types"]["states"]
    assert "no serializer is known for Odd" in row["refused"]


def test_marks_reach_the_serializer() -> None:
    """Through every kind of annotation; a note around the state itself is none of ours."""

    class Marked(Base):
        value: hg.ValueState[Annotated[dict, hg.json]] = hg.value_state()
        noted: Annotated[hg.ValueState[int], "a note"] = hg.value_state()
        elements: hg.ListState[Annotated[list, hg.json]] = hg.list_state()
        folded: hg.AggregatingState[int, int] = hg.aggregating_state(JsonSum())

    function = Marked()
    planned(function).plan()
    types = {name: descriptor.types for name, descriptor in declared_state(function).items()}
    assert types == {
        "value": (Annotated[dict, hg.json],),
        "noted": (int,),
        "elements": (Annotated[list, hg.json],),
        "folded": (Annotated[dict, hg.json],),
    }


@pytest.fixture
def fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    """No job has warned yet."""
    monkeypatch.setattr(program_checks, "_WARNED", {})


class Held(Base):
    one: hg.ValueState[Annotated[Odd, hg.pickled]] = hg.value_state()
    two: hg.ListState[dict[str, Annotated[Odd, hg.pickled]]] = hg.list_state()
    plain: hg.ValueState[int] = hg.value_state()


@pytest.mark.usefixtures("fresh")
def test_pickled_state_warns_once_per_job() -> None:
    """With every such state and its place, why it is a risk and how to forbid it."""
    env = planned(Held())
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        env.plan()
        env.plan()
    (warning,) = caught
    text = str(warning.message)
    for part in ("state 'one' (test_api_state_types.py:", "state 'two'", "of operator Held", "runs code"):
        assert part in text
    assert "pipeline.generic-types=false" in text
    assert "plain" not in text
    assert warning.filename == "test_api_state_types.py"


def test_pickled_state_is_refused_where_generic_types_are() -> None:
    """The state, its place, and who forbade it."""
    with pytest.raises(
        hg.PlanError, match=r"state 'one' \(.*\) is stored as pickle, .*false \(program\) forbids"
    ):
        planned(Held(), **{"pipeline.generic-types": False}).plan()


@pytest.mark.parametrize(
    "key", [Annotated[Odd, hg.pickled], tuple[int, Annotated[Odd, hg.pickled]]], ids=["itself", "inside"]
)
def test_keys_are_never_pickled(key: Any) -> None:
    """Equal objects need not have equal pickles."""
    with pytest.raises(hg.PlanError, match=r"the keys of state 'held' .* are marked hg\.pickled"):
        planned(declaring(hg.map_state(), hg.MapState[key, int])).plan()


PROGRAM = """
import json, sys
sys.path.append({fakes!r})
import headgate as hg
from api_fakes import Numbers, Shelf
class F(hg.KeyedProcessFunction):
    held: hg.ValueState[dict[str, list[int]]] = hg.value_state()
    def process(self, record, ctx):
        yield record
env = hg.Environment()
env.from_source(Numbers(), uid="in").key_by("a").process(F(), uid="f").sink_to(Shelf(), uid="out")
before = set(sys.modules)
env.plan()
print(json.dumps(sorted(name.partition(".")[0] for name in set(sys.modules) - before)))
"""


def test_judging_types_loads_no_package_that_the_program_does_not_use() -> None:
    """Neither NumPy, Arrow, Protobuf nor Avro."""
    code = PROGRAM.format(fakes=str(Path(__file__).parent))
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert not {"numpy", "pyarrow", "google", "fastavro", "pydantic"} & set(json.loads(done.stdout))
