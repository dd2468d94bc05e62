"""Checkpoints that are newer than all that their job's log names, and yet have metadata.

Metadata is written first, the log entry behind it, and output is committed behind that. So such a checkpoint
was either about to be complete when its driver died, and then nobody needs it; or its entry was lost, and
then it is the only one that fits the output that was committed. The storage does not tell which.
"""

from __future__ import annotations

from collections.abc import Iterable

from headgate.checkpoint.inventory import JobFiles
from headgate.checkpoint.layout import METADATA, checkpoint_of
from headgate.checkpoint.metadata.metadata_bytes import decode_metadata
from headgate.checkpoint.opening import referenced_ranges, verify_files
from headgate.checkpoint.store.entries import Completed
from headgate.common.errors import StorageError
from headgate.state.snapshots import CheckpointMetadata


def newer_than_log(files: JobFiles, logged: Iterable[Completed]) -> dict[str, CheckpointMetadata]:
    """The checkpoints that may have lost their log entry, by the name of their metadata."""
    newest = max((entry.checkpoint for entry in logged), default=0)
    found = {}
    for name in sorted(files.names):
        checkpoint = checkpoint_of(name, files.job)
        if name.rpartition("/")[2] != METADATA or checkpoint is None or checkpoint <= newest:
            continue
        try:
            metadata = decode_metadata(files.disk.read(name), files.disk.describe(name))
        except (StorageError, FileNotFoundError):
            continue  # nobody could restore it
        found[name] = metadata
    return found


def names_needed(found: dict[str, CheckpointMetadata]) -> set[str]:
    """All the files of such checkpoints."""
    return {*found, *(item.file for metadata in found.values() for item in referenced_ranges(metadata))}


def is_whole(files: JobFiles, metadata: CheckpointMetadata) -> bool:
    """Whether it could be restored."""
    try:
        verify_files(files.disk, metadata)
    except (StorageError, FileNotFoundError):
        return False
    return True


def is_there(files: JobFiles, metadata: CheckpointMetadata) -> bool:
    """Whether every file that it refers to exists; none is read."""
    return all(item.file in files.names for item in referenced_ranges(metadata))


def what_to_do(folder: str, checkpoint: int, newest: int) -> str:
    """What a person has to know of one."""
    return (
        f"checkpoint {checkpoint} is newer than the newest in the log ({newest}): either its driver died "
        "just before it was complete, or its log entry was lost, and then output was committed up to it; "
        f"where output of checkpoint {checkpoint} is published (files named ...-c{checkpoint}...), begin "
        f"from it, by --from {folder}"
    )
