"""Aggregates of a group's different values, without windows: those of one value share a set of values.

A set is kept beside the groups, and the aggregates' accumulators follow what changes of it (decision 0229).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import pyarrow as pa

from headgate.relational.aggregates import AGGREGATE_ALIASES, Aggregate, parts_of
from headgate.relational.aggregating.accumulators import Accumulator, Parts
from headgate.relational.aggregating.numbers import fitting
from headgate.relational.resolved import Choice, Constant, Typed
from headgate.relational.resolved import Values as Array

_LONG: Final = pa.int64()
_TOGETHER: Final = 62
"""Most aggregates of a set: what is told of a value is a bit for each."""

COUNTING: Final = ("count_distinct", "sum_distinct")
"""The aggregates that follow from what changes of a set."""


class Told(NamedTuple):
    """An aggregate of a set: `name` is that of its result; only rows for which `within` is true count for
    it. None: all rows.
    """

    name: str
    within: Typed | None


class DistinctValues(NamedTuple):
    """A set of values of each group, of which `told` are aggregates.

    Attributes:
        name: of the set, under which its values are stored.
        values: what is one value of it, in one or several columns; none of them is null.
        sums: whether aggregates are sums of the values; otherwise they are counts.
        weight: by how much a row counts, where rows may go, too; None: rows only come.
    """

    name: str
    values: tuple[Typed, ...]
    told: tuple[Told, ...]
    sums: bool
    weight: Typed | None = None

    @property
    def value_fields(self) -> tuple[tuple[str, str, pa.DataType], ...]:
        """(set, field, type) of each column of values."""
        return tuple((self.name, f"value{place or ''}", each.type) for place, each in enumerate(self.values))

    @property
    def told_fields(self) -> tuple[tuple[str, str, pa.DataType], ...]:
        """(aggregate, field, type) of what is stored for each aggregate."""
        field, kind = ("seen", pa.bool_()) if self.weight is None else ("rows", _LONG)
        return tuple((each.name, field, kind) for each in self.told)


def distinct_values(aggregates: Sequence[Aggregate], weight: Typed | None) -> tuple[DistinctValues, ...]:
    """Return the sets of which some of `aggregates` follow; `weight`: by how much a row counts, or None."""
    found: list[DistinctValues] = []
    for each in aggregates:
        function = AGGREGATE_ALIASES.get(each.function, each.function)
        if function not in COUNTING:
            continue
        within, values = _taken_apart(each.arguments)
        mine = DistinctValues(each.name, values, (Told(each.name, within),), function != COUNTING[0], weight)
        for place, other in enumerate(found):
            if (other.values, other.sums) == (mine.values, mine.sums) and len(other.told) < _TOGETHER:
                name, told = min(other.name, mine.name), (*other.told, *mine.told)
                found[place] = other._replace(name=name, told=told)
                break
        else:
            found.append(mine)
    return tuple(found)


def _taken_apart(arguments: tuple[Typed, ...]) -> tuple[Typed | None, tuple[Typed, ...]]:
    # A value that may fail for other rows is computed where the condition is true only.
    if len(arguments) == 1 and isinstance(choice := arguments[0], Choice) and len(choice.branches) == 1:
        ((condition, value),) = choice.branches
        empty = isinstance(choice.otherwise, Constant) and not choice.otherwise.value.is_valid
        if empty and not value.may_fail and value.type == choice.type:
            return condition, (value,)
    return None, arguments


def kept_parts(aggregate: Aggregate) -> Parts:
    """Return the accumulators of an aggregate that follows from a set, and its result."""
    if AGGREGATE_ALIASES.get(aggregate.function, aggregate.function) == COUNTING[0]:
        return parts_of("count", ())
    made = aggregate.parts
    (inner,) = made.arguments
    kept = Accumulator("sum", inner, "sum", "sum"), Accumulator("count", _LONG, "count", "sum")
    return Parts(made.arguments, kept, made.result, True, _sum_of_known)


def _sum_of_known(kind: pa.DataType, total: Array, count: Array) -> Array:
    import pyarrow.compute as pc

    return pc.if_else(pc.greater(count, 0), fitting(kind, total), None)
