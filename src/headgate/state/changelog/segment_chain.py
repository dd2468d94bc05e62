"""What a segment may follow: which stored state stays for as long as a snapshot that refers to it.

A checkpoint goes when a later one completes, and with it every file that the later one does not refer to.
So a segment of checkpoint C follows what K stored, the newest complete one, only if every snapshot that was
drawn between K and C, and may complete before C does, refers to all of it too.

| event | `_stored` | `_refers` |
| --- | --- | --- |
| snapshot of changes drawn for C | | C: what it follows |
| whole snapshot drawn for C | | C: nothing |
| either is durable | C: what it is | C: all that it consists of |
| either fails or is aborted | nothing: nobody refers to it, and what follows is decided by K | |
| K is complete | K and later stay | later than K stay |

So a whole snapshot that is under way, or was aborted, makes the next one whole too; and one that is drawn
while another is under way which does not refer to K's last segment.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import msgspec

from headgate.state.backend import size_of
from headgate.state.snapshots import Inline, KeyedStateHandle, StateHandle


@dataclass(frozen=True, slots=True)
class Stored:
    """What a checkpoint stored of one subtask.

    Attributes:
        handle: the base, and the segments after it.
        reaches: the checkpoint up to which changes are in it.
        base: the checkpoint that the base was written for; 0: unknown.
        before: the same without the last segment, where that may still be written anew.
        root: the storage that it was restored from; None: this attempt wrote it.
    """

    handle: KeyedStateHandle
    reaches: int
    base: int
    before: Stored | None = None
    root: str | None = None

    @property
    def followed(self) -> Stored:
        """What the next segment follows.

        A segment that is small enough to travel in the metadata would do so in every later checkpoint. So
        the next one takes its place, and holds its changes too.
        """
        if self.before is not None and isinstance(self.handle.log[-1], Inline):
            return self.before
        return self

    @property
    def log_bytes(self) -> int:
        """What the segments take."""
        return sum(map(size_of, self.handle.log))

    def with_segment(self, segment: StateHandle, checkpoint: int) -> Stored:
        """This, and the changes up to a checkpoint."""
        log = [*self.handle.log, segment]
        size = self.handle.size + size_of(segment)
        longer = msgspec.structs.replace(self.handle, log=log, size=size)
        return Stored(longer, checkpoint, self.base, replace(self, before=None, root=None))

    def unchanged(self, checkpoint: int) -> Stored:
        """This, for a checkpoint before which nothing else was touched."""
        return replace(self, reaches=checkpoint, before=None, root=None)


class Chain:
    """The stored states of one subtask that may still matter.

    The operator's thread asks; the one that writes snapshots tells what is durable.
    """

    def __init__(self) -> None:
        self._stored: dict[int, Stored] = {}
        self._refers: dict[int, frozenset[StateHandle]] = {}

    def restored(self, checkpoint: int, stored: Stored) -> None:
        """The subtask began with this."""
        self._stored[checkpoint] = stored

    def drawn(self, checkpoint: int, follows: Stored | None) -> None:
        """A snapshot is under way; None: it is whole, or may have to be."""
        self._refers[checkpoint] = _files_of(follows)

    def stored(self, checkpoint: int, stored: Stored) -> None:
        """It is durable; whether its checkpoint completes is not known yet."""
        self._refers[checkpoint] = _files_of(stored)
        self._stored[checkpoint] = stored

    def completed(self, checkpoint: int) -> Stored | None:
        """What the newest complete checkpoint stored, if that is known; older ones are forgotten."""
        # In place and one by one: the other thread adds to both meanwhile.
        for number in [number for number in list(self._stored) if number < checkpoint]:
            del self._stored[number]
        for number in [number for number in list(self._refers) if number <= checkpoint]:
            del self._refers[number]
        return self._stored.get(checkpoint)

    def may_follow(self, stored: Stored) -> bool:
        """Whether it stays until a snapshot that is drawn now is complete; ask after :meth:`completed`."""
        needed = _files_of(stored)
        return all(needed <= files for files in list(self._refers.values()))


def _files_of(stored: Stored | None) -> frozenset[StateHandle]:
    return frozenset() if stored is None else frozenset(stored.handle.handles())
