"""Keyed state of which a call's changes can be undone, around any backend.

Values that can be changed in place are copied before the function gets them, once for each call. Of others
the operator stores the new one only after the call has returned, so there is nothing to undo, except under a
time to live, which stores them at once.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Mapping
from functools import partial
from typing import Any, cast

from headgate.api.declared.held_names import HELD
from headgate.api.declared.keyed_states import StateDescriptor
from headgate.state.backend import KeyedBackend, PendingSnapshot, StateTable, Stored
from headgate.state.backend_wrapper import BackendWrapper
from headgate.state.heap.backend import handle_of
from headgate.state.heap.handles import MISSING, HeapTable
from headgate.state.undo.journal import Journal


class JournalTable:
    """A state's table that notes how each entry was before a call changed it, or might change it."""

    __slots__ = ("_copy", "_journal", "_table")

    def __init__(self, table: StateTable, copy: Callable[[Any], Any], journal: Journal) -> None:
        self._table, self._copy, self._journal = table, copy, journal

    @property
    def entries(self) -> Any:
        return self._table.entries

    def own(self, key: Hashable) -> Any:
        value = self._table.own(key)
        if value is not MISSING and self._journal.first((id(self), key)):
            self._journal.notes.append(partial(self._table.put, key, self._copy(value)))
        return value

    def put(self, key: Hashable, value: Any) -> None:
        self._note(key)
        self._table.put(key, value)

    def remove(self, key: Hashable) -> None:
        self._note(key)
        self._table.remove(key)

    def _note(self, key: Hashable) -> None:
        if self.own(key) is MISSING and self._journal.first((id(self), key)):
            self._journal.notes.append(partial(self._table.remove, key))


class JournalValue:
    """A live handle, of a value that cannot be changed in place, that notes the value that it replaces: for a
    time to live, which stores values at once.
    """

    __slots__ = ("_handle", "_journal")

    def __init__(self, handle: Any, journal: Journal) -> None:
        self._handle, self._journal = handle, journal

    def __getattr__(self, name: str) -> Any:
        return getattr(self._handle, name)

    @property
    def value(self) -> Any:
        return self._handle.value

    @value.setter
    def value(self, value: Any) -> None:
        self._handle.value = value

    def store(self) -> None:
        handle = self._handle
        if self._journal.first((id(self), handle.key)):
            before = handle.table.get(handle.key, handle.default)
            self._journal.notes.append(partial(self._back, handle.key, before))
        handle.store()

    def _back(self, key: Hashable, value: Any) -> None:
        self._handle.load(key)
        self._handle.value = value
        self._handle.store()


class JournalBackend(BackendWrapper[KeyedBackend]):
    """Keyed state whose changes are noted in `journal`. `descriptors` are the states that `backend` keeps, of
    which `at_once` are those that a time to live stores during a call.
    """

    def __init__(
        self,
        backend: KeyedBackend,
        descriptors: Mapping[str, StateDescriptor],
        journal: Journal,
        at_once: Collection[str],
    ) -> None:
        found = {
            name: backend.handles[name]
            if name in HELD  # calls do not change them
            else _handle(backend, descriptor, journal, at_once=name in at_once)
            for name, descriptor in descriptors.items()
        }
        super().__init__(backend, found)
        self.event_timers, self.processing_timers = backend.event_timers, backend.processing_timers

    def snapshot_sync(self, checkpoint: int = 0, completed: int | None = 0) -> PendingSnapshot:
        return self._backend.snapshot_sync(checkpoint, completed)

    def restore(self, stored: Iterable[Stored]) -> None:
        self._backend.restore(stored)


def _handle(backend: KeyedBackend, descriptor: StateDescriptor, journal: Journal, *, at_once: bool) -> Any:
    own, target = backend.handles[descriptor.name], backend.targets
    if own.immutable:
        return JournalValue(own, journal) if at_once else own
    # The serializer may be another one after a restore.
    table = JournalTable(own.table, lambda value: target[descriptor.name].serializer.copy(value), journal)
    return handle_of(descriptor, target[descriptor.name].serializer, cast(HeapTable, table))
