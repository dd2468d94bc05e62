"""Wrong arguments of `map_async`, `flat_map_async` and `retry`: refused at the line that gives them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

import headgate as hg
from headgate.api.declared.operator_state import declared_operator_state
from headgate.graph.async_nodes import AsyncNode


async def looked_up(record: int) -> str:
    """A right one."""
    return str(record)


def plain(record: int) -> str:
    """None that can be awaited."""
    return str(record)


async def yielding(record: int) -> AsyncIterator[str]:
    """Many answers, one after the other."""
    yield str(record)


async def two(record: int, more: int) -> str:
    """Of too many arguments."""
    return str(record + more)


class Session(hg.AsyncFunction[int, str]):
    """A right one, that is given as a class where an instance is needed."""

    async def call(self, record: int) -> str:
        return str(record)


class NotAsync(hg.AsyncFunction[int, str]):
    """Its method forgets the word."""

    def call(self, record: int) -> str:  # type: ignore[override]
        return str(record)


def numbers() -> hg.DataStream[int]:
    """A stream whose records are of type int."""
    return hg.Environment().from_collection([1, 2])


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (plain, r"map_async\(\) \(test_api_async.py:\d+\) got plain, which is no `async def`.*hg.blocking"),
        (yielding, "got yielding, which yields"),
        (two, r"got two, which takes \(record, more\); expected a function of one record"),
        (Session, "an instance of a subclass of AsyncFunction"),
        (NotAsync(), r"got NotAsync, whose call\(\) is no `async def`"),
        (hg.blocking(lambda record: record), "marked with blocking"),
    ],
)
def test_wrong_functions(function: Any, message: str) -> None:
    """Each is told what it should be."""
    with pytest.raises(hg.PlanError, match=message):
        numbers().map_async(function)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"capacity": 0}, r"capacity of map_async\(\) \(test_api_async.py:\d+\) is 0; expected at least 1"),
        ({"timeout": "0s"}, "timeout of map_async.* is 0; expected a time above 0, or None"),
        ({"timeout": "soon"}, "timeout of map_async.* is 'soon'; expected a number and a unit"),
        ({"on_timeout": lambda: 0}, "on_timeout of map_async.* which takes"),
    ],
)
def test_wrong_settings(given: dict[str, Any], message: str) -> None:
    """The message has the call, the argument and what fits."""
    with pytest.raises(hg.PlanError, match=message):
        numbers().map_async(looked_up, **given)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"attempts": 0}, r"attempts of retry\(\) \(test_api_async.py:\d+\) is 0"),
        ({"factor": 0.5}, "factor of retry.* is 0.5; expected 1 or more"),
        ({"delay": "x"}, "delay of retry.* is 'x'"),
        ({"on": (ValueError, "KeyError")}, "on of retry.*exception classes"),
        ({"if_result": lambda: True}, "if_result of retry.* expected a function of one answer"),
    ],
)
def test_wrong_retries(given: dict[str, Any], message: str) -> None:
    """Also without a stream."""
    with pytest.raises(hg.PlanError, match=message):
        hg.retry(**given)


@pytest.mark.parametrize("function", [looked_up, Session()])
def test_types_are_known(function: Any) -> None:
    """Of what comes out, and of the state that holds what is in flight."""
    node = numbers().map_async(function)._node
    assert isinstance(node, AsyncNode)
    assert node.record_type is str
    state = declared_operator_state(node.function)["in_flight"]
    assert state.mode == "split"
    assert state.types[0].__annotations__ == {"record": int, "row": bool, "timestamp": int | None}


def test_with_checkpoints_a_uid_is_needed(tmp_path: Any) -> None:
    """What is in flight is found again by it."""
    env = hg.Environment().checkpoints(every="1s", storage=str(tmp_path))
    env.from_collection([1], uid="in").map_async(looked_up).print()
    with pytest.raises(hg.PlanError, match=r"'map_async' .* has operator state but no uid"):
        env.execute("no uid")


def test_it_has_no_side_output() -> None:
    """As a step that is no process function."""
    with pytest.raises(hg.PlanError, match="which has none"):
        numbers().map_async(looked_up).side_output(hg.OutputTag("late"))
