"""The glue between an operator and the operator state of its function: restore, handles, snapshot."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from headgate.api.declared.operator_state import declared_operator_state
from headgate.api.functions import RichFunction
from headgate.checkpoint.data_files import read_handle
from headgate.runtime.job.operator_context import OperatorContext
from headgate.runtime.worker.operators.operator_contract import (
    PendingState,
    ReadyState,
    StateFiles,
    StateTypes,
    give_handles,
)
from headgate.state.operator_state import OperatorStateBackend, PendingOperatorState
from headgate.state.snapshots import OperatorSubtaskState


class FunctionState:
    """The operator state that a user function declares.

    `context`: where the operator runs, and what was restored for it; `function`: gets a live handle for each
    state, as attributes of the instance.

    Raises StorageError: what was restored is damaged; UsageError: what was restored does not fit what is
    declared.
    """

    def __init__(self, context: OperatorContext, function: RichFunction) -> None:
        self._uid = context.uid
        self._backend = OperatorStateBackend(declared_operator_state(function))
        # the live handles by name; empty where the function declares none
        self.handles = self._backend.handles
        restored = [stored for state in context.restored for stored in state.operator_state]
        if context.ignore_unclaimed:
            declared = declared_operator_state(function)
            restored = [stored for stored in restored if stored.name in declared]
        self._backend.restore((stored, read_handle(context.disk, stored.handle)) for stored in restored)
        give_handles(function, self.handles)

    def snapshot(self, rest: PendingState | None) -> PendingState | None:
        """What else the operator keeps, and its operator state; the synchronous part of both is done."""
        if not self.handles:
            return rest
        others = ReadyState(OperatorSubtaskState(self._uid)) if rest is None else rest
        try:
            own = self._backend.snapshot_sync()
        except BaseException:
            others.release()
            raise
        return _PendingBoth(self._uid, others, own)

    def state_types(self) -> StateTypes:
        """State name -> description, for the checkpoint's metadata."""
        return self._backend.state_types()


@dataclass(frozen=True, slots=True)
class _PendingBoth:
    """See `runtime.operators.base.PendingState`."""

    uid: str
    others: PendingState
    own: PendingOperatorState

    def finish(self, files: StateFiles) -> OperatorSubtaskState:
        state = self.others.finish(files)
        stored = self.own.store(lambda parts: files.write(self.uid, parts))
        return msgspec.structs.replace(state, operator_state=stored)

    def release(self) -> None:
        self.own.release()
        self.others.release()
