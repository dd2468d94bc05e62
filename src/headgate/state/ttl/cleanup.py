"""Leaves expired entries out of a snapshot while it is written in the background."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import Any, TypeVar

from headgate.api.declared.keyed_states import StateKind
from headgate.state.backend import Columns
from headgate.state.ttl.handle import Expiry


class SnapshotCleanup:
    """The `EntryFilter` that leaves expired entries out of a snapshot; called with each batch of entries.

    Batches of a state's last-access times must come before those of its values; in between, the keys with
    expired entries are kept in memory. Values are never changed in place, as the live state may share them.
    """

    def __init__(self, states: Iterable[ExpiringState]) -> None:
        self._filters: dict[str, Callable[[list[Hashable], list[Any]], Columns]] = {}
        for state in states:
            self._filters |= {state.stamps_name: state.of_stamps, state.name: state.of_values}

    def __call__(self, name: str, keys: list[Hashable], values: list[Any]) -> Columns:
        keep = self._filters.get(name)
        return (keys, values) if keep is None else keep(keys, values)


class ExpiringState:
    """One state with a time to live at the snapshot point; it finds and counts expired entries.

    The thread that writes the snapshot calls it, with all batches of the last-access times (stamps) before
    those of values. The clock of `expiry` stands still; `size` tells how many bytes a stored value takes. Of
    `seen` entries so far `expired` were left out, whose values would have taken `expired_bytes`.
    """

    def __init__(
        self, name: str, stamps_name: str, kind: str, expiry: Expiry, size: Callable[[Any], int]
    ) -> None:
        self.name, self.stamps_name = name, stamps_name
        self._over, self._size = expiry.over, size
        self._split, self._without = _PARTS.get(kind, (_one_stamp, _no_value))
        self._stamps: dict[Hashable, Any] = {}
        self.seen = self.expired = self.expired_bytes = 0

    def of_stamps(self, keys: list[Hashable], stamps: list[Any]) -> Columns:
        kept: Columns = ([], [])
        for key, stored in zip(keys, stamps, strict=True):
            count, alive = self._split(stored, self._over)
            self.seen += count
            if alive is not stored:
                self._stamps[key] = stored
            if alive is not None:
                kept[0].append(key)
                kept[1].append(alive)
        return kept

    def of_values(self, keys: list[Hashable], values: list[Any]) -> Columns:
        if not self._stamps:
            return keys, values
        kept: Columns = ([], [])
        for key, value in zip(keys, values, strict=True):
            stamps = self._stamps.pop(key, None)
            alive = value
            if stamps is not None:
                count, alive, dropped = self._without(value, stamps, self._over)
                self.expired += count
                self.expired_bytes += self._size(dropped)
            if alive is not None:
                kept[0].append(key)
                kept[1].append(alive)
        return kept


V = TypeVar("V")
Over = Callable[[int], bool]


def _one_stamp(stamp: int, over: Over) -> tuple[int, int | None]:
    return 1, None if over(stamp) else stamp


def _no_value(value: V, _stamp: int, _over: Over) -> tuple[int, None, V]:
    return 1, None, value


def _list_stamps(stamps: list[int], over: Over) -> tuple[int, list[int] | None]:
    alive = [stamp for stamp in stamps if not over(stamp)]
    return len(stamps), stamps if len(alive) == len(stamps) else alive or None


def _list_values(elements: list[V], stamps: list[int], over: Over) -> tuple[int, list[V] | None, list[V]]:
    undated = len(elements) - len(stamps)
    expired = [False] * undated + [over(stamp) for stamp in stamps]
    alive = [element for element, out in zip(elements, expired, strict=True) if not out]
    dropped = [element for element, out in zip(elements, expired, strict=True) if out]
    return sum(expired), alive or None, dropped


def _map_stamps(stamps: dict[Hashable, int], over: Over) -> tuple[int, dict[Hashable, int] | None]:
    alive = {key: stamp for key, stamp in stamps.items() if not over(stamp)}
    return len(stamps), stamps if len(alive) == len(stamps) else alive or None


def _map_values(
    entries: dict[Hashable, V], stamps: dict[Hashable, int], over: Over
) -> tuple[int, dict[Hashable, V] | None, dict[Hashable, V]]:
    expired = {key: value for key, value in entries.items() if key in stamps and over(stamps[key])}
    alive = {key: value for key, value in entries.items() if key not in expired}
    return len(expired), alive or None, expired


_PARTS: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    StateKind.LIST: (_list_stamps, _list_values),
    StateKind.MAP: (_map_stamps, _map_values),
}
"""Kind of state -> a function of a key's stored times (number of entries, times not expired), and one of its
value (number of expired entries, what is left, what is removed).
"""
