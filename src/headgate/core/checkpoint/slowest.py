"""The path of a checkpoint's slowest barrier from source to sink, and in words why it was slow.

The critical time is divided without gaps: a barrier reaches a subtask, has come there on all
channels, is passed on while the loop pauses, and so to the next; at the last subtask the snapshot is
written and acknowledged, then the checkpoint is stored and the sinks are committed.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from headgate.core.checkpoint.failures import CheckpointFailureReason
from headgate.core.checkpoint.history import CheckpointRecord, CheckpointStatus, EdgeFacts, SubtaskRecord

QUICK_MS: Final = 100  # a checkpoint that took less needs no advice
FORWARD: Final = "Forward"  # the partitioner by which subtask i sends to subtask i only

_Task = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Hop:
    """One subtask on the path of the slowest barrier, with the time that passed there.

    `alignment_ms` counts from the first barrier here, or from when the hop before sent its barrier if that
    was later, to the last barrier. `other_ms`, set on the last hop only, includes the time that a barrier
    waited in the input queue between its arrival and its turn.
    """

    vertex: int
    subtask: int
    label: str  # "'uid'[subtask]"
    travel_ms: float = 0.0  # from the hop before, or the trigger, to the first barrier here
    alignment_ms: float = 0.0
    sync_ms: float = 0.0  # the loop's pause, as far as barrier or acknowledgement waited for it
    async_ms: float = 0.0  # writing, on the last hop only: elsewhere the barrier does not wait for it
    other_ms: float = 0.0  # on the last hop, the rest until the job master had the acknowledgement
    missing: bool = False  # it has not acknowledged: nothing is known of its times
    unaligned: bool = False  # the barrier overtook records here


@dataclass(frozen=True, slots=True)
class SlowestPath:
    """The path of a checkpoint's slowest barrier, the time spent at each step, and the main cause of it."""

    hops: tuple[Hop, ...]  # from a source downstream; empty when there is no task
    storing_ms: float  # from the last acknowledgement until the log held the checkpoint
    committing_ms: float  # from then until the sinks were committed
    why: str  # the dominant cause in one sentence, with what to do about it


def slowest_path(record: CheckpointRecord) -> SlowestPath:
    """Return path, times and cause of the barrier to the last acknowledging or most downstream missing task.

    Example:
        >>> from headgate.core.checkpoint.history import Topology, VertexFacts
        >>> graph = Topology((VertexFacts(0, "In", ("in",), 1),), ())
        >>> quick = SubtaskRecord(0, 0, ack_latency_ms=900, async_ms=880.0, bytes_written=5_000_000)
        >>> record = CheckpointRecord(
        ...     7, 1, "periodic", CheckpointStatus.COMPLETED, 0, graph, 910, 905, (quick,)
        ... )
        >>> slowest_path(record).why
        "writing 5.0 MB of state of 'in'[0] took 880 ms (async); faster checkpoint storage, more subtasks \
or less state would help"
    """
    hops = _hops(record, _tasks_of_path(record))
    last = record.last_acknowledged
    storing = committing = 0.0
    if record.stored_ms is not None:
        storing = max(0.0, record.stored_ms - (0 if last is None else last.ack_latency_ms))
        committing = max(0.0, record.duration_ms - record.stored_ms)
    return SlowestPath(hops, storing, committing, _why(record, hops, storing, committing))


def span(ms: float) -> str:
    """Return a duration of `ms` milliseconds as a text for people.

    Example:
        >>> span(0.4), span(900), span(4210), span(125_000)
        ('0.4 ms', '900 ms', '4.2 s', '2 min 5 s')
    """
    if ms < 10:
        return f"{ms:.1f} ms" if ms >= 0.05 else "0 ms"
    if ms < 1000:
        return f"{ms:.0f} ms"
    if ms < 60_000:
        return f"{ms / 1000:.1f} s"
    minutes, seconds = divmod(round(ms / 1000), 60)
    return f"{minutes} min {seconds} s"


