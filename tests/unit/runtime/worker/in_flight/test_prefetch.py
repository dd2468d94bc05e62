"""Records in flight are read at the start, up to a bound."""

from __future__ import annotations

import pytest

from headgate.common.errors import StorageError
from headgate.runtime.worker.in_flight.channels import prefetched
from headgate.state.snapshots import (
    FileRange,
    InFlightPart,
    InFlightShare,
    InFlightStream,
    Inline,
    StateHandle,
)


class Files:
    """Sections of ten bytes; broken when told so."""

    def __init__(self) -> None:
        self.reads: list[StateHandle] = []
        self.broken = False

    def __call__(self, handle: StateHandle) -> bytes:
        if self.broken:
            raise StorageError("the storage is away")
        self.reads.append(handle)
        return handle.data if isinstance(handle, Inline) else bytes([handle.offset]) * 10


def share(*offsets: int, of: int = 1) -> InFlightShare:
    """A share of parts at these places of one file, with an inlined one."""
    parts = [InFlightPart(FileRange("file", offset, 10, 0), 10, 1) for offset in offsets]
    parts.append(InFlightPart(Inline(b"inline"), 6, 1))
    return InFlightShare(InFlightStream("to", "from", None, 0, 0, parts=parts), of=of)


def test_what_was_read_ahead_needs_no_storage() -> None:
    """A storage that goes away after the start stops nobody."""
    files = Files()
    parts = prefetched(files, [share(1, 2), share(3)])
    files.broken = True
    assert [parts(FileRange("file", offset, 10, 0))[0] for offset in (1, 2, 3)] == [1, 2, 3]


def test_beyond_the_bound_parts_are_read_in_their_turn() -> None:
    """Memory is bounded; a part that two shares take is read once."""
    files = Files()
    parts = prefetched(files, [share(1, of=2), share(1, of=2), share(2), share(3)], ahead_bytes=25)
    assert [handle.offset for handle in files.reads if isinstance(handle, FileRange)] == [1, 2]
    assert parts(FileRange("file", 3, 10, 0)) == bytes([3]) * 10
    assert parts(Inline(b"inline")) == b"inline"
    files.broken = True
    with pytest.raises(StorageError, match="away"):
        parts(FileRange("file", 3, 10, 0))


def test_a_storage_that_is_away_at_the_start_stops_the_attempt() -> None:
    """As for all other restored state."""
    files = Files()
    files.broken = True
    with pytest.raises(StorageError, match="away"):
        prefetched(files, [share(1)])
