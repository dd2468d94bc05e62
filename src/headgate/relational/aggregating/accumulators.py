"""What an aggregate consists of: accumulators, merged each by itself or jointly, and its result."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from headgate.relational.aggregating.groups import Groups
from headgate.relational.resolved import Values
from headgate.relational.rules import Types

Fields = tuple[tuple[str, pa.DataType], ...]
"""Names and types of columns."""


class Accumulator(NamedTuple):
    """One column of an aggregate's intermediate result, which is merged by itself.

    `of_rows` and `merge` are names of Arrow's hash aggregations: the first makes it of the argument's
    values, the second of accumulators. `type` is the type of both. `takes` says which form of the values it
    is made of: "values" as they are, "numbers" with null for NaN, "nans", 1 for NaN and 0 for others,
    "truths" with null for what is not true, "wide", decimals of so many digits that no sum overflows, or
    "first" and "second", the values of one of two arguments, with null where the other is null.
    """

    name: str
    type: pa.DataType
    of_rows: str
    merge: str
    takes: str = "values"

    @property
    def fields(self) -> Fields:
        return ((self.name, self.type),)

    def prepared(self, *arguments: pa.Array) -> tuple[pa.Array, ...]:
        """Return the aggregate's `arguments` in the form that `of_rows` takes; () if it takes none."""
        if self.of_rows == "count_all":
            return ()
        values = arguments[0]
        match self.takes:
            case "first" | "second":
                mine, other = arguments if self.takes == "first" else reversed(arguments)
                return (pc.if_else(pc.is_valid(other), mine, pa.scalar(None, mine.type)),)
            case "values":
                return (values,)
            case "wide":
                return (pc.cast(values, self.type),)
            case "truths":
                return (pc.if_else(values, True, None),)
        nan = pc.fill_null(pc.is_nan(values), False)
        return (pc.cast(nan, pa.int64()) if self.takes == "nans" else pc.if_else(nan, None, values),)


class Joint(NamedTuple):
    """Columns of an aggregate's intermediate result that are merged together.

    Attributes:
        fields: names and types of the columns.
        of_rows: gives, for the values of the arguments, the accumulators of each row by itself.
        merge: gives the columns for each group, out of the accumulators of its members, which lie group after
            group, and in a group in the order in which they came.
    """

    fields: Fields
    of_rows: Callable[..., Sequence[pa.Array]]
    merge: Callable[..., Sequence[pa.Array]]

    def prepared(self, *arguments: pa.Array) -> tuple[pa.Array, ...]:
        return tuple(self.of_rows(*arguments))

    def merged(self, groups: Groups, members: Sequence[pa.Array]) -> Sequence[pa.Array]:
        return self.merge(groups, *members)


AnyAccumulator = Accumulator | Joint


class Parts(NamedTuple):
    """An aggregate for arguments of certain types, as its rule has judged them.

    Attributes:
        arguments: the types to which the arguments are converted.
        accumulators: what is computed of rows and merged.
        result: type of the column of results.
        nullable: whether a result may be null.
        finish: called with `result` and the accumulators' columns in order; gives the column of results.
    """

    arguments: Types
    accumulators: tuple[AnyAccumulator, ...]
    result: pa.DataType
    nullable: bool
    finish: Callable[..., Values]

    @property
    def fields(self) -> Fields:
        return tuple(field for each in self.accumulators for field in each.fields)


@dataclass(frozen=True, slots=True)
class AggregateRule:
    """An aggregate function. `takes` says in words which arguments it expects.

    Attributes:
        judge: gives its parts for types of arguments and for the call's settings; None: it does not take
            them.
        ordered: whether the result depends on the order in which rows come.
    """

    name: str
    judge: Callable[..., Parts | None]
    takes: str
    ordered: bool = False


def as_it_is(_kind: pa.DataType, value: Values, *_: Values) -> Values:
    """Return the first accumulator as the result; for `Parts.finish`."""
    return value
