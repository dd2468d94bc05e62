"""Known mistakes to plant into the product: the simulator is worth what it finds of these."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

from headgate.api.source import Split
from headgate.core.alignment.aligned import AlignedBarrierHandler, TriggerSnapshot
from headgate.runtime.job_master import JobMaster
from headgate.runtime.task import SourceTask
from sim.store import STORES, EventReader, StoreWriter
from sim.workload import STORE


def _trigger_on_first_barrier(
    self: AlignedBarrierHandler, _channel: int, checkpoint: int, _now_ms: float
) -> list[Any]:
    if checkpoint <= self.current:
        return []
    self.current = checkpoint
    return [TriggerSnapshot(checkpoint, 0.0)]


_snapshot = EventReader.snapshot
_prepare = StoreWriter.prepare_commit
_assigned = SourceTask.splits_assigned


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


@contextmanager
def planted(bug: str) -> Iterator[None]:
    """The product with one of `BUGS` in it."""
    cls, name, wrong = BUGS[bug]
    with patch.object(cls, name, wrong):
        yield
