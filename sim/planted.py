"""Known mistakes to plant into the product: the simulator is worth what it finds of these."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

from headgate.api.source import Split
from headgate.core.alignment.aligned import AlignedBarrierHandler
from headgate.core.alignment.barriers import Barrier
from headgate.core.alignment.handler import TriggerSnapshot
from headgate.runtime import deployment
from headgate.runtime.drawing import Drawing
from headgate.runtime.gate_task import GateTask
from headgate.runtime.job_master import JobMaster
from headgate.runtime.source_task import SourceTask
from sim.store import STORES, EventReader, StoreWriter
from sim.workload import STORE


def _trigger_on_first_barrier(
    self: AlignedBarrierHandler, _channel: int, barrier: Barrier, age_ms: float, _now_ms: float
) -> list[Any]:
    if barrier.checkpoint <= self.current:
        return []
    self._current = barrier.checkpoint
    return [TriggerSnapshot(barrier, age_ms, 0.0)]


_snapshot = EventReader.snapshot
_prepare = StoreWriter.prepare_commit
_assigned = SourceTask.splits_assigned
_take_inputs = GateTask._take_inputs


def _one_record_late(self: EventReader) -> list[Split]:
    return [Split(split.id, split.position + 1) for split in _snapshot(self)]


def _publish_at_once(self: StoreWriter) -> list[Any]:
    parts = _prepare(self)
    for part in parts:
        STORES[STORE].published[part] = STORES[STORE].prepared.pop(part)
    return parts


def _assign_then_draw(self: SourceTask, splits: Sequence[Any] | None) -> None:
    # A trigger that came before the splits is answered with their positions.
    deferred, self._deferred = self._deferred, None
    _assigned(self, splits)  # type: ignore[arg-type]
    if deferred is not None:
        self.trigger(deferred)


def _only_note(self: JobMaster, error: Exception) -> None:
    self.ports.listener.note(f"also: {error}")


BUGS: dict[str, tuple[Any, str, Callable[..., Any]]] = {
    "no barrier alignment": (AlignedBarrierHandler, "barrier", _trigger_on_first_barrier),
    "source position off by one": (EventReader, "snapshot", _one_record_late),
    "sink commits at the snapshot": (StoreWriter, "prepare_commit", _publish_at_once),
    "splits counted twice in a cut": (SourceTask, "splits_assigned", _assign_then_draw),
    "recovery ends with a failed commit": (JobMaster, "recovery_failed", _only_note),
}
"""What -> class, method, and its wrong version."""


def _restore_nothing(_plan: Any, _checkpoint: Any) -> list[Any]:
    return []


def _drop_captured(self: GateTask) -> None:
    self._gate.take_captured()


def _forget_half_read(self: GateTask, capture: Any) -> None:
    reading, self._reading = self._reading, None
    _take_inputs(self, capture)
    self._reading = reading


def _forget_outputs(_self: Drawing, _overtaken: Any) -> None:
    """What the barrier overtook on the sender's side is stored nowhere."""


IN_FLIGHT_BUGS: dict[str, tuple[Any, str, Callable[..., Any]]] = {
    "records in flight are not restored": (deployment, "assign_in_flight", _restore_nothing),
    "records before late barriers are lost": (GateTask, "_pass_captured", _drop_captured),
    "half-read batches are not captured": (GateTask, "_take_inputs", _forget_half_read),
    "overtaken output is not captured": (Drawing, "_take_outputs", _forget_outputs),
}
"""The same for barriers that overtake records."""


@contextmanager
def planted(bug: str) -> Iterator[None]:
    """The product with one of `BUGS` or `IN_FLIGHT_BUGS` in it."""
    cls, name, wrong = (BUGS | IN_FLIGHT_BUGS)[bug]
    with patch.object(cls, name, wrong):
        yield
