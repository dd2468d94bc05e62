"""A backend whose states may end: around any backend that keeps the states of `declared.with_stamps`."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from headgate.api.declared.keyed_states import StateDescriptor, StateKind, StateTtl
from headgate.common.plain_data import Description
from headgate.core.timers import TimerQueue
from headgate.state.backend import (
    Items,
    KeyedBackend,
    MigrationProgress,
    PendingSnapshot,
    Stored,
    StoredValue,
)
from headgate.state.peek import stored_value
from headgate.state.targets import Target
from headgate.state.ttl.cleanup import SnapshotCleanup, StateCut
from headgate.state.ttl.declared import ABSENT, stamps_name
from headgate.state.ttl.expiry import Counts, Expiry, TtlStatistics
from headgate.state.ttl.handle import TtlHandle
from headgate.state.ttl.lists import TtlListState
from headgate.state.ttl.maps import TtlMapState
from headgate.state.ttl.single import TtlAggregatingState, TtlReducingState, TtlValueState
from headgate.state.ttl.sweep import Sweep

Clock = Callable[[], int]


@dataclass(slots=True)
class _State:
    """One state that has a time to live."""

    descriptor: StateDescriptor
    handle: TtlHandle
    sweep: Sweep | None
    target: Target
    cut: StateCut | None = None


class TtlKeyedBackend:
    """Keyed state of one operator subtask, of which some states have a time to live.

    Args:
        descriptors: the declared states, by name, as the program wrote them.

    Attributes:
        handles: one live handle per declared state; the stamps are not among them.
    """

    def __init__(
        self,
        backend: KeyedBackend,
        descriptors: Mapping[str, StateDescriptor],
        processing_time: Clock,
        event_time: Clock,
    ) -> None:
        self._backend = backend
        self.event_timers: TimerQueue[Hashable] = backend.event_timers
        self.processing_timers: TimerQueue[Hashable] = backend.processing_timers
        clocks = {"processing": processing_time, "event": event_time}
        self._states = {
            name: _state(backend, descriptor, clocks[descriptor.ttl.time])
            for name, descriptor in descriptors.items()
            if descriptor.ttl is not None
        }
        self.handles: dict[str, Any] = {
            name: self._states[name].handle if name in self._states else backend.handles[name]
            for name in descriptors
        }

    @property
    def groups(self) -> tuple[int, int]:
        """First and last key group (inclusive)."""
        return self._backend.groups

    @property
    def targets(self) -> Mapping[str, Target]:
        """See :class:`KeyedBackend`; stamps are among them."""
        return self._backend.targets

    def bind(self, key: Hashable) -> None:
        """Make `key` the current key of every handle."""
        for handle in self.handles.values():
            handle.bind(key)

    def store(self) -> None:
        """Store what was changed for the current key."""
        for handle in self.handles.values():
            handle.store()

    def prefetch(self, keys: Iterable[Hashable]) -> None:
        """See :class:`KeyedBackend`; values and stamps."""
        self._backend.prefetch(keys)

    def keys(self, name: str) -> Iterable[Hashable]:
        """See :class:`KeyedBackend`; without keys of which all is over. Bind a key anew before its use."""
        state = self._states.get(name)
        keys = self._backend.keys(name)
        return keys if state is None else filter(state.handle.holds, keys)

    def scan(self, name: str) -> Items:
        """See :class:`KeyedBackend`; what is over is among it."""
        return self._backend.scan(name)

    def peek(self, name: str, key: Hashable) -> StoredValue | None:
        """See :class:`KeyedBackend`; what is over is not shown, whatever reads of the program may see."""
        state = self._states.get(name)
        if state is None:
            return self._backend.peek(name, key)
        living = state.handle.living(key)
        return None if living is ABSENT else stored_value(name, state.target, living)

    def state_types(self) -> dict[str, Description]:
        """State name -> kind and description of its serializers, for the checkpoint's metadata."""
        return self._backend.state_types()

    def snapshot_sync(self, checkpoint: int = 0, completed: int | None = 0) -> PendingSnapshot:
        """See :class:`KeyedBackend`; what is over at the cut is left out of what is written whole."""
        pending = self._backend.snapshot_sync(checkpoint, completed)
        cuts = {name: _cut(state) for name, state in self._states.items() if _cleaned(state)}
        if cuts:
            pending.keep = SnapshotCleanup(cuts)
        return pending

    def settle(self) -> None:
        """See :class:`KeyedBackend`."""
        self._backend.settle()

    def migration_progress(self) -> list[MigrationProgress]:
        """See :class:`KeyedBackend`."""
        return self._backend.migration_progress()

    def restore(self, stored: Iterable[Stored]) -> None:
        """See :class:`KeyedBackend`. Entries without stamps count as written when it is over."""
        self._backend.restore(stored)
        for state in self._states.values():
            state.handle.expiry.begin()
            if state.sweep is not None:
                state.sweep.date_values()

    def statistics(self) -> dict[str, TtlStatistics]:
        """What is known of entries that are over, for each state that has a time to live."""
        return {name: _statistics(state) for name, state in self._states.items()}

    def close(self) -> None:
        """Release what the backend holds outside Python; more than once does no harm."""
        self._backend.close()


def _state(backend: KeyedBackend, descriptor: StateDescriptor, clock: Clock) -> _State:
    ttl: StateTtl = descriptor.ttl
    name, stamps = descriptor.name, stamps_name(descriptor)
    expiry = Expiry(ttl, clock)
    handle = _handle(descriptor, backend.handles[name], backend.handles[stamps], expiry)
    sweep = None
    if ttl.cleanup.incremental:
        scan = backend.scan
        sweep = Sweep(handle, partial(scan, stamps), partial(scan, name), ttl.cleanup.incremental)
        handle.sweep = sweep.step
    return _State(descriptor, handle, sweep, backend.targets[name])


def _handle(descriptor: StateDescriptor, values: Any, stamps: Any, expiry: Expiry) -> TtlHandle:
    common = (values, stamps, expiry, Counts())
    if descriptor.kind == StateKind.LIST:
        return TtlListState(*common)
    if descriptor.kind == StateKind.MAP:
        return TtlMapState(*common)
    if descriptor.kind == StateKind.REDUCING:
        return TtlReducingState(*common)
    if descriptor.kind == StateKind.AGGREGATING:
        return TtlAggregatingState(*common, descriptor.function)
    return TtlValueState(*common, descriptor.default)


def _size_of(target: Target) -> Callable[[Any], int]:
    serializer = target.serializer

    def size(value: Any) -> int:
        try:
            return len(serializer.encode_many([value]))
        except Exception:
            return 0  # a figure of a statistic, for which no checkpoint is to fail

    return size


def _cleaned(state: _State) -> bool:
    ttl: StateTtl = state.descriptor.ttl
    return ttl.cleanup.full_snapshot


def _cut(state: _State) -> StateCut:
    descriptor = state.descriptor
    state.cut = StateCut(
        descriptor.name,
        stamps_name(descriptor),
        descriptor.kind,
        state.handle.expiry.at_cut(),
        _size_of(state.target),
    )
    return state.cut


def _statistics(state: _State) -> TtlStatistics:
    counts, cut = state.handle.counts, state.cut
    found = (0, 0, 0) if cut is None else (cut.seen, cut.expired, cut.expired_bytes)
    return TtlStatistics(counts.seen, counts.expired_stored, counts.removed, *found)
