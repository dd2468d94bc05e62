"""A keyed backend that mostly stores changes since the last complete checkpoint, around one with tables."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import Final

from headgate.api.declared.keyed_states import StateDescriptor
from headgate.state.backend import EarlierState, PendingSnapshot, TableBackend
from headgate.state.backend import Stored as EarlierStates
from headgate.state.backend_wrapper import BackendWrapper
from headgate.state.changelog.change_tracking import (
    Changes,
    TrackedStore,
    TrackedTimerQueue,
    Tracker,
    take_all,
    tracked_handle,
)
from headgate.state.changelog.segment import ChangedSections, PendingBase, PendingSegment
from headgate.state.changelog.segment_chain import Chain, Epochs, Stored, Waste
from headgate.state.heap.backend import EVENT_TIMERS, PROCESSING_TIMERS, SETTLED_PER_CALL

CHANGES_MAX: Final = 100_000
"""Above this number changed entries are not copied in the pause: the backend's own snapshot is shorter."""
SEGMENTS_MAX: Final = 1_000
"""After so many segments a snapshot is complete: every checkpoint and every restore goes through them."""
LOG_BYTES_MIN: Final = 1 << 20
"""A log may have this size whatever the base has; beyond it, no more than the base."""


class ChangelogBackend(BackendWrapper[TableBackend]):
    """The keyed state of one operator subtask, with a log of its changes for short checkpoints.

    A snapshot holds what was changed since the newest complete checkpoint, and refers to the files of that
    one. If it may not, or the log is too old, long or large, or too much changed, it is complete by itself
    and the log begins anew. How the backend inside writes a complete snapshot is its own affair.

    `materialize_ms`: after so long, by the clock `now_ms`, the next snapshot is complete.
    `restored`: the checkpoint that will be restored, 0 for none.
    """

    def __init__(
        self,
        backend: TableBackend,
        descriptors: Mapping[str, StateDescriptor],
        materialize_ms: int,
        now_ms: Callable[[], int],
        restored: int = 0,
    ) -> None:
        targets = backend.targets
        tracked = {
            name: tracked_handle(descriptor, targets[name].serializer, backend.tables[name])
            for name, descriptor in descriptors.items()
        }
        super().__init__(backend, {name: handle for name, (handle, _) in tracked.items()})
        timers = {
            EVENT_TIMERS: TrackedTimerQueue[Hashable](),
            PROCESSING_TIMERS: TrackedTimerQueue[Hashable](),
        }
        self.event_timers = backend.event_timers = timers[EVENT_TIMERS]
        self.processing_timers = backend.processing_timers = timers[PROCESSING_TIMERS]
        self._trackers: dict[str, Tracker] = {name: tracker for name, (_, tracker) in tracked.items()}
        self._trackers |= timers
        defaults = {
            name: handle.default for name, handle in self.handles.items() if isinstance(handle, TrackedStore)
        }
        self._sections = ChangedSections(backend.tables, defaults, timers, targets)
        self._epochs, self._waste, self._chain = Epochs(), Waste(), Chain()
        self._materialize_ms, self._now_ms = materialize_ms, now_ms
        self._due_ms = now_ms() + materialize_ms
        self._restored = restored

    def snapshot_sync(self, checkpoint: int = 0, completed: int | None = 0) -> PendingSnapshot:
        if completed is None:
            return self._backend.snapshot_sync(checkpoint, None)
        changed = take_all(self._trackers)
        self._epochs.close(checkpoint, changed)
        newest = self._chain.completed(completed)
        follows = None if newest is None else newest.followed
        if follows is None or self._due(follows) or not self._chain.may_follow(follows):
            return self._begin_anew(checkpoint, newest, changed)
        changes = self._epochs.since(follows.reaches)
        if sum(len(each) for each in changes.values() if isinstance(each, set)) > CHANGES_MAX:
            return self._begin_anew(checkpoint, newest, changed)
        self._epochs.forget(follows.reaches)
        return self._segment(checkpoint, follows, changes)

    def _due(self, follows: Stored) -> bool:
        log = follows.log_bytes
        return (
            self._now_ms() >= self._due_ms
            or len(follows.handle.log) >= SEGMENTS_MAX
            or log > max(LOG_BYTES_MIN, follows.handle.size - log)
        )

    def _segment(self, checkpoint: int, follows: Stored, changes: Changes) -> PendingSegment:
        instead: PendingBase | None = None
        if follows.root is not None:
            # Whether restored files may be referred to is known only in the background.
            instead = self._base(checkpoint, follows)
        self._chain.taken(checkpoint, follows if instead is None else None)
        return PendingSegment(
            self._sections.of(changes),
            self.groups,
            self._backend.max_parallelism,
            follows,
            checkpoint,
            self._chain.stored,
            instead,
        )

    def _begin_anew(self, checkpoint: int, newest: Stored | None, changed: Changes) -> PendingBase:
        self._epochs.forget(checkpoint)
        self._waste.add(changed)
        self._chain.taken(checkpoint, None)
        self._due_ms = self._now_ms() + self._materialize_ms
        return self._base(checkpoint, newest)

    def _base(self, checkpoint: int, newest: Stored | None) -> PendingBase:
        # What the newest checkpoint refers to stays, so the backend may share the files of its base.
        base = 0 if newest is None else newest.base
        return PendingBase(self._backend.snapshot_sync(checkpoint, base), checkpoint, self._chain.stored)

    def restore(self, stored: Iterable[EarlierStates]) -> None:
        """Fill the empty backend with the state that earlier subtasks stored, in any form.

        The log goes on, and the next snapshot may follow the restored one, if `stored` is that of one subtask
        of the same key groups in a checkpoint and no stored state was skipped; else the next snapshot is
        complete. UsageError: a type misfits; StorageError: damaged.
        """
        earlier = list(stored)
        self._backend.restore(earlier)
        self._waste.add(take_all(self._trackers))
        if not self._restored or len(earlier) != 1 or not isinstance(only := earlier[0], EarlierState):
            return
        handle = only.handle
        if handle.tables is not None or (handle.first_group, handle.last_group) != self.groups:
            return  # nothing may refer to files of a savepoint
        if only.claims is not None and only.claims.skipped:
            return  # what was stored holds more than was restored: nothing may go on from there
        base = 0 if handle.native is None else int(handle.native.details.get("checkpoint", 0))
        self._chain.restored(self._restored, Stored(handle, self._restored, base, root=only.root or ""))

    def settle(self) -> None:
        self._backend.settle()
        self._waste.settle(SETTLED_PER_CALL)
