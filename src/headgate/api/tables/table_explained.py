"""Plans of tables as text: as written, and as they run after all passes."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING

from headgate.api.tables.lowering import lowered
from headgate.graph.explain import running_lines
from headgate.graph.logical import SourceNode, TimestampsNode
from headgate.graph.table_nodes import (
    DeduplicateNode,
    JoinNode,
    MatchNode,
    RankNode,
    RecomputeNode,
    WindowAggregateNode,
)
from headgate.relational.plan_text import plan_lines

if TYPE_CHECKING:
    from headgate.api.streams.steps import ProgramContext
    from headgate.relational.relations import Relation, Scan


def explained(environment: ProgramContext, relation: Relation) -> str:
    """Return the text of a table's plan, as written and as it runs, for :meth:`Table.explain`. It is planned
    in a copy of the environment: nothing is added to the program. PlanError: no plan can be made.
    """
    written = plan_lines(relation, lambda scan: _below(environment, scan))
    facts = _alone(environment, relation).describe("table")
    return "\n".join(
        ["as written", *(f"  {line}" for line in written), "", "as it runs", *running_lines(facts)]
    )


def _alone(environment: ProgramContext, relation: Relation) -> ProgramContext:
    alone = copy.copy(environment)
    alone.program = environment.program.copied()
    number = lowered(alone, relation)
    alone.program = alone.program.copied(number)
    return alone


def _below(environment: ProgramContext, scan: Scan) -> str | Relation:
    node = environment.program.node(scan.stream)
    match node:
        case WindowAggregateNode():
            return node.aggregation
        case JoinNode():
            return node.join
        case MatchNode():
            return node.match
        case RankNode():
            return node.rank
        case RecomputeNode() | DeduplicateNode():
            return node.plan
    while isinstance(node, TimestampsNode):
        node = environment.program.node(node.inputs[0].id)
    text = node.source.describe() if isinstance(node, SourceNode) else repr(node.name)
    return f"{text} ({node.site})" if node.site else text
