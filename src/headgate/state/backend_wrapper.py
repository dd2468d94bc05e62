"""Base classes of keyed backends: live handles bound to one key, and forwarding to a backend inside."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from typing import Any, Generic, TypeVar

from headgate.common.plain_data import Description
from headgate.core.timers import TimerQueue
from headgate.state.backend import Items, KeyedBackend, MigrationProgress, StoredValue
from headgate.state.targets import Target

B = TypeVar("B", bound=KeyedBackend)


class BoundHandles:
    """The live handles of a backend, by state, all bound to one key at a time; and its two timer queues."""

    event_timers: TimerQueue[Hashable]
    processing_timers: TimerQueue[Hashable]

    def _use(self, handles: dict[str, Any]) -> None:
        self.handles, self._handles = handles, tuple(handles.values())

    def bind(self, key: Hashable) -> None:
        """Make `key` the current key of every handle, before a record or timer of that key."""
        for handle in self._handles:
            handle.bind(key)

    def store(self) -> None:
        """Store the changes made under the current key through any handle."""
        for handle in self._handles:
            handle.store()


class BackendWrapper(BoundHandles, Generic[B]):
    """A keyed backend around another; all calls but `bind`, `store`, `snapshot_sync`, `restore` go to it."""

    def __init__(self, backend: B, handles: dict[str, Any]) -> None:
        self._backend = backend
        self._use(handles)

    @property
    def groups(self) -> tuple[int, int]:
        """The first and the last key group of the subtask, as the backend inside has them."""
        return self._backend.groups

    @property
    def targets(self) -> Mapping[str, Target]:
        """Stored description and serializer of the states and timers of the backend inside, by name."""
        return self._backend.targets

    def prefetch(self, keys: Iterable[Hashable]) -> None:
        """Announce the keys of the next records to the backend inside, which may read their state ahead."""
        self._backend.prefetch(keys)

    def keys(self, name: str) -> Iterable[Hashable]:
        """Return the keys that have an entry in the state `name` of the backend inside."""
        return self._backend.keys(name)

    def scan(self, name: str) -> Items:
        """Return an iterator over the keys and values of the state `name` of the backend inside."""
        return self._backend.scan(name)

    def peek(self, name: str, key: Hashable) -> StoredValue | None:
        """Return the encoded value of the state `name` under `key`, without effects of a read; or None."""
        return self._backend.peek(name, key)

    def state_types(self) -> dict[str, Description]:
        """Return state name -> kind and description of its serializers, for the checkpoint's metadata."""
        return self._backend.state_types()

    def settle(self) -> None:
        """Have the backend inside do about a millisecond of work that a snapshot or restore left."""
        self._backend.settle()

    def migration_progress(self) -> list[MigrationProgress]:
        """Return the progress for each state whose older values the backend inside still rewrites."""
        return self._backend.migration_progress()

    def close(self) -> None:
        """Close the backend inside."""
        self._backend.close()
