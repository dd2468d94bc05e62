"""The glue between a keyed operator and its state backend: restore, handles, snapshot."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from headgate.api.state import StateDescriptor
from headgate.checkpoint.data_files import read_handle
from headgate.runtime.operators.base import OperatorContext, StateFiles
from headgate.runtime.state_backends import HeapBackends, StateBackends
from headgate.state.backend import KeyedBackend, PendingSnapshot
from headgate.state.snapshots import KeyedStateHandle, OperatorSubtaskState


def open_backend(
    context: OperatorContext, descriptors: Mapping[str, StateDescriptor], groups: tuple[int, int]
) -> KeyedBackend:
    """The backend of one operator subtask, filled with what was restored for it."""
    backends: StateBackends = context.backends or HeapBackends()
    backend = backends.open(descriptors, groups, context.max_parallelism)
    try:
        handles = [state.keyed.handle for state in context.restored if state.keyed is not None]
        if handles:
            backend.restore([read_handle(context.disk, handle) for handle in handles])
    except BaseException:
        backend.close()
        raise
    return backend


def split_handles(backend: KeyedBackend) -> tuple[list[Any], list[Any]]:
    """Handles that the loop loads and stores, and handles that only need to know the key."""
    handles: list[Any] = list(backend.handles.values())
    return [h for h in handles if h.immutable], [h for h in handles if not h.immutable]


@dataclass(frozen=True, slots=True)
class PendingKeyedState:
    """The snapshot of a keyed operator whose synchronous part is done."""

    uid: str
    groups: tuple[int, int]
    pending: PendingSnapshot
    watermark: int
    firing_to: int | None = None

    def finish(self, files: StateFiles) -> OperatorSubtaskState:
        """See `runtime.operators.base.PendingState`."""
        parts = self.pending.write()
        size = sum(map(len, parts))
        handle = files.write(self.uid, parts)
        keyed = KeyedStateHandle(*self.groups, handle, size)
        return OperatorSubtaskState(self.uid, keyed, watermark=self.watermark, firing_to=self.firing_to)

    def release(self) -> None:
        """See `runtime.operators.base.PendingState`."""
        self.pending.release()
