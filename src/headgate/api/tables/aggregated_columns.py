"""The columns that an aggregation reads of its input: keys, arguments, and values that are kept once."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

import pyarrow as pa

from headgate.api.tables.retracting import WEIGHT
from headgate.relational.aggregates import Aggregate
from headgate.relational.passes.distinct_values import DistinctValues, Told, distinct_values
from headgate.relational.resolved import Choice, Column, Constant, Typed


class Aggregated(NamedTuple):
    """Aggregates, and the sets of which some follow, with arguments that are columns of `chosen`, by place:
    its first ones are the keys.
    """

    chosen: list[tuple[str, Typed]]
    aggregates: tuple[Aggregate, ...]
    distinct: tuple[DistinctValues, ...] = ()


def arguments_of(keys: list[tuple[str, Typed]], aggregates: list[Aggregate]) -> Aggregated:
    """Return the columns of keys and of the aggregates' arguments."""
    columns = _Columns(list(keys))
    return Aggregated(columns.chosen, tuple(map(columns.with_arguments, aggregates)))


ColumnsOf: TypeAlias = Callable[[list[tuple[str, Typed]], list[Aggregate]], Aggregated]
"""Gives the columns for keys and aggregates."""


def with_sets(
    keys: list[tuple[str, Typed]], aggregates: list[Aggregate], weight: Typed | None = None
) -> Aggregated:
    """Return the columns as `arguments_of`, but values that are kept once in a set, each one time. `weight`:
    by how much a row counts, where rows may go; None: they only come.
    """
    columns = _Columns(list(keys))
    sets = distinct_values(aggregates, weight)
    moved = {each.name: each for one in sets for each in aggregates if _is_told(one, each)}
    if sets and weight is not None:
        weight = columns.added(WEIGHT, weight)
    found, given = [], dict[str, Aggregate]()
    for one in sets:
        values = tuple(columns.added(f"{one.name}/value{n or ''}", each) for n, each in enumerate(one.values))
        told = []
        for each in one.told:
            within = None if each.within is None else columns.once(f"{each.name}/within", each.within)
            told.append(Told(each.name, within))
            arguments = values if within is None else (_where(within, values[0]),)
            given[each.name] = moved[each.name]._replace(arguments=arguments)
        found.append(one._replace(values=values, told=tuple(told), weight=weight))
    every = tuple(given.get(each.name) or columns.with_arguments(each) for each in aggregates)
    return Aggregated(columns.chosen, every, tuple(found))


def _is_told(one: DistinctValues, each: Aggregate) -> bool:
    return any(told.name == each.name for told in one.told)


def _where(within: Typed, value: Typed) -> Typed:
    return Choice(
        value.type, True, ((within, value),), Constant(value.type, True, pa.scalar(None, value.type))
    )


class _Columns:
    def __init__(self, chosen: list[tuple[str, Typed]]) -> None:
        self.chosen = chosen

    def added(self, name: str, each: Typed) -> Column:
        self.chosen.append((name, each))
        return Column(each.type, each.nullable, len(self.chosen) - 1, name)

    def once(self, name: str, each: Typed) -> Column:
        for place, (known, other) in enumerate(self.chosen):
            if "/" in known and other == each:
                return Column(each.type, each.nullable, place, known)
        return self.added(name, each)

    def with_arguments(self, each: Aggregate) -> Aggregate:
        columns = [
            self.added(f"{each.name}/argument{place or ''}", argument)
            for place, argument in enumerate(each.arguments)
        ]
        return each._replace(arguments=tuple(columns))
