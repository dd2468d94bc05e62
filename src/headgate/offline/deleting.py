"""Deletes a savepoint, and with the program's help has sinks release the output that it held.

Only the program's sinks know where such output is: a savepoint names prepared output relative to places that
can move. Without the program the savepoint is deleted all the same, and the output stays where it is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, NamedTuple, TypedDict

from headgate.checkpoint.inventory import look_at
from headgate.checkpoint.layout import METADATA
from headgate.checkpoint.metadata.metadata_bytes import decode_metadata
from headgate.checkpoint.opening import SAVEPOINT, referenced_ranges
from headgate.checkpoint.ownership import MARK
from headgate.checkpoint.storage.storage_contract import KeepsTemporaries
from headgate.checkpoint.storage.uris import open_disk, split_uri
from headgate.common.errors import UsageError
from headgate.common.ports import Disk
from headgate.common.settings.config import Config
from headgate.graph.logical import Node
from headgate.graph.physical import PhysicalPlan
from headgate.offline.inspecting import Answer, answered, asked
from headgate.offline.storages import absolute, storage_options
from headgate.runtime.master.checkpoints.committers import committables_of, committers_in, fork_of
from headgate.state.snapshots import CheckpointMetadata

_INSPECTOR: Final = "headgate.offline.deleting:inspect"
_OURS: Final = ("data/", "state/")
"""Folders in a savepoint into which nothing but the savepoint is written."""

Release = Callable[[CheckpointMetadata], list[str]]
"""Has sinks release the output that a savepoint holds; returns the uids of the sinks that did."""


class Deleted(NamedTuple):
    """The result of deleting a savepoint: number of deleted `files`, uids of sinks that `released` output.
    `still_held`: uid of a sink that was not asked -> its committables; `left`: other files, which stay.
    """

    uri: str
    files: int
    released: list[str]  # uids of sinks that released the output that it held
    still_held: dict[str, int]  # uid of a sink -> number of committables that stay held: it was not asked
    left: list[str]  # files in the savepoint's folder that do not belong to it, and stay


def delete_savepoint(
    savepoint: str,
    program: str | Path | None = None,
    arguments: Sequence[str] = (),
    options: Sequence[str] = (),
    *,
    claimed: bool = False,
    timeout_s: float = 60.0,
) -> Deleted:
    """Delete a savepoint, after making sure that it is one.

    First its sinks release their output, then the metadata goes, then the rest. What fails after the metadata
    leaves a folder that is no savepoint any more, and is deleted by hand.

    `program` is the Python file whose sinks prepared the output; it runs up to ``execute()`` in a process of
    its own and starts no job. None: what is held stays held. `arguments` and `options` are the program's;
    options of storages count for the savepoint, too. `claimed` allows to delete what a job has claimed, which
    deletes it itself if it still runs. `timeout_s` bounds the program and the deletion in its process.

    Raises:
        UsageError: it is no savepoint, a job owns it, or the program cannot be planned. Nothing was deleted,
            unless `timeout_s` passed during the deletion.
        OperatingError: a sink could not release its output (others may have); no file was deleted.
        StorageError: a file cannot be read or deleted.
    """
    with storage_options(options):
        if program is None:
            return _delete(savepoint, claimed, lambda _: [])
        request = Deletion(savepoint=absolute(savepoint), claimed=claimed)
    return asked(Deleted, _INSPECTOR, request, program, arguments, options, timeout_s)


class Deletion(TypedDict):
    """The request of `delete_savepoint` to the process with the program's sinks: what is to be deleted."""

    savepoint: str
    claimed: bool


def inspect(request: Deletion, _nodes: Sequence[Node], plan: PhysicalPlan, config: Config) -> Answer[Deleted]:
    """Answer `request` in the program's process: have sinks release output, then delete the savepoint."""
    return answered(
        config, lambda: _delete(request["savepoint"], request["claimed"], lambda it: _release(plan, it))
    )


def _release(plan: PhysicalPlan, savepoint: CheckpointMetadata) -> list[str]:
    released = []
    for uid, committer in committers_in(plan).items():
        committables = committables_of(savepoint, uid)
        if committables:
            try:
                committer.release(committables, fork_of(savepoint))
            finally:
                committer.close()
            released.append(uid)
    return released


def _delete(uri: str, claimed: bool, release: Release) -> Deleted:
    disk, metadata, names = _opened(uri)
    _refuse_claimed(disk, names, claimed)
    released = release(metadata)
    held = {uid: len(committables_of(metadata, uid)) for uid in metadata.operators if uid not in released}
    mine = {METADATA, MARK, *(item.file for item in referenced_ranges(metadata))} & names
    mine |= {name for name in names if name.startswith(_OURS)}
    unfinished = set(disk.temporaries("")) if isinstance(disk, KeepsTemporaries) else set()
    _remove(disk, [METADATA, *sorted((mine | unfinished) - {METADATA, MARK}), *({MARK} & mine)])
    return Deleted(
        disk.describe(),
        len(mine | unfinished),
        released,
        {uid: count for uid, count in held.items() if count},
        sorted(names - mine),
    )


def _opened(uri: str) -> tuple[Disk, CheckpointMetadata, frozenset[str]]:
    place = look_at(uri)
    if place.kind != "snapshot":
        raise UsageError(f"{place.uri} is no savepoint but a {place.kind} of checkpoints; name one savepoint")
    (files,) = place.snapshots
    metadata = decode_metadata(files.disk.read(METADATA), files.disk.describe(METADATA))
    if metadata.kind != SAVEPOINT:
        raise UsageError(
            f"{place.uri} is checkpoint {metadata.checkpoint} of job {metadata.job!r} and no savepoint; its "
            "job deletes it, or a job that claims it does"
        )
    return files.disk, metadata, files.names


def _refuse_claimed(disk: Disk, names: frozenset[str], claimed: bool) -> None:
    if claimed or MARK not in names:
        return
    owner = disk.read(MARK).decode(errors="replace")
    raise UsageError(
        f"savepoint {disk.describe()} belongs to job {owner!r}, which claimed it and deletes it when its own "
        "checkpoints have replaced it; say --claimed if that job is over, or can do without"
    )


def _remove(disk: Disk, names: Sequence[str]) -> None:
    # The metadata first, as half a savepoint must not look complete.
    root, folder = split_uri(disk.describe(), 1)
    # From one folder further up, so that the savepoint's own folder goes when it is empty.
    above = open_disk(root) if folder else disk
    for name in names:
        above.delete(f"{folder}/{name}" if folder else name)
