"""How records of one subtask are distributed over the subtasks of the next vertex. Data only."""

from __future__ import annotations

from dataclasses import dataclass

from headgate.records.selectors import KeySelector


@dataclass(frozen=True, slots=True)
class Forward:
    """Sends records of subtask i to subtask i; both vertices have the same parallelism."""


@dataclass(frozen=True, slots=True)
class ByKeyGroup:
    """Sends each record to the subtask that owns the key group of the record's key."""

    key: KeySelector


@dataclass(frozen=True, slots=True)
class Rebalance:
    """Sends whole batches to all subtasks in turn (round-robin), however many records they have."""


@dataclass(frozen=True, slots=True)
class Broadcast:
    """Sends every record to every subtask."""


Partitioner = Forward | ByKeyGroup | Rebalance | Broadcast
