"""A keyed backend with time to live, around one that keeps values and last-access times as two states."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from headgate.api.declared.keyed_states import StateDescriptor, StateKind, StateTtl
from headgate.state.backend import KeyedBackend, PendingSnapshot, Stored, StoredValue
from headgate.state.backend_wrapper import BackendWrapper
from headgate.state.stored.value_readers import stored_value
from headgate.state.targets import Target
from headgate.state.ttl.cleanup import ExpiringState, SnapshotCleanup
from headgate.state.ttl.declared import ABSENT, stamps_name
from headgate.state.ttl.handle import Counts, Expiry, TtlHandle, TtlStatistics
from headgate.state.ttl.lists_and_maps import TtlListState, TtlMapState
from headgate.state.ttl.single import TtlAggregatingState, TtlReducingState, TtlValueState
from headgate.state.ttl.sweep import Sweep

Clock = Callable[[], int]

_PLAIN_HANDLES: Final[dict[str, type[TtlHandle]]] = {
    StateKind.LIST: TtlListState, StateKind.MAP: TtlMapState, StateKind.REDUCING: TtlReducingState
}  # fmt: skip


@dataclass(slots=True)
class _State:
    """One declared state with a time to live: its handle, its sweep, and its part of the last snapshot."""

    descriptor: StateDescriptor
    handle: TtlHandle
    sweep: Sweep | None
    target: Target
    snapshot: ExpiringState | None = None  # in the last snapshot

    @property
    def ttl(self) -> StateTtl:
        ttl: StateTtl = self.descriptor.ttl
        return ttl

    def at_snapshot(self) -> ExpiringState:
        descriptor = self.descriptor
        self.snapshot = ExpiringState(
            descriptor.name,
            stamps_name(descriptor),
            descriptor.kind,
            self.handle.expiry.at_snapshot(),
            partial(_size_of, self.target),
        )
        return self.snapshot

    def statistics(self) -> TtlStatistics:
        counts, last = self.handle.counts, self.snapshot
        found = (0, 0, 0) if last is None else (last.seen, last.expired, last.expired_bytes)
        return TtlStatistics(counts.seen, counts.expired_stored, counts.removed, *found)


class TtlKeyedBackend(BackendWrapper[KeyedBackend]):
    """The keyed state of one operator subtask, in which the entries of some states expire, around a `backend`
    that keeps values and last-access times as two states. `descriptors` are the declared states by name, as
    the program wrote them. Each has one live handle; the hidden states of last-access times have none. The
    clocks return ms.
    """

    def __init__(
        self,
        backend: KeyedBackend,
        descriptors: Mapping[str, StateDescriptor],
        processing_time: Clock,
        event_time: Clock,
    ) -> None:
        clocks = {"processing": processing_time, "event": event_time}
        self._states = {
            name: _state(backend, descriptor, clocks[descriptor.ttl.time])
            for name, descriptor in descriptors.items()
            if descriptor.ttl is not None
        }
        handles = {
            name: self._states[name].handle if name in self._states else backend.handles[name]
            for name in descriptors
        }
        super().__init__(backend, handles)
        self.event_timers, self.processing_timers = backend.event_timers, backend.processing_timers

    def keys(self, name: str) -> Iterable[Hashable]:
        # iterating binds the handle to them
        state = self._states.get(name)
        keys = self._backend.keys(name)
        return keys if state is None else filter(state.handle.holds, keys)

    def peek(self, name: str, key: Hashable) -> StoredValue | None:
        # not of an expired one, even if reads see it
        state = self._states.get(name)
        if state is None:
            return self._backend.peek(name, key)
        living = state.handle.living(key)
        return None if living is ABSENT else stored_value(name, state.target, living)

    def snapshot_sync(self, checkpoint: int = 0, completed: int | None = 0) -> PendingSnapshot:
        pending = self._backend.snapshot_sync(checkpoint, completed)
        states = [state.at_snapshot() for state in self._states.values() if state.ttl.cleanup.full_snapshot]
        if states:
            pending.keep = SnapshotCleanup(states)
        return pending

    def restore(self, stored: Iterable[Stored]) -> None:
        # entries without a last-access time count as written just now
        self._backend.restore(stored)
        for state in self._states.values():
            state.handle.expiry.begin()
            if state.sweep is not None:
                state.sweep.date_values()

    def statistics(self) -> dict[str, TtlStatistics]:
        """Return counts of expired entries for each state that has a time to live, by its name."""
        return {name: state.statistics() for name, state in self._states.items()}


def _state(backend: KeyedBackend, descriptor: StateDescriptor, clock: Clock) -> _State:
    ttl: StateTtl = descriptor.ttl
    name, stamps = descriptor.name, stamps_name(descriptor)
    handle = _handle(descriptor, backend.handles[name], backend.handles[stamps], Expiry(ttl, clock))
    sweep = None
    if ttl.cleanup.incremental:
        scan = backend.scan
        sweep = Sweep(handle, partial(scan, stamps), partial(scan, name), ttl.cleanup.incremental)
        handle.sweep = sweep.step
    return _State(descriptor, handle, sweep, backend.targets[name])


def _handle(descriptor: StateDescriptor, values: Any, stamps: Any, expiry: Expiry) -> TtlHandle:
    common = (values, stamps, expiry, Counts())
    if descriptor.kind in _PLAIN_HANDLES:
        return _PLAIN_HANDLES[descriptor.kind](*common)
    if descriptor.kind == StateKind.AGGREGATING:
        return TtlAggregatingState(*common, descriptor.function)
    return TtlValueState(*common, descriptor.default)


def _size_of(target: Target, value: Any) -> int:
    try:
        return len(target.serializer.encode_many([value]))
    except Exception:
        return 0  # a figure of a statistic, for which no checkpoint is to fail
