"""When a value counts as the one that was stored: equal, and of the same type in every part."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")


def same(left: Any, right: Any) -> bool:
    """Whether two values are equal, part by part of the same type; NaN equals NaN, and -0.0 is not 0.0.

    Lists, tuples, sets, dicts (in order) and NumPy arrays are looked into; whatever else, ``==`` decides.

    Example:
        >>> same([1, float("nan")], [1, float("nan")]), same([1], [True]), same({"a": 0.0}, {"a": -0.0})
        (True, False, False)
    """
    if type(left) is not type(right):
        return False
    if isinstance(left, float):
        return repr(left) == repr(right)
    if isinstance(left, (list, tuple)):
        return len(left) == len(right) and all(map(same, left, right))
    if isinstance(left, (set, frozenset)):
        return bool(left == right) and sorted(map(_shown, left)) == sorted(map(_shown, right))
    if isinstance(left, dict):
        return same(list(left.items()), list(right.items()))
    if _is_array(left):
        return bool((left.dtype, left.shape, left.tobytes()) == (right.dtype, right.shape, right.tobytes()))
    return bool(left == right)


def check_same(found: list[T], expected: list[T], what: str, is_same: Callable[[T, T], bool] = same) -> None:
    """Fail with the first value that is another one.

    Args:
        found: the values that came back.
        expected: those that were put in.
        what: how they came back, for the message.
        is_same: when two values count as one.

    Raises:
        AssertionError: they are not the same.
    """
    assert len(found) == len(expected), f"{what}: {len(found)} values came back; expected {len(expected)}"
    for place, (one, other) in enumerate(zip(found, expected, strict=True)):
        assert is_same(one, other), (
            f"{what}: value {place} came back as {one!r:.200} of type {type(one).__qualname__}; expected "
            f"{other!r:.200} of type {type(other).__qualname__}"
        )


def _shown(value: T) -> str:
    return f"{type(value).__qualname__} {value!r}"


def _is_array(value: T) -> bool:
    return all(hasattr(value, name) for name in ("dtype", "shape", "tobytes"))
