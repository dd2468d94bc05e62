"""Assembles the metadata of a checkpoint from the acknowledgements of its subtasks. Pure, without I/O."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

from headgate.api.sink import Lineage
from headgate.common.format_config import fingerprint
from headgate.common.ids import JobId
from headgate.core.alignment.barriers import SavepointOrder
from headgate.core.checkpoint.effects import Finalize
from headgate.graph.physical import PhysicalPlan, Vertex
from headgate.runtime.job.lineage import stored_forks
from headgate.state.snapshots import CheckpointMetadata, OperatorSubtaskState, SubtaskSnapshot


class CheckpointContents:
    """Builds the metadata of each checkpoint of one job; `plan` and `totals` are set before each attempt."""

    def __init__(self, job: JobId, job_name: str, generation: int, plan: PhysicalPlan) -> None:
        self.plan = plan
        self.totals: Mapping[str, tuple[int, int]] = {}  # records in and out per chain before this attempt
        self._job, self._name, self._generation = job, job_name, generation

    def metadata(
        self,
        effect: Finalize[SubtaskSnapshot],
        trigger_ms: int,
        enumerators: dict[str, Any],
        order: SavepointOrder | None,
        lineage: Lineage,
    ) -> CheckpointMetadata:
        """Return the metadata to store for the checkpoint in `effect`, whose subtasks all have acknowledged.
        `trigger_ms`: ms since the epoch; `enumerators`: their states by source uid; `order`: the savepoint's
        (None: a checkpoint); `lineage`: which jobs' output this job's continues.
        """
        operators, parallelism = self._operators(effect.snapshots)
        return CheckpointMetadata(
            job=self._job,
            job_name=self._name,
            checkpoint=effect.checkpoint,
            generation=self._generation,
            attempt=effect.attempt,
            trigger_ms=trigger_ms,
            max_parallelism=self.plan.max_parallelism,
            format_fingerprint=fingerprint(),
            parallelism=parallelism,
            operators=operators,
            enumerators=enumerators,
            state_types={
                uid: types for snapshot in effect.snapshots for uid, types in snapshot.state_types.items()
            },
            totals=add_totals(self.plan, self.totals, effect.snapshots),
            in_flight=[stream for snapshot in effect.snapshots for stream in snapshot.in_flight],
            finished=self._finished(effect.snapshots),
            kind="checkpoint" if order is None else "savepoint",
            format=None if order is None else order.format,
            lineage=lineage.id,
            forks=stored_forks(lineage),
        )

    def _finished(self, snapshots: Sequence[SubtaskSnapshot]) -> dict[str, list[int]]:
        finished: dict[str, list[int]] = {}
        for snapshot in snapshots:
            if snapshot.finished:
                for node in self.plan.vertices[snapshot.vertex].chain:
                    finished.setdefault(node.known_as, []).append(snapshot.subtask)
        return finished

    def _operators(
        self, snapshots: Sequence[SubtaskSnapshot]
    ) -> tuple[dict[str, list[OperatorSubtaskState]], dict[str, int]]:
        reported = {
            (snapshot.vertex, snapshot.subtask, state.uid): state
            for snapshot in snapshots
            for state in snapshot.operators
        }
        operators: dict[str, list[OperatorSubtaskState]] = {}
        parallelism: dict[str, int] = {}
        for vertex in self.plan.vertices:
            for node in vertex.chain:
                uid = node.known_as
                states = [reported.get((vertex.id, s, uid)) for s in range(vertex.parallelism)]
                parallelism[uid] = vertex.parallelism
                if any(state is not None for state in states):
                    operators[uid] = [state or OperatorSubtaskState(uid) for state in states]
        return operators, parallelism


class _Counted(Protocol):
    @property
    def vertex(self) -> int: ...
    @property
    def records_in(self) -> int: ...
    @property
    def records_out(self) -> int: ...


def add_totals(
    plan: PhysicalPlan, base: Mapping[str, tuple[int, int]], counted: Iterable[_Counted]
) -> dict[str, tuple[int, int]]:
    """Return records (in, out) per chain: `base`, up to the restored snapshot, plus those `counted` since.
    `counted` has an entry per subtask. Another parallelism may chain operators differently: a new chain then
    has the base input of an old one that began with the same operator, and the base output of an old one that
    ended with the same.
    """
    totals = dict(base)
    heads = {name.partition(_JOINT)[0]: each for name, each in base.items()}
    tails = {name.rpartition(_JOINT)[2]: each for name, each in base.items()}
    for vertex in plan.vertices:
        name = chain_name(vertex)
        if name not in base:
            before = (
                heads.get(vertex.chain[0].known_as, (0, 0))[0],
                tails.get(vertex.chain[-1].known_as, (0, 0))[1],
            )
            if before != (0, 0):
                totals[name] = before
    for entry in counted:
        name = chain_name(plan.vertices[entry.vertex])
        before = totals.get(name, (0, 0))
        totals[name] = (before[0] + entry.records_in, before[1] + entry.records_out)
    return totals


_JOINT = " -> "


def chain_name(vertex: Vertex) -> str:
    return _JOINT.join(node.known_as for node in vertex.chain)
