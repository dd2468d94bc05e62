"""Changes a value in place, wherever a program could: to see whether copies and snapshots notice."""

from __future__ import annotations

import enum
import types
from collections import deque
from collections.abc import Iterator, Mapping
from typing import Any, Final, TypeVar

T = TypeVar("T")

_CHANGED: Final = "changed in place"
_WHOLE: Final = (type, enum.Enum, types.ModuleType, types.FunctionType, str, bytes, int, float, complex)
"""Instances of these have no parts that a program changes."""


def change_in_place(value: T) -> bool:
    """Change every part of a value that can be changed; whether there was one.

    It knows lists, dicts, sets, deques, bytearrays, NumPy arrays, and attributes that can be set. What it
    leaves is no valid value any more.

    Example:
        >>> value = {"a": ([1], "b")}
        >>> change_in_place(value), value["a"][0], change_in_place(("a", 1))
        (True, [1, 'changed in place'], False)
    """
    return _change(value, set())


def _change(value: T, seen: set[int]) -> bool:
    if isinstance(value, _WHOLE) or id(value) in seen:
        return False
    seen.add(id(value))
    # All parts first: a part that is replaced cannot be reached any more.
    changed = [_change(part, seen) for part in list(_parts(value))]
    return _change_itself(value) or any(changed)


def _parts(value: Any) -> Iterator[Any]:
    if isinstance(value, Mapping):
        yield from value.keys()
        yield from value.values()
    elif isinstance(value, (list, tuple, set, frozenset, deque)):
        yield from value
    for name in _attributes(value):
        yield getattr(value, name)


def _change_itself(value: Any) -> bool:
    if isinstance(value, (list, deque)):
        value.append(_CHANGED)
    elif isinstance(value, set):
        value.add(_CHANGED)
    elif isinstance(value, dict):
        value[_CHANGED] = _CHANGED
    elif isinstance(value, bytearray):
        value.append(1)
    elif hasattr(value, "flags") and hasattr(value, "dtype"):
        return _change_array(value)
    else:
        changed = [_set(value, name) for name in _attributes(value)]
        return any(changed)
    return True


def _change_array(array: Any) -> bool:
    if not (array.flags.writeable and array.nbytes):
        return False
    for place, byte in enumerate(array.tobytes()):
        array.reshape(-1).view("u1")[place] = byte ^ 1
    return True


def _attributes(value: T) -> list[str]:
    """What a program can ask an instance of a class written in Python for."""
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
