"""Credit of one channel: how many frames the sender may have in flight.

Law: credit at the sender + frames in flight + frames queued at the receiver + credit on its way
back = the initial credit. So a receiver that stops consuming stops its sender after `initial`
frames, and no other sender. Control events travel without credit; they are few and small.

Withheld credit is with the receiver at first: a subtask that must process records in flight of a restored
checkpoint accepts no new frames until then, or each restart would add records in flight.
"""

from __future__ import annotations

from collections import deque

from headgate.common.errors import InternalError


class SenderCredit:
    """How many frames one channel's sender may still send; with `withheld` none before the first grant."""

    __slots__ = ("_sizes", "credit", "initial")

    def __init__(self, initial: int, *, withheld: bool = False) -> None:
        if initial < 1:
            raise InternalError(f"a channel starts with credit {initial}; expected at least 1")
        self.initial = initial
        self.credit = 0 if withheld else initial
        # Bytes of the frames whose credit has not come back, oldest first; 0: withheld credit, of no frame.
        self._sizes = deque([0] * initial if withheld else ())

    def in_flight(self) -> tuple[int, int]:
        """Return how many frames were sent for which no credit has come back, and their bytes; for any
        thread.
        """
        sizes = [size for size in self._sizes.copy() if size]
        return len(sizes), sum(sizes)

    def spend(self, size: int) -> None:
        """Count a frame of `size` bytes, 1 or more, as sent; InternalError if there is no credit for it."""
        if self.credit <= 0:
            raise InternalError("a frame was sent without credit")
        self.credit -= 1
        self._sizes.append(size)

    def grant(self, frames: int) -> None:
        if frames < 1 or self.credit + frames > self.initial:
            raise InternalError(f"credit {self.credit} + {frames} exceeds the initial {self.initial}")
        self.credit += frames
        sizes = self._sizes
        for _ in range(frames):
            sizes.popleft()


class ReceiverCredit:
    """Counts, at the receiver of one channel, the queued frames and the credit owed to the sender.

    Credit returns in lots of half the initial credit, or once no frame is queued, so that not every small
    frame costs a message. If `withheld`, the sender has none before :meth:`release`.
    """

    __slots__ = ("initial", "owed", "queued")

    def __init__(self, initial: int, *, withheld: bool = False) -> None:
        self.initial, self.queued = initial, 0
        self.owed = initial if withheld else 0

    def release(self) -> int:
        """Return all owed credit as frames to grant the sender now. If credit was withheld, this ends it."""
        frames, self.owed = self.owed, 0
        return frames

    def received(self) -> None:
        """Count a frame that arrived and is queued; InternalError if the sender had no credit for it."""
        if self.queued + self.owed >= self.initial:
            raise InternalError(f"the sender exceeded its credit of {self.initial} frames")
        self.queued += 1

    def consumed(self) -> int:
        """Count a queued frame as consumed, InternalError if there is none. Return how many frames to grant
        the sender now; 0: the credit is owed until it is half the initial credit, or no frame is queued.
        """
        if self.queued <= 0:
            raise InternalError("a frame was consumed that never came in")
        self.queued -= 1
        self.owed += 1
        if self.owed * 2 >= self.initial or self.queued == 0:
            frames, self.owed = self.owed, 0
            return frames
        return 0
