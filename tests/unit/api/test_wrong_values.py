"""Values of a wrong kind are refused by whatever programs call, in one sentence."""

from __future__ import annotations

import inspect
import re
from typing import Any

import pytest
from test_wrong_calls import ALL, stream

import headgate as hg
from headgate import spark, testing
from headgate.api import functions
from headgate.api.windows.windowed_stream import WindowRules
from headgate.common.settings.config import Config
from headgate.graph.partitioners import Forward
from headgate.relational.relations import Relation
from headgate.serde.verdicts import AsIs

WRONG: dict[str, list[Any]] = {
    "str": [5, b"in", object()],
    "bytes": ["text", 5],
    "int": ["x", 1.5, True, object()],
    "float": ["x", True, object()],
    "bool": ["yes", 1, object()],
    "Callable": [5, "function", object()],
    "PathLike": [5, object()],
    "Path": [5, object()],
    "Paths": [5, object(), [5]],
    "Mapping": [5, "x", [1], object()],
    "Iterable": [5, object(), int],
    "Sequence": [5, object(), int],
    "list": [5, object()],
    "tuple": [5, object()],
    "frozenset": [5, object()],
    "Literal": ["neither", 5],
    "OnError": ["neither", 5],
    "None": [],
}
"""Name in an annotation -> values that are none of its kind; for classes of ours, see below."""

SAMPLES: dict[str, Any] = {
    "str": "x", "bytes": b"", "int": 1, "float": 1.0, "bool": True, "PathLike": "x", "Path": "x",
    "Paths": "x", "Mapping": {}, "Iterable": [], "Sequence": [], "list": [], "tuple": (),
    "frozenset": frozenset(),
    "VertexId": 1, "EdgeId": 1, "KeySelector": "k", "Literal": "text", "OnError": "fail", "Schema": "x",
    "None": None, "Query": print, "Partitioner": Forward(), "Compatibility": AsIs(), "Config": Config(),
    "Window": hg.Window(0, 1), "WindowRules": WindowRules(hg.tumbling(1)), "Relation": Relation(None),
    "Errors": KeyError,
}  # fmt: skip

ANYTHING = {
    "Any", "object", "Plain", "F", "RuntimeContext", "Executor", "BroughtCode", "DataFrame", "SparkSession",
    "JobControl",  "Query", "Convert", "Compatibility", "Partitioner", "Function", "S", "Schema",
    "KeySelector",
}  # fmt: skip
"""What is checked by the function itself, or says nothing definite."""


def words(annotation: str) -> list[str]:
    """The parts of a union, without what stands in brackets.

    Example: "str | Callable[[T], int] | None" -> ["str", "Callable", "None"]
    """
    while (less := re.sub(r"\[[^\[\]]*\]", "", annotation)) != annotation:
        annotation = less
    return [part.strip().rpartition(".")[2] for part in annotation.split("|")]


def wrong_for(annotation: str) -> list[Any]:
    """Values that no part of the annotation allows."""
    if "pa." in annotation:
        return []  # Arrow's, which is loaded when it is used, and checked there
    parts = words(annotation)
    public = {name for package in (hg, testing) for name in package.__all__}
    if ANYTHING & set(parts) or not set(parts) <= WRONG.keys() | public:
        return []  # what only type checkers know is not looked at
    lists = [WRONG.get(part, [5, object()]) for part in parts if part != "None"]
    return [
        value for value in lists[0] if all(any(value is v for v in other) or _no(value) for other in lists)
    ]


def _no(value: Any) -> bool:
    return type(value) is object or (type(value) is int and value == 5)


def allows_number(annotation: str) -> bool:
    """Whether a number is what is expected."""
    return bool({"int", "float", "VertexId", "EdgeId"} & set(words(annotation)))


def sample(annotation: str) -> Any:
    """Something that the annotation allows; an object of ours is an empty one."""
    first = words(annotation)[0]
    first = {"Function": "ProcessFunction"}.get(first, first)
    if first in SAMPLES:
        return SAMPLES[first]
    if first == "Callable":
        return print
    for package in (hg, testing, functions):
        kind = getattr(package, first, None)
        if kind is not Any and inspect.isclass(kind) and not getattr(kind, "_is_protocol", False):
            own = type("Own", (kind,), dict.fromkeys(getattr(kind, "__abstractmethods__", ())))
            return own.__new__(own)
    return object()


CASES: dict[str, list[tuple[str, Any]]] = {
    path: [
        (p.name, value)
        for p in parameters
        if p.kind is not p.VAR_KEYWORD
        for value in wrong_for(str(p.annotation))
        if not (type(value) is int and allows_number(str(p.annotation)))
    ]
    for path, (_, parameters, _) in ALL.items()
}
"""Every argument of every public callable, with values that cannot be meant."""


def test_there_is_something_to_be_tested() -> None:
    """Most arguments say what they take."""
    assert sum(map(len, CASES.values())) > 1000
    assert {name for name, _ in CASES["headgate.Environment.generate"]} == {
        "function",
        "count",
        "rate_per_s",
        "uid",
    }
    assert "records" in dict(CASES["headgate.Environment.from_collection"])
    assert "properties" in dict(CASES["headgate.spark.jdbc"])


@pytest.mark.parametrize("path", [path for path, cases in CASES.items() if cases])
def test_a_value_of_a_wrong_kind_is_refused_by_name(path: str) -> None:
    """Never in the words of the line that stumbles over it."""
    for name, value in CASES[path]:
        with pytest.raises(hg.HeadgateError) as caught:
            call_with(path, name, value)
        text = str(caught.value)
        assert "\n" not in text
        assert "; expected " in text
        if not path.endswith("read_snapshot"):  # for which a version is too old or too new first
            assert re.search(rf"\b{type(value).__name__}\b", text) or repr(value) in text, text
            verbs = ALL[path][0].__name__, path.rpartition(".")[2]
            assert any(f"{verb}()" in text for verb in verbs) or verbs[0] in ("__init__", "of"), text


def call_with(path: str, name: str, value: Any) -> None:
    """Call with one wrong argument; the others fit."""
    function, parameters, has_self = ALL[path]
    given: list[Any] = [stream() if "Stream." in path else object()] * has_self
    named: dict[str, Any] = {}
    for parameter in parameters:
        if parameter.kind is parameter.VAR_POSITIONAL:
            given += [*named.values(), value] if parameter.name == name else []
        elif parameter.name == name:
            named[name] = value
        elif parameter.default is parameter.empty and parameter.kind is not parameter.VAR_KEYWORD:
            named[parameter.name] = sample(str(parameter.annotation))
    function(*given, **({} if len(given) > has_self else named))


class Passing(hg.ProcessFunction[Any, Any]):
    """Does nothing."""

    def process(self, record: Any, ctx: Any) -> Any:
        return [record]


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: hg.Environment(spark="local[2]"), "expected a SparkSession"),
        (lambda: hg.Environment(executor=testing.MiniCluster), "an object with execute(job)"),  # type: ignore[arg-type]
        (lambda: hg.Environment(executor=5), "an object with execute(job)"),  # type: ignore[arg-type]
        (lambda: spark.register(5), "register() got 5 of type int; expected a SparkSession"),  # type: ignore[arg-type]
        (lambda: testing.OperatorHarness.restore(Passing(), b"xx"), "expected what snapshot() gave"),
    ],
)
def test_values_that_an_annotation_does_not_settle_are_refused(call: Any, said: str) -> None:
    """By the function itself."""
    with pytest.raises(hg.UsageError) as caught:
        call()
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)
