"""Record types from annotations: what is found, and that nothing ever fails."""

from __future__ import annotations

import functools
from collections.abc import Generator, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, Optional, TypeVar

import pytest

import headgate as hg
from headgate.api.checking import inference

T = TypeVar("T")


@dataclass
class Point:
    x: int


class Pair(NamedTuple):
    a: int


def identity(value: T) -> T:
    """Says nothing of its own."""
    return value


def unresolvable(value: int) -> NoSuchType:  # type: ignore[name-defined] # noqa: F821
    """Has an annotation that names nothing."""
    return value


class Callee:
    def __call__(self, value: int) -> Point:
        return Point(value)

    def method(self, value: int) -> bytes:
        return b""


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (Callee(), Point),
        (Callee().method, bytes),
        (functools.partial(Callee().method, 1), bytes),
        (Point, Point),
        (identity, None),
        (unresolvable, None),
        (lambda value: value, None),
        (len, None),
        (3, None),
    ],
)
def test_map_output(function: object, expected: object) -> None:
    """The return annotation of functions, methods, partials and callables; a class makes itself."""
    assert inference.map_output(function) is expected


@pytest.mark.parametrize(
    ("hint", "expected"),
    [
        (list[int], int),
        (Iterable[Point], Point),
        (Iterator[tuple[str, int]], tuple[str, int]),
        (Generator[int, None, None], int),
        (Optional[list[int]], int),  # noqa: UP045 - the older spelling must work, too
        (tuple[int, ...], int),
        (tuple[int, str], None),
        (str, str),
        (dict[str, int], str),
        (list, None),
        (list[Any], None),
        (int, None),
        (None, None),
    ],
)
def test_flat_map_output(hint: Any, expected: object) -> None:
    """The element of whatever iterable the function returns."""

    def function(value: int) -> Any:
        return [value]

    function.__annotations__["return"] = hint
    assert inference.flat_map_output(function) == expected


def test_process_output_follows_type_arguments_through_subclasses() -> None:
    """Type arguments may be filled in by a class between."""

    class Wrapping(hg.ProcessFunction[T, list[T]], Generic[T]):
        def process(self, record: T, ctx: Any) -> Any:
            yield [record]

    class Ints(Wrapping[int]):
        pass

    class Deeper(Ints):
        pass

    assert inference.process_output(Ints()) == list[int]
    assert inference.process_output(Deeper()) == list[int]


def test_process_output_falls_back_to_the_annotation() -> None:
    """Without type arguments, what `process` says that it yields."""

    class Bare(hg.KeyedProcessFunction):
        def process(self, record: int, ctx: Any) -> Iterator[Point]:
            yield Point(record)

    class Silent(hg.ProcessFunction):
        def process(self, record: int, ctx: Any) -> Any:
            yield record

    assert inference.process_output(Bare()) is Point
    assert inference.process_output(Silent()) is None


def test_some_type_arguments_may_be_left_out() -> None:
    """The rest is Any, which tells nothing."""

    class KeyOnly(hg.KeyedProcessFunction[str]):
        def process(self, record: Any, ctx: Any) -> Any:
            yield record

    assert inference.process_output(KeyOnly()) is None


def test_only_record_classes_are_rebuilt_from_plain_values() -> None:
    """Collected dataclasses and named tuples come back as such; tuples and dicts are plain already."""
    assert [inference.rebuildable(hint) for hint in (Point, Pair, dict, tuple[int, str], None)] == [
        Point,
        Pair,
        None,
        None,
        None,
    ]
