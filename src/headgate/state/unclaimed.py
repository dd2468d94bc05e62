"""Stored state that the program declares no more, left out of what is restored.

A blob is read as if the unclaimed sections had never been in it, so no backend has to know of them. Where
this is not asked for, backends refuse such state.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import msgspec

from headgate.state.backend import BlobReader, NativeState
from headgate.state.changelog.sections import changed_name
from headgate.state.heap.heap_blob import Header, preamble_and_header, read_header
from headgate.state.state_names import is_stamps

TIMERS = frozenset({"timers:event", "timers:processing", "timers:all"})


class Claims:
    """The states that a program declares.

    Args:
        declared: their names.

    Attributes:
        skipped: names of stored states that were left out so far, without what belongs to others of them.
    """

    def __init__(self, declared: Collection[str]) -> None:
        self._declared = {*declared, *TIMERS}
        self.skipped: set[str] = set()

    def claims(self, name: str) -> bool:
        """Whether a stored state is to be restored; notes it where it is not."""
        state = changed_name(name) or name
        if state in self._declared:
            return True
        if not is_stamps(state):
            self.skipped.add(state)
        return False

    def claimed(self, blob: BlobReader) -> BlobReader:
        """A stored blob without the unclaimed sections; native files beside it stay.

        Raises:
            StorageError: it is damaged.
        """
        header, body = read_header(blob)
        kept = [section for section in header.sections if self.claims(section.name)]
        if len(kept) == len(header.sections):
            return blob
        if isinstance(blob, NativeState):
            return _ClaimedNative(blob, header, body, kept)
        return _Claimed(blob, header, body, kept)


class _Claimed:
    """A blob with a shorter header before the same chunks."""

    def __init__(self, blob: BlobReader, header: Header, body: int, kept: list[Any]) -> None:
        self._blob, self._body = blob, body
        self._head = preamble_and_header(msgspec.structs.replace(header, sections=kept))
        self.size = len(self._head) + header.body_length
        # Chunks are told by where they really are, although the header before them is a shorter one.
        self.where = getattr(blob, "where", "a keyed state blob")
        self.begins = getattr(blob, "begins", 0) + body - len(self._head)

    def read(self, offset: int, length: int) -> bytes:
        """`length` bytes from `offset`; fewer where the blob ends."""
        head = self._head[offset : offset + length]
        behind = max(0, offset - len(self._head))
        return head + self._blob.read(self._body + behind, length - len(head))


class _ClaimedNative(_Claimed):
    """The same beside native files; what is in these and not described here is dropped by their backend."""

    def __init__(self, blob: NativeState, header: Header, body: int, kept: list[Any]) -> None:
        super().__init__(blob, header, body, kept)
        self._state = blob
        self.native, self.root = blob.native, blob.root

    def fetch(self, name: str, target: Path) -> None:
        """See `state.backend.NativeState`."""
        self._state.fetch(name, target)


def unclaimed(stored: Mapping[str, Any], declared: Collection[str]) -> list[str]:
    """Names of stored states that nobody declares, sorted; stamps of others are not told.

    Example:
        >>> unclaimed({"count": {}, "last": {}, "last#ttl": {}}, ["count"])
        ['last']
    """
    known = {*declared, *TIMERS}
    return sorted(name for name in stored if name not in known and not is_stamps(name))
