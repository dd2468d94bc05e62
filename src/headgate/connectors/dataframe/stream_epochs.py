"""State machine of the protocol between a Structured Streaming query and the dataflow; no I/O.

Spark gives its input in numbered epochs. One at a time is admitted; readers get its shares (parts); only
when all are read may a checkpoint be taken, so that every snapshot is between two epochs; and only when a
checkpoint that holds the epoch is complete is it acknowledged, after which Spark forgets how to make it
again. Numbers of checkpoints and of epochs are independent.

===================  =========  ===========================================================
phase                move       becomes
===================  =========  ===========================================================
between epochs       admit      reading; at once read, if the epoch has no shares
reading              take       reading; read, when no reader has or may get a share any more
read                 complete   between epochs, if the checkpoint holds the epoch
===================  =========  ===========================================================
"""

from __future__ import annotations

import enum
from collections import deque
from collections.abc import Iterable
from typing import Generic, TypeVar

from headgate.common.errors import InternalError

S = TypeVar("S")


class Phase(enum.Enum):
    """Phase of a Spark source's newest epoch: acknowledged ("between epochs"), being read, or read."""

    BETWEEN = "between epochs"
    READING = "reading"
    READ = "read"


class Epochs(Generic[S]):
    """State of one Spark source in one attempt: newest epoch (batch of the query) and checkpoints with it.

    `done` is the newest epoch that is acknowledged, or was restored; -1 before the first.

    Example:
        >>> epochs = Epochs[str](done=4)
        >>> epochs.admit(5, ["a", "b"])
        >>> epochs.take(reader=0), epochs.take(reader=1), epochs.ready
        ('a', 'b', False)
        >>> epochs.take(reader=0), epochs.take(reader=1), epochs.ready
        (None, None, True)
        >>> epochs.snapshot(checkpoint=71), epochs.complete(checkpoint=71)
        (5, 5)
    """

    def __init__(self, done: int) -> None:
        self.phase, self.done = Phase.BETWEEN, done
        self._left: deque[S] = deque()
        self._reading: set[int] = set()
        self._held: dict[int, int] = {}  # checkpoint that is pending -> newest epoch in it

    @property
    def held(self) -> int:
        """Number of the newest epoch that a checkpoint taken now would hold."""
        return self.done + (self.phase is Phase.READ)

    @property
    def ready(self) -> bool:
        """Whether a checkpoint may be taken now: readers have read all of the admitted epoch, if any."""
        return self.phase is not Phase.READING

    @property
    def wants_checkpoint(self) -> bool:
        """Whether an epoch is read completely that no checkpoint holds yet, not even a pending one."""
        return self.phase is Phase.READ and self.held not in self._held.values()

    @property
    def unread(self) -> int:
        """Number of shares of the admitted epoch that readers have not read to their ends."""
        return len(self._left) + len(self._reading)

    def admit(self, epoch: int, shares: Iterable[S]) -> None:
        """Start the reading of the next epoch. `shares` are its parts, each to be read by one reader.
        InternalError if another epoch is due, or the one before is not acknowledged.
        """
        if self.phase is not Phase.BETWEEN or epoch != self.done + 1:
            raise InternalError(
                f"epoch {epoch} of a Spark source was offered while epoch {self.done + 1} was "
                f"{self.phase.value}; expected epochs one by one"
            )
        self._left.extend(shares)
        self.phase = Phase.READING
        self._look_whether_read()

    def take(self, reader: int) -> S | None:
        """Take a share (part) of the epoch for `reader`, and count its last as read; None if none is left."""
        self._reading.discard(reader)
        if self._left:
            self._reading.add(reader)
            return self._left.popleft()
        self._look_whether_read()
        return None

    def snapshot(self, checkpoint: int) -> int:
        """Record that a checkpoint is taken; return its newest epoch. InternalError unless `ready`."""
        if not self.ready:
            raise InternalError(f"checkpoint {checkpoint} would cut epoch {self.done + 1} of a Spark source")
        self._held[checkpoint] = self.held
        return self.held

    def complete(self, checkpoint: int) -> int | None:
        """Note that `checkpoint` is complete; return the epoch to acknowledge to Spark; None: none is new."""
        held = self._held.pop(checkpoint, self.done)
        if held <= self.done:
            return None
        self._held = {other: epoch for other, epoch in self._held.items() if epoch > held}
        self.phase, self.done = Phase.BETWEEN, held
        return held

    def abort(self, checkpoint: int) -> None:
        """Forget an aborted checkpoint; a later one will hold the epoch that this one would have held."""
        self._held.pop(checkpoint, None)

    def _look_whether_read(self) -> None:
        if self.phase is Phase.READING and not self.unread:
            self.phase = Phase.READ
