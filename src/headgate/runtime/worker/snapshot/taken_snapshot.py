"""The synchronous part of a subtask's snapshot, as the loop hands it to the background."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from headgate.common.ids import SubtaskId
from headgate.core.alignment.barriers import SavepointOrder
from headgate.runtime.protocol.messages import Counters
from headgate.runtime.worker.in_flight.gathering import InFlightCapture
from headgate.runtime.worker.operators.operator_contract import PendingState, StateTypes


@dataclass(slots=True)
class BarrierMetrics:
    """How a barrier fared in a subtask; complete when its checkpoint is."""

    start_delay_ms: float  # from the trigger to its first arrival
    alignment_ms: float  # from the first barrier to the last
    unaligned: bool  # whether it overtook records
    bytes_processed: int = 0  # of records read between the first barrier and the last
    slowest_channel: str | None = None  # "uid[subtask]" of the sender whose barrier came last


@dataclass(frozen=True, slots=True)
class TakenSnapshot:
    """The synchronous part of a subtask's snapshot, ready for the asynchronous one."""

    subtask: SubtaskId
    checkpoint: int
    pending: Sequence[PendingState]  # of the operators
    sync_ms: float  # how long the loop stood still
    counters: Counters  # totals at the snapshot point
    state_types: dict[str, StateTypes]  # by operator uid
    finished: bool  # whether all input was processed before the snapshot point
    metrics: BarrierMetrics  # still changing while `capture` is open
    capture: InFlightCapture | None = None  # records in flight, of an unaligned checkpoint
    savepoint: SavepointOrder | None = None
