"""Converts stored values on trial, as the restore will: what single values decide no description tells.

Types say whether values can be converted. Whether elements of a set stay apart when a field goes, only the
elements say. So what would be converted is read once, by the restore's own code, and dropped again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from headgate.api.declared.keyed_states import StateDescriptor
from headgate.api.declared.operator_state import OperatorStateDescriptor
from headgate.checkpoint.data_files import read_handle
from headgate.common.errors import UsageError
from headgate.common.ports import Disk
from headgate.common.process.system import SystemClock
from headgate.common.time import WATERMARK_MIN
from headgate.runtime.job.operator_context import OperatorContext
from headgate.runtime.worker.operators.keyed_state import filled_backend
from headgate.state.operator_state import OperatorStateBackend
from headgate.state.snapshots import KeyedStateHandle, OperatorStateHandle, OperatorSubtaskState, size_of
from headgate.state.ttl.declared import with_stamps
from headgate.state.unclaimed import Claims

BYTES_TRIED: Final = 256 << 20
"""Up to so many bytes of one subtask's state its values are converted on trial."""

NOT_TRIED: Final = "too large to be converted on trial; the restore looks at each value"


def not_tried(stored: KeyedStateHandle) -> bool:
    """Whether a subtask's state is too large for that."""
    return stored.size > BYTES_TRIED


def keyed_refusals(
    disk: Disk, stored: Sequence[KeyedStateHandle], state: StateDescriptor, max_parallelism: int
) -> Iterator[str]:
    """Why values of a keyed state cannot be read as declared, one sentence for each old subtask with some."""
    own = {state.name: state}
    for keyed in stored:
        if not_tried(keyed):
            continue
        groups = keyed.first_group, keyed.last_group
        held = [OperatorSubtaskState("", keyed)]
        context = OperatorContext("", "", 0, 1, 1, "", max_parallelism, SystemClock(), held, disk)
        try:
            filled_backend(context, own, groups, lambda: WATERMARK_MIN, Claims(with_stamps(own))).close()
        except UsageError as error:
            yield str(error)


def operator_refusals(
    disk: Disk, stored: Sequence[OperatorStateHandle], state: OperatorStateDescriptor
) -> Iterator[str]:
    """The same for an operator state."""
    for held in stored:
        if size_of(held.handle) > BYTES_TRIED:
            continue
        whole = msgspec.structs.replace(held, first=0, stop=held.count)
        try:
            OperatorStateBackend({state.name: state}).restore([(whole, read_handle(disk, held.handle))])
        except UsageError as error:
            yield str(error)
