"""Records the history of the latest checkpoints for diagnosis, and writes it to a file in the background.

A file that cannot be written costs a warning and nothing else.
"""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Iterable
from typing import Final

from headgate.checkpoint.history_file import RECORDS_MAX, HistoryFile
from headgate.common.ports import Background, Clock
from headgate.core.checkpoint import effects as e
from headgate.core.checkpoint.failures import CheckpointFailureReason
from headgate.core.checkpoint.history import (
    CheckpointRecord,
    CheckpointStatus,
    EdgeFacts,
    StuckLoop,
    SubtaskRecord,
    Topology,
    VertexFacts,
)
from headgate.graph.physical import PhysicalPlan
from headgate.state.snapshots import SubtaskSnapshot

WRITE_EVERY_MS: Final = 1_000  # least time between two writes, except before the last one
WRITE_AT_LATEST_MS: Final = 5_000  # how long a write is put off in order not to delay a checkpoint

_LOG: Final = logging.getLogger("headgate.checkpoints")


class CheckpointHistory:
    """The records (times, sizes, failures) of one job's latest checkpoints, for status and diagnosis. Its job
    master calls the methods in its loop. Without `file` the records are in memory only.
    """

    def __init__(
        self, plan: PhysicalPlan, file: HistoryFile | None, clock: Clock, background: Background
    ) -> None:
        self._topology = topology_of(plan)
        self._file, self._clock, self._background = file, clock, background
        self._tasks: tuple[tuple[int, int], ...] = ()
        self._open: dict[int, _Open] = {}
        self._ended: dict[int, CheckpointRecord] = {}
        self._began_ms: dict[int, int] = {}
        self._changed, self._written_at_ms = False, clock.monotonic_ms() - WRITE_EVERY_MS
        self._failing = False

    @property
    def records(self) -> tuple[CheckpointRecord, ...]:
        """All records kept, by checkpoint id; those of pending checkpoints as they stand at this moment."""
        now = self._clock.monotonic_ms()
        records = self._ended | {number: entry.record(now) for number, entry in self._open.items()}
        return tuple(records[number] for number in sorted(records))

    def deployed(self, tasks: Iterable[tuple[int, int]]) -> None:
        self._tasks = tuple(sorted(tasks))
        self._began_ms.clear()

    def replanned(self, plan: PhysicalPlan) -> None:
        self._topology = topology_of(plan)

    def label(self, task: tuple[int, int]) -> str:
        return self._topology.label(task)

    def begun(self, effect: e.RunHooks) -> None:
        """Record that the checkpoint of `effect` begins now, before its enumerators are snapshotted."""
        now = self._clock.monotonic_ms()
        what = effect.checkpoint, effect.attempt, effect.kind.value, CheckpointStatus.IN_PROGRESS
        begun = CheckpointRecord(*what, self._clock.now_ms(), self._topology)
        self._open[effect.checkpoint] = _Open(begun, now, self._tasks)
        self._note()

    def acknowledged(self, checkpoint: int, snapshot: SubtaskSnapshot) -> None:
        """Record a subtask's acknowledgement of a checkpoint; do nothing if the checkpoint is not pending."""
        entry = self._open.get(checkpoint)
        if entry is not None:
            latency_ms = self._clock.monotonic_ms() - entry.began_ms
            entry.subtasks[snapshot.vertex, snapshot.subtask] = record_of(snapshot, latency_ms)
            self._note()

    def stuck(self, slot: int, still_ms: int) -> None:
        """Record in all pending checkpoints that the loop of worker `slot` stood still for `still_ms`."""
        for entry in self._open.values():
            entry.stuck[slot] = max(still_ms, entry.stuck.get(slot, 0))
            self._note()

    def stored(self, checkpoint: int) -> None:
        """Record that a pending checkpoint or savepoint is stored, but no output of it committed yet."""
        entry = self._open.get(checkpoint)
        if entry is not None:
            stored_ms = self._clock.monotonic_ms() - entry.began_ms
            self._began_ms = {checkpoint: entry.began_ms}
            self._end(checkpoint, entry, status=CheckpointStatus.COMPLETED, stored_ms=stored_ms)

    def committed(self, checkpoint: int) -> None:
        """Record the duration of a stored checkpoint, up to the commit of its output (a savepoint has none).
        Ignored unless it was the last to be stored, in this attempt.
        """
        began_ms = self._began_ms.pop(checkpoint, None)
        if began_ms is not None and checkpoint in self._ended:
            duration_ms = self._clock.monotonic_ms() - began_ms
            self._ended[checkpoint] = dataclasses.replace(self._ended[checkpoint], duration_ms=duration_ms)
            self._note()

    def failed(self, checkpoint: int, reason: CheckpointFailureReason, detail: str) -> None:
        """Record that a pending checkpoint failed, with the reason and a text (`detail`) for people. Ignored
        if the checkpoint has ended already, completed or failed.
        """
        entry = self._open.get(checkpoint)
        if entry is not None:
            self._end(checkpoint, entry, status=CheckpointStatus.FAILED, reason=reason.name, detail=detail)

    def fenced(self) -> None:
        self._file = None

    def write_if_due(self) -> None:
        """Write new records to the file in the background, at most once a second.
        While that could delay a checkpoint (younger than 1 s, or not yet committed), at most every 5 s.
        """
        now = self._clock.monotonic_ms()
        if not self._changed or now - self._written_at_ms < WRITE_EVERY_MS:
            return
        in_the_way = self._began_ms or any(now - o.began_ms < WRITE_EVERY_MS for o in self._open.values())
        if not in_the_way or now - self._written_at_ms >= WRITE_AT_LATEST_MS:
            self.write()

    def write(self) -> None:
        file = self._file
        if file is None or not self._changed:
            return
        records = self.records
        self._changed, self._written_at_ms = False, self._clock.monotonic_ms()
        self._background.submit(lambda: file.write(records), self._written)

    def _written(self, _: None, error: BaseException | None) -> None:
        # Warned of once, until it succeeds again: the next attempt is a second away.
        if error is not None and not self._failing:
            _LOG.warning("the history of checkpoints could not be written: %s", error)
        self._failing = error is not None

    def _end(self, checkpoint: int, entry: _Open, **outcome: object) -> None:
        record = entry.record(self._clock.monotonic_ms())
        self._ended[checkpoint] = dataclasses.replace(record, **outcome)  # type: ignore[arg-type]
        del self._open[checkpoint]
        while len(self._ended) > RECORDS_MAX:
            del self._ended[min(self._ended)]
        self._note()

    def _note(self) -> None:
        self._changed = True
        self.write_if_due()


