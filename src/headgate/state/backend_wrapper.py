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
    """Base class of backends: the live handles by state, all bound to one key at a time, and two timer
    queues. A subclass calls `_use` with the handles, once, and sets the queues.
    """

    event_timers: TimerQueue[Hashable]
    processing_timers: TimerQueue[Hashable]

    def _use(self, handles: dict[str, Any]) -> None:
        self.handles, self._handles = handles, tuple(handles.values())

    def bind(self, key: Hashable) -> None:
        for handle in self._handles:
            handle.bind(key)

    def store(self) -> None:
        for handle in self._handles:
            handle.store()


class BackendWrapper(BoundHandles, Generic[B]):
    """Base class of a keyed backend around another one (with a time to live, or a changelog). `handles` are
    its own live handles, by state. Calls other than those of handles, `snapshot_sync` and `restore` go to
    `backend`. A subclass sets the timer queues.
    """

    def __init__(self, backend: B, handles: dict[str, Any]) -> None:
        self._backend = backend
        self._use(handles)

    @property
    def groups(self) -> tuple[int, int]:
        return self._backend.groups

    @property
    def targets(self) -> Mapping[str, Target]:
        return self._backend.targets

    def prefetch(self, keys: Iterable[Hashable]) -> None:
        self._backend.prefetch(keys)

    def keys(self, name: str) -> Iterable[Hashable]:
        return self._backend.keys(name)

    def scan(self, name: str) -> Items:
        return self._backend.scan(name)

    def peek(self, name: str, key: Hashable) -> StoredValue | None:
        return self._backend.peek(name, key)

    def state_types(self) -> dict[str, Description]:
        return self._backend.state_types()

    def settle(self) -> None:
        self._backend.settle()

    def migration_progress(self) -> list[MigrationProgress]:
        return self._backend.migration_progress()

    def measured(self) -> Mapping[str, int]:
        return self._backend.measured()

    def close(self) -> None:
        self._backend.close()
