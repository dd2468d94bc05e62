"""How records of one subtask are shared out over the subtasks of the next vertex. Data only."""

from __future__ import annotations

from dataclasses import dataclass

from headgate.records.selectors import KeySelector


@dataclass(frozen=True, slots=True)
class Forward:
    """Subtask i to subtask i; both sides have the same parallelism."""


@dataclass(frozen=True, slots=True)
class ByKeyGroup:
    """To the subtask that owns the key group of the record's key."""

    key: KeySelector


@dataclass(frozen=True, slots=True)
class Rebalance:
    """Evenly, batch by batch, round-robin."""


@dataclass(frozen=True, slots=True)
class Broadcast:
    """Every record to every subtask."""


Partitioner = Forward | ByKeyGroup | Rebalance | Broadcast
