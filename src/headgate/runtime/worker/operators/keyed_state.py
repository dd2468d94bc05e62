"""Opens and restores the state backend of a keyed operator, and finishes its snapshots."""

from __future__ import annotations

import logging
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol

import msgspec

from headgate.api.declared.keyed_states import StateDescriptor
from headgate.checkpoint.stored_files import DiskFiles
from headgate.common.plain_data import Plain
from headgate.runtime.job.operator_context import OperatorContext
from headgate.runtime.worker.operators.operator_contract import StateFiles, TableFiles
from headgate.state.backend import EarlierState, KeyedBackend, PendingSnapshot, StateHandle
from headgate.state.backends import HeapBackends, StateBackends
from headgate.state.snapshots import KeyedStateHandle, OperatorSubtaskState
from headgate.state.state_names import Claims
from headgate.state.ttl.backend import TtlKeyedBackend
from headgate.state.ttl.declared import stamps_name, with_stamps
from headgate.state.undo.journal import Journal
from headgate.state.undo.journal_backend import JournalBackend

_LOG: Final = logging.getLogger(__name__)


def open_backend(
    context: OperatorContext,
    descriptors: Mapping[str, StateDescriptor],  # the declared states, by name
    groups: tuple[int, int],  # first and last key group (inclusive)
    event_time: Callable[[], int],  # returns the current watermark, for time to live in event time
    journal: Journal | None = None,  # notes changes, to undo those of a record that fails; None: nobody does
) -> KeyedBackend:
    """Return the state backend of one operator subtask, with its restored state; log what is skipped of it.
    `groups` are the subtask's first and last key group; `event_time` returns the watermark (ms), for time to
    live. Raises UsageError: a stored type does not fit; StorageError: damaged state.
    """
    claims = Claims(with_stamps(descriptors)) if context.ignore_unclaimed else None
    backend = filled_backend(context, descriptors, groups, event_time, claims, journal)
    if claims is not None and claims.skipped:
        _LOG.warning(
            "%s, subtask %d: stored state %s is not declared any more and is skipped",
            context.label, context.subtask, ", ".join(map(repr, sorted(claims.skipped))),
        )  # fmt: skip
    return backend


def filled_backend(
    context: OperatorContext,
    descriptors: Mapping[str, StateDescriptor],
    groups: tuple[int, int],
    event_time: Callable[[], int],
    claims: Claims | None,
    journal: Journal | None = None,
) -> KeyedBackend:
    """Return the restored backend of `descriptors` for key `groups`; `claims`: states to read, None: all."""
    backends: StateBackends = context.backends or HeapBackends()
    backend = backends.open(with_stamps(descriptors), groups, context.max_parallelism)
    expiring = [descriptor for descriptor in descriptors.values() if descriptor.ttl is not None]
    if journal is not None:
        at_once = {name for each in expiring for name in (each.name, stamps_name(each))}
        backend = JournalBackend(backend, with_stamps(descriptors), journal, at_once)
    if expiring:
        backend = TtlKeyedBackend(backend, descriptors, context.clock.now_ms, event_time)
    try:
        stored = [state.keyed for state in context.restored if state.keyed is not None]
        if stored:
            backend.restore([earlier_state(context.disk, keyed, claims) for keyed in stored])
    except BaseException:
        backend.close()
        raise
    return backend


def earlier_state(disk: Any, keyed: KeyedStateHandle, claims: Claims | None = None) -> EarlierState:
    """Return one earlier subtask's state, to be read from `disk` (None: no files); `claims`: None for all."""
    return EarlierState(DiskFiles(disk), keyed, None if disk is None else disk.describe(), claims)


class EagerHandle(Protocol):
    """A value state, of immutable values, that the loop loads before each record and stores after it."""

    def load(self, key: Hashable) -> None:
        """Load the value under `key` into the handle."""

    def store(self) -> None:
        """Store the handle's value in the backend's table under the loaded key, if it was changed."""


def split_handles(backend: KeyedBackend) -> tuple[list[EagerHandle], list[StateHandle]]:
    """Return the states that the loop loads and stores for each record, and those it only sets to the key."""
    handles = list(backend.handles.values())
    return [h for h in handles if h.immutable], [h for h in handles if not h.immutable]


@dataclass(frozen=True, slots=True)
class PendingKeyedState:
    """A keyed operator's snapshot whose synchronous part is done, to be stored in the background.
    `firing_to`: the watermark up to which timers were still firing, None: none; `key_types`: None: unknown.
    """

    uid: str
    pending: PendingSnapshot
    watermark: int
    firing_to: int | None = None
    key_types: list[Plain] | None = None

    def finish(self, files: StateFiles) -> OperatorSubtaskState:
        # A canonical savepoint takes keyed state as tables.
        if isinstance(files, TableFiles):
            keyed = self.pending.store_with(files.new_tables(self.uid))
        else:
            keyed = self.pending.store(self.uid, files)
        keyed = msgspec.structs.replace(keyed, key_types=self.key_types)
        return OperatorSubtaskState(self.uid, keyed, watermark=self.watermark, firing_to=self.firing_to)

    def release(self) -> None:
        self.pending.release()
