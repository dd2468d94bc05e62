"""The operator state of a user function: restored, given to the function, and snapshotted."""

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
    """The operator state that a user function declares: restored, and set as the function's attributes.
    `handles`: the states by name. StorageError: restored state is damaged; UsageError: it does not fit.
    """

    def __init__(self, context: OperatorContext, function: RichFunction) -> None:
        self._uid = context.uid
        self._backend = OperatorStateBackend(declared_operator_state(function))
        self.handles = self._backend.handles
        restored = [stored for state in context.restored for stored in state.operator_state]
        if context.ignore_unclaimed:
            restored = [stored for stored in restored if stored.name in self.handles]
        self._backend.restore((stored, read_handle(context.disk, stored.handle)) for stored in restored)
        give_handles(function, self.handles)

    def snapshot(self, rest: PendingState | None) -> PendingState | None:
        """Return a snapshot of operator state and of `rest` (None: nothing else); an error releases `rest`.
        It is `rest` itself if the function declares no operator state.
        """
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
        return self._backend.state_types()


@dataclass(frozen=True, slots=True)
class _PendingBoth:
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
