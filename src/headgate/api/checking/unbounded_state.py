"""Warns of state that grows for as long as a job runs, where its sources do not end."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Final

from headgate.api.source import Boundedness
from headgate.graph.kept_state import kept_by, kept_by_time
from headgate.graph.logical import Node, SourceNode, UnionNode
from headgate.graph.table_nodes import JoinNode, MatchNode, TimedJoinNode

_WAYS: Final = (
    'Bound it by a window (F.window), by a time to live (ttl="1d"), or, where rows are joined or duplicates '
    'dropped, by event time (within="1h")'
)
_WAYS_OF: Final[Mapping[type[Node], str]] = {
    TimedJoinNode: 'Bound it by how much older a row may be that is still found (tolerance="1h")',
    MatchNode: 'Bound it by how long a match may take (within="1h")',
}
_WARNED: dict[str | tuple[str, type[Warning], int], int] = {}


def warn_of_unbounded_state(nodes: Sequence[Node]) -> None:
    """Warn, at the line of the program, of each operator that keeps for good what an endless source gives."""
    by_id = {node.id: node for node in nodes}
    for node in nodes:
        kept = kept_by(node) or kept_by_time(node)
        if kept is None or kept.bounded:
            continue
        endless = _endless(by_id, _right_side(by_id, node) if isinstance(node, TimedJoinNode) else node)
        if endless:
            what = "join" if isinstance(node, JoinNode) else node.name
            file, _, line = node.site.rpartition(":")
            warnings.warn_explicit(
                f"operator {node.uid or node.name!r} ({what}) keeps {kept.what} of {' and '.join(endless)} "
                f"for as long as the job runs. {_WAYS_OF.get(type(node), _WAYS)}",
                UserWarning,
                file or "headgate",
                int(line) if line.isdigit() else 0,
                registry=_WARNED,
            )


def _right_side(nodes: Mapping[int, Node], node: Node) -> Node:
    """Return the last node of the right input of a join."""
    while not isinstance(node, UnionNode):
        node = nodes[node.inputs[0].id]
    return nodes[node.inputs[1].id]


def _endless(nodes: Mapping[int, Node], node: Node) -> list[str]:
    """Return the names of the sources above an operator that do not end."""
    found: dict[str, None] = {}
    open_ends, seen = [node], {node.id}
    while open_ends:
        here = open_ends.pop()
        if isinstance(here, SourceNode) and here.source.boundedness is Boundedness.UNBOUNDED:
            found[here.uid or here.source.describe()] = None
        for each in here.inputs:
            if each.id not in seen:
                seen.add(each.id)
                open_ends.append(nodes[each.id])
    return sorted(found)