def amount(size: int) -> str:
    """Return a number of bytes as a text for people.

    Example:
        >>> amount(999), amount(1_200_000_000)
        ('999 B', '1.2 GB')
    """
    value, unit = float(size), "B"
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if value < 1000 or unit == "TB":
            break
        value /= 1000
    return f"{size} B" if unit == "B" else f"{value:.1f} {unit}"


# -- the path ------------------------------------------------------------------------------------


def _tasks_of_path(record: CheckpointRecord) -> list[_Task]:
    task = _end(record)
    path: list[_Task] = []
    # A foreign file could describe a circle; a path visits no vertex twice.
    while task is not None and all(task[0] != vertex for vertex, _ in path):
        path.append(task)
        task = _upstream(record, task)
    return path[::-1]


def _end(record: CheckpointRecord) -> _Task | None:
    if record.missing:
        # Of several copies the first is as good as any.
        return max(record.missing, key=lambda task: (task[0], -task[1]))
    last = record.last_acknowledged
    return None if last is None else last.task


def _upstream(record: CheckpointRecord, task: _Task) -> _Task | None:
    # The sender whose barrier came last: as the task reported, or else the one that had it last itself.
    candidates = [
        sender for edge in record.topology.inputs(task[0]) for sender in _senders(record, edge, task)
    ]
    mine = record.subtask(task)
    named = (
        [] if mine is None else [task for task in candidates if mine.slowest_channel in _names(record, task)]
    )
    # One that has not acknowledged can wait for another that has not; then that is the cause.
    waiting = [sender for sender in candidates if mine is None and sender in record.missing]
    if named or waiting:
        return (named or waiting)[0]
    known = [seen for sender in candidates if (seen := record.subtask(sender)) is not None]
    latest = max(known, key=lambda seen: _taken_ms(seen) + seen.sync_ms, default=None)
    return latest.task if latest is not None else next(iter(candidates), None)


def _senders(record: CheckpointRecord, edge: EdgeFacts, task: _Task) -> list[_Task]:
    if edge.partitioner == FORWARD:
        return [(edge.source, task[1])]
    return [(edge.source, subtask) for subtask in range(record.topology.vertex(edge.source).parallelism)]


def _names(record: CheckpointRecord, task: _Task) -> list[str]:
    # Every name that `slowest_channel` may give to a channel from `task`: one per operator.
    return [f"{uid}[{task[1]}]" for uid in record.topology.vertex(task[0]).uids]


def _hops(record: CheckpointRecord, tasks: list[_Task]) -> tuple[Hop, ...]:
    hops: list[Hop] = []
    before_ms = 0.0
    for number, task in enumerate(tasks):
        seen = record.subtask(task)
        if seen is None:
            hops.append(Hop(*task, label=record.topology.label(task), missing=True))
            continue
        following = record.subtask(tasks[number + 1]) if task != tasks[-1] else None
        if task == tasks[-1]:
            hops.append(_last_hop(record, seen, before_ms))
        else:
            hops.append(_hop(record, seen, before_ms, _pause_ms(seen, following)))
        before_ms = _taken_ms(seen) + hops[-1].sync_ms
    return tuple(hops)


def _pause_ms(seen: SubtaskRecord, following: SubtaskRecord | None) -> float:
    # The barrier leaves before the pause; it stays until after it only where the next subtask runs on the
    # same loop, or the frame had no time to leave.
    if following is None:
        return seen.sync_ms
    arrived_ms = following.start_delay_ms + following.alignment_ms
    return min(seen.sync_ms, max(0.0, arrived_ms - _taken_ms(seen)))


def _taken_ms(seen: SubtaskRecord) -> float:
    # From the trigger to the subtask's snapshot, which is at its last barrier, or its first if unaligned.
    return seen.start_delay_ms + (0.0 if seen.unaligned else seen.alignment_ms)


