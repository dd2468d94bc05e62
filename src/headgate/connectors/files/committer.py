"""Publishes the prepared files of a sink by renaming them, and clears away what will never be."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from typing_extensions import override

from headgate.api.sink import SinkCommitter
from headgate.api.source import Plain
from headgate.common.errors import OperatingError
from headgate.connectors.files.names import PENDING
from headgate.connectors.files.part_file import checksum, remove, storage_error, sync_folder


class FilesCommitter(SinkCommitter):
    """Renames pending files to their final names.

    A committable's names are relative to the output directory, so that the directory may be moved
    between a savepoint and its restore.
    """

    def __init__(self, root: str, sink_id: str) -> None:
        self._root, self._sink_id = Path(root), sink_id
        self._folders: set[str] = set()

    @override
    def commit(self, committables: Sequence[Plain]) -> None:
        touched: set[Path] = set()
        for ready in committables:
            pending, final = self._root / ready["pending"], self._root / ready["final"]
            try:
                if self._publish(pending, final, ready):
                    touched.add(pending.parent)
            except OSError as problem:
                raise storage_error(final, problem) from problem
        self._remember(committables)
        try:
            for folder in [self._root, *sorted(touched)] if touched else []:
                sync_folder(folder)
        except OSError as problem:
            raise storage_error(self._root, problem) from problem

    @override
    def abandon(self, committed_through: Sequence[Plain]) -> None:
        self._remember(committed_through)
        keep = {self._root / ready["pending"] for ready in committed_through}
        for path in self._own_pending():
            if path not in keep:
                remove(path)

    def _publish(self, pending: Path, final: Path, ready: Plain) -> bool:
        """Rename one file; False when that was done before."""
        expected = (ready["size"], ready["crc32"])
        if final.exists():
            size = final.stat().st_size
            # Names are unique, so what is there is this file: only its length can be wrong.
            if size == ready["size"]:
                remove(pending)
                return False
            raise OperatingError(
                f"{str(final)!r} is published with {size} bytes; expected {ready['size']}; it was "
                "changed or cut short after it was written"
            )
        if not pending.exists():
            raise OperatingError(
                f"neither {str(pending)!r} nor {str(final)!r} exists but the checkpoint holds it; "
                "were files removed, or is the output directory on a disk that not every worker shares?"
            )
        found = checksum(pending)
        if found != expected:
            raise OperatingError(
                f"{str(pending)!r} has size, checksum {found}; expected {expected}; it is damaged and not "
                "published"
            )
        pending.rename(final)
        return True

    def _remember(self, committables: Sequence[Plain]) -> None:
        """The folders of committables belong to this sink, also those of an earlier driver."""
        self._folders.update(ready["pending"].rpartition("/")[0] for ready in committables)

    def _own_pending(self) -> Iterator[Path]:
        # A folder of this sink and job is cleaned whole. In any other, perhaps that of a job which has
        # no checkpoint yet, only files with this sink object's own mark are.
        for path in sorted((self._root / PENDING).glob("*/*")):
            whole = f"{PENDING}/{path.parent.name}" in self._folders
            if whole or path.name.startswith(f"{self._sink_id}."):
                yield path
