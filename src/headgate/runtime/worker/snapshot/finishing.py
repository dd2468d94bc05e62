"""Writes a worker's snapshots in the background, after their synchronous part, and reports the outcome.

A snapshot is acknowledged once its state is durable, and so are the in-flight records of an unaligned
checkpoint. A snapshot of an aborted checkpoint is not acknowledged, and its files are deleted.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import msgspec

from headgate.common.ids import SubtaskId
from headgate.common.ports import Background, Clock, Link, Probe
from headgate.core.alignment.barriers import SavepointOrder
from headgate.core.subtask_checkpoints import SubtaskCheckpoints
from headgate.runtime.protocol import messages as m
from headgate.runtime.worker.exchange.record_traces import RecordTraces
from headgate.runtime.worker.in_flight.catalog import StreamCatalog
from headgate.runtime.worker.in_flight.gathering import CaptureLimits, InFlightCapture
from headgate.runtime.worker.in_flight.stored_parts import NotStorableError
from headgate.runtime.worker.snapshot.snapshot_writer import (
    BarrierMetrics,
    SnapshotWriter,
    TakenSnapshot,
    release,
)
from headgate.state.snapshots import InFlightStream, StateHandle, SubtaskSnapshot

Key = tuple[SubtaskId, int]


@dataclass(slots=True)
class _Running:
    """A snapshot that is being written; `snapshot` and `streams` are None as long as they are not durable.

    The subtask's capture keeps a reference to this, so nothing large may be stored here: the taken snapshot,
    which holds copies of tables, belongs to the background job that writes it.
    """

    checkpoint: int
    metrics: BarrierMetrics | None = None
    snapshot: SubtaskSnapshot | None = None
    streams: list[InFlightStream] | None = None
    capture: InFlightCapture | None = None
    abandoned: bool = False
    savepoint: SavepointOrder | None = None


class AttemptReports:
    """Sends reports of one attempt's subtasks in this worker to the job master; used by the loop only."""

    def __init__(self, attempt: int, link: Link, probe: Probe) -> None:
        self.attempt, self.link, self.probe = attempt, link, probe
        # which checkpoints of each subtask are being written
        self.checkpoints: dict[SubtaskId, SubtaskCheckpoints] = {}
        # whether the attempt has ended, so that the end of a snapshot is no longer reported
        self.over = False

    def acknowledge(self, subtask: SubtaskId, checkpoint: int, snapshot: SubtaskSnapshot) -> None:
        """Acknowledge a durable snapshot, unless its checkpoint was aborted or the attempt has ended."""
        if self._is_awaited(subtask, checkpoint):
            self.probe.reached("ack.before")
            self.link.send(m.Acknowledge(self.attempt, checkpoint, snapshot))
            self.probe.reached("ack.after")

    def could_not_finish(self, subtask: SubtaskId, checkpoint: int, error: BaseException) -> None:
        """Decline `checkpoint`, whose snapshot failed with `error`, unless it or the attempt has ended."""
        if self._is_awaited(subtask, checkpoint):
            unfit = isinstance(error, NotStorableError)
            reason = "CHANNEL_STATE_SHARED_STREAM_EXCEPTION" if unfit else "CHECKPOINT_ASYNC_EXCEPTION"
            detail = f"{type(error).__name__}: {error}"
            self.link.send(m.Decline(self.attempt, checkpoint, *subtask, reason, detail))

    def _is_awaited(self, subtask: SubtaskId, checkpoint: int) -> bool:
        return not self.over and self.checkpoints[subtask].finished(checkpoint)

    def checkpoint_declined(self, subtask: SubtaskId, checkpoint: int, reason: str) -> None:
        """Decline `checkpoint`, which is not taken; `reason`: the name of a `CheckpointFailureReason`."""
        self.link.send(m.Decline(self.attempt, checkpoint, *subtask, reason, ""))

    def recovered(self, subtask: SubtaskId) -> None:
        self.link.send(m.Recovered(self.attempt, *subtask))

    def request_splits(self, subtask: SubtaskId) -> None:
        self.link.send(m.RequestSplits(self.attempt, *subtask))

    def data_ended(self, subtask: SubtaskId, counters: m.Counters) -> None:
        """Report that a subtask has processed all its input; `counters` are its final totals."""
        self.link.send(m.DataEnded(self.attempt, *subtask, counters))


