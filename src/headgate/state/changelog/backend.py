"""A backend whose checkpoints hold what changed since the last complete one: around any that keeps tables."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import Final

from headgate.api.declared.keyed_states import StateDescriptor
from headgate.common.plain_data import Description
from headgate.core.timers import TimerQueue
from headgate.state.backend import (
    EarlierState,
    Items,
    MigrationProgress,
    PendingSnapshot,
    StateHandle,
    StoredValue,
    TableBackend,
)
from headgate.state.backend import Stored as EarlierStates
from headgate.state.changelog.changelog_epochs import Epochs, Waste
from headgate.state.changelog.noting import (
    Changes,
    NotedStore,
    NotedTimerQueue,
    Noting,
    noted_handle,
    take_all,
)
from headgate.state.changelog.segment import Freezer, PendingSegment, PendingWhole
from headgate.state.changelog.segment_chain import Chain, Stored
from headgate.state.heap.backend import EVENT_TIMERS, PROCESSING_TIMERS, SETTLED_PER_CALL
from headgate.state.snapshots import NativeFiles
from headgate.state.targets import Target

CHANGES_MAX: Final = 100_000
"""More entries than this are not copied in the pause: the backend's own snapshot is shorter then."""
SEGMENTS_MAX: Final = 1_000
"""After so many segments a snapshot is whole: every checkpoint and every restore goes through them."""
LOG_BYTES_MIN: Final = 1 << 20
"""A log may have this size whatever the base has; beyond it, no more than the base."""


