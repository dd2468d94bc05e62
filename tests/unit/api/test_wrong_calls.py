"""Wrong arguments of whatever programs call are told in a sentence with the nearest valid name."""

from __future__ import annotations

import importlib
import inspect
import pickle
import re
from collections.abc import Callable, Iterator
from enum import Enum
from pathlib import Path
from typing import Any

import pytest

import headgate as hg
from headgate.testing import MiniCluster

PACKAGES = ["headgate", "headgate.spark", "headgate.testing"]
PER_RECORD = {"Row", "DataInputView", "DataOutputView"}


def callables() -> Iterator[tuple[str, Callable[..., Any], list[inspect.Parameter], bool]]:
    """Name, function, parameters behind self, and whether it has a self; of all that programs call."""
    for package in PACKAGES:
        module = importlib.import_module(package)
        for name in module.__all__:
            thing = getattr(module, name)
            if inspect.isfunction(thing):
                yield f"{package}.{name}", thing, list(inspect.signature(thing).parameters.values()), False
            elif inspect.isclass(thing) and not left_out(thing):
                yield from members(f"{package}.{name}", thing)


def left_out(cls: type) -> bool:
    """What programs are given or raise, and what is called once per record."""
    given = issubclass(cls, (BaseException, Enum)) or hasattr(cls, "__struct_fields__")
    return given or getattr(cls, "_is_protocol", False) or cls.__name__ in PER_RECORD


def members(path: str, cls: type) -> Iterator[tuple[str, Callable[..., Any], list[inspect.Parameter], bool]]:
    """The constructor, and the methods unless programs implement them."""
    for name in dir(cls):
        owner = next((each for each in cls.__mro__ if name in vars(each)), cls)
        abstract = getattr(owner, "__abstractmethods__", ())
        implemented = any(not each.startswith("_") for each in abstract) or getattr(
            owner, "_is_protocol", False
        )
        static = inspect.getattr_static(cls, name)
        function = static.__func__ if isinstance(static, (classmethod, staticmethod)) else static
        if not inspect.isfunction(function) or not function.__module__.startswith("headgate"):
            continue
        if name == "__init__" or not (name.startswith("_") or implemented):
            has_self = not isinstance(static, staticmethod)
            parameters = list(inspect.signature(function).parameters.values())[has_self:]
            yield f"{path}.{name}", function, parameters, has_self


ALL = {path: (function, parameters, has_self) for path, function, parameters, has_self in callables()}


def test_there_is_something_to_be_tested() -> None:
    """The ways that people use most are among them."""
    named = {
        "Environment.checkpoints",
        "DataStream.map",
        "KeyedStream.process",
        "value_state",
        "Split.__init__",
    }
    assert {f"headgate.{name}" for name in named} <= ALL.keys()
    assert "headgate.spark.jdbc" in ALL
    assert "headgate.testing.OperatorHarness.__init__" in ALL
    assert len(ALL) > 150


@pytest.mark.parametrize("path", ALL)
def test_a_wrong_keyword_is_refused_with_the_nearest_one(path: str) -> None:
    """Each argument, with a letter too few; and a word that resembles none."""
    function, parameters, has_self = ALL[path]
    if any(p.kind is p.VAR_KEYWORD for p in parameters):
        pytest.skip("passes its options on, which the connectors' test looks at")
    own = [object()] * has_self
    known = [p.name for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]
    with pytest.raises(hg.PlanError, match="takes no argument 'zzz'") as caught:
        function(*own, zzz=1)
    assert all(name in str(caught.value) for name in known)
    for name in known:
        wrong = name[:-1]
        if len(name) > 4 and wrong not in known:
            with pytest.raises(hg.PlanError, match=f"takes no argument '{wrong}'; did you mean '{name}'\\?"):
                function(*own, **{wrong: 1})