class Finishing:
    """Writes the snapshots of one worker's attempt in the background, and reports each outcome.
    Its methods are for the loop, and do not wait.
    """

    def __init__(
        self,
        writer: SnapshotWriter,
        catalog: StreamCatalog,
        limits: CaptureLimits,
        background: Background,  # the thread that writes
        clock: Clock,
        post: Callable[[Callable[[], None]], None],  # has the loop call a callback
        reports: AttemptReports,
    ) -> None:
        self._writer, self._catalog, self._limits = writer, catalog, limits
        self._background, self._clock, self._post, self._reports = background, clock, post, reports
        self._running: dict[Key, _Running] = {}
        self._closed = False

    def open_capture(self, subtask: SubtaskId, checkpoint: int) -> InFlightCapture:
        """Return a new capture for the in-flight records of a snapshot; called before :meth:`begin`.
        The snapshot is acknowledged once the capture's records are stored, too; declined if that fails.
        """
        key, numbers, catalog = (subtask, checkpoint), itertools.count(), self._catalog
        running = self._running.setdefault(key, _Running(checkpoint))

        def finished(streams: list[InFlightStream] | None, error: BaseException | None) -> None:
            self._post(lambda: self._captured(key, running, streams, error))

        running.capture = InFlightCapture(
            lambda stream: catalog.codec_of(stream.sender, stream.tag),
            lambda stream: catalog.groups_of(stream.receiver),
            lambda sections: self._writer.store_sections(subtask, checkpoint, next(numbers), sections),
            self._writer.delete,
            self._background,
            self._limits,
            finished,
        )
        return running.capture

    def begin(self, taken: TakenSnapshot) -> None:
        """Write a taken snapshot in the background, then acknowledge it; on error, decline its checkpoint."""
        key = (taken.subtask, taken.checkpoint)
        running = self._running.setdefault(key, _Running(taken.checkpoint))
        running.metrics, running.savepoint = taken.metrics, taken.savepoint
        if taken.capture is None:
            running.streams = []

        def write() -> SubtaskSnapshot | None:
            if running.abandoned:  # before its turn: nothing has to be written
                release(taken)
                return None
            snapshot = self._writer.finish(taken, self._clock)
            if self._closed:
                self._writer.discard(taken.checkpoint, _handles(snapshot), taken.savepoint)
            return snapshot

        def written(snapshot: SubtaskSnapshot | None, error: BaseException | None) -> None:
            self._post(lambda: self._written(key, running, snapshot, error))

        self._background.submit(write, written)

    def abandon(self, subtask: SubtaskId, checkpoint: int) -> None:
        """Drop a snapshot that is still being written, if any, and delete what is stored of it."""
        running = self._running.pop((subtask, checkpoint), None)
        if running is not None:
            self._abandon(running)

    def close(self) -> None:
        """End with the attempt: report nothing more, and delete snapshots that are still being written.
        They are deleted once written, because the job master may look for unused files before that.
        """
        self._closed = True
        for running in self._running.values():
            running.abandoned = True
            if running.capture is not None:
                running.capture.cancel()
        self._running.clear()

    def _written(
        self, key: Key, running: _Running, snapshot: SubtaskSnapshot | None, error: BaseException | None
    ) -> None:
        if not self._closed:
            running.snapshot = snapshot
            self._part_done(key, running, error)
        elif snapshot is not None:
            self._delete(running, _handles(snapshot))

    def _captured(
        self,
        key: Key,
        running: _Running,
        streams: Sequence[InFlightStream] | None,
        error: BaseException | None,
    ) -> None:
        if not self._closed:
            running.streams = None if streams is None else list(streams)
            self._part_done(key, running, error)

    def _part_done(self, key: Key, running: _Running, error: BaseException | None) -> None:
        if running.abandoned:
            self._discard(running)
        elif error is not None:
            self._running.pop(key, None)
            self._abandon(running)
            self._reports.could_not_finish(*key, error)
        else:
            self._report_if_complete(key, running)

    def _report_if_complete(self, key: Key, running: _Running) -> None:
        metrics, snapshot, streams = running.metrics, running.snapshot, running.streams
        if metrics is None or snapshot is None or streams is None:
            return
        self._running.pop(key, None)
        running.snapshot = running.streams = None
        complete = msgspec.structs.replace(
            snapshot,
            in_flight=streams,
            start_delay_ms=metrics.start_delay_ms,
            alignment_ms=metrics.alignment_ms,
            unaligned=metrics.unaligned,
            bytes_processed=metrics.bytes_processed,
            bytes_persisted=sum(part.size for stream in streams for part in stream.parts),
            slowest_channel=metrics.slowest_channel,
        )
        self._reports.acknowledge(*key, complete)

    def _abandon(self, running: _Running) -> None:
        running.abandoned = True
        if running.capture is not None:
            running.capture.cancel()
        self._discard(running)

    def _discard(self, running: _Running) -> None:
        snapshot, running.snapshot = running.snapshot, None
        streams, running.streams = running.streams, None
        handles = [] if snapshot is None else _handles(snapshot)
        handles += [part.handle for stream in streams or () for part in stream.parts]
        if handles:
            self._delete(running, handles)

    def _delete(self, running: _Running, handles: Sequence[StateHandle]) -> None:
        checkpoint, savepoint = running.checkpoint, running.savepoint
        self._background.submit(lambda: self._writer.discard(checkpoint, handles, savepoint), lambda *_: None)


class AttemptServices(NamedTuple):
    """What all subtasks of an attempt in a worker share: clock, reports, writing of snapshots, traces."""

    clock: Clock
    reports: AttemptReports
    finishing: Finishing
    traces: RecordTraces | None = None  # None: no record is traced


def _handles(snapshot: SubtaskSnapshot) -> list[StateHandle]:
    return [handle for state in snapshot.operators for handle in state.handles()]
