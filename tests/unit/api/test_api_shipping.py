"""Functions that cannot be sent to workers: the sentence names operator, function, variable and type."""

from __future__ import annotations

import functools
import io
import socket
import threading
from pathlib import Path
from typing import Any

import pytest
from api_fakes import Numbers, Shelf

import headgate as hg
from headgate.api.checking.shipping_check import check_shippable, find_culprit, shipping_error


def culprit(thing: object) -> tuple[tuple[str, ...], str]:
    """What is found, and its type."""
    error = shipping_error(thing)
    assert error is not None
    found = find_culprit(thing, error)
    return found.path, type(found.value).__name__


def test_what_can_be_shipped_passes() -> None:
    """Closures over plain values, methods, partials and nested functions travel."""
    factor = 3
    check = [lambda n: factor * n, functools.partial(int, base=2), "x".join, str.upper, len, dict]
    assert [shipping_error(thing) for thing in check] == [None] * 6


def test_a_lock_in_a_closure_is_named() -> None:
    """The variable's name and type are found."""
    guard = threading.Lock()

    def locked(record: int) -> int:
        with guard:
            return record

    assert culprit(locked) == (("closure variable 'guard'",), "lock")


def test_a_generator_and_a_socket_are_named() -> None:
    """Things that live in one process only."""
    numbers = (n for n in range(3))
    assert culprit(lambda record: next(numbers)) == (("closure variable 'numbers'",), "generator")
    with socket.socket() as line:
        assert culprit(lambda record: line.fileno()) == (("closure variable 'line'",), "socket")


def test_an_open_file_is_refused_and_its_text_is_not() -> None:
    """A file would travel as a silent copy of its rest; text in memory is plain data."""
    with Path(__file__).open() as file:
        assert culprit(lambda record: file.readline()) == (("closure variable 'file'",), "TextIOWrapper")
    text = io.StringIO("a")
    assert shipping_error(lambda record: text.read()) is None


def test_a_global_variable_of_the_program_is_named() -> None:
    """Functions of the program's own script travel with the globals that they use, also from inside."""
    names: dict[str, Any] = {"__name__": "__main__", "guard": threading.Lock(), "other": threading.Lock()}
    exec("def outer(n):\n    def inner():\n        return guard\n    return inner()", names)
    assert culprit(names["outer"]) == (("global variable 'guard'",), "lock")


def test_the_way_to_the_culprit_is_told_step_by_step() -> None:
    """Through a called function, a list, a dict and an attribute down to the thing itself."""

    class Client:
        def __init__(self) -> None:
            self.lines = [{"first": threading.Lock()}]

    client = Client()

    def ask(record: int) -> int:
        return len(client.lines)

    assert culprit(lambda record: ask(record)) == (
        (
            "closure variable 'ask'",
            "closure variable 'client'",
            "attribute 'lines'",
            "element 0",
            "the value of 'first'",
        ),
        "lock",
    )


def test_methods_partials_defaults_and_slots_are_searched() -> None:
    """Every place where a function may hide a value."""

    class Slotted:
        __slots__ = ("guard",)

        def __init__(self) -> None:
            self.guard = threading.Lock()

        def call(self, record: int) -> int:
            return record

    slotted = Slotted()
    assert culprit(slotted.call)[0] == ("the object of method call", "attribute 'guard'")
    assert culprit(functools.partial(max, key=slotted))[0] == (
        "argument 'key' of partial()",
        "attribute 'guard'",
    )

    def defaulted(record: int, lock: Any = slotted.guard, *, other: int = 1) -> int:
        return record

    assert culprit(defaulted) == (("default value 0",), "lock")


def test_a_class_of_the_program_is_searched() -> None:
    """Class attributes and methods of a class that is not importable travel by value."""
    guard = threading.Lock()

    class Function(hg.ProcessFunction[int, int]):
        def process(self, record: int, ctx: Any) -> Any:
            with guard:
                yield record

    assert culprit(Function()) == (
        (
            "class test_a_class_of_the_program_is_searched.<locals>.Function",
            "method process()",
            "closure variable 'guard'",
        ),
        "lock",
    )


def test_a_spark_session_is_named_without_its_inside() -> None:
    """The user's variable is the answer, not some attribute deep inside Spark."""

    class SparkSession:
        def __init__(self) -> None:
            self._jvm = threading.Lock()

    SparkSession.__module__ = "pyspark.sql.session"
    spark = SparkSession()
    assert culprit(lambda record: spark) == (("closure variable 'spark'",), "SparkSession")


def test_a_cycle_ends_the_search() -> None:
    """An object that holds itself is looked at once."""

    class Loop:
        def __init__(self) -> None:
            self.me = self
            self.guard = threading.Lock()

    loop = Loop()
    assert culprit(lambda record: loop)[0] == ("closure variable 'loop'", "attribute 'guard'")


def test_the_sentence_names_everything() -> None:
    """Operator, place, function, variable, type and what to do."""
    guard = threading.Lock()

    def locked(record: int) -> int:
        with guard:
            return record

    env = hg.Environment()
    env.from_source(Numbers()).map(locked).name("careful").sink_to(Shelf())
    with pytest.raises(hg.NotShippableError) as caught:
        check_shippable(env.program.nodes())
    text = str(caught.value)
    for part in (
        "function test_the_sentence_names_everything.<locals>.locked (line ",
        "of operator 'careful' (test_api_shipping.py:",
        "closure variable 'guard' is a _thread.lock, which cannot be pickled",
        "create it in open(), which runs in the worker",
    ):
        assert part in text
    assert "\n" not in text


@pytest.mark.parametrize("place", ["function", "key", "timestamp", "source", "sink"])
def test_every_part_of_the_program_is_tried(place: str) -> None:
    """Functions, key selectors, timestamps, sources and sinks all travel."""
    guard = threading.Lock()
    bad: Any = lambda record: guard  # noqa: E731
    source, sink = Numbers(), Shelf()
    if place == "source":
        source.complaint = guard  # type: ignore[assignment]
    if place == "sink":
        sink.guarantee = guard  # type: ignore[assignment]
    good: Any = lambda record: record  # noqa: E731
    env = hg.Environment()
    stream = env.from_source(source).with_event_time(bad if place == "timestamp" else good)
    stream = stream.map(bad if place == "function" else good)
    from api_fakes import Plain

    stream.key_by(bad if place == "key" else good).process(Plain()).sink_to(sink)
    with pytest.raises(hg.NotShippableError, match=r"lock, which cannot be pickled"):
        check_shippable(env.program.nodes())