@dataclasses.dataclass(slots=True)
class _Open:
    begun: CheckpointRecord
    began_ms: int
    tasks: tuple[tuple[int, int], ...]
    subtasks: dict[tuple[int, int], SubtaskRecord] = dataclasses.field(default_factory=dict)
    stuck: dict[int, int] = dataclasses.field(default_factory=dict)

    def record(self, now_ms: int) -> CheckpointRecord:
        return dataclasses.replace(
            self.begun,
            duration_ms=now_ms - self.began_ms,
            subtasks=tuple(self.subtasks[task] for task in sorted(self.subtasks)),
            missing=tuple(task for task in self.tasks if task not in self.subtasks),
            stuck=tuple(StuckLoop(slot, self.stuck[slot]) for slot in sorted(self.stuck)),
        )


def topology_of(plan: PhysicalPlan) -> Topology:
    vertices = tuple(
        VertexFacts(v.id, v.name, tuple(n.known_as for n in v.chain), v.parallelism) for v in plan.vertices
    )
    edges = tuple(EdgeFacts(edge.source, edge.target, type(edge.partitioner).__name__) for edge in plan.edges)
    return Topology(vertices, edges)


def record_of(snapshot: SubtaskSnapshot, latency_ms: int) -> SubtaskRecord:
    """Return a subtask's record for diagnosis; it acknowledged `latency_ms` after the checkpoint's begin."""
    return SubtaskRecord(
        vertex=snapshot.vertex,
        subtask=snapshot.subtask,
        ack_latency_ms=latency_ms,
        start_delay_ms=snapshot.start_delay_ms,
        alignment_ms=snapshot.alignment_ms,
        sync_ms=snapshot.sync_ms,
        async_ms=snapshot.async_ms,
        bytes_processed=snapshot.bytes_processed,
        bytes_persisted=snapshot.bytes_persisted,
        bytes_written=snapshot.bytes_written,
        state_size=sum(state.size() for state in snapshot.operators),
        unaligned=snapshot.unaligned,
        finished=snapshot.finished,
        slowest_channel=snapshot.slowest_channel,
    )
