"""Registry of files that several checkpoints share: which of them may be deleted.

It handles names and ids only. A file is registered when a checkpoint that refers to it completes, and may be
deleted once every checkpoint that referred to it was removed. Since completed checkpoints leave in order,
oldest first, the last user of a file is all that must be remembered.
"""

from __future__ import annotations

from collections.abc import Iterable

from headgate.common.ids import CheckpointId


class SharedStateRegistry:
    """Remembers for each file of the completed checkpoints the newest checkpoint that refers to it.

    Example:
        >>> registry = SharedStateRegistry()
        >>> registry.register(CheckpointId(1), ["a.sst", "b.sst"])
        >>> registry.register(CheckpointId(2), ["b.sst", "c.sst"])
        >>> registry.unregister_below(CheckpointId(2))
        ('a.sst',)
        >>> registry.unreferenced(["b.sst", "d.sst"])
        ('d.sst',)
    """

    __slots__ = ("_used_by",)

    def __init__(self) -> None:
        self._used_by: dict[str, CheckpointId] = {}

    def register(self, checkpoint: CheckpointId, files: Iterable[str]) -> None:
        """Record that completed `checkpoint` refers to `files`; may be repeated, and in any order."""
        for file in files:
            self._used_by[file] = max(checkpoint, self._used_by.get(file, checkpoint))

    def unregister_below(self, lowest: CheckpointId) -> tuple[str, ...]:
        """Forget all checkpoints below `lowest`; return the files that only they used, sorted."""
        unused = sorted(file for file, user in self._used_by.items() if user < lowest)
        for file in unused:
            del self._used_by[file]
        return tuple(unused)

    def unreferenced(self, files: Iterable[str]) -> tuple[str, ...]:
        """Return the names in `files` that no completed checkpoint refers to, sorted.

        Of an aborted checkpoint only these are deleted: it may refer to files of completed ones, too.
        """
        return tuple(sorted(set(files) - self._used_by.keys()))
