"""Helpers of the conformance suites: compare values, change them in place, damage their bytes."""

from __future__ import annotations

import enum
import random
import types
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, TypeVar

import numpy as np

from headgate.state.backend import PendingSnapshot
from headgate.state.snapshots import Inline
from headgate.state.stored.blob import BlobWriter

T = TypeVar("T")

COUNT_LIE: Final = 4_000_000
"""A false number of values, more than any test batch has: noticed in memory, but too small to do harm."""

_CHANGED: Final = "changed in place"
_NO_PARTS: Final = (type, enum.Enum, types.ModuleType, types.FunctionType, str, bytes, int, float, complex)
"""Types whose instances have no parts that a program can change."""


def same(left: Any, right: Any) -> bool:
    """Return whether two values are equal and of one type; NaN equals NaN, and -0.0 is not 0.0.

    Lists, tuples, sets, dicts (in order) and NumPy arrays are compared part by part, other values by ``==``.

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
        return left == right and sorted(map(_shown, left)) == sorted(map(_shown, right))
    if isinstance(left, dict):
        return same(list(left.items()), list(right.items()))
    if isinstance(left, (np.ndarray, np.generic)):
        return bool((left.dtype, left.shape, left.tobytes()) == (right.dtype, right.shape, right.tobytes()))
    return bool(left == right)


def check_same(found: list[T], expected: list[T], what: str, is_same: Callable[[T, T], bool] = same) -> None:
    """Raise AssertionError, with `what` first in its text, if a value (in order) or the number differs."""
    assert len(found) == len(expected), f"{what}: {len(found)} values came back; expected {len(expected)}"
    for place, (one, other) in enumerate(zip(found, expected, strict=True)):
        assert is_same(one, other), (
            f"{what}: value {place} came back as {one!r:.200} of type {type(one).__qualname__}; expected "
            f"{other!r:.200} of type {type(other).__qualname__}"
        )


def _shown(value: T) -> str:
    return f"{type(value).__qualname__} {value!r}"


def change_in_place(value: T) -> bool:
    """Change every part of a value that can be changed; return False if there was none.

    It knows lists, dicts, sets, deques, bytearrays, NumPy arrays, and attributes that can be set. Afterwards
    the value is no valid one any more.

    Example:
        >>> value = {"a": ([1], "b")}
        >>> change_in_place(value), value["a"][0], change_in_place(("a", 1))
        (True, [1, 'changed in place'], False)
    """
    return _change(value, set())


def _change(value: T, seen: set[int]) -> bool:
    if isinstance(value, _NO_PARTS) or id(value) in seen:
        return False
    seen.add(id(value))
    # All parts first: a part that is replaced cannot be reached any more.
    changed = [_change(part, seen) for part in list(_parts(value))]
    return _change_itself(value) or any(changed)


def _parts(value: T) -> Iterator[Any]:
    if isinstance(value, Mapping):
        yield from value.keys()
        yield from value.values()
    elif isinstance(value, (list, tuple, set, frozenset, deque)):
        yield from value
    for name in _attributes(value):
        yield getattr(value, name)


def _change_itself(value: T) -> bool:
    if isinstance(value, (list, deque)):
        value.append(_CHANGED)
    elif isinstance(value, set):
        value.add(_CHANGED)
    elif isinstance(value, dict):
        value[_CHANGED] = _CHANGED
    elif isinstance(value, bytearray):
        value.append(1)
    elif isinstance(value, np.ndarray):
        return _change_array(value)
    else:
        changed = [_set(value, name) for name in _attributes(value)]
        return any(changed)
    return True


def _change_array(array: np.ndarray) -> bool:
    if not (array.flags.writeable and array.nbytes):
        return False
    for place, byte in enumerate(array.tobytes()):
        array.reshape(-1).view("u1")[place] = byte ^ 1
    return True


def _attributes(value: T) -> list[str]:
    names = dict.fromkeys(getattr(value, "__dict__", ()))
    for cls in type(value).__mro__:
        slots = vars(cls).get("__slots__", ())
        names |= dict.fromkeys([slots] if isinstance(slots, str) else slots)
    names |= dict.fromkeys(getattr(value, "__struct_fields__", ()))
    return [name for name in names if not name.startswith("__") and hasattr(value, name)]


def _set(value: T, name: str) -> bool:
    try:
        setattr(value, name, _CHANGED)
    except Exception:  # frozen classes raise what they like
        return False
    return True


def cut_short(data: bytes, at_most: int = 100) -> Iterator[bytes]:
    """Yield beginnings of `data` from the empty one on, never all of it: every one, or about `at_most`."""
    step = max(1, len(data) // at_most)
    return (data[:end] for end in range(0, len(data), step))


def with_a_flipped_bit(data: bytes, at_most: int = 300) -> Iterator[bytes]:
    """Yield copies of `data` with one flipped bit: each bit in turn, or `at_most` random but fixed ones."""
    places = list(range(8 * len(data)))
    if len(places) > at_most:
        places = random.Random(len(data)).sample(places, at_most)
    for place in places:
        damaged = bytearray(data)
        damaged[place // 8] ^= 1 << place % 8
        yield bytes(damaged)


def with_large_sizes(data: bytes, at_most: int = 24) -> Iterator[bytes]:
    """Yield copies of `data` where a huge number, of both byte orders, overwrites 1, 2, 4 or 8 bytes."""
    step = max(1, len(data) // at_most)
    for width in (1, 2, 4, 8):
        for place in range(0, len(data) - width + 1, step):
            for number in (b"\xff" * width, b"\x7f" + b"\xff" * (width - 1), b"\xff" * (width - 1) + b"\x7f"):
                yield data[:place] + number + data[place + width :]


def snapshot_blob(pending: PendingSnapshot) -> bytes:
    """Write a snapshot's complete state as one blob, release the snapshot, and return the blob."""
    handle = pending.store_with(BlobWriter).handle
    assert isinstance(handle, Inline)
    return handle.data
