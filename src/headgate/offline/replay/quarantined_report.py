"""What came of records that were taken out of a quarantine and given to their operator again."""

from __future__ import annotations

from typing import TypedDict

import msgspec

from headgate.connectors.quarantine.quarantined_records import Kept
from headgate.offline.replay.replay_report import Change


class QuarantineRequest(TypedDict):
    """What is to be tried again; `records` are plain values of :class:`Kept`, in order."""

    uid: str
    records: list[Kept]
    snapshot: str | None  # URI of what the state of keys is taken from; None: the operator has none
    side_effects: bool  # whether a function may run that reaches outside of the job


class Again(msgspec.Struct, frozen=True):
    """One record, and what the function did with it; values as Python writes them."""

    id: str
    record: str
    key: str | None = None
    changes: list[Change] = []
    timers_set: list[str] = []
    timers_gone: list[str] = []
    output: list[str] = []
    side_output: list[tuple[str, str]] = []
    error: str | None = None  # with which it fails again
    left_out: str | None = None  # why it was not given to the function


class QuarantineReport(msgspec.Struct, frozen=True):
    """The report of a replay of quarantined records; as JSON for programs, as lines for people."""

    uid: str
    operator: str  # its name in the program
    job: str | None  # that took the snapshot; None: there is none
    begins: int | None  # number of the snapshot
    records: list[Again]

    @property
    def failed(self) -> int:
        """How many fail again."""
        return sum(each.error is not None for each in self.records)

    @property
    def left_out(self) -> int:
        """How many were not given to the function."""
        return sum(each.left_out is not None for each in self.records)

    @property
    def succeeded(self) -> int:
        """How many the function can process now."""
        return len(self.records) - self.failed - self.left_out
