"""What the handles of states whose entries end have in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable
from typing import Any, Final

from headgate.state.ttl.expiry import Counts, Expiry


class TtlHandle(ABC):
    """A handle over two of the backend's: one of the values, one of their stamps.

    Changes go to both at once, so the generated loop only tells it the key. Before it takes a key, the
    sweep may use both handles for keys of its own.

    Args:
        values: the backend's handle of the values.
        stamps: its handle of the stamps.

    Attributes:
        sweep: called before each key; looks for entries that are over.
    """

    __slots__ = ("counts", "expiry", "stamps", "sweep", "values")

    immutable: Final = False

    def __init__(self, values: Any, stamps: Any, expiry: Expiry, counts: Counts) -> None:
        self.values, self.stamps = values, stamps
        self.expiry, self.counts = expiry, counts
        self.sweep: Callable[[], int | None] = expiry.tick

    def bind(self, key: Hashable) -> None:
        """Make `key` the current key."""
        self.sweep()
        self.values.bind(key)
        self.stamps.bind(key)

    load = bind

    def store(self) -> None:  # noqa: B027 - of the protocol, and nothing to override
        """Nothing to do: changes were made at once."""

    def clear(self) -> None:
        """Forget what is stored for the current key."""
        for handle in (self.values, self.stamps):
            handle.clear()
            handle.store()

    def peek(self, key: Hashable) -> Any:
        """What a read of `key` would give, without the effects of a read; for tests. The key stays bound."""
        self._take(key)
        return self._visible()

    def holds(self, key: Hashable) -> bool:
        """Whether a read of `key` would find anything, without the effects of a read. The key stays bound."""
        self._take(key)
        return self._holds()

    def living(self, key: Hashable) -> Any:
        """What is stored under `key` and is not over, or ABSENT; without effects. The key stays bound."""
        self._take(key)
        return self._living()

    def tidy(self, key: Hashable) -> None:
        """Remove what is over of `key`, and give stamps to what has none. The key stays bound."""
        self.values.bind(key)
        self.stamps.bind(key)
        over = self._tidy()
        self.counts.expired_stored += over
        self.counts.removed += over

    def _take(self, key: Hashable) -> None:
        self.expiry.tick()
        self.values.bind(key)
        self.stamps.bind(key)

    @abstractmethod
    def judge(self, stamps: Any) -> tuple[int, bool, int]:
        """What stored stamps say: how many entries, whether to tidy, and when the oldest was written."""

    @abstractmethod
    def _tidy(self) -> int:
        """:meth:`tidy` for the bound key; gives how many entries were over."""

    @abstractmethod
    def _visible(self) -> Any:
        """:meth:`peek` for the bound key."""

    @abstractmethod
    def _living(self) -> Any:
        """:meth:`living` for the bound key."""

    @abstractmethod
    def _holds(self) -> bool:
        """:meth:`holds` for the bound key."""
