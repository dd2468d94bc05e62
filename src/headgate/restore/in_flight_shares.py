"""Assigns the records in flight of an unaligned checkpoint to subtasks of the restored job; reads none.

A stream holds one channel's records. Keyed ones go to the subtasks that get their key groups. Others stay
with their subtask while their receiver's parallelism does; else they follow a forward exchange in one piece,
or are dealt out by batches. Empty ones carry watermarks: no subtask may be ahead of the slowest channel.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import msgspec

from headgate.common.errors import UsageError
from headgate.common.ids import VertexId
from headgate.common.keys.keygroups import key_group_range
from headgate.common.time import WATERMARK_MIN
from headgate.graph.logical import KeyedProcessNode, Node
from headgate.graph.partitioners import Broadcast, Forward, Partitioner
from headgate.graph.physical import PhysicalPlan
from headgate.state.snapshots import CheckpointMetadata, InFlightShare, InFlightStream

SEVERAL, SEVERAL_CONTINUED = -1, -2
"""`sender_subtask` of an empty stream that stands for several senders: it begins with their least watermark;
or, continued, with the event time at which their streams of the level below end.
"""

Taken = list[list[InFlightShare]]
"""For each new subtask of a receiver, by its index: the shares of streams in flight that it takes over."""


def assign_in_flight(
    plan: PhysicalPlan, checkpoint: CheckpointMetadata
) -> list[tuple[VertexId, int, list[InFlightShare]]]:
    """Return (vertex id, subtask, shares of streams) for every subtask that takes over records in flight. A
    stream is what was in flight on one channel; an empty one only carries a watermark. A share is the part of
    a stream's records that one subtask processes before all others: all, those of some key groups, or every
    n-th batch. Raises UsageError if `plan` lacks a receiver of records, or would route them by another rule
    (by key or not, or to all).
    """
    check_receivers(plan, checkpoint)
    nodes = _places(plan)
    planner = _Planner(plan, nodes, old_parallelism(checkpoint))
    taken: dict[VertexId, Taken] = {}
    for link in _links(checkpoint.in_flight):
        place = nodes.get(link[0].receiver)
        if place is None:
            continue  # empty, or it would have been refused
        mine = taken.setdefault(place.vertex, [[] for _ in range(place.parallelism)])
        for shares, more in zip(mine, planner.share(place, link), strict=True):
            shares += more
    return [
        (vertex.id, subtask, shares)
        for vertex in plan.vertices
        for subtask, shares in enumerate(taken.get(vertex.id, []))
        if shares
    ]


def check_receivers(plan: PhysicalPlan, checkpoint: CheckpointMetadata) -> None:
    """Raise a UsageError if `plan` has no operator with a uid to which records in flight were sent. Streams
    without records are no reason, and a savepoint has none in flight.
    """
    known = {node.uid for vertex in plan.vertices for node in vertex.chain}
    orphans: dict[str, int] = {}
    for stream in checkpoint.in_flight:
        if stream.receiver not in known and (count := records_of(stream)):
            orphans[stream.receiver] = orphans.get(stream.receiver, 0) + count
    if orphans:
        listed = ", ".join(f"{count} for {uid!r}" for uid, count in sorted(orphans.items()))
        raise UsageError(
            f"checkpoint {checkpoint.checkpoint} of job {checkpoint.job_name!r} holds records in flight "
            f"({listed}), but the program has no operator with that uid; give the operator its old uid back, "
            "or restore with the old program and stop it with a savepoint, which has nothing in flight"
        )


def old_parallelism(checkpoint: CheckpointMetadata) -> dict[str, int]:
    """Return operator uid -> number of subtasks at the checkpoint, for the operators that it names.

    Operators without state may be known only as sender or receiver of streams, which exist for every channel.
    """
    found: dict[str, int] = {}
    for stream in checkpoint.in_flight:
        found[stream.receiver] = max(found.get(stream.receiver, 0), stream.receiver_subtask + 1)
        if not stream.former:
            found[stream.sender] = max(found.get(stream.sender, 0), stream.sender_subtask + 1)
    return {**found, **checkpoint.parallelism}


def records_of(stream: InFlightStream) -> int:
    return sum(part.records for part in stream.parts)


class _Place(NamedTuple):
    """Where an operator runs in the new plan: its vertex, its position in the chain, its parallelism."""

    vertex: VertexId
    position: int  # in the chain of the vertex
    node: Node
    parallelism: int


def _places(plan: PhysicalPlan) -> dict[str | None, _Place]:
    return {
        node.uid: _Place(vertex.id, position, node, vertex.parallelism)
        for vertex in plan.vertices
        for position, node in enumerate(vertex.chain)
    }


def _links(streams: Sequence[InFlightStream]) -> Iterator[list[InFlightStream]]:
    links: dict[tuple[str, str, str], list[InFlightStream]] = {}
    for stream in _aligned(streams):
        # A tag is never empty, so the main output can stand as "".
        links.setdefault((stream.receiver, stream.sender, stream.tag or ""), []).append(stream)
    for name in sorted(links):
        yield sorted(links[name], key=_order)


def _order(stream: InFlightStream) -> tuple[int, int, int, int, bool, bool]:
    ends = (stream.receiver_subtask, stream.sender_subtask, stream.lineage)
    return (stream.level, *ends, stream.former, stream.from_output)


def _aligned(streams: Sequence[InFlightStream]) -> list[InFlightStream]:
    # Each subtask counts its levels (their order, lowest first) from its own oldest records. The newest
    # records are in the top level of each, so levels are aligned there. A sender does not know how many
    # levels the receiver has: what it held back belongs to the top level. The lowest has no level below whose
    # end could be its first watermark.
    bottoms: dict[tuple[str, int], int] = {}
    tops: dict[tuple[str, int], int] = {}
    for stream in streams:
        if not stream.from_output:
            at = (stream.receiver, stream.receiver_subtask)
            bottoms[at] = min(bottoms.get(at, stream.level), stream.level)
            tops[at] = max(tops.get(at, 0), stream.level)
    highest: dict[str, int] = {}
    for (receiver, _), top in tops.items():
        highest[receiver] = max(highest.get(receiver, 0), top)
    aligned: list[InFlightStream] = []
    for stream in streams:
        at, top = (stream.receiver, stream.receiver_subtask), highest.get(stream.receiver, 0)
        level, watermark = top, stream.watermark
        if not stream.from_output:
            level += stream.level - tops[at]
            if watermark is None and stream.level == bottoms[at]:
                watermark = WATERMARK_MIN
        aligned.append(msgspec.structs.replace(stream, level=level, watermark=watermark))
    return aligned


class _Planner:
    """Shares out the streams in flight among the subtasks of their receivers, one link after another."""

    def __init__(
        self, plan: PhysicalPlan, places: Mapping[str | None, _Place], before: Mapping[str, int]
    ) -> None:
        self._plan, self._places, self._before = plan, places, before
        self._dealt = 0

    def share(self, place: _Place, link: Sequence[InFlightStream]) -> Taken:
        first = link[0]
        partitioner = self._partitioner(place, first.sender, first.tag)
        _check_link(place.node, partitioner, link)
        old, new = self._before[first.receiver], place.parallelism
        streams = self._marked_former(link)
        if isinstance(place.node, KeyedProcessNode):
            return self._by_key(streams, old, new)
        taken: Taken = [[] for _ in range(new)]
        for stream in streams:
            if old == new:
                taken[stream.receiver_subtask].append(InFlightShare(stream))
            elif isinstance(partitioner, Forward):
                taken[stream.receiver_subtask * new // old].append(InFlightShare(stream))
            else:
                self._deal(stream, taken)
        if old != new or not isinstance(partitioner, Forward):
            _hold_back(taken, streams)
        return taken

    def _partitioner(self, place: _Place, sender: str, tag: str | None) -> Partitioner | None:
        vertex = self._plan.vertices[place.vertex]
        if place.position:
            chained = tag is None and vertex.chain[place.position - 1].uid == sender
            return Forward() if chained else None
        found = [
            edge.partitioner
            for edge in self._plan.inputs(vertex.id)
            if self._plan.vertices[edge.source].chain[edge.operator].uid == sender and edge.tag == tag
        ]
        # Of several, none of what is in flight came by the broadcast: nothing overtakes there.
        found.sort(key=lambda partitioner: isinstance(partitioner, Broadcast))
        return found[0] if found else None

    def _marked_former(self, link: Sequence[InFlightStream]) -> list[InFlightStream]:
        # `former`: the sender was removed or has another parallelism now.
        place = self._places.get(link[0].sender)
        if place is not None and self._before.get(link[0].sender) == place.parallelism:
            return list(link)
        return [msgspec.structs.replace(stream, former=True) for stream in link]

    def _by_key(self, streams: Iterable[InFlightStream], old: int, new: int) -> Taken:
        groups = self._plan.max_parallelism
        ranges = [key_group_range(groups, new, subtask) for subtask in range(new)]
        taken: Taken = [[] for _ in range(new)]
        for stream in streams:
            low, high = key_group_range(groups, old, stream.receiver_subtask)
            for shares, (first, last) in zip(taken, ranges, strict=True):
                if first <= high and low <= last:
                    shares.append(InFlightShare(stream, first, last))
        return taken

    def _deal(self, stream: InFlightStream, taken: Taken) -> None:
        # Every stream begins with another subtask, or the first ones would get all the short streams.
        for subtask, shares in enumerate(taken):
            turn = (subtask + self._dealt) % len(taken)
            shares.append(InFlightShare(stream, turn=turn, of=len(taken)))
        self._dealt += 1


def _check_link(node: Node, partitioner: Partitioner | None, link: Sequence[InFlightStream]) -> None:
    # Records that were in flight by key must be so still, or the reverse; and none may go to all subtasks
    # now.
    keyed = isinstance(node, KeyedProcessNode)
    for stream in link:
        count = records_of(stream)
        if not count or (stream.keyed == keyed and not isinstance(partitioner, Broadcast)):
            continue
        was = "by key" if stream.keyed else "without a key"
        now = "it is keyed" if keyed else "it is not"
        if isinstance(partitioner, Broadcast):
            now = "each goes to every subtask"
        raise UsageError(
            f"{count} records were in flight {was} from {stream.sender!r} to {stream.receiver!r}, but in "
            f"this program {now}; undo the change, or restore with the old program and stop it with a "
            "savepoint, which has nothing in flight"
        )


def _hold_back(taken: Taken, streams: Sequence[InFlightStream]) -> None:
    # Each subtask gets empty streams for the senders that it has none of: watermarks wait for all senders.
    # The exchange may connect a subtask to such a sender now, or to another one that took over its state.
    levels: dict[int, list[InFlightStream]] = {}
    for stream in streams:
        if not stream.from_output:
            levels.setdefault(stream.level, []).append(stream)
    for shares in taken:
        seen = {(s.stream.level, *_sender(s.stream)) for s in shares if not s.stream.from_output}
        for level, there in levels.items():
            missing = [stream for stream in there if (level, *_sender(stream)) not in seen]
            known = [stream for stream in missing if stream.watermark is not None]
            continued = [stream for stream in missing if stream.watermark is None]
            if known:
                shares.append(InFlightShare(_stand_in(known, SEVERAL)))
            if continued:
                shares.append(InFlightShare(_stand_in(continued, SEVERAL_CONTINUED)))


def _sender(stream: InFlightStream) -> tuple[int, bool]:
    return stream.sender_subtask, stream.former


def _stand_in(streams: Sequence[InFlightStream], sender_subtask: int) -> InFlightStream:
    # An empty stream stands for several: it begins with the least of their first watermarks.
    # An idle channel with records in it is about to wake up.
    awake = [stream for stream in streams if not stream.idle or records_of(stream)]
    marks = [s.watermark for s in awake or streams if s.watermark is not None]
    return msgspec.structs.replace(
        streams[0],
        sender_subtask=sender_subtask,
        former=True,
        parts=[],
        watermark=min(marks, default=None),
        idle=not awake,
        record_type=None,
    )