@pytest.mark.parametrize("path", ALL)
def test_too_many_or_too_few_arguments_are_refused(path: str) -> None:
    """By place, and by name as well."""
    function, parameters, has_self = ALL[path]
    own = [object()] * has_self
    required = [p.name for p in parameters if p.default is p.empty and "VAR" not in p.kind.name]
    if required:
        with pytest.raises(hg.PlanError, match=f"is called without '{required[0]}'"):
            function(*own)
    places = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    if not any(p.kind is p.VAR_POSITIONAL for p in parameters):
        with pytest.raises(hg.PlanError, match=rf"by place, and got {len(places) + 1}\b"):
            function(*own, *[None] * (len(places) + 1))


def stream() -> Any:
    """The beginning of a program."""
    return hg.Environment(executor=MiniCluster()).from_collection([1])


@pytest.mark.parametrize(
    ("call", "verb", "told"),
    [
        (
            lambda: hg.Environment().checkpoints(interval="1s"),
            "checkpoints",
            "'interval'; did you mean 'every'?",
        ),
        (lambda: hg.Environment().read_csv("/in", delimeter=";"), "read_csv", "did you mean 'delimiter'"),
        (lambda: hg.Environment().read_json("/in", onerror="skip"), "read_json", "did you mean 'on_error'"),
        (lambda: hg.Environment().read_parquet("/in", colums=[]), "read_parquet", "did you mean 'columns'"),
        (lambda: hg.Environment().generate(int, cont=3), "generate", "did you mean 'count'"),
        (lambda: stream().write_json("/out", rol_bytes=1), "write_json", "did you mean 'roll_bytes'"),
        (lambda: stream().write_parquet("/out", dictionnary=1), "write_parquet", "did you mean 'dictionary'"),
        (lambda: stream().map(func=int), "map", "'func'; did you mean 'function'"),
        (lambda: hg.list_state(int), "list_state", "give serializer and ttl by name"),
        (lambda: hg.WatermarkStrategy.of("t", timestamp="t"), "of", "got 'timestamp' twice"),
    ],
)
def test_the_sentence_names_what_the_program_wrote(call: Callable[[], Any], verb: str, told: str) -> None:
    """With the program's line, words of other systems, and options that are passed on to connectors."""
    with pytest.raises(hg.PlanError) as caught:
        call()
    assert str(caught.value).startswith(f"{verb}() ({Path(__file__).name}:")
    assert told in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("call", "told"),
    [
        (lambda: hg.Environment().read_json(None), "read_json() got None for 'path'"),  # type: ignore[call-overload]
        (lambda: hg.Environment().config(None, 1), "config() got None for 'key'"),  # type: ignore[arg-type]
        (lambda: hg.Environment().from_collection(None), "from_collection() got None for 'records'"),  # type: ignore[arg-type]
        (lambda: stream().write_json(None), "write_json() got None for 'path'"),
        (lambda: stream().side_output(None), "side_output() got None for 'tag'"),
        (lambda: hg.run_program(None), "run_program() got None for 'path'"),  # type: ignore[arg-type]
    ],
)
def test_none_for_what_must_be_there_is_refused_by_name(call: Callable[[], Any], told: str) -> None:
    """Not in the words of the line that stumbled over it."""
    with pytest.raises(hg.PlanError) as caught:
        call()
    assert re.sub(r" \(.*?:\d+\)", "", str(caught.value)).startswith(told)


def test_an_error_inside_a_call_stays_what_it_is() -> None:
    """Only calls that do not even begin are told anew."""

    class Own(hg.Sink[Any]):
        def describe(self) -> str:
            raise TypeError("mine")

        def create_writer(self, context: Any, restored: Any) -> Any:
            raise NotImplementedError

    with pytest.raises(TypeError, match="mine"):
        stream().sink_to(Own())


def test_signatures_and_docstrings_are_the_functions() -> None:
    """What editors and `help` show; and functions are found by name when they are shipped."""
    assert list(inspect.signature(hg.Environment.checkpoints).parameters)[:3] == ["self", "every", "mode"]
    assert next(iter(inspect.signature(hg.value_state).parameters)) == "default"
    assert (hg.Environment.checkpoints.__doc__ or "").startswith("Take checkpoints")
    assert hg.value_state.__qualname__ == "value_state"
    assert pickle.loads(pickle.dumps(hg.value_state)) is hg.value_state
    assert pickle.loads(pickle.dumps(hg.Split("a", 3))) == hg.Split("a", 3)
