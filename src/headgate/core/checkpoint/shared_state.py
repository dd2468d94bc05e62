"""Files that several checkpoints share: who used each last, and what may therefore go.

Names and numbers only. A file is registered when a checkpoint that refers to it completes, and may be
deleted once every checkpoint that referred to it is gone. Since completed checkpoints leave in order,
oldest first, the last user of a file is all that must be remembered.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from headgate.common.ids import CheckpointId


@dataclass(frozen=True, slots=True)
class Unused:
    """What an unregistration tells.

    Attributes:
        files: names that no checkpoint refers to any more, in alphabetic order: delete them.
        in_use: restored snapshots below the limit of which a file is still referred to and which can only
            go whole: keep them.
    """

    files: tuple[str, ...]
    in_use: frozenset[CheckpointId]


@dataclass(slots=True)
class _Entry:
    created_by: CheckpointId
    used_by: CheckpointId
    pins: bool = False


class SharedStateRegistry:
    """Last user of every file of the completed checkpoints.

    Example:
        >>> registry = SharedStateRegistry()
        >>> registry.register(CheckpointId(1), ["a.sst", "b.sst"])
        >>> registry.register(CheckpointId(2), ["b.sst", "c.sst"])
        >>> registry.unregister_below(CheckpointId(2)).files
        ('a.sst',)
        >>> registry.unreferenced(["b.sst", "d.sst"])
        ('d.sst',)
    """

    __slots__ = ("_files", "_whole")

    def __init__(self) -> None:
        self._files: dict[str, _Entry] = {}
        self._whole: set[CheckpointId] = set()

    def __len__(self) -> int:
        return len(self._files)

    def register(self, checkpoint: CheckpointId, files: Iterable[str], pinned: Iterable[str] = ()) -> None:
        """A checkpoint completed.

        Repeating it, or telling of an older one later, changes nothing: the last user stays the last.

        `pinned` are those of `files` that cannot be told apart from the snapshot that brought them (a log of
        changes that wraps another's handle), so that this one must stay as a whole.
        """
        for file in files:
            entry = self._files.setdefault(file, _Entry(checkpoint, checkpoint))
            entry.used_by = max(entry.used_by, checkpoint)
        for file in pinned:
            self._files[file].pins = True

    def register_restored(self, checkpoint: CheckpointId, files: Iterable[str], *, savepoint: bool) -> None:
        """The job began from this snapshot and owns it now."""
        if savepoint:
            self._whole.add(checkpoint)
        self.register(checkpoint, files)

    def unregister_below(self, lowest: CheckpointId) -> Unused:
        """Every checkpoint below `lowest` is gone.

        Returns:
            the files that only those used, which are forgotten here, and the snapshots that must stay
            although they are below.
        """
        gone = sorted(file for file, entry in self._files.items() if entry.used_by < lowest)
        for file in gone:
            del self._files[file]
        kept = (entry for entry in self._files.values() if entry.pins or entry.created_by in self._whole)
        in_use = frozenset(entry.created_by for entry in kept if entry.created_by < lowest)
        self._whole = {snapshot for snapshot in self._whole if snapshot >= lowest or snapshot in in_use}
        return Unused(tuple(gone), in_use)

    def unreferenced(self, files: Iterable[str]) -> tuple[str, ...]:
        """Those of `files` that no completed checkpoint refers to, in alphabetic order.

        What an aborted checkpoint leaves behind: it may refer to files of completed ones.
        """
        return tuple(sorted({file for file in files if file not in self._files}))
