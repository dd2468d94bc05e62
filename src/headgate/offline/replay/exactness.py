"""Names the reasons why a replay may differ from the run that it repeats, although nothing is wrong."""

from __future__ import annotations

from collections.abc import Iterator

from headgate.api.declared.held_names import RECORDS
from headgate.api.declared.keyed_states import declared_state
from headgate.common.time import WATERMARK_MAX
from headgate.graph.async_nodes import AsyncNode
from headgate.graph.logical import KeyedProcessNode, Node, TimestampsNode
from headgate.graph.partitioners import Rebalance
from headgate.graph.table_nodes import WindowAggregateNode
from headgate.offline.keyed_verdicts import targets_of
from headgate.offline.replay.cutting import Cut, held_back, operator_state
from headgate.offline.replay.running import Replay
from headgate.offline.replay.tap import IN_FLIGHT, Tap
from headgate.restore.in_flight_shares import records_of
from headgate.state.snapshots import CheckpointMetadata


def reasons(
    cut: Cut, begins: CheckpointMetadata, until: CheckpointMetadata | None, replay: Replay, tap: Tap
) -> list[str]:
    """Return a sentence for each thing that no snapshot records and that mattered to this key; [] if none."""
    found = [*_of_order(cut, tap), *_of_plan(cut), *_of_time(cut, replay, tap), *_of_splits(cut, replay)]
    if until is not None:
        found += _of_snapshots(cut, begins, until)
    return found


def _of_order(cut: Cut, tap: Tap) -> Iterator[str]:
    senders = sorted(tap.senders - {IN_FLIGHT})
    if len(senders) > 1:
        yield (
            f"records of the key came from {len(senders)} senders ({', '.join(senders)}), and in which order "
            "they came between each other is not recorded"
        )
    elif tap.timed and cut.channels(cut.vertex) > 1:
        yield (
            f"event time comes from {cut.channels(cut.vertex)} senders, and whether a timer fired before "
            "or after a record of another sender is not recorded"
        )
    for vertex in cut.plan.vertices[:-1]:
        if cut.channels(vertex) > 1:
            yield f"{vertex.name!r} gets records from several senders, whose order is not recorded"


def _of_plan(cut: Cut) -> Iterator[str]:
    for edge in cut.plan.edges:
        target = cut.plan.vertices[edge.target]
        if isinstance(edge.partitioner, Rebalance) and target.parallelism > 1:
            yield f"which subtask of {target.name!r} got which records is not recorded"
    if getattr(getattr(cut.node, "aggregation", None), "distinct", None):
        yield "different values of a group are stored in an order that depends on batches"
    if any(isinstance(node, WindowAggregateNode) and _has_floats(node) for node in _nodes(cut)):
        yield "sums of floating-point numbers depend on how rows came together in batches"
    for node in _nodes(cut):
        if isinstance(node, AsyncNode) or node.blocking:
            yield f"{node.name!r} calls something outside of the job, which may answer otherwise"


def _nodes(cut: Cut) -> Iterator[Node]:
    return (node for vertex in cut.plan.vertices for node in vertex.chain)


def _of_time(cut: Cut, replay: Replay, tap: Tap) -> Iterator[str]:
    states = declared_state(cut.node.function)
    if kept := [name for name, state in states.items() if state.ttl is not None]:
        yield (
            f"entries of {_some(kept)} whose time to live is over are removed at moments that depend on the "
            "clock and on other keys"
        )
    if getattr(getattr(cut.node, "aggregation", None), "window", None) is not None and _by_clock(cut.node):
        yield "the windows are those of the wall clock, whose readings are not recorded"
    if any(cut.channels(vertex) > 1 for vertex in cut.plan.vertices) and any(map(_may_be_idle, _nodes(cut))):
        yield "when a source counted as idle depends on the wall clock"
    if not replay.barriers_are_marks and any(source.marked for source in cut.sources.values()):
        yield "rows of corrected tables are settled at marks, which the wall clock begins"
    for name in replay.by_clock:
        yield f"{name!r} reads the wall clock or has timers by it, and neither is recorded"
    if tap.wall_timers:
        yield "timers of processing time fired at moments that are not recorded"
    if _holds(tap):
        yield "records of the key are held with the time of the wall clock, which is not recorded"
    if tap.clock_read:
        yield "the function reads the wall clock, whose readings are not recorded"


def _holds(tap: Tap) -> bool:
    changes = (change for step in tap.steps for change in step.changes)
    return any(change.state.startswith(f"{RECORDS}[") and change.after is not None for change in changes)


def _has_floats(node: KeyedProcessNode) -> bool:
    targets = targets_of(declared_state(node.function))
    return any("float" in str(target.schema) for target in targets.values())


def _by_clock(node: Node) -> bool:
    return bool(getattr(node, "aggregation").window.clock == "processing")  # noqa: B009 - of tables only


def _may_be_idle(node: Node) -> bool:
    return isinstance(node, TimestampsNode) and node.strategy.idleness_ms is not None


def _of_splits(cut: Cut, replay: Replay) -> Iterator[str]:
    for vertex, dealer in replay.dealers.items():
        if dealer.guessed:
            uid = cut.sources[vertex].uid
            yield (
                f"which reader of source {uid!r} read {_some(dealer.guessed)} is not recorded, since they "
                "were given out and read to their ends between the two snapshots"
            )


def _some(names: list[str]) -> str:
    more = f" and {len(names) - 3} more splits" if len(names) > 3 else ""
    return ", ".join(map(repr, names[:3])) + more


def _source_uids(cut: Cut) -> list[str]:
    return [node.uid or "" for node in cut.sources.values()]


def _of_snapshots(cut: Cut, begins: CheckpointMetadata, until: CheckpointMetadata) -> Iterator[str]:
    overtaken = sum(map(records_of, cut.of_snapshot(until).in_flight)) - held_back(cut, until)
    if overtaken:
        yield (
            f"{overtaken} records were in flight when the snapshot of --to was taken, which the replay has "
            "processed and the snapshot has not"
        )
    state = operator_state(cut, until)
    drained = state is not None and state.watermark == WATERMARK_MAX
    if drained and len(cut.plan.vertices) > 2 and not all(map(until.finished.get, _source_uids(cut))):
        yield "the snapshot of --to was taken after event time had been moved to its end, upstream as well"
    if state is not None and state.firing_to is not None:
        yield "the snapshot of --to was taken while due timers were firing, and the replay has fired all"
    upstream = cut.uids - {cut.node.uid}
    other = [uid for uid in upstream if begins.parallelism.get(uid) != until.parallelism.get(uid)]
    if other and until.checkpoint != begins.checkpoint + 1:
        yield "the job was rescaled between the two snapshots, and at which record is not recorded"
