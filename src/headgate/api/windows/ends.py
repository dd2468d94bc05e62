"""The end of a window for many keys at once: what it keeps for them is read, and forgotten, together."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol


class KeyedMaps(Protocol):
    """A map state whose backend can give the maps of many keys at once."""

    def of_keys(self, keys: Sequence[Any]) -> Sequence[Mapping[Any, Any]]:
        """Return the map of each key, to be read; an empty one if there is none."""

    def remove_of_keys(self, keys: Sequence[Any], gone: Sequence[Sequence[Any]]) -> None:
        """Remove from the map of each key the entries that `gone` names at its place; all are there."""


class Ends(Protocol):
    """What a window that ends keeps for some keys, and its results, key after key."""

    def results(self, place: int, view: Any) -> Iterable[Any]:
        """Return the results for the key at `place`, to which `view` has turned; none if nothing is kept.
        Raises what the program's function raises.
        """

    def forget(self, count: int) -> None:
        """Forget what the window keeps for the first `count` keys."""


class EndsOfValues:
    """The ends of windows that keep one value, of which `result` makes the results for a key."""

    def __init__(self, windows: KeyedMaps, window: Any, keys: Sequence[Any], result: Any) -> None:
        self._windows, self._window, self._keys, self._result = windows, window, keys, result
        self._held = [entries.get(window.key) for entries in windows.of_keys(keys)]

    def results(self, place: int, view: Any) -> Iterable[Any]:
        return self._result(self._held[place], self._window, view)  # type: ignore[no-any-return]

    def forget(self, count: int) -> None:
        forget_window(self._windows, self._window.key, self._keys[:count], self._held)


def forget_window(
    windows: KeyedMaps, window: tuple[int, int], keys: Sequence[Any], held: Sequence[Any]
) -> None:
    """Remove the entry of `window` in the state `windows` for each of `keys` that `held` has one of."""
    gone = [() if each is None else (window,) for each in held[: len(keys)]]
    windows.remove_of_keys(keys, gone)
