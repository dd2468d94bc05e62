"""What may happen at the border between a Structured Streaming query and the dataflow; pure.

Spark gives its input in numbered epochs. One at a time is admitted; its shares are handed to readers; only
when all are read may a checkpoint be drawn, so that every cut falls between two epochs; and only when a
checkpoint that holds the epoch is complete is it acknowledged, behind which Spark forgets how to make it
again. Numbers of checkpoints and of epochs have nothing to do with each other.

===================  =========  ==========================================================
phase                move       becomes
===================  =========  ==========================================================
between epochs       admit      reading; at once read, if the epoch has no shares
reading              take       reading; read, when nobody has or may get a share any more
read                 complete   between epochs, if the checkpoint's cut holds the epoch
===================  =========  ==========================================================
"""

from __future__ import annotations

import enum
from collections import deque
from collections.abc import Iterable
from typing import Generic, TypeVar

from headgate.common.errors import InternalError

S = TypeVar("S")


class Phase(enum.Enum):
    """Where the newest epoch stands."""

    BETWEEN = "between epochs"
    READING = "reading"
    READ = "read"


class Epochs(Generic[S]):
    """The epochs of one source in one attempt.

    Args:
        done: the epoch up to which the restored position reaches; -1 before the first.

    Attributes:
        phase: of the newest epoch.
        done: the newest epoch that is acknowledged, or was restored.

    Example:
        >>> epochs = Epochs[str](done=4)
        >>> epochs.admit(5, ["a", "b"])
        >>> epochs.take(reader=0), epochs.take(reader=1), epochs.ready
        ('a', 'b', False)
        >>> epochs.take(reader=0), epochs.take(reader=1), epochs.ready
        (None, None, True)
        >>> epochs.draw(checkpoint=71), epochs.complete(checkpoint=71)
        (5, 5)
    """

    def __init__(self, done: int) -> None:
        self.phase, self.done = Phase.BETWEEN, done
        self._left: deque[S] = deque()
        self._reading: set[int] = set()
        self._drawn: dict[int, int] = {}

    @property
    def held(self) -> int:
        """The epoch up to which a checkpoint drawn now would reach."""
        return self.done + (self.phase is Phase.READ)

    @property
    def ready(self) -> bool:
        """Whether a checkpoint may be drawn now: all that was handed out is read."""
        return self.phase is not Phase.READING

    @property
    def wants_checkpoint(self) -> bool:
        """Whether an epoch is read that no checkpoint holds, not even one under way."""
        return self.phase is Phase.READ and self.held not in self._drawn.values()

    @property
    def unread(self) -> int:
        """Shares of the admitted epoch that are not read to their ends."""
        return len(self._left) + len(self._reading)

    def admit(self, epoch: int, shares: Iterable[S]) -> None:
        """Take in the next epoch, whole.

        Args:
            epoch: its number.
            shares: of its rows, in the order in which they are to be handed out.

        Raises:
            InternalError: the one before is still in work, or it is not the next.
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
        """A reader has read all that it got: its next share, or None for "not now"."""
        self._reading.discard(reader)
        if self._left:
            self._reading.add(reader)
            return self._left.popleft()
        self._look_whether_read()
        return None

    def draw(self, checkpoint: int) -> int:
        """A checkpoint is drawn now: the epoch up to which it reaches.

        Raises:
            InternalError: an epoch is half read.
        """
        if not self.ready:
            raise InternalError(f"checkpoint {checkpoint} would cut epoch {self.done + 1} of a Spark source")
        self._drawn[checkpoint] = self.held
        return self.held

    def complete(self, checkpoint: int) -> int | None:
        """A checkpoint is complete: the epoch that may be acknowledged now; None: there is none."""
        held = self._drawn.pop(checkpoint, self.done)
        if held <= self.done:
            return None
        self._drawn = {other: epoch for other, epoch in self._drawn.items() if epoch > held}
        self.phase, self.done = Phase.BETWEEN, held
        return held

    def abort(self, checkpoint: int) -> None:
        """A checkpoint came to nothing: a later one will hold what it would have held."""
        self._drawn.pop(checkpoint, None)

    def _look_whether_read(self) -> None:
        if self.phase is Phase.READING and not self.unread:
            self.phase = Phase.READ
