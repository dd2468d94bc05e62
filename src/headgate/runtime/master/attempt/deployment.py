"""Builds the messages that deploy an attempt: what each worker runs, restores and connects to."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from headgate.graph.physical import PhysicalPlan
from headgate.metrics.metric_table import HISTOGRAMS, NUMBERS
from headgate.restore.assignment import Restored, assign_finished, assign_state, without_committables
from headgate.restore.in_flight_shares import assign_in_flight
from headgate.restore.point import RestorePoint
from headgate.runtime.protocol import messages as m

Readers: TypeAlias = tuple[int, set[tuple[int, int]]]
"""Id of a checkpoint, and the subtasks (vertex id, index) that read in-flight records from its files."""


@dataclass(frozen=True, slots=True)
class Deployment:
    """What every worker of an attempt gets alike, and from that each worker's message; `program`: pickled."""

    attempt: int
    generation: int
    program: bytes
    peers: Mapping[int, str]  # slot -> address of its data plane
    storage: str | None
    marker: str | None  # token of a file that workers must see in the storage
    ignore_unclaimed: bool = False  # drop restored state that the program no longer declares

    def messages(self, plan: PhysicalPlan, point: RestorePoint | None) -> dict[int, m.Deploy]:
        """Return each slot's message with its part of `point`'s state; UsageError: it does not fit `plan`."""
        checkpoint = None if point is None else point.checkpoint
        restored: Restored = []
        if checkpoint is not None:
            restored = assign_state(plan, checkpoint, ignore_unclaimed=self.ignore_unclaimed)
        in_flight = [] if checkpoint is None else assign_in_flight(plan, checkpoint)
        finished = [] if checkpoint is None else sorted(assign_finished(plan, checkpoint))
        return {
            slot: m.Deploy(
                attempt=self.attempt,
                generation=self.generation,
                program=self.program,
                peers=dict(self.peers),
                restored=[(v, s, without_committables(states)) for v, s, states in restored if s == slot],
                restored_checkpoint=None if checkpoint is None else checkpoint.checkpoint,
                restored_storage=None if point is None else point.storage,
                storage=self.storage,
                marker=self.marker,
                numbers=list(NUMBERS),
                histograms=list(HISTOGRAMS),
                in_flight=[(v, s, shares) for v, s, shares in in_flight if s == slot],
                finished=[(v, s) for v, s in finished if s == slot],
            )
            for slot in self.peers
        }


def readers_of(messages: Iterable[m.Deploy]) -> set[tuple[int, int]]:
    return {
        (vertex, subtask)
        for message in messages
        for vertex, subtask, shares in message.in_flight
        if any(share.stream.parts for share in shares)
    }
