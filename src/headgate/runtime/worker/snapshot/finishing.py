"""Writes the snapshots of a worker in the background, after their synchronous part, and reports their ends.

A snapshot is acknowledged when its state is durable and, of an unaligned checkpoint, its records in
flight are. What was given up meanwhile is not acknowledged, and its files are deleted.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import msgspec

from headgate.common.ids import SubtaskId
from headgate.common.ports import Background, Clock
from headgate.core.alignment.barriers import SavepointOrder
from headgate.runtime.worker.in_flight.catalog import StreamCatalog
from headgate.runtime.worker.in_flight.gathering import CaptureLimits, InFlightCapture
from headgate.runtime.worker.snapshot.attempt_reports import AttemptReports
from headgate.runtime.worker.snapshot.snapshot_writer import SnapshotWriter, release
from headgate.runtime.worker.snapshot.taken_snapshot import BarrierMetrics, TakenSnapshot
from headgate.state.snapshots import InFlightStream, StateHandle, SubtaskSnapshot

Key = tuple[SubtaskId, int]


@dataclass(slots=True)
class _Running:
    """One snapshot on its way; `None` stands for what is still being written.

    The subtask's capture refers to this for as long as it exists, so nothing large may stay here: what
    was taken, which holds copies of tables, belongs to the job that writes it.
    """

    checkpoint: int
    metrics: BarrierMetrics | None = None
    snapshot: SubtaskSnapshot | None = None
    streams: list[InFlightStream] | None = None
    capture: InFlightCapture | None = None
    void: bool = False
    savepoint: SavepointOrder | None = None


class Finishing:
    """The snapshots of one worker's attempt that are being written."""

    def __init__(
        self,
        writer: SnapshotWriter,  # stores them
        catalog: StreamCatalog,  # knows the streams of records in flight
        limits: CaptureLimits,  # how many records in flight are taken along
        background: Background,  # where writing happens
        clock: Clock,  # measures it
        post: Callable[[Callable[[], None]], None],  # hands a callback to the loop
        reports: AttemptReports,  # tell the job master the end of each
    ) -> None:
        self._writer, self._catalog, self._limits = writer, catalog, limits
        self._background, self._clock, self._post, self._reports = background, clock, post, reports
        self._running: dict[Key, _Running] = {}
        self._closed = False

    def open_capture(self, subtask: SubtaskId, checkpoint: int) -> InFlightCapture:
        """Make what takes the records in flight of a snapshot; before :meth:`begin`."""
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
        """Write a taken snapshot, then report it."""
        key = (taken.subtask, taken.checkpoint)
        running = self._running.setdefault(key, _Running(taken.checkpoint))
        running.metrics, running.savepoint = taken.metrics, taken.savepoint
        if taken.capture is None:
            running.streams = []

        def write() -> SubtaskSnapshot | None:
            if not running.void:
                snapshot = self._writer.finish(taken, self._clock)
                if self._closed:
                    self._remove(taken.savepoint, taken.checkpoint, snapshot)
                return snapshot
            # Given up before its turn came: nothing needs to be written.
            release(taken)
            return None

        def written(snapshot: SubtaskSnapshot | None, error: BaseException | None) -> None:
            self._post(lambda: self._written(key, running, snapshot, error))

        self._background.submit(write, written)

    def void(self, subtask: SubtaskId, checkpoint: int) -> None:
        """Drop a snapshot that is being written, since its checkpoint was given up."""
        running = self._running.pop((subtask, checkpoint), None)
        if running is not None:
            self._release(running)

    def close(self) -> None:
        """End with the attempt: nothing more is reported, and what is still being written is deleted.

        The job master sweeps when it begins the next attempt, which may be before the last byte is written.
        """
        self._closed = True
        for running in self._running.values():
            running.void = True
            if running.capture is not None:
                running.capture.cancel()
        self._running.clear()

    def _written(
        self, key: Key, running: _Running, snapshot: SubtaskSnapshot | None, error: BaseException | None
    ) -> None:
        if self._closed:
            if snapshot is not None:
                self._background.submit(
                    lambda: self._remove(running.savepoint, running.checkpoint, snapshot), lambda *_: None
                )
            return
        running.snapshot = snapshot
        if running.void:
            self._discard(running)
        elif error is not None:
            self._failed(key, running, error)
        else:
            self._report_if_complete(key, running)

    def _captured(
        self,
        key: Key,
        running: _Running,
        streams: Sequence[InFlightStream] | None,
        error: BaseException | None,
    ) -> None:
        if self._closed:
            return
        running.streams = None if streams is None else list(streams)
        if running.void:
            self._discard(running)
        elif error is not None:
            self._failed(key, running, error)
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

    def _failed(self, key: Key, running: _Running, error: BaseException) -> None:
        self._running.pop(key, None)
        self._release(running)
        self._reports.could_not_finish(*key, error)

    def _release(self, running: _Running) -> None:
        running.void = True
        if running.capture is not None:
            running.capture.cancel()
        self._discard(running)

    def _remove(self, savepoint: SavepointOrder | None, checkpoint: int, snapshot: SubtaskSnapshot) -> None:
        """Delete, in the background, what an ended attempt wrote and did not acknowledge."""
        self._writer.discard(checkpoint, _handles(snapshot), savepoint)

    def _discard(self, running: _Running) -> None:
        """Delete what is durable already; what still comes is deleted when it does."""
        snapshot, running.snapshot = running.snapshot, None
        streams, running.streams = running.streams, None
        handles = [] if snapshot is None else _handles(snapshot)
        handles += [part.handle for stream in streams or () for part in stream.parts]
        if handles:
            self._background.submit(
                lambda: self._writer.discard(running.checkpoint, handles, running.savepoint), lambda *_: None
            )


class AttemptServices(NamedTuple):
    """What the subtasks of one attempt in a worker share."""

    clock: Clock
    reports: AttemptReports
    finishing: Finishing


def _handles(snapshot: SubtaskSnapshot) -> list[StateHandle]:
    return [handle for state in snapshot.operators for handle in state.handles()]
