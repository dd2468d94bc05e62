"""From a plan to the plans below it."""

from __future__ import annotations

from headgate.relational.patterns.match_plan import Match
from headgate.relational.relations import (
    Aggregation,
    Deduplicate,
    Explode,
    Filter,
    Join,
    Lookup,
    Over,
    Project,
    Rank,
    Relation,
    TableFunction,
    Union,
    WindowJoin,
)


def inputs_of(relation: Relation) -> tuple[Relation, ...]:
    """Return the plans whose rows a plan is computed from, within the same table; empty for a scan."""
    match relation:
        case (
            Project()
            | Filter()
            | Explode()
            | TableFunction()
            | Aggregation()
            | Rank()
            | Over()
            | Lookup()
            | Deduplicate()
            | Match()
        ):
            return (relation.child,)
        case Union():
            return relation.children
        case WindowJoin() | Join():
            return (relation.left, relation.right)
    return ()
