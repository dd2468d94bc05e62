"""Marking functions as blocking: what can be marked, what the mark reaches, and where it is refused."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

import cloudpickle
import pytest
from api_fakes import Count, Numbers, Shelf

import headgate as hg
from headgate.api.functions import is_blocking

HERE = r"test_api_blocking\.py:\d+"


@hg.blocking
def ask(n: int) -> str:
    """A marked function."""
    return str(n)


@hg.blocking
class Asking(hg.ProcessFunction[int, str]):
    """A marked class."""

    def process(self, record: int, ctx: Any) -> Iterator[str]:
        yield str(record)


class AskingMore(Asking):
    """Calls what waits, so it waits."""


class Client:
    """An object with a method that waits."""

    @hg.blocking
    def fetch(self, n: int) -> str:
        return str(n)

    def plain(self, n: int) -> str:
        return str(n)


def test_a_marked_function_is_itself() -> None:
    """Neither wrapped nor changed: results, type hints and names stay."""

    def own(n: int) -> int:
        return n

    assert hg.blocking(own) is own
    assert is_blocking(own)


@pytest.mark.parametrize(
    "function",
    [
        ask,
        functools.partial(ask),
        Client().fetch,
        hg.blocking(Client().plain),
        hg.blocking(len),
        hg.blocking(lambda n: n),
        hg.blocking(functools.partial(divmod, 7)),
    ],
    ids=["function", "partial", "method", "bound", "builtin", "lambda", "marked partial"],
)
def test_marks_reach_the_nodes(function: Callable[[Any], Any]) -> None:
    """Whatever is called with a record can be marked, and map, filter and flat_map see it."""
    env = hg.Environment()
    stream = env.from_source(Numbers())
    stream.map(function)
    stream.filter(function)
    stream.flat_map(function)
    assert [node.blocking for node in env.program.nodes()] == [False, True, True, True]


def test_builtins_keep_their_meaning() -> None:
    """What cannot carry a mark is called by something that can, and is not marked itself."""
    marked = hg.blocking(len)
    assert (marked("abc"), marked.__name__) == (3, "len")
    assert not is_blocking(len)
    assert hg.blocking(Client().plain)(3) == "3"
    assert not is_blocking(Client().plain)


def test_classes_subclasses_and_instances_are_marked() -> None:
    """Process functions of both kinds; an instance alone marks no other."""
    env = hg.Environment()
    stream = env.from_source(Numbers())
    stream.process(Asking())
    stream.process(AskingMore())
    keyed = stream.key_by(lambda n: n)
    keyed.process(hg.blocking(Count()))
    keyed.process(Count())
    marks = [node.blocking for node in env.program.nodes() if hasattr(node, "function")]
    assert marks == [True, True, True, False]


def test_the_mark_travels() -> None:
    """A function that is sent by value is marked where it arrives."""
    assert is_blocking(cloudpickle.loads(cloudpickle.dumps(hg.blocking(lambda n: n))))


@pytest.mark.parametrize("thing", [3, "name", Numbers, Shelf, Numbers(), None])
def test_other_things_are_refused(thing: Any) -> None:
    """Sources and sinks too: they are asked in the loop."""
    with pytest.raises(hg.PlanError, match=r"blocking\(\) got .*expected a function of one record"):
        hg.blocking(thing)


def test_functions_that_the_loop_calls_are_refused() -> None:
    """A key or a timestamp is computed between two operators: the mark would promise what is not kept."""
    env = hg.Environment()
    stream = env.from_source(Numbers())
    for verb, call in {
        "key_by": lambda: stream.key_by(ask),
        "with_event_time": lambda: stream.with_event_time(ask),
        "with_watermarks": lambda: stream.with_watermarks(hg.WatermarkStrategy.of(ask)),
    }.items():
        with pytest.raises(hg.PlanError, match=rf"{verb}\(\) \({HERE}\) got a function marked"):
            call()


def test_explain_tells() -> None:
    """In the text and in the facts."""
    env = hg.Environment()
    env.from_source(Numbers()).map(ask).sink_to(Shelf())
    assert "runs beside the loop" in env.explain()
