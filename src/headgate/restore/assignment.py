"""Which state of a completed checkpoint each subtask of today starts from.

Keyed state goes by key-group range, operator state by `core.operator_state_shares`. Lists of splits are
shared out round-robin when the parallelism changed, and event time becomes the least of the old subtasks'.
State is matched by uid and never dropped silently: only if the user allows it, and then the log says what.
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
from headgate.restore.split_watermarks import MARKS
from headgate.state.snapshots import CheckpointMetadata, OperatorStateHandle, OperatorSubtaskState
from headgate.state.state_names import unclaimed

_LOG: Final = logging.getLogger(__name__)

SPLITS, WRITER = "splits", "writer"
"""The lists of plain values that sources and sinks keep."""

Restored = list[tuple[int, int, list[OperatorSubtaskState]]]


def assign_state(
    plan: PhysicalPlan, checkpoint: CheckpointMetadata, *, ignore_unclaimed: bool = False
) -> Restored:
    """Return (vertex, subtask, states) for every subtask that has any."""
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
    """Refuse what cannot be restored without losing or misreading state."""
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
    """Return the name of a checkpoint in messages."""
    return f"{checkpoint.kind} {checkpoint.checkpoint} of job {checkpoint.job_name!r}"


def unclaimed_state(plan: PhysicalPlan, checkpoint: CheckpointMetadata) -> list[str]:
    """Say in a sentence each what a restore would lose, and what keeps it.

    The workers find keyed states within a blob or in native files, which metadata does not name.
    """
    nodes = {node.uid or f"node-{node.id}": node for vertex in plan.vertices for node in vertex.chain}
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
    """Return whether something would be lost without it.

    A clock alone starts anew, ends have their own messages.
    """
    filled = any(held.count for held in state.operator_state)
    return _has_keyed(state) or filled or any(state.list_state.keys() - {SPLITS, WRITER, MARKS})


def _names(uids: Iterable[str]) -> str:
    return ", ".join(map(repr, sorted(uids)))


def _unclaimed_ends(nodes: Mapping[str, Node], checkpoint: CheckpointMetadata) -> list[str]:
    """Return the unread rest of removed sources and the unpublished output of removed sinks, in words."""
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
    """Return the uids of the sources whose splits it holds, in readers or enumerators; all may be read."""
    # What an enumerator's state means only its source knows; None is what it begins from anyway.
    enumerated = {uid for uid, state in checkpoint.enumerators.items() if state is not None}
    return enumerated | _with_list(checkpoint, SPLITS)


def prepared_in(checkpoint: CheckpointMetadata) -> set[str]:
    """Return the uids of the sinks whose output it holds, which may not be published yet."""
    operators = checkpoint.operators.items()
    return {uid for uid, states in operators if any(state.committables for state in states)}


def publishes(sink: Sink) -> bool:
    """Return whether a sink publishes what a checkpoint holds as prepared output."""
    return type(sink).create_committer is not Sink.create_committer


def _with_list(checkpoint: CheckpointMetadata, name: str) -> set[str]:
    operators = checkpoint.operators.items()
    return {uid for uid, states in operators if any(state.list_state.get(name) for state in states)}


def _has_keyed(state: OperatorSubtaskState) -> bool:
    return state.keyed is not None and state.keyed.tables != []


def _unclaimed_of(node: Node, states: Sequence[OperatorSubtaskState]) -> list[str]:
    """Return, in words, the stored state of an operator that it does not declare any more."""
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
    """Log what is skipped, and which operators begin without state."""
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
    """Return the states of one operator for each of `parallelism` subtasks, from those of the `old` subtasks.

    With `makes_time` each subtask makes event time of what it has read itself, and one that has read nothing
    does not count. Else time comes from upstream, and a subtask that it has not reached yet holds it back.
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
                share.append(OperatorSubtaskState(state.uid, keyed, {}, [], mark, firing))
        shares.append(share)
    return shares


def _least(marks: Iterable[int | None]) -> int | None:
    return min((mark for mark in marks if mark is not None), default=None)


def _firing_to(old: Sequence[OperatorSubtaskState], mark: int | None) -> int | None:
    """Return how far timers may fire at once: to where every old subtask has been, or was about to go."""
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
    """Return (vertex, subtask) of those that had processed all their input and do not run again.

    A chain is finished where all its operators are. When all copies of an operator were finished, so
    are all of today, whatever their number. When only some were and the parallelism changed, the others' work
    is shared out anew, and none counts as finished.
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
    """Return the states without committables, for workers: the job master commits what was prepared."""
    return [msgspec.structs.replace(state, committables=[]) for state in states]