class ChangelogBackend:
    """Keyed state of one operator subtask with a log of its changes.

    A snapshot holds what was touched since the newest complete checkpoint, and refers to what that one
    stored. Now and then it is whole: then the log begins anew. What is whole is the backend's own affair.

    Args:
        materialize_ms: after so long the next snapshot is whole.
        restored: the checkpoint that will be restored, 0 for none.
    """

    def __init__(
        self,
        backend: TableBackend,
        descriptors: Mapping[str, StateDescriptor],
        materialize_ms: int,
        now_ms: Callable[[], int],
        restored: int = 0,
    ) -> None:
        self._backend = backend
        targets = backend.targets
        noted = {
            name: noted_handle(descriptor, targets[name].serializer, backend.tables[name])
            for name, descriptor in descriptors.items()
        }
        self.handles: dict[str, StateHandle] = {name: handle for name, (handle, _) in noted.items()}
        self._handles = tuple(self.handles.values())
        timers = {EVENT_TIMERS: NotedTimerQueue[Hashable](), PROCESSING_TIMERS: NotedTimerQueue[Hashable]()}
        self.event_timers: TimerQueue[Hashable] = timers[EVENT_TIMERS]
        self.processing_timers: TimerQueue[Hashable] = timers[PROCESSING_TIMERS]
        backend.event_timers, backend.processing_timers = self.event_timers, self.processing_timers
        self._noting: dict[str, Noting] = {name: noting for name, (_, noting) in noted.items()}
        self._noting |= timers
        defaults = {
            name: handle.default for name, handle in self.handles.items() if isinstance(handle, NotedStore)
        }
        self._freezer = Freezer(backend.tables, defaults, timers, targets)
        self._epochs, self._waste, self._chain = Epochs(), Waste(), Chain()
        self._materialize_ms, self._now_ms = materialize_ms, now_ms
        self._due_ms = now_ms() + materialize_ms
        self._restored = restored

    @property
    def groups(self) -> tuple[int, int]:
        """First and last key group (inclusive)."""
        return self._backend.groups

    @property
    def targets(self) -> Mapping[str, Target]:
        """See :class:`~headgate.state.backend.KeyedBackend`."""
        return self._backend.targets

    def bind(self, key: Hashable) -> None:
        """Make `key` the current key of every handle."""
        for handle in self._handles:
            handle.bind(key)

    def store(self) -> None:
        """Store what was changed for the current key."""
        for handle in self._handles:
            handle.store()

    def prefetch(self, keys: Iterable[Hashable]) -> None:
        """See :class:`~headgate.state.backend.KeyedBackend`."""
        self._backend.prefetch(keys)

    def keys(self, name: str) -> Iterable[Hashable]:
        """See :class:`~headgate.state.backend.KeyedBackend`."""
        return self._backend.keys(name)

    def scan(self, name: str) -> Items:
        """See :class:`~headgate.state.backend.KeyedBackend`."""
        return self._backend.scan(name)

    def peek(self, name: str, key: Hashable) -> StoredValue | None:
        """See :class:`~headgate.state.backend.KeyedBackend`."""
        return self._backend.peek(name, key)

    def state_types(self) -> dict[str, Description]:
        """State name -> kind and description of its serializers, for the checkpoint's metadata."""
        return self._backend.state_types()

    def snapshot_sync(self, checkpoint: int = 0, completed: int | None = 0) -> PendingSnapshot:
        """Fix at this moment what was touched, or everything. Call it between records, with all stored.

        `completed`: newest complete one, which the snapshot may follow; 0: it must be whole; None: it is
        a savepoint's, of which the log knows nothing.
        """
        if completed is None:
            return self._backend.snapshot_sync(checkpoint, None)
        touched = take_all(self._noting)
        self._epochs.close(checkpoint, touched)
        newest = self._chain.completed(completed)
        follows = None if newest is None else newest.followed
        if follows is None or self._due(follows) or not self._chain.may_follow(follows):
            return self._whole(checkpoint, newest, touched)
        changes = self._epochs.since(follows.reaches)
        if sum(len(touched) for touched in changes.values() if isinstance(touched, set)) > CHANGES_MAX:
            return self._whole(checkpoint, newest, touched)
        self._epochs.forget(follows.reaches)
        return self._segment(checkpoint, follows, changes)

    def _due(self, follows: Stored) -> bool:
        """Whether the log is old or long enough to begin anew."""
        log = follows.log_bytes
        return (
            self._now_ms() >= self._due_ms
            or len(follows.handle.log) >= SEGMENTS_MAX
            or log > max(LOG_BYTES_MIN, follows.handle.size - log)
        )

    def _segment(self, checkpoint: int, follows: Stored, changes: Changes) -> PendingSegment:
        instead: PendingWhole | None = None
        if follows.root is not None:
            # Whether restored files may be referred to is known only beside the loop.
            instead = self._drawn_whole(checkpoint, follows)
        self._chain.drawn(checkpoint, follows if instead is None else None)
        return PendingSegment(
            self._freezer.frozen(changes),
            self.groups,
            self._backend.max_parallelism,
            follows,
            checkpoint,
            self._chain.stored,
            instead,
        )

    def _whole(self, checkpoint: int, newest: Stored | None, touched: Changes) -> PendingWhole:
        self._epochs.forget(checkpoint)
        self._waste.add(touched)
        self._chain.drawn(checkpoint, None)
        self._due_ms = self._now_ms() + self._materialize_ms
        return self._drawn_whole(checkpoint, newest)

    def _drawn_whole(self, checkpoint: int, newest: Stored | None) -> PendingWhole:
        # What the newest checkpoint refers to stays, so the backend may share the files of its base.
        base = 0 if newest is None else newest.base
        return PendingWhole(self._backend.snapshot_sync(checkpoint, base), checkpoint, self._chain.stored)

    def restore(self, stored: Iterable[EarlierStates]) -> None:
        """See :class:`~headgate.state.backend.KeyedBackend`; the log of the same key groups goes on."""
        earlier = list(stored)
        self._backend.restore(earlier)
        self._waste.add(take_all(self._noting))
        if len(earlier) != 1 or not isinstance(only := earlier[0], EarlierState) or only.handle is None:
            return
        if only.claims is not None and only.claims.skipped:
            # What was stored holds more than was restored: nothing may go on from there.
            return
        if self._restored and (only.handle.first_group, only.handle.last_group) == self.groups:
            base = _checkpoint_of(only.handle.native)
            self._chain.restored(
                self._restored, Stored(only.handle, self._restored, base, root=only.root or "")
            )

    def settle(self) -> None:
        """See :class:`~headgate.state.backend.KeyedBackend`."""
        self._backend.settle()
        self._waste.settle(SETTLED_PER_CALL)

    def migration_progress(self) -> list[MigrationProgress]:
        """See :class:`~headgate.state.backend.KeyedBackend`."""
        return self._backend.migration_progress()

    def close(self) -> None:
        """Release what the backend holds outside Python; more than once does no harm."""
        self._backend.close()


def _checkpoint_of(native: NativeFiles | None) -> int:
    """The checkpoint that native files were stored for, if their backend says so."""
    return 0 if native is None else int(native.details.get("checkpoint", 0))
