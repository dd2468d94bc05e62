"""Assigns the state of a completed checkpoint to the subtasks of a restored job, also at another parallelism.

Keyed state goes by key-group range, operator state by `core.operator_state_shares`. Lists of splits are
shared out round-robin when the parallelism changed, and event time becomes the least of the old subtasks'.
State is matched by uid and never dropped silently: only if the user allows it, and then the log names it.
Records in flight are assigned in `in_flight_shares.py`.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec

from headgate.api.declared.keyed_states import declared_state
from headgate.api.declared.operator_state import declared_operator_state
from headgate.api.sink import Sink
from headgate.common.errors import UsageError
from headgate.common.keys.keygroups import key_group_range
from headgate.common.settings.options import IGNORE_UNCLAIMED_STATE
from headgate.common.time import WATERMARK_MIN
from headgate.core.operator_state_shares import redistribute
from headgate.graph.logical import KeyedProcessNode, Node, SinkNode, SourceNode, TimestampsNode
from headgate.graph.physical import PhysicalPlan, Vertex
from headgate.restore.in_flight_shares import check_receivers, old_parallelism
from headgate.restore.restored_keys import check_keys
from headgate.restore.split_watermarks import COUNTS, MARKS
from headgate.state.snapshots import CheckpointMetadata, OperatorStateHandle, OperatorSubtaskState
from headgate.state.state_names import unclaimed

_LOG: Final = logging.getLogger(__name__)

SPLITS, WRITER = "splits", "writer"
"""Names of lists of plain values in a snapshot: a source reader's splits, a sink writer's state."""

Restored = list[tuple[int, int, list[OperatorSubtaskState]]]


def assign_state(
    plan: PhysicalPlan, checkpoint: CheckpointMetadata, *, ignore_unclaimed: bool = False
) -> Restored:
    """Return (vertex id, subtask, its states) for each subtask that gets any stored state of `checkpoint`. A
    subtask gets several states of one operator after a change of the parallelism. Logs what is skipped;
    raises UsageError as :func:`check_compatible`, which explains `ignore_unclaimed`.
    """
    check_compatible(plan, checkpoint, ignore_unclaimed=ignore_unclaimed)
    _report(plan, checkpoint)
    restored: Restored = []
    for vertex in plan.vertices:
        per_subtask: list[list[OperatorSubtaskState]] = [[] for _ in range(vertex.parallelism)]
        for node in vertex.chain:
            old = checkpoint.operators.get(node.uid or "", [])
            if old:
                makes_time = isinstance(node, TimestampsNode)
                shares = share_operator(old, vertex.parallelism, plan.max_parallelism, makes_time)
                for mine, share in zip(per_subtask, shares, strict=True):
                    mine.extend(share)
        restored.extend((vertex.id, index, states) for index, states in enumerate(per_subtask) if states)
    return restored


def check_compatible(
    plan: PhysicalPlan, checkpoint: CheckpointMetadata, *, ignore_unclaimed: bool = False
) -> None:
    """Raise a UsageError if a restore of `checkpoint` into `plan` would lose or misread state or records.

    `ignore_unclaimed`: state that no operator of `plan` claims may be lost, but no records in flight.
    Compared are the number of key groups, uids and names of states, types of keys, and receivers of records
    in flight; serializers are checked where state is read.
    """
    if plan.max_parallelism != checkpoint.max_parallelism:
        raise UsageError(
            f"{called(checkpoint)} has "
            f"{checkpoint.max_parallelism} key groups but the program asks for {plan.max_parallelism}; "
            f"set pipeline.max-parallelism to {checkpoint.max_parallelism}, with a parallelism of at most as "
            "much, or have headgate savepoint reslice make another snapshot of it"
        )
    lost = unclaimed_state(plan, checkpoint)
    if lost and not ignore_unclaimed:
        raise UsageError(
            f"{called(checkpoint)} holds {lost[0]}, or leave it behind with --allow-non-restored-state "
            f"({IGNORE_UNCLAIMED_STATE.key}=true)"
        )
    check_keys(plan, checkpoint, called(checkpoint))
    check_receivers(plan, checkpoint)


def called(checkpoint: CheckpointMetadata) -> str:
    return f"{checkpoint.kind} {checkpoint.checkpoint} of job {checkpoint.job_name!r}"


def unclaimed_state(plan: PhysicalPlan, checkpoint: CheckpointMetadata) -> list[str]:
    """Return a message for each stored state that no operator of `plan` restores: "what it is; how to keep
    it". [] if all of it is claimed. Only state that the metadata names is found; workers check keyed states
    that are named only in a blob's header.
    """
    nodes = {node.known_as: node for vertex in plan.vertices for node in vertex.chain}
    stateful = [uid for uid, states in checkpoint.operators.items() if any(map(_has_state, states))]
    orphans = [uid for uid in stateful if uid not in nodes]
    lost = []
    if orphans:
        lost.append(
            f"state of {_names(orphans)}, but the program has no operator with that uid; "
            "give the operator its old uid back"
        )
    for uid in sorted(stateful):
        if uid in nodes:
            lost += _unclaimed_of(nodes[uid], checkpoint.operators[uid])
    return lost + _unclaimed_ends(nodes, checkpoint)


def _has_state(state: OperatorSubtaskState) -> bool:
    # Splits and writers' state are not counted (`_unclaimed_ends` reports them), nor is event time.
    filled = any(held.count for held in state.operator_state)
    return _has_keyed(state) or filled or any(state.list_state.keys() - {SPLITS, WRITER, MARKS, COUNTS})


def _names(uids: Iterable[str]) -> str:
    return ", ".join(map(repr, sorted(uids)))


def _unclaimed_ends(nodes: Mapping[str, Node], checkpoint: CheckpointMetadata) -> list[str]:
    # Splits of removed sources, and writers' state and prepared output of removed sinks.
    read = sources_in(checkpoint) - {uid for uid, node in nodes.items() if isinstance(node, SourceNode)}
    sinks = {uid: node for uid, node in nodes.items() if isinstance(node, SinkNode)}
    writers = _with_list(checkpoint, WRITER) - sinks.keys()
    prepared = {uid for uid in prepared_in(checkpoint) if uid not in sinks or not publishes(sinks[uid].sink)}
    found = []
    if read:
        found.append(
            f"splits of {_names(read)}, but the program has no source with that uid, so their input would "
            "be read again from the start; give the source its old uid back"
        )
    if writers:
        found.append(
            f"state of the writers of {_names(writers)}, but the program has no sink with that uid; give "
            "the sink its old uid back"
        )
    if prepared:
        found.append(
            f"prepared output of {_names(prepared)}, but the program has no sink with that uid that could "
            "publish it; give the sink its old uid back"
        )
    return found


def sources_in(checkpoint: CheckpointMetadata) -> set[str]:
    """Return the uids of sources that stored unfinished splits, or whose enumerator stored a state."""
    # What an enumerator's state means only its source knows; None is what it begins from anyway.
    enumerated = {uid for uid, state in checkpoint.enumerators.items() if state is not None}
    return enumerated | _with_list(checkpoint, SPLITS)


def prepared_in(checkpoint: CheckpointMetadata) -> set[str]:
    """Return the uids of sinks whose prepared output (committables) a checkpoint holds, committed or not."""
    operators = checkpoint.operators.items()
    return {uid for uid, states in operators if any(state.committables for state in states)}


def publishes(sink: Sink) -> bool:
    return type(sink).create_committer is not Sink.create_committer


def _with_list(checkpoint: CheckpointMetadata, name: str) -> set[str]:
    operators = checkpoint.operators.items()
    return {uid for uid, states in operators if any(state.list_state.get(name) for state in states)}


def _has_keyed(state: OperatorSubtaskState) -> bool:
    return state.keyed is not None and state.keyed.tables != []


def _unclaimed_of(node: Node, states: Sequence[OperatorSubtaskState]) -> list[str]:
    lost, function = [], getattr(node, "function", None)
    if not isinstance(node, KeyedProcessNode) and any(map(_has_keyed, states)):
        lost.append(
            f"keyed state of {node.uid!r}, which is a keyed operator no more; make it one, or give the new "
            "operator another uid"
        )
    tables = {table.name for state in states if state.keyed for table in state.keyed.tables or ()}
    if isinstance(node, KeyedProcessNode) and tables:
        names = unclaimed(dict.fromkeys(tables), declared_state(function))
        if names:
            lost.append(_not_declared("state", names, node))
    stored = {held.name for state in states for held in state.operator_state if held.count}
    names = sorted(stored - declared_operator_state(function).keys())
    return [*lost, _not_declared("operator state", names, node)] if names else lost


def _not_declared(what: str, names: Sequence[str], node: Node) -> str:
    return (
        f"{what} {', '.join(map(repr, names))} of {node.uid!r}, which the operator does not declare any "
        "more; declare it, start without the checkpoint"
    )


def _report(plan: PhysicalPlan, checkpoint: CheckpointMetadata) -> None:
    for what in unclaimed_state(plan, checkpoint):
        _LOG.warning("%s holds %s: it is skipped", called(checkpoint), what.partition("; ")[0])
    for node in (node for vertex in plan.vertices for node in vertex.chain):
        if node.uid not in checkpoint.operators and _keeps_state(node):
            _LOG.info("%s has nothing of operator %r: it starts without state", called(checkpoint), node.uid)


def _keeps_state(node: Node) -> bool:
    function = getattr(node, "function", None)
    keyed = isinstance(node, KeyedProcessNode) and bool(declared_state(function))
    return isinstance(node, SourceNode) or keyed or bool(declared_operator_state(function))


def share_operator(
    old: Sequence[OperatorSubtaskState], parallelism: int, max_parallelism: int, makes_time: bool = False
) -> list[list[OperatorSubtaskState]]:
    """Return, for each of `parallelism` new subtasks of an operator, the stored states that it starts from.

    `old`: the stored state of each old subtask; `max_parallelism`: number of key groups. With `makes_time`
    the operator makes watermarks itself, so an old subtask without one had read nothing and does not count.
    Else watermarks come from upstream, and an old subtask that none had reached holds the new one back. After
    a change of the parallelism a subtask begins at the least watermark, which is in its first state; its
    keyed states say how far each of them had got.
    """
    held = _share_operator_state(old, parallelism)
    if len(old) == parallelism:
        return [
            [msgspec.structs.replace(state, operator_state=mine)]
            for state, mine in zip(old, held, strict=True)
        ]
    states = [state for state in old if not (makes_time and state.watermark == WATERMARK_MIN)]
    mark = _least(state.watermark for state in states)
    firing = _firing_to(states, mark)
    lists = [_share_lists(old, parallelism, index) for index in range(parallelism)]
    shares: list[list[OperatorSubtaskState]] = []
    for index in range(parallelism):
        first, last = key_group_range(max_parallelism, parallelism, index)
        share = [OperatorSubtaskState(old[0].uid, None, lists[index], [], mark, firing, held[index])]
        for state in old:
            keyed = state.keyed
            if keyed is not None and keyed.first_group <= last and first <= keyed.last_group:
                share.append(OperatorSubtaskState(state.uid, keyed, {}, [], state.watermark, firing))
        shares.append(share)
    return shares


def _least(marks: Iterable[int | None]) -> int | None:
    return min((mark for mark in marks if mark is not None), default=None)


def _firing_to(old: Sequence[OperatorSubtaskState], mark: int | None) -> int | None:
    # The event time up to which every old subtask had fired timers, or was about to; None: not beyond `mark`.
    least = _least(s.watermark if s.firing_to is None else s.firing_to for s in old)
    if least is None or (mark is not None and least <= mark):
        return None
    return least


def _share_operator_state(
    old: Sequence[OperatorSubtaskState], parallelism: int
) -> list[list[OperatorStateHandle]]:
    new = redistribute([state.operator_state for state in old], parallelism)
    return [
        [msgspec.structs.replace(share.held, first=share.first, stop=share.stop) for share in mine]
        for mine in new
    ]


def _share_lists(old: Sequence[OperatorSubtaskState], parallelism: int, index: int) -> dict[str, list[Any]]:
    return {
        name: [entry for state in old for entry in state.list_state.get(name, [])][index::parallelism]
        for name in sorted({name for state in old for name in state.list_state})
    }


def assign_finished(plan: PhysicalPlan, checkpoint: CheckpointMetadata) -> set[tuple[int, int]]:
    """Return (vertex id, subtask) of the subtasks that had processed all their input and do not run again. A
    chain is finished where all its operators are. When all old subtasks of an operator were finished, so are
    all new ones, whatever their number. When only some were and the parallelism changed, the work of the
    unfinished ones is shared out anew, and none counts as finished.
    """
    before = old_parallelism(checkpoint)
    finished: set[tuple[int, int]] = set()
    for vertex in plan.vertices:
        subtasks = set(range(vertex.parallelism))
        for node in vertex.chain:
            subtasks &= _finished_copies(vertex, node.uid or "", checkpoint, before)
        finished.update((vertex.id, subtask) for subtask in subtasks)
    return finished


def _finished_copies(
    vertex: Vertex, uid: str, checkpoint: CheckpointMetadata, before: Mapping[str, int]
) -> set[int]:
    listed = set(checkpoint.finished.get(uid, ()))
    # Without the old parallelism it is unknown whether these are all; running again does no harm.
    old = before.get(uid)
    if old is None:
        return set()
    if listed == set(range(old)):
        return set(range(vertex.parallelism))
    return listed if old == vertex.parallelism else set()


def without_committables(states: Sequence[OperatorSubtaskState]) -> list[OperatorSubtaskState]:
    return [msgspec.structs.replace(state, committables=[]) for state in states]
