"""What a replay found: its steps, how it ended, and how its state compares with the next snapshot's."""

from __future__ import annotations

from typing import TypedDict

import msgspec


class ReplayRequest(TypedDict):
    """What is to be replayed, as the command asks for it; snapshots are URIs, `key` is text of `key_text`."""

    program: str
    uid: str
    key: str
    snapshot: str  # where the state comes from
    to: str | None  # the snapshot at whose positions the replay stops; None: at the end of the input
    count: int | None  # stop after so many records of the key; None: no limit
    records: str | None  # path of a file with records in place of a source that cannot go back
    save: str | None  # path of a test to be written
    side_effects: bool  # whether functions may run that reach outside of the job
    until_failure: bool  # go on from checkpoint to checkpoint until user code raises or the state differs
    debug: bool  # whether a debugger opens where user code raises, and at each record before


class Change(msgspec.Struct, frozen=True):
    """What a step changed of the key's state; values as Python writes them, None where there is none."""

    state: str  # of a map with the entry's key, such as "seen['ada']"
    before: str | None
    after: str | None


class Step(msgspec.Struct, frozen=True):
    """One record of the key, or its timers of one moment, and what the operator did."""

    number: int  # from 1
    kind: str  # "record", "broadcast", "timer" or "processing timer"
    what: str  # the record as Python writes it, or the time of the timer in ms
    sender: str | None = None  # "uid[subtask]" of the subtask that sent the record; None: of timers
    timestamp: int | None = None  # event time of the record, in ms
    watermark: int | None = None  # event time that the operator has reached after it, in ms
    changes: list[Change] = []
    timers_set: list[str] = []  # as "event 1200"
    timers_gone: list[str] = []  # fired or deleted
    output: list[str] = []
    side_output: list[tuple[str, str]] = []  # tag and record
    error: str | None = None  # what user code raised


class Difference(msgspec.Struct, frozen=True):
    """A state of the key that the replay left otherwise than the snapshot has it, as Python writes it."""

    state: str
    replayed: str | None
    recorded: str | None


class ReplayReport(msgspec.Struct, frozen=True):
    """The report of one replay; as JSON for programs, as lines for people."""

    uid: str
    key: str  # as Python writes it
    operator: str  # its name in the program
    subtask: int  # that owns the key
    key_group: int
    job: str
    begins: int  # number of the snapshot that the state is of
    ends: int | None  # number of the snapshot at which it stopped; None: without one
    state: list[Change]  # the state that it began with, as changes from nothing
    steps: list[Step]
    records_read: int  # of all keys, that reached this operator's subtask
    ended: str  # in words
    differences: list[Difference] | None = None  # None: nothing to compare with
    inexact: list[str] = []  # why the state may differ although nothing is wrong
    failure: str | None = None  # the traceback of user code that raised
    passed: list[int] = []  # checkpoints on the way at which the state was as recorded, or may differ
    unlike: list[str] | None = None  # what a second replay did otherwise; None: there was no second

    @property
    def as_recorded(self) -> bool:
        """Whether the state at the end is that of the snapshot at which it stopped, byte for byte."""
        return self.differences == []