def _hop(record: CheckpointRecord, seen: SubtaskRecord, before_ms: float, pause_ms: float) -> Hop:
    # `before_ms`: when the one before let the barrier go. Clocks of two machines differ a little, so no part
    # is taken for less than nothing.
    waited_ms = _taken_ms(seen) - max(seen.start_delay_ms, before_ms)
    return Hop(
        seen.vertex,
        seen.subtask,
        record.topology.label(seen.task),
        travel_ms=max(0.0, seen.start_delay_ms - before_ms),
        alignment_ms=max(0.0, waited_ms),
        sync_ms=pause_ms,
        unaligned=seen.unaligned,
    )


def _last_hop(record: CheckpointRecord, seen: SubtaskRecord, before_ms: float) -> Hop:
    ready_ms, writing_ms = _taken_ms(seen) + seen.sync_ms, seen.async_ms
    hop = _hop(record, seen, before_ms, seen.sync_ms)
    if seen.unaligned:
        # It wrote while the other barriers were on their way; what came of it after them is on the path.
        came_everywhere_ms = seen.start_delay_ms + seen.alignment_ms
        waited_ms = came_everywhere_ms - max(ready_ms, before_ms)
        hop = replace(hop, alignment_ms=max(0.0, waited_ms))
        ready_ms = max(came_everywhere_ms, ready_ms)
        writing_ms = min(writing_ms, max(0.0, seen.ack_latency_ms - ready_ms))
    other_ms = max(0.0, seen.ack_latency_ms - ready_ms - writing_ms)
    return replace(hop, async_ms=writing_ms, other_ms=other_ms)


class _Cause(NamedTuple):
    ms: float
    part: str
    sentence: str  # with advice


# -- the cause -----------------------------------------------------------------------------------


def _why(record: CheckpointRecord, hops: tuple[Hop, ...], storing_ms: float, committing_ms: float) -> str:
    failed = record.status is CheckpointStatus.FAILED
    if failed and record.reason != CheckpointFailureReason.CHECKPOINT_EXPIRED.name:
        return record.reason_text + (f": {record.detail}" if record.detail else "")
    if not hops:
        return "no task took part in it"
    if any(hop.missing for hop in hops):
        return _why_missing(record, hops)
    causes = [
        cause for i, hop in enumerate(hops) for cause in _causes(record, hop, hops[i - 1] if i else None)
    ]
    stored = f"writing metadata and log took {span(storing_ms)}: look at the checkpoint storage"
    committed = f"committing the sinks took {span(committing_ms)}: look at the system they write to"
    causes += [
        _Cause(storing_ms, "storing it", stored),
        _Cause(committing_ms, "committing the sinks", committed),
    ]
    longest = max(causes, key=lambda cause: cause.ms)
    if record.duration_ms < QUICK_MS:
        took, part = span(record.duration_ms), span(longest.ms)
        return f"it was quick: {took} in all, of which the longest part was {longest.part}, {part}"
    return longest.sentence


def _causes(record: CheckpointRecord, hop: Hop, before: Hop | None) -> list[_Cause]:
    paused = (
        f"the snapshot paused the loop of {hop.label} for {span(hop.sync_ms)} (sync); fewer keys per "
        "subtask, or a sink writer that has less to prepare at once, would shorten it"
    )
    written = (
        f"writing {_written(record, hop)} of {hop.label} took {span(hop.async_ms)} (async); faster "
        "checkpoint storage, more subtasks or less state would help"
    )
    before_that = "" if hop.unaligned else "the barrier stood in its input behind records (backpressure), "
    other = (
        f"{span(hop.other_ms)} passed between the first sign of the barrier at {hop.label} and its "
        f"acknowledgement that neither alignment nor the snapshot explains: {before_that}other snapshots of "
        "the same worker were written first, or a loop was busy"
    )
    way = f"the trigger's way to {hop.label}" if before is None else f"the barrier's way to {hop.label}"
    return [
        _Cause(hop.travel_ms, way, _travel_sentence(hop, before)),
        _Cause(hop.alignment_ms, f"alignment at {hop.label}", _alignment_sentence(hop, before)),
        _Cause(hop.sync_ms, f"the pause of {hop.label} (sync)", paused),
        _Cause(hop.async_ms, f"the writing of {hop.label} (async)", written),
        _Cause(hop.other_ms, f"the acknowledgement of {hop.label}", other),
    ]


