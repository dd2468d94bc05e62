"""Credit of one channel: how many frames the sender may have in flight.

Law: credit at the sender + frames in flight + frames queued at the receiver + credit on its way
back = the initial credit. So a receiver that stops consuming stops its sender after `initial`
frames, and no other sender. Control events travel without credit; they are few and small.

Credit that is withheld is with the receiver at first: a subtask that has records of a restored
checkpoint before it lets nothing new in, or each restart would add to what is in flight.
"""

from __future__ import annotations

from headgate.common.errors import InternalError


class SenderCredit:
    """The sender's side of one channel."""

    __slots__ = ("credit", "initial")

    def __init__(self, initial: int, *, withheld: bool = False) -> None:
        if initial < 1:
            raise InternalError(f"a channel starts with credit {initial}; expected at least 1")
        self.initial = initial
        self.credit = 0 if withheld else initial

    def spend(self) -> None:
        """One frame leaves."""
        if self.credit <= 0:
            raise InternalError("a frame was sent without credit")
        self.credit -= 1

    def grant(self, frames: int) -> None:
        """The receiver consumed `frames` frames."""
        if frames < 1 or self.credit + frames > self.initial:
            raise InternalError(f"credit {self.credit} + {frames} exceeds the initial {self.initial}")
        self.credit += frames


class ReceiverCredit:
    """The receiver's side of one channel: what it owes back to the sender.

    Returned in lots of half the initial credit, so that a stream of small frames does not cost a
    message each.
    """

    __slots__ = ("initial", "owed", "queued")

    def __init__(self, initial: int, *, withheld: bool = False) -> None:
        self.initial, self.queued = initial, 0
        self.owed = initial if withheld else 0

    def release(self) -> int:
        """Return all credit that is owed, to be sent at once: what was withheld is so no longer."""
        frames, self.owed = self.owed, 0
        return frames

    def received(self) -> None:
        """A frame came in."""
        if self.queued + self.owed >= self.initial:
            raise InternalError(f"the sender exceeded its credit of {self.initial} frames")
        self.queued += 1

    def consumed(self) -> int:
        """A frame was used up; gives the credit to send back now, which may be 0."""
        if self.queued <= 0:
            raise InternalError("a frame was consumed that never came in")
        self.queued -= 1
        self.owed += 1
        if self.owed * 2 >= self.initial or self.queued == 0:
            frames, self.owed = self.owed, 0
            return frames
        return 0
