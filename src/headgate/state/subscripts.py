"""Square brackets for maps: what a live map does by name, said the way a dict says it."""

from __future__ import annotations

from typing import Any, Final

_ABSENT: Final = object()


class Subscripts:
    """`map[key]`, `map[key] = value` and `del map[key]`, for a class with `get`, `put`, `remove` and `in`.

    Example:
        >>> class Map(Subscripts, dict):
        ...     put, remove = dict.__setitem__, dict.__delitem__
        >>> visits = Map(); visits["a"] = 1; visits["a"] += 1; visits["a"]
        2
    """

    __slots__ = ()

    def __getitem__(self, key: Any) -> Any:
        value = self.get(key, _ABSENT)  # type: ignore[attr-defined]
        if value is _ABSENT:
            raise KeyError(key)
        return value

    def __setitem__(self, key: Any, value: Any) -> None:
        self.put(key, value)  # type: ignore[attr-defined]

    def __delitem__(self, key: Any) -> None:
        if key not in self:  # type: ignore[operator]
            raise KeyError(key)
        self.remove(key)  # type: ignore[attr-defined]
