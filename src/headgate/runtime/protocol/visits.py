"""What a worker tells of a traced record: its visit to a subtask."""

from __future__ import annotations

import msgspec


class VisitedStep(msgspec.Struct, frozen=True, array_like=True):
    """What an operator has done with the records that came of a traced one: how many went out of it, and how
    long it took itself, without the operators behind it.
    """

    uids: list[str]  # several where functions are fused
    own_us: int
    records: int


class VisitedExchange(msgspec.Struct, frozen=True, array_like=True):
    """An exchange that records of a visit went into: to which subtask, behind how many frames that waited."""

    edge: int
    receiver: int
    waiting: int


class Visit(msgspec.Struct, frozen=True, array_like=True):
    """The visit of a traced record to a subtask."""

    trace: int  # number of the record's way, which begins at a source
    number: int  # unique among all visits of the job
    sender: int  # number of the visit that has sent the record; 0: a source has read it
    vertex: int
    subtask: int
    began_us: int  # wall clock of the worker
    came_us: int  # how long it was on its way, from the sender's clock to this one; 0 at a source
    took_us: int
    record: str  # its text, cut
    steps: list[VisitedStep]  # in the order in which the operators got it
    sent: list[VisitedExchange]