def _alignment_sentence(hop: Hop, before: Hop | None) -> str:
    sender = "its slowest sender" if before is None else before.label
    waited = f"alignment: {hop.label} waited {span(hop.alignment_ms)} for the barrier of {sender}"
    if hop.unaligned:
        return f"{waited}, which no records hold up; see what keeps the loop of the sender busy"
    return (
        f"{waited}: more records were queued on that channel than on others (skew, or a slow sender); "
        "unaligned checkpoints would not wait for them"
    )


def _travel_sentence(hop: Hop, before: Hop | None) -> str:
    took = span(hop.travel_ms)
    if before is None:
        return (
            f"the trigger waited {took} until the loop of source {hop.label} took it: its output was blocked "
            "(backpressure from downstream), or one step of user code took that long"
        )
    if hop.unaligned:
        return (
            f"the barrier took {took} to reach {hop.label} although it may overtake records: one step of "
            "its loop, or of its sender's, takes that long, so look for slow calls in user code; below a "
            "broadcast it waits for the frames of records that were begun, too, so make them smaller"
        )
    return (
        f"the barrier took {took} to pass the records queued before {hop.label} (backpressure: it is "
        "the bottleneck, or what follows it); unaligned checkpoints would let it overtake them"
    )


def _written(record: CheckpointRecord, hop: Hop) -> str:
    seen = record.subtask((hop.vertex, hop.subtask))
    size = 0 if seen is None else seen.bytes_written
    persisted = 0 if seen is None else seen.bytes_persisted
    if persisted > size - persisted:
        return f"{amount(max(size, persisted))}, mostly records in flight,"
    return f"{amount(size)} of state" if size else "the state"


# -- those that did not acknowledge --------------------------------------------------------------


def _why_missing(record: CheckpointRecord, hops: tuple[Hop, ...]) -> str:
    # The first hop that is missing holds up all that follow.
    number = next(i for i, hop in enumerate(hops) if hop.missing)
    hop = hops[number]
    pending = record.status is CheckpointStatus.IN_PROGRESS
    waited = span(record.duration_ms)
    fact = f"{hop.label} has not acknowledged for {waited}" if pending else f"{hop.label} never acknowledged"
    still = [loop.still_ms for loop in record.stuck if loop.slot == hop.subtask]
    if still:
        return (
            f"{fact}: its worker is blocked in user code (step of {span(max(still))}); a barrier is taken "
            "only between two steps, so that call must return or be made shorter"
        )
    within = "" if pending else f" within {waited}"
    if _must_have_passed_on(record, hop):
        return (
            f"{fact}{within}, although its barrier came through to those downstream: its snapshot is still "
            "being written (async), so look at the checkpoint storage and the size of its state"
        )
    if number == 0:
        return (
            f"{fact}{within}: its output is blocked (backpressure from downstream), a call of the source "
            "does not return, or its snapshot is still being written"
        )
    before = hops[number - 1]
    seen = record.subtask((before.vertex, before.subtask))
    passed = "" if seen is None else f" after {span(_taken_ms(seen))}"
    return (
        f"{fact}{within}, although {before.label} passed the barrier on{passed}: the barrier is still queued "
        "behind records there (backpressure; unaligned checkpoints would let it overtake them), a call of "
        "user code does not return, or its snapshot is still being written"
    )


def _must_have_passed_on(record: CheckpointRecord, hop: Hop) -> bool:
    # A receiver of this subtask has acknowledged, so the subtask has sent its barrier on.
    edges = [edge for edge in record.topology.edges if edge.source == hop.vertex]
    return any(
        seen.vertex == edge.target and (edge.partitioner != FORWARD or seen.subtask == hop.subtask)
        for edge in edges
        for seen in record.subtasks
    )
