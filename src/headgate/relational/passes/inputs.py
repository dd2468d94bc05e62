"""From a plan to the plans below it."""

from __future__ import annotations

from headgate.relational.joins.equal_joins import Join, WindowJoin
from headgate.relational.relations import (
    Aggregation,
    Explode,
    Filter,
    Lookup,
    OfKeys,
    Project,
    Relation,
    TableFunction,
    Union,
)


def inputs_of(relation: Relation) -> tuple[Relation, ...]:
    """Return the plans whose rows a plan is computed from, within the same table; empty for a scan."""
    match relation:
        case Project() | Filter() | Explode() | TableFunction() | Aggregation() | Lookup() | OfKeys():
            return (relation.child,)
        case Union():
            return relation.children
        case WindowJoin():
            return (relation.left, relation.right)
        case Join():
            return relation.inputs
    return ()
