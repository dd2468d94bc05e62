"""Gives quarantined records to their operator in the process of the program, where its classes are at hand.

A keyed operator is deployed as in a replay of a key, alone, with the key's state; the records come from the
quarantine alone. Other functions have no state, and are just called.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import replace
from typing import Any, Final, NamedTuple

import numpy as np

from headgate.api.declared.keyed_states import declared_state
from headgate.api.jobs.launch_settings import user_code
from headgate.api.on_error import ERRORS, OnError, Quarantined
from headgate.checkpoint.opening import open_checkpoint
from headgate.common.decoders import converter
from headgate.common.errors import UsageError
from headgate.common.ids import EdgeId, VertexId
from headgate.common.keys.keygroups import key_group
from headgate.common.ports import Disk
from headgate.common.process.same_interpreter import SAME_INTERPRETER
from headgate.common.process.system import SystemClock
from headgate.common.settings.config import Config
from headgate.common.time import WATERMARK_MIN
from headgate.connectors.quarantine.quarantined_records import Kept
from headgate.graph.logical import (
    NEW,
    FilterNode,
    FlatMapNode,
    KeyedProcessNode,
    MapNode,
    Node,
    ProcessNode,
    SourceNode,
)
from headgate.graph.physical import Edge, PhysicalPlan, Vertex
from headgate.offline.inspecting import Answer, answered
from headgate.offline.keyed_verdicts import targets_of
from headgate.offline.replay.cutting import Cut
from headgate.offline.replay.keyed_part import KeyReader
from headgate.offline.replay.not_replayable import check_functions
from headgate.offline.replay.quarantined_report import Again, QuarantineReport, QuarantineRequest
from headgate.offline.replay.records_file import RecordsSource
from headgate.offline.replay.replay_report import Step
from headgate.offline.replay.row_tap import RowTap
from headgate.offline.replay.running import Replay
from headgate.offline.replay.tap import Collector, Sides, Tap
from headgate.records.row_batch import RowBatch
from headgate.runtime.driver.start_checks import with_stored_groups
from headgate.runtime.job.job_settings import job_settings
from headgate.runtime.job.operator_context import OperatorContext
from headgate.runtime.worker.operators.guarded.guarded_functions import GuardedOperator, GuardedProcess
from headgate.state.snapshots import CheckpointMetadata

_FEED: Final = "quarantine"
_NO_BOUND: Final = (2**31, 2.0)
"""How many records may fail: here all of them."""


def inspect(
    request: QuarantineRequest, _nodes: Sequence[Node], plan: PhysicalPlan, config: Config
) -> Answer[QuarantineReport]:
    """Return the report of a replay by the plan that was captured, or the error that refused it."""
    return answered(config, lambda: _replayed(request, plan, config))


def _replayed(request: QuarantineRequest, plan: PhysicalPlan, config: Config) -> QuarantineReport:
    kept = converter(list[Kept])(request["records"])
    vertex, node = _found(plan, request["uid"])
    begins: CheckpointMetadata | None = None
    if isinstance(node, KeyedProcessNode):
        if request["snapshot"] is None:
            raise UsageError(
                f"operator {node.name!r} (uid {node.uid!r}) has state by key; give the checkpoint or "
                "savepoint that it is taken from with --from"
            )
        disk, begins = open_checkpoint(request["snapshot"])
        plan = with_stored_groups(plan, config, begins)
        again = _by_key(
            _Keyed(plan, vertex, node, disk, begins, config), kept, side_effects=request["side_effects"]
        )
    else:
        again = _one_by_one(_alone(plan, node), kept, side_effects=request["side_effects"])
    found = {each.id: each for each in again}
    return QuarantineReport(
        uid=request["uid"],
        operator=node.name,
        job=None if begins is None else begins.job_name,
        begins=None if begins is None else begins.checkpoint,
        records=[found[each.id] for each in kept],
    )


def _found(plan: PhysicalPlan, uid: str) -> tuple[Vertex, Any]:
    for vertex in plan.vertices:
        for node in vertex.chain:
            if node.known_as == uid:
                kinds = (KeyedProcessNode, MapNode, FilterNode, FlatMapNode, ProcessNode)
                if type(node) not in kinds:
                    raise UsageError(
                        f"operator {node.name!r} (uid {uid!r}) takes no on_error, so nothing of it is "
                        "quarantined"
                    )
                return vertex, replace(node, on_error=OnError.QUARANTINE, blocking=False)
    raise UsageError(
        f"the program has no operator with uid {uid!r}; `headgate quarantine list` names those of the records"
    )


def _values(kept: Sequence[Kept]) -> Iterator[tuple[Kept, Any, Again | None]]:
    for each in kept:
        try:
            yield each, each.value(), None
        except UsageError as error:
            what = each.record or f"timer at {each.timestamp}"
            yield each, None, Again(each.id, what, each.key, left_out=str(error))


# -- functions without keys


def _one_by_one(cut: Cut, kept: Sequence[Kept], *, side_effects: bool) -> Iterator[Again]:
    check_functions(cut, side_effects=side_effects)
    node: Any = cut.node
    context = OperatorContext(
        uid=node.known_as, name=node.name, subtask=0, parallelism=1, attempt=1, job="", max_parallelism=1,
        clock=SystemClock(), failing_records=_NO_BOUND,
    )  # fmt: skip
    operator: GuardedOperator = (
        GuardedProcess(context, node, copy.copy(node.function))
        if isinstance(node, ProcessNode)
        else GuardedOperator(context, node)
    )
    out: list[Any] = []
    sides: list[tuple[str, Any]] = []
    operator.next = Collector(out.append)
    operator.side_outputs = Sides(lambda tag, record: sides.append((tag, record)))
    operator.open()
    try:
        for each, value, refused in _values(kept):
            if refused is not None:
                yield refused
                continue
            out.clear()
            sides.clear()
            operator.process(_batch(value, each, WATERMARK_MIN))
            yield _again(each, (), list(map(repr, out)), sides)
    finally:
        operator.close()


def _again(kept: Kept, steps: Sequence[Step], out: Sequence[str], sides: Sequence[tuple[str, Any]]) -> Again:
    errors = [side for tag, side in sides if tag == ERRORS.name and isinstance(side, Quarantined)]
    return Again(
        kept.id,
        kept.record or "",
        kept.key,
        changes=[change for step in steps for change in step.changes],
        timers_set=[timer for step in steps for timer in step.timers_set],
        timers_gone=[timer for step in steps for timer in step.timers_gone],
        output=list(out),
        side_output=[(tag, repr(side)) for tag, side in sides if tag != ERRORS.name],
        error=f"{errors[0].kind}: {errors[0].message}" if errors else None,
    )


def _batch(value: Any, kept: Kept, watermark: int) -> RowBatch:
    if kept.timestamp is None:
        return RowBatch([value])
    return RowBatch([value], np.array([kept.timestamp], np.int64), np.array([watermark], np.int64))


# -- keyed functions


class _Keyed(NamedTuple):
    """A keyed operator of a plan, and the snapshot with the state of its keys."""

    plan: PhysicalPlan
    vertex: Vertex
    node: KeyedProcessNode
    disk: Disk
    begins: CheckpointMetadata
    config: Config

    @property
    def watermark(self) -> int:
        """Event time that the operator had reached, in ms."""
        states = self.begins.operators.get(self.node.known_as, [])
        return min((each.watermark for each in states if each.watermark is not None), default=WATERMARK_MIN)

    def cut(self, key: Hashable) -> Cut:
        """Return the operator alone, in one subtask, behind a source that gives nothing."""
        partitioner = self.plan.inputs(self.vertex.id)[0].partitioner
        feed = SourceNode(NEW, _FEED, uid=_FEED, parallelism=1, source=RecordsSource([]))
        alone = _alone(self.plan, self.node)
        plan = replace(
            alone.plan,
            vertices=(Vertex(VertexId(0), (feed,), 1), Vertex(VertexId(1), (self.node,), 1)),
            edges=(Edge(EdgeId(0), VertexId(0), 0, None, VertexId(1), partitioner),),
        )
        return replace(alone, plan=plan, key=key, key_group=key_group(key, self.plan.max_parallelism))


def _alone(plan: PhysicalPlan, node: Any) -> Cut:
    only = PhysicalPlan((Vertex(VertexId(0), (node,), 1),), (), plan.max_parallelism, 1)
    return Cut(only, {}, node, None, 0, 0, given=_FEED)


def _by_key(keyed: _Keyed, kept: Sequence[Kept], *, side_effects: bool) -> Iterator[Again]:
    check_functions(_alone(keyed.plan, keyed.node), side_effects=side_effects)
    by_key: dict[Hashable, list[tuple[Kept, Any]]] = {}
    for each, value, refused in _values(kept):
        if refused is not None:
            yield refused
        else:
            (key,) = RowBatch([value]).keys(keyed.node.key)
            by_key.setdefault(key, []).append((each, value))
    for key, records in by_key.items():
        replay = _FedReplay(keyed, key, records)
        replay.run(None, lambda _: None, lambda _: None)
        yield from replay.again


class _FedReplay(Replay):
    """Gives records to the operator with the state of their key; the input is not read again."""

    def __init__(self, keyed: _Keyed, key: Hashable, records: Sequence[tuple[Kept, Any]]) -> None:
        settings = job_settings(keyed.config).worker
        targets = targets_of(declared_state(keyed.node.function))
        cut = keyed.cut(key)
        reader = KeyReader(
            key, cut.key_group, keyed.plan.max_parallelism, targets, drop=settings.ignore_unclaimed
        )
        settings = replace(settings, failing_records=_NO_BOUND)
        code = user_code() or SAME_INTERPRETER
        super().__init__(cut, keyed.disk, keyed.begins, None, settings, reader, code)
        self._watermark, self._records = keyed.watermark, records
        self.again: list[Again] = []

    def _tap(self, count: int | None, before: Callable[[str], None]) -> Tap:
        return _KeptTap(self._task(self.cut.vertex.id, 0), self.cut.key, None, before)

    def _hold_readers(self) -> None:
        """Do nothing: nothing is read."""

    def _feed(self, tap: Tap) -> None:
        assert isinstance(tap, _KeptTap)
        for kept, value in self._records:
            tap.sides, seen = [], len(tap.steps)
            tap.process_some(_batch(value, kept, self._watermark))
            steps = tap.steps[seen:]
            out = [record for step in steps for record in step.output]
            self.again.append(_again(kept, steps, out, tap.sides))


class _KeptTap(RowTap):
    """Keeps what went to side outputs as it was."""

    def _begin(self) -> None:
        super()._begin()
        self.sides: list[tuple[str, Any]] = []

    def _note(self, kind: str, what: str, sender: str | None, time: int | None, error: str | None) -> None:
        self.sides += self._sides
        super()._note(kind, what, sender, time, error)
