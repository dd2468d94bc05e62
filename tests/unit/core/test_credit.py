"""Credit of one channel: the law holds for every schedule of two machines over a link with delay."""

from __future__ import annotations

from collections import deque

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.common.errors import InternalError
from headgate.core.credit import ReceiverCredit, SenderCredit

ACTIONS = st.lists(st.sampled_from(["send", "arrive", "consume", "credit"]), max_size=400)


class Wire:
    """A sender and a receiver with a link each way; an action that is not possible does nothing."""

    def __init__(self, initial: int, withheld: bool = False) -> None:
        self.sender = SenderCredit(initial, withheld=withheld)
        self.receiver = ReceiverCredit(initial, withheld=withheld)
        self.frames: deque[int] = deque()
        self.credits: deque[int] = deque()
        self.sent = 0

    def act(self, action: str) -> bool:
        """Do it if it is possible."""
        if action == "send" and self.sender.credit:
            self.sender.spend(1)
            self.frames.append(self.sent)
            self.sent += 1
        elif action == "arrive" and self.frames:
            self.frames.popleft()
            self.receiver.received()
        elif action == "consume" and self.receiver.queued:
            if frames := self.receiver.consumed():
                self.credits.append(frames)
        elif action == "credit" and self.credits:
            self.sender.grant(self.credits.popleft())
        else:
            return False
        return True

    def total(self) -> int:
        """The law's left side."""
        receiver = self.receiver
        return self.sender.credit + len(self.frames) + receiver.queued + receiver.owed + sum(self.credits)


@given(st.integers(1, 9), ACTIONS)
def test_credit_is_never_made_nor_lost(initial: int, actions: list[str]) -> None:
    """Credit + frames in flight + queued frames + credit on its way back is the initial credit, always."""
    wire = Wire(initial)
    for action in actions:
        wire.act(action)
        assert wire.total() == initial
        assert wire.receiver.queued <= initial


@given(st.integers(1, 9), ACTIONS)
def test_a_receiver_that_goes_on_never_leaves_its_sender_without_credit(
    initial: int, actions: list[str]
) -> None:
    """When everything queued was consumed and every message arrived, the sender may send again."""
    wire = Wire(initial)
    for action in actions:
        wire.act(action)
    while any(wire.act(action) for action in ("arrive", "consume", "credit")):
        pass
    assert wire.sender.credit == initial


@given(st.integers(1, 9), ACTIONS, ACTIONS)
def test_withheld_credit_lets_nothing_through_until_it_is_released(
    initial: int, before: list[str], behind: list[str]
) -> None:
    """The law holds all the time; behind the release it is a channel like any other."""
    wire = Wire(initial, withheld=True)
    for action in before:
        assert not wire.act(action)
        assert wire.total() == initial
    wire.credits.append(wire.receiver.release())
    for action in ["credit", *behind]:
        wire.act(action)
        assert wire.total() == initial
    assert wire.sender.credit + wire.sent > 0


@given(st.integers(1, 9))
def test_a_receiver_that_stops_stops_its_sender_after_the_initial_credit(initial: int) -> None:
    """Without consumption exactly `initial` frames leave."""
    wire = Wire(initial)
    for _ in range(3 * initial):
        wire.act("send")
        wire.act("arrive")
        wire.act("credit")
    assert wire.sent == initial


def test_credit_comes_back_in_lots_of_half() -> None:
    """While more is queued, credit is returned once half of the initial credit is owed."""
    receiver = ReceiverCredit(8)
    for _ in range(8):
        receiver.received()
    assert [receiver.consumed() for _ in range(8)] == [0, 0, 0, 4, 0, 0, 0, 4]


def test_breaches_are_refused() -> None:
    """Sending without credit, granting too much, overrunning and consuming nothing are errors."""
    sender, receiver = SenderCredit(1), ReceiverCredit(1)
    with pytest.raises(InternalError, match="exceeds the initial"):
        sender.grant(1)
    sender.spend(1)
    with pytest.raises(InternalError, match="without credit"):
        sender.spend(1)
    with pytest.raises(InternalError, match="exceeds"):
        sender.grant(0)
    with pytest.raises(InternalError, match="never came in"):
        receiver.consumed()
    receiver.received()
    with pytest.raises(InternalError, match="exceeded its credit of 1"):
        receiver.received()
    with pytest.raises(InternalError, match="expected at least 1"):
        SenderCredit(0)
