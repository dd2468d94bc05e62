"""What a backend of keyed state offers to the operator that owns it; implementations store.

One backend serves one operator subtask: its declared states and its timers, for a range of key
groups. All methods are called by the operator's loop, except those of a pending snapshot.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Protocol

from headgate.core.timers import TimerQueue


class StateHandle(Protocol):
    """A live state, bound to one key at a time; what the user's attribute holds.

    Attributes:
        immutable: whether the handle keeps its key's value outside the table between `bind` and
            `store`, as values of its type cannot be changed in place.
    """

    immutable: bool

    def bind(self, key: Any) -> None:
        """Make `key` the current key."""
        ...

    def store(self) -> None:
        """Put what was changed since :meth:`bind` into the table."""
        ...


class BlobReader(Protocol):
    """The bytes of one stored blob, readable in parts."""

    size: int

    def read(self, offset: int, length: int) -> bytes:
        """`length` bytes from `offset`; fewer only where the blob ends."""
        ...


class PendingSnapshot(Protocol):
    """State as it was at the cut, not yet bytes. Used by one thread beside the loop."""

    def write(self) -> list[bytes]:
        """The blob, in parts to be laid end to end; then the snapshot is released.

        Raises:
            UsageError: a value is not of its state's declared type.
        """
        ...

    def release(self) -> None:
        """Let go of the state; safe at any time, more than once, and instead of :meth:`write`."""
        ...


class KeyedBackend(Protocol):
    """Keyed state and timers of one operator subtask.

    Attributes:
        groups: first and last key group (inclusive).
        handles: one live handle per declared state, by name.
        event_timers: timers of event time.
        processing_timers: timers of processing time.
    """

    @property
    def groups(self) -> tuple[int, int]:
        """See the class."""
        ...

    @property
    def handles(self) -> Mapping[str, Any]:
        """See the class."""
        ...

    event_timers: TimerQueue[Any]
    processing_timers: TimerQueue[Any]

    def bind(self, key: Any) -> None:
        """Make `key` the current key of every handle."""
        ...

    def store(self) -> None:
        """Store what was changed for the current key."""
        ...

    def state_types(self) -> dict[str, Any]:
        """State name -> kind and description of its serializers, for the checkpoint's metadata."""
        ...

    def snapshot_sync(self, checkpoint: int = 0, completed: int = 0) -> PendingSnapshot:
        """Fix the state at this moment; changes made afterwards do not reach the snapshot.

        Args:
            checkpoint: which it is for.
            completed: newest checkpoint that is complete, whose files the snapshot may refer to; 0: it
                must be whole by itself.
        """
        ...

    def restore(self, blobs: Iterable[BlobReader | bytes]) -> None:
        """Fill the empty backend with its own key groups out of any number of blobs."""
        ...

    def close(self) -> None:
        """Release what the backend holds outside Python; more than once does no harm."""
        ...
