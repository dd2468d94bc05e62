"""What leaves entries that are over out of a snapshot while it is written, beside the loop."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from typing import Any, TypeVar

from headgate.api.declared.keyed_states import StateKind
from headgate.state.backend import Columns
from headgate.state.ttl.expiry import Expiry


class SnapshotCleanup:
    """Called with the entries of each section of a snapshot, in any portions; gives those to write.

    The stamps of a state come before its values. Between the two it keeps the keys of which something is
    over, so it takes memory for these. Values are never changed: the live state may share them.

    Args:
        cuts: by section; a state's stamps and values have the same.
    """

    def __init__(self, cuts: Mapping[str, StateCut]) -> None:
        self._filters: dict[str, Callable[[list[Hashable], list[Any]], Columns]] = {}
        for cut in cuts.values():
            self._filters |= {cut.stamps_name: cut.of_stamps, cut.name: cut.of_values}

    def __call__(self, name: str, keys: list[Hashable], values: list[Any]) -> Columns:
        """The entries of section `name` that are to be written."""
        keep = self._filters.get(name)
        return (keys, values) if keep is None else keep(keys, values)


class StateCut:
    """One state at the cut.

    Args:
        expiry: with its clock standing still.
        size: how many bytes stored values take.

    Attributes:
        seen: entries so far.
        expired: of them, those left out.
        expired_bytes: what their values would have taken.
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
        """The stamps of entries that live."""
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
        """The values that live."""
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
    gone = [False] * undated + [over(stamp) for stamp in stamps]
    alive = [element for element, out in zip(elements, gone, strict=True) if not out]
    return sum(gone), alive or None, [element for element, out in zip(elements, gone, strict=True) if out]


def _map_stamps(stamps: dict[Hashable, int], over: Over) -> tuple[int, dict[Hashable, int] | None]:
    alive = {key: stamp for key, stamp in stamps.items() if not over(stamp)}
    return len(stamps), stamps if len(alive) == len(stamps) else alive or None


def _map_values(
    entries: dict[Hashable, V], stamps: dict[Hashable, int], over: Over
) -> tuple[int, dict[Hashable, V] | None, dict[Hashable, V]]:
    gone = {key: value for key, value in entries.items() if key in stamps and over(stamps[key])}
    alive = {key: value for key, value in entries.items() if key not in gone}
    return len(gone), alive or None, gone


_PARTS: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    StateKind.LIST: (_list_stamps, _list_values),
    StateKind.MAP: (_map_stamps, _map_values),
}
"""For a kind: entries and what is left of stored stamps; entries over, what is left, what goes of a value."""
