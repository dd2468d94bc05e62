"""What operators without windows keep, in words, and what bounds it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from headgate.common.time import format_ms
from headgate.graph.logical import Node
from headgate.graph.stream_joins import StreamJoinNode
from headgate.graph.table_nodes import (
    DeduplicateNode,
    JoinNode,
    MatchNode,
    RankNode,
    RecomputeNode,
    RunningAggregateNode,
    TimedJoinNode,
)


class Kept(NamedTuple):
    """State without windows: what is kept, in words, and what bounds it in ms; None: nothing does."""

    what: str
    ttl_ms: int | None
    within_ms: int | None = None

    @property
    def bounded(self) -> bool:
        return self.ttl_ms is not None or self.within_ms is not None


def kept_by(node: Node) -> Kept | None:
    """Return what an operator without windows keeps; None: it is none of those."""
    match node:
        case RunningAggregateNode():
            counted = node.aggregation.copies is not None
            what = "each different row" if counted else "the results of each group"
            if node.aggregation.distinct:
                what += " and its different values"
            return Kept(what, node.aggregation.ttl_ms)
        case JoinNode():
            return Kept("all rows", node.join.ttl_ms)
        case RankNode():
            rows = "row" if node.rank.n == 1 else f"{node.rank.n} rows"
            return Kept(f"the first {rows} of each key", node.rank.ttl_ms)
        case RecomputeNode():
            return Kept("all rows", node.plan.ttl_ms)
        case DeduplicateNode():
            return Kept("each key", node.plan.ttl_ms, node.plan.within_ms)
    return None


def kept_by_time(node: Node) -> Kept | None:
    """Return what an operator keeps that event time bounds where a program says so; None: nothing."""
    match node:
        case TimedJoinNode() if node.join.keeps_last_rows:
            return Kept("the last right row of each key", None)
        case MatchNode():
            return Kept("the rows of matches that have begun", None, node.match.pattern.within_ms)
    return None


def kept_lines(node: Node) -> Iterator[str]:
    """Yield the line in which `explain()` tells what is kept and for how long; none for operators with
    windows.
    """
    if isinstance(node, StreamJoinNode):
        yield from node.lines()
    kept = kept_by(node)
    if kept is None:
        return
    if kept.within_ms is not None:
        yield f"keeps {kept.what} until the watermark has passed its row by {format_ms(kept.within_ms)}"
    elif kept.ttl_ms is not None:
        yield f"keeps {kept.what} until no row of the key has come for {format_ms(kept.ttl_ms)}"
    else:
        yield f"keeps {kept.what} for as long as the job runs"
