"""Square brackets for live map states: `map[key]` in place of `map.get(key)`, as in a dict."""

from __future__ import annotations

from typing import Final, Generic

from headgate.api.declared.keyed_states import MK, MV

_ABSENT: Final = object()


class Subscripts(Generic[MK, MV]):
    """A mixin for `map[key]` and `del` (KeyError if absent) and setting, over `get`, `put`, `remove`, `in`.

    Example:
        >>> class Map(Subscripts, dict):
        ...     put, remove = dict.__setitem__, dict.__delitem__
        >>> visits = Map(); visits["a"] = 1; visits["a"] += 1; visits["a"]
        2
    """

    __slots__ = ()

    def __getitem__(self, key: MK) -> MV:
        value: MV = self.get(key, _ABSENT)  # type: ignore[attr-defined]
        if value is _ABSENT:
            raise KeyError(key)
        return value

    def __setitem__(self, key: MK, value: MV) -> None:
        self.put(key, value)  # type: ignore[attr-defined]

    def __delitem__(self, key: MK) -> None:
        if key not in self:  # type: ignore[operator]
            raise KeyError(key)
        self.remove(key)  # type: ignore[attr-defined]
