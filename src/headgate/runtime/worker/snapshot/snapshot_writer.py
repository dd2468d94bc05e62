"""Serializes and stores a subtask's snapshot in the background, after its synchronous part."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from headgate.checkpoint.data_files import DataFileWriter, little_of
from headgate.checkpoint.layout import checkpoint_of, data_file_name, job_folder
from headgate.checkpoint.local_copies import BackedUpDisk
from headgate.checkpoint.storage.memory import too_large
from headgate.checkpoint.storage.uris import open_disk
from headgate.common.ids import CheckpointId, Fence, SubtaskId
from headgate.common.ports import Clock, Disk
from headgate.core.alignment.barriers import SavepointOrder
from headgate.runtime.protocol.frames import Part as Piece
from headgate.runtime.worker.in_flight.gathering import InFlightCapture
from headgate.runtime.worker.operators.operator_contract import PendingState, StateTypes
from headgate.runtime.worker.snapshot.savepoint_files import (
    SavepointFiles,
    WrittenFiles,
    remove_files,
    savepoint_files,
)
from headgate.state.backend import Part
from headgate.state.snapshots import FileRange, Inline, StateHandle, SubtaskSnapshot
from headgate.state.stored.local_files import FileParts


@dataclass(slots=True)
class BarrierMetrics:
    """Durations (ms) and sizes (bytes) of a barrier's way through one subtask, for its acknowledgement.
    They are filled in from the barrier's first arrival on, and final once the snapshot is complete.
    """

    start_delay_ms: float  # from the trigger to its first arrival
    alignment_ms: float  # from the first barrier to the last
    unaligned: bool  # whether the barrier overtook records
    bytes_processed: int = 0  # of records read between the first barrier and the last
    slowest_channel: str | None = None  # "uid[subtask]" of the sender whose barrier came last


@dataclass(frozen=True, slots=True)
class TakenSnapshot:
    """A subtask's snapshot whose synchronous part is done, to be stored in the background.
    `records`: processed and emitted so far; `sync_ms`: time that the loop was blocked; `state_types`: by uid.
    """

    subtask: SubtaskId
    checkpoint: int
    pending: Sequence[PendingState]  # of the operators
    sync_ms: float  # how long the synchronous part blocked the loop
    records: tuple[int, int]  # processed and emitted, from the attempt's begin to the snapshot point
    state_types: dict[str, StateTypes]  # by operator uid
    finished: bool  # whether all input was processed before the snapshot point
    metrics: BarrierMetrics  # still changing while `capture` is open
    capture: InFlightCapture | None = None  # in-flight records of an unaligned checkpoint
    savepoint: SavepointOrder | None = None


class SnapshotWriter:
    """Stores the snapshots of one worker's attempt; used by the background thread only.
    With `disk` None (checkpoints are off, or in the driver's memory) all state stays in acknowledgements.
    """

    def __init__(
        self,
        disk: Disk | None,
        inline_size_max: int,  # blobs up to this many bytes are sent in the acknowledgement
        fence: Fence,  # job, generation, attempt
        disks: Callable[[str], Disk] = open_disk,  # opens the folder of a savepoint by its URI
        memory_state_max: int | None = None,  # without a disk, limit of one state in bytes; None: no limit
    ) -> None:
        self._disk, self._inline_max, self._memory_max = disk, inline_size_max, memory_state_max
        self._fence, self._disks = fence, disks

    def finish(self, taken: TakenSnapshot, clock: Clock) -> SubtaskSnapshot:
        """Serialize and store a snapshot; return its acknowledgement, with the duration by `clock`.
        Always releases the snapshot. On any error, such as StorageError, deletes what it has written.
        """
        began = clock.precise_ms()
        try:
            files = self._files_for(taken)
            try:
                states = [pending.finish(files) for pending in taken.pending]
            except BaseException:
                files.delete()
                raise
        finally:
            release(taken)
        return SubtaskSnapshot(
            vertex=taken.subtask.vertex,
            subtask=taken.subtask.subtask,
            operators=states,
            state_types=taken.state_types,
            sync_ms=taken.sync_ms,
            async_ms=clock.precise_ms() - began,
            bytes_written=files.written,
            files_written=len(files.names),
            bytes_shared=files.shared_bytes,
            files_shared=len(files.shared_names),
            records_in=taken.records[0],
            records_out=taken.records[1],
            finished=taken.finished,
        )

    def _files_for(self, taken: TakenSnapshot) -> _Files | SavepointFiles:
        if (order := taken.savepoint) is None:
            return _Files(self, taken)
        return savepoint_files(self._disks(order.root), order, taken.subtask, self._inline_max)

    def store(
        self,
        subtask: SubtaskId,
        checkpoint: int,
        number: str,  # distinguishes the files of one subtask's checkpoint
        sections: Sequence[Iterable[Part]],
        *,
        inline: bool = True,  # whether small sections may stay in the acknowledgement
    ) -> list[StateHandle]:
        """Store sections of bytes, all in one file or all inline in their handles; return a handle for each.
        `number` tells a subtask's files of one checkpoint apart. With `inline`, small sections may stay in
        handles. Raises StorageError: the storage fails or, without a disk, the state is too large.
        """
        limit = self._memory_max if self._disk is None else self._inline_max if inline else -1
        rest, small = little_of(limit, sections)
        if self._disk is None and rest is not None:
            raise too_large("this subtask", self._memory_max or 0)
        if self._disk is None or rest is None:
            return [Inline(b"".join(parts)) for parts in small]
        fence, disk = self._fence, self._disk
        name = data_file_name(fence.job, CheckpointId(checkpoint), fence.generation, fence.attempt, subtask)
        if isinstance(disk, BackedUpDisk) and len(rest) == 1 and isinstance(rest[0], FileParts):
            disk = disk.linking(rest[0].path)
        return list(DataFileWriter(disk).write_sections(f"{name}-{number}", rest))

    def store_sections(
        self, subtask: SubtaskId, checkpoint: int, number: int, sections: Sequence[Sequence[Piece]]
    ) -> list[StateHandle]:
        plain = [[memoryview(part) for part in parts] for parts in sections]
        return self.store(subtask, checkpoint, f"f{number}", plain)

    def may_share(self, handle: StateHandle, root: str | None) -> bool:
        """Return whether a new checkpoint may refer to bytes that an earlier one stored at `handle`.
        `root` is the URI of their storage, None for this writer's. Files must be of this job and on this
        storage: other files may be deleted by their owners.
        """
        if self._disk is None or isinstance(handle, Inline):
            return True
        of_this_job = handle.file.startswith(f"{job_folder(self._fence.job)}/")
        return of_this_job and root in (None, self._disk.describe())

    def shared(self, checkpoint: int, handle: FileRange) -> None:
        """Note that `checkpoint` refers to the earlier file of `handle`, whose local copy is then kept."""
        if isinstance(self._disk, BackedUpDisk):
            self._disk.copies.refer(checkpoint, handle.file)

    def discard(
        self, checkpoint: int, handles: Iterable[StateHandle], savepoint: SavepointOrder | None = None
    ) -> None:
        """Delete files of `handles`, written for a checkpoint or savepoint that will not be complete.
        `savepoint` is the order of the savepoint, None for a checkpoint. Files shared with other checkpoints
        stay. A file that cannot be deleted is left to the next sweep of unused files.
        """
        names = list(dict.fromkeys(handle.file for handle in handles if isinstance(handle, FileRange)))
        if savepoint is not None:
            remove_files(self._disks(savepoint.root), names)
        elif self._disk is not None:
            job = self._fence.job
            remove_files(self._disk, [name for name in names if checkpoint_of(name, job) == checkpoint])

    def delete(self, handle: StateHandle) -> None:
        if self._disk is not None and isinstance(handle, FileRange):
            self._disk.delete(handle.file)


class _Files(WrittenFiles):
    """The files of one checkpoint of a subtask, written or shared."""

    def __init__(self, writer: SnapshotWriter, taken: TakenSnapshot) -> None:
        super().__init__()
        self._writer, self._taken = writer, taken
        self._handles: list[StateHandle] = []

    def write_sections(
        self, uid: str, sections: Sequence[Iterable[Part]], *, inline: bool
    ) -> list[StateHandle]:
        taken, number = self._taken, next(self._numbers)
        handles = self._writer.store(taken.subtask, taken.checkpoint, number, sections, inline=inline)
        self._handles += handles
        for handle in handles:
            if isinstance(handle, FileRange):
                self.wrote(handle.file, handle.length)
        return handles

    def share(self, handle: StateHandle, root: str | None) -> bool:
        if not self._writer.may_share(handle, root):
            return False
        if isinstance(handle, FileRange):
            self.shared_names.add(handle.file)
            self.shared_bytes += handle.length
            self._writer.shared(self._taken.checkpoint, handle)
        return True

    def delete(self) -> None:
        self._writer.discard(self._taken.checkpoint, self._handles)


def release(taken: TakenSnapshot) -> None:
    """Release a taken snapshot: tables stop keeping old values for it, and its local files are deleted."""
    for pending in taken.pending:
        pending.release()
