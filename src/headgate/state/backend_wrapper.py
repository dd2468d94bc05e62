"""A backend around another one, to which it leaves all that a subclass does not do itself."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from typing import Any, Generic, TypeVar

from headgate.common.plain_data import Description
from headgate.core.timers import TimerQueue
from headgate.state.backend import Items, KeyedBackend, MigrationProgress, StoredValue
from headgate.state.targets import Target

B = TypeVar("B", bound=KeyedBackend)


class BoundHandles:
    """The live handles of a backend, by state, all bound to one key at a time, and its timers."""

    event_timers: TimerQueue[Hashable]
    processing_timers: TimerQueue[Hashable]

    def _use(self, handles: dict[str, Any]) -> None:
        self.handles, self._handles = handles, tuple(handles.values())

    def bind(self, key: Hashable) -> None:
        """Make `key` the current key of every handle."""
        for handle in self._handles:
            handle.bind(key)

    def store(self) -> None:
        """Store what was changed for the current key."""
        for handle in self._handles:
            handle.store()


class BackendWrapper(BoundHandles, Generic[B]):
    """See :class:`~headgate.state.backend.KeyedBackend` for what each method does."""

    def __init__(self, backend: B, handles: dict[str, Any]) -> None:
        self._backend = backend
        self._use(handles)

    @property
    def groups(self) -> tuple[int, int]:
        """The first and the last key group of the backend inside."""
        return self._backend.groups

    @property
    def targets(self) -> Mapping[str, Target]:
        """The targets of the backend inside."""
        return self._backend.targets

    def prefetch(self, keys: Iterable[Hashable]) -> None:
        """Prefetch in the backend inside."""
        self._backend.prefetch(keys)

    def keys(self, name: str) -> Iterable[Hashable]:
        """Return the keys in the backend inside."""
        return self._backend.keys(name)

    def scan(self, name: str) -> Items:
        """Walk over the backend inside."""
        return self._backend.scan(name)

    def peek(self, name: str, key: Hashable) -> StoredValue | None:
        """Return the value in the backend inside, without the effects of a read."""
        return self._backend.peek(name, key)

    def state_types(self) -> dict[str, Description]:
        """Return the inner backend's types."""
        return self._backend.state_types()

    def settle(self) -> None:
        """Settle the backend inside."""
        self._backend.settle()

    def migration_progress(self) -> list[MigrationProgress]:
        """Return the migration progress of the backend inside."""
        return self._backend.migration_progress()

    def close(self) -> None:
        """Close the backend inside."""
        self._backend.close()
