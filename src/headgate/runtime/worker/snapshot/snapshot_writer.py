"""The asynchronous part of a subtask's snapshot: serialise, store durably, describe."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress

from headgate.checkpoint.data_files import DataFileWriter, little_of
from headgate.checkpoint.layout import checkpoint_of, data_file_name, job_folder
from headgate.checkpoint.local_copies import BackedUpDisk
from headgate.checkpoint.storage.memory import too_large
from headgate.checkpoint.storage.uris import open_disk
from headgate.common.errors import StorageError
from headgate.common.ids import CheckpointId, Fence, SubtaskId
from headgate.common.ports import Clock, Disk
from headgate.core.alignment.barriers import SavepointOrder
from headgate.runtime.protocol.frames import Part as Piece
from headgate.runtime.worker.snapshot.savepoint_files import SavepointFiles, savepoint_files
from headgate.runtime.worker.snapshot.taken_snapshot import TakenSnapshot
from headgate.state.backend import Part
from headgate.state.rocksdb.local_files import FileParts
from headgate.state.snapshots import FileRange, Inline, StateHandle, SubtaskSnapshot


class SnapshotWriter:
    """Finishes the snapshots of one worker; used by the background thread only.

    `disk`: checkpoint storage, or None when checkpoints are off: then everything stays inline, which only the
    final checkpoint of a job without checkpoints does; `memory_state_max`: without a disk, the bytes of one
    state that may stay inline; None is no limit.
    """

    def __init__(
        self,
        disk: Disk | None,
        inline_size_max: int,  # blobs up to this many bytes travel in the acknowledgement
        fence: Fence,  # job, generation, attempt
        disks: Callable[[str], Disk] = open_disk,  # opens the folder of a savepoint by its URI
        memory_state_max: int | None = None,
    ) -> None:
        self._disk, self._inline_max = disk, inline_size_max
        self._fence, self._disks = fence, disks
        self._memory_max = memory_state_max

    def finish(self, taken: TakenSnapshot, clock: Clock) -> SubtaskSnapshot:
        """Serialise and store what was taken; lets go of it in any case.

        Raises StorageError: the storage refused; the checkpoint is declined and the job goes on.
        """
        began = clock.precise_ms()
        files = self._files(taken)
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
            records_in=taken.counters.records_in,
            records_out=taken.counters.records_out,
            finished=taken.finished,
        )

    def _files(self, taken: TakenSnapshot) -> _Files | SavepointFiles:
        order = taken.savepoint
        if order is None:
            return _Files(self, taken)
        return savepoint_files(self._disks(order.root), order, taken.subtask, self._inline_max)

    def store(
        self,
        subtask: SubtaskId,  # whose
        checkpoint: int,  # which
        number: str,  # tells the files of one subtask's checkpoint apart
        sections: Sequence[Iterable[Part]],
        *,
        inline: bool = True,  # whether little may stay in the acknowledgement
    ) -> list[StateHandle]:
        """Put bytes where they belong: all sections in one file, or all inline.

        `sections`: the bytes of each, in parts that are asked for once and in order. Returns the handle of
        each section. Raises StorageError: the storage refused.
        """
        limit = self._memory_max if self._disk is None else self._inline_max if inline else -1
        rest, small = little_of(limit, sections)
        if self._disk is None and rest is not None:
            raise too_large("this subtask", self._memory_max or 0)
        if self._disk is None or rest is None:
            return [Inline(b"".join(parts)) for parts in small]
        fence = self._fence
        name = data_file_name(fence.job, CheckpointId(checkpoint), fence.generation, fence.attempt, subtask)
        disk = self._disk
        if isinstance(disk, BackedUpDisk) and len(rest) == 1 and isinstance(rest[0], FileParts):
            disk = disk.linking(rest[0].path)
        return list(DataFileWriter(disk).write_sections(f"{name}-{number}", rest))

    def store_sections(
        self, subtask: SubtaskId, checkpoint: int, number: int, sections: Sequence[Sequence[Piece]]
    ) -> list[StateHandle]:
        """Put records in flight where they belong; see :meth:`store`."""
        plain = [[memoryview(part) for part in parts] for parts in sections]
        return self.store(subtask, checkpoint, f"f{number}", plain)

    def may_share(self, handle: StateHandle, root: str | None) -> bool:
        """Whether a completed checkpoint's handle lasts as long as one that refers to it.

        Only files of this job on this storage do: others are deleted by others.
        """
        if self._disk is None or isinstance(handle, Inline):
            return True
        return handle.file.startswith(f"{job_folder(self._fence.job)}/") and root in (
            None,
            self._disk.describe(),
        )

    def shared(self, checkpoint: int, handle: FileRange) -> None:
        """A checkpoint refers to what is stored already."""
        if isinstance(self._disk, BackedUpDisk):
            self._disk.copies.refer(checkpoint, handle.file)

    def discard(
        self, checkpoint: int, handles: Iterable[StateHandle], savepoint: SavepointOrder | None = None
    ) -> None:
        """Remove the files that were written for a checkpoint or savepoint, which will not be complete.

        Files that it shares with others stay. What cannot be removed is left for the next sweep.
        """
        if savepoint is not None:
            disk = self._disks(savepoint.root)
            for name in {handle.file for handle in handles if isinstance(handle, FileRange)}:
                with suppress(StorageError, OSError):
                    disk.delete(name)
            return
        names = {handle.file: handle for handle in handles if isinstance(handle, FileRange)}
        for name, handle in names.items():
            if checkpoint_of(name, self._fence.job) == checkpoint:
                with suppress(StorageError, OSError):
                    self.delete(handle)

    def delete(self, handle: StateHandle) -> None:
        """Remove the file of a handle that no checkpoint will refer to, with all its sections.

        Raises StorageError: it cannot be removed; a sweep will.
        """
        if self._disk is not None and isinstance(handle, FileRange):
            self._disk.delete(handle.file)


class _Files:
    """See `state.backend.StateFiles`."""

    def __init__(self, writer: SnapshotWriter, taken: TakenSnapshot) -> None:
        self._writer, self._taken = writer, taken
        self._handles: list[StateHandle] = []
        self._calls = 0
        self.names: set[str] = set()
        self.written = 0
        self.shared_names: set[str] = set()
        self.shared_bytes = 0

    def write(self, uid: str, parts: Iterable[Part]) -> StateHandle:
        return self.write_sections(uid, [parts], inline=True)[0]

    def write_sections(
        self, uid: str, sections: Sequence[Iterable[Part]], *, inline: bool
    ) -> list[StateHandle]:
        taken = self._taken
        number, self._calls = str(self._calls), self._calls + 1
        handles = self._writer.store(taken.subtask, taken.checkpoint, number, sections, inline=inline)
        self._handles += handles
        for handle in handles:
            if isinstance(handle, FileRange):
                self.names.add(handle.file)
                self.written += handle.length
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
        """Nobody will refer to what was written: a later operator's part could not be."""
        self._writer.discard(self._taken.checkpoint, self._handles)


def release(taken: TakenSnapshot) -> None:
    """Let go of a taken snapshot: tables need not keep old values for it any more, local files go."""
    for pending in taken.pending:
        pending.release()
