"""The asynchronous part of a subtask's snapshot: serialise, store durably, describe."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from headgate.checkpoint.data_files import DataFileWriter
from headgate.checkpoint.layout import data_file_name
from headgate.common.errors import StorageError
from headgate.common.ids import CheckpointId, Fence, SubtaskId
from headgate.common.ports import Clock, Disk
from headgate.runtime.drawing import DrawnSnapshot
from headgate.runtime.network.frames import Part
from headgate.state.snapshots import FileRange, Inline, StateHandle, SubtaskSnapshot


class SnapshotWriter:
    """Finishes the snapshots of one worker; used by the background thread only.

    Args:
        disk: checkpoint storage, or None when checkpoints are off: then everything stays inline,
            which only the final checkpoint of a job without checkpoints does.
        inline_size_max: blobs up to this many bytes travel in the acknowledgement.
        fence: job, generation, attempt.
    """

    def __init__(self, disk: Disk | None, inline_size_max: int, fence: Fence) -> None:
        self._disk, self._inline_max = disk, inline_size_max
        self._fence = fence

    def finish(self, drawn: DrawnSnapshot, clock: Clock) -> SubtaskSnapshot:
        """Serialise and store what was drawn; lets go of it in any case.

        Raises:
            StorageError: the storage refused; the checkpoint is declined and the job goes on.
        """
        began = clock.precise_ms()
        files = _Files(self, drawn)
        try:
            states = [pending.finish(files) for pending in drawn.pending]
        except BaseException:
            files.delete()
            raise
        finally:
            release(drawn)
        return SubtaskSnapshot(
            vertex=drawn.subtask.vertex,
            subtask=drawn.subtask.subtask,
            operators=states,
            state_types=drawn.state_types,
            sync_ms=drawn.sync_ms,
            async_ms=clock.precise_ms() - began,
            bytes_written=files.written,
            records_in=drawn.counters.records_in,
            records_out=drawn.counters.records_out,
            finished=drawn.finished,
        )

    def store(self, drawn: DrawnSnapshot, number: int, parts: Sequence[Any]) -> tuple[StateHandle, int]:
        """Put a blob where it belongs; gives its handle and how many bytes went to a file."""
        size = sum(memoryview(part).nbytes for part in parts)
        if self._disk is None or size <= self._inline_max:
            return Inline(b"".join(bytes(part) for part in parts)), 0
        fence = self._fence
        checkpoint = CheckpointId(drawn.checkpoint)
        name = data_file_name(fence.job, checkpoint, fence.generation, fence.attempt, drawn.subtask)
        return DataFileWriter(self._disk).write(f"{name}-{number}", parts), size

    def store_sections(
        self, subtask: SubtaskId, checkpoint: int, number: int, sections: Sequence[Sequence[Part]]
    ) -> list[StateHandle]:
        """Put records in flight where they belong: all sections in one file, or all inline.

        Args:
            subtask: whose.
            checkpoint: which.
            number: tells the files of one subtask's checkpoint apart.
            sections: the bytes of each part, in pieces.

        Returns:
            the handle of each section.

        Raises:
            StorageError: the storage refused.
        """
        size = sum(memoryview(part).nbytes for parts in sections for part in parts)
        if self._disk is None or size <= self._inline_max:
            return [Inline(b"".join(parts)) for parts in sections]
        fence = self._fence
        name = data_file_name(fence.job, CheckpointId(checkpoint), fence.generation, fence.attempt, subtask)
        plain = [[memoryview(part) for part in parts] for parts in sections]
        return list(DataFileWriter(self._disk).write_sections(f"{name}-f{number}", plain))

    def delete(self, handle: StateHandle) -> None:
        """Remove the file of a handle that no checkpoint will refer to, with all its sections.

        Raises:
            StorageError: it cannot be removed; a sweep will.
        """
        if self._disk is not None and isinstance(handle, FileRange):
            self._disk.delete(handle.file)


class _Files:
    """See `runtime.operators.base.StateFiles`."""

    def __init__(self, writer: SnapshotWriter, drawn: DrawnSnapshot) -> None:
        self._writer, self._drawn = writer, drawn
        self._handles: list[StateHandle] = []
        self.written = 0

    def write(self, uid: str, parts: Sequence[Any]) -> StateHandle:
        handle, size = self._writer.store(self._drawn, len(self._handles), parts)
        self._handles.append(handle)
        self.written += size
        return handle

    def delete(self) -> None:
        """Nobody will refer to what was written: a later operator's part could not be."""
        for handle in self._handles:
            with suppress(StorageError, OSError):  # the next sweep finds it
                self._writer.delete(handle)


def release(drawn: DrawnSnapshot) -> None:
    """Let go of a drawn snapshot: tables need not keep old values for it any more, local files go."""
    for pending in drawn.pending:
        pending.release()
