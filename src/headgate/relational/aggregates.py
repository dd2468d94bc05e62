"""Aggregates: for each name its accumulators, how these are made of rows and merged, and the result.

An aggregate is computed in two parts: rows of a batch become accumulators, accumulators of equal keys are
merged, any number of times and in any order, and the result is computed from them at the end.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from headgate.common.errors import PlanError
from headgate.relational.casts import cast_values
from headgate.relational.expressions import AggregateCall
from headgate.relational.resolved import Typed, Values
from headgate.relational.resolving import convert, resolve
from headgate.relational.rules import RowsFailed, Types
from headgate.relational.schema import Schema
from headgate.relational.spark_types import bounded_decimal, is_integer, is_numeric, text_of


class Accumulator(NamedTuple):
    """One column of an aggregate's intermediate result.

    `of_rows` and `merge` are names of Arrow's hash aggregations: the first makes it of the argument's
    values, the second of accumulators. `type` is the type of both. `takes` says which form of the values it
    is made of: "values" as they are, "numbers" with null for NaN, or "nans", 1 for NaN and 0 for others.
    """

    name: str
    type: pa.DataType
    of_rows: str
    merge: str
    takes: str = "values"

    def prepared(self, values: pa.Array) -> pa.Array:
        """Return the values of the aggregate's argument in the form of which this accumulator is made."""
        if self.takes == "values":
            return values
        nan = pc.fill_null(pc.is_nan(values), False)
        return pc.cast(nan, pa.int64()) if self.takes == "nans" else pc.if_else(nan, None, values)


class Parts(NamedTuple):
    """An aggregate for arguments of certain types: as which type it takes them, and what it computes.

    `finish` gives the result of the accumulators' columns, in order.
    """

    argument: pa.DataType | None  # None: it takes no argument and counts rows
    accumulators: tuple[Accumulator, ...]
    result: pa.DataType
    nullable: bool
    finish: Callable[..., Values]


class Aggregate(NamedTuple):
    """A resolved aggregate of a plan: the name of its column, its function, and its argument."""

    name: str
    function: str
    argument: Typed | None
    result: pa.DataType
    nullable: bool

    @property
    def parts(self) -> Parts:
        """The accumulators of this aggregate, and how they become its result."""
        return parts_of(self.function, () if self.argument is None else (self.argument.type,))

    def __str__(self) -> str:
        return f"{self.function}({'*' if self.argument is None else self.argument}) AS {self.name}"


@dataclass(frozen=True, slots=True)
class AggregateRule:
    """An aggregate function. `judge` gives its parts for types of arguments; None: it does not take them."""

    name: str
    judge: Callable[[Types], Parts | None]
    takes: str


def _first(_kind: pa.DataType, value: Values) -> Values:
    return value


def _count(given: Types) -> Parts | None:
    if len(given) > 1:
        return None
    of_rows = "count" if given else "count_all"
    counted = Accumulator("count", pa.int64(), of_rows, "sum")
    return Parts(given[0] if given else None, (counted,), pa.int64(), False, _first)


def _sum(given: Types) -> Parts | None:
    if len(given) != 1 or not is_numeric(given[0]):
        return None
    kind = _sum_type(given[0])
    inner = pa.decimal128(38, kind.scale) if pa.types.is_decimal(kind) else kind
    return Parts(inner, (Accumulator("sum", inner, "sum", "sum"),), kind, True, _fitting)


def _sum_type(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_decimal(kind):
        return bounded_decimal(min(38, kind.precision + 10), kind.scale)
    return pa.int64() if is_integer(kind) else pa.float64()


def _fitting(kind: pa.DataType, value: Values) -> Values:
    return value if value.type == kind else cast_values(value, kind, strict=True)


def _extreme(name: str) -> Callable[[Types], Parts | None]:
    def judge(given: Types) -> Parts | None:
        if len(given) != 1 or not _is_ordered(given[0]):
            return None
        kind = given[0]
        if pa.types.is_floating(kind):
            # Arrow leaves NaN out, and Spark has it above all numbers.
            best = Accumulator(name, kind, name, name, "numbers")
            nans = Accumulator("nans", pa.int64(), "sum", "sum", "nans")
            return Parts(kind, (best, nans), kind, True, _most_with_nan if name == "max" else _least_with_nan)
        return Parts(kind, (Accumulator(name, kind, name, name),), kind, True, _first)

    return judge


def _is_ordered(kind: pa.DataType) -> bool:
    others = (pa.types.is_duration, pa.types.is_null, pa.types.is_nested)
    return not any(is_other(kind) for is_other in others)


def _most_with_nan(kind: pa.DataType, best: Values, nans: Values) -> Values:
    return pc.if_else(pc.greater(nans, 0), pa.scalar(float("nan"), kind), best)


def _least_with_nan(kind: pa.DataType, best: Values, nans: Values) -> Values:
    only = pc.and_(pc.is_null(best), pc.greater(nans, 0))
    return pc.if_else(only, pa.scalar(float("nan"), kind), best)


def _avg(given: Types) -> Parts | None:
    if len(given) != 1 or not is_numeric(given[0]):
        return None
    count = Accumulator("count", pa.int64(), "count", "sum")
    if pa.types.is_decimal(given[0]):
        inner = pa.decimal128(38, given[0].scale)
        result = bounded_decimal(given[0].precision + 4, given[0].scale + 4)
        return Parts(inner, (Accumulator("sum", inner, "sum", "sum"), count), result, True, _decimal_mean)
    total = Accumulator("sum", pa.float64(), "sum", "sum")
    return Parts(pa.float64(), (total, count), pa.float64(), True, _mean)


def _mean(_kind: pa.DataType, total: Values, count: Values) -> Values:
    return pc.divide(total, pc.cast(pc.if_else(pc.equal(count, 0), None, count), pa.float64()))


def _decimal_mean(kind: pa.DataType, total: Values, count: Values) -> Values:
    scale = kind.scale + 1  # a digit more, by which the last one is rounded
    wide = pc.cast(total, pa.decimal256(total.type.precision + scale - total.type.scale, scale))
    counts = pc.cast(pc.if_else(pc.equal(count, 0), None, count), pa.decimal256(19, 0))
    found = pc.round(pc.divide(wide, counts), ndigits=kind.scale, round_mode="half_towards_infinity")
    return pc.cast(found, kind)


AGGREGATES: Final[dict[str, AggregateRule]] = {
    made.name: made
    for made in (
        AggregateRule("count", _count, "a column, or * for all rows"),
        AggregateRule("sum", _sum, "a number"),
        AggregateRule("min", _extreme("min"), "a value that has an order"),
        AggregateRule("max", _extreme("max"), "a value that has an order"),
        AggregateRule("avg", _avg, "a number"),
    )
}


def parts_of(function: str, given: Types) -> Parts:
    """Return what an aggregate computes for arguments of these types.

    Raises:
        PlanError: there is no such aggregate, or it does not take them.
    """
    made = AGGREGATES.get(function)
    if made is None:
        raise PlanError(f"there is no aggregate {function!r}; there are {', '.join(AGGREGATES)}")
    found = made.judge(given)
    if found is None:
        texts = ", ".join(map(text_of, given)) or "nothing"
        raise PlanError(f"{function}() takes {made.takes}; got {texts}")
    return found


def resolve_aggregate(call: AggregateCall, name: str, schema: Schema) -> Aggregate:
    """Return an aggregate of rows of `schema`, whose result is the column `name`."""
    arguments = [resolve(argument, schema) for argument in call.arguments]
    parts = parts_of(call.function, tuple(argument.type for argument in arguments))
    argument = None if parts.argument is None else convert(arguments[0], parts.argument)
    return Aggregate(name, call.function, argument, parts.result, parts.nullable)


# -- tables of accumulators


class Grouping(NamedTuple):
    """How rows, or accumulators, of equal keys become one row of accumulators."""

    keys: tuple[str, ...]
    columns: tuple[tuple[str, Accumulator], ...]  # name of the accumulator's column, and what it is

    def of_rows(self, table: pa.Table) -> pa.Table:
        """Return accumulators of rows, of which each argument has the name of its accumulator's column."""
        return self._aggregated(table, [each.of_rows for _, each in self.columns])

    def merged(self, table: pa.Table) -> pa.Table:
        """Return accumulators in which those of equal keys are merged."""
        return self._aggregated(table, [each.merge for _, each in self.columns])

    def _aggregated(self, table: pa.Table, kernels: list[str]) -> pa.Table:
        asked: list[tuple[str | list[str], str]] = []
        for (name, _), kernel in zip(self.columns, kernels, strict=True):
            asked.append(([], kernel) if kernel == "count_all" else (name, kernel))
        narrow = self._overflowing(table, kernels)
        wide = _with_types(table, {name: _wider(kind) for name, kind in narrow.items()})
        found = wide.group_by(list(self.keys), use_threads=False).aggregate(asked)
        # Arrow names its columns "price_sum"; the order is that of the request, keys first.
        found = found.rename_columns([*self.keys, *(name for name, _ in self.columns)])
        return _with_types(found, narrow)

    def _overflowing(self, table: pa.Table, kernels: list[str]) -> dict[str, pa.DataType]:
        """Return the columns, with their types, whose sum might not fit them: Arrow's own sum would wrap."""
        found = {}
        for (name, each), kernel in zip(self.columns, kernels, strict=True):
            if kernel == "sum" and not pa.types.is_floating(each.type) and table.num_rows:
                low, high = pc.min_max(table.column(name)).as_py().values()
                if low is not None and max(-low, high) * table.num_rows >= _limit(each.type):
                    found[name] = each.type
        return found


def _limit(kind: pa.DataType) -> int:
    """Return a number that is more than a sum of this type may be."""
    return 10 ** (kind.precision - kind.scale) if pa.types.is_decimal(kind) else 2**63


def _wider(kind: pa.DataType) -> pa.DataType:
    return pa.decimal256(76, kind.scale) if pa.types.is_decimal(kind) else pa.decimal128(38, 0)


def _with_types(table: pa.Table, types: dict[str, pa.DataType]) -> pa.Table:
    for name, kind in types.items():
        place = table.schema.get_field_index(name)
        try:
            column = table.column(name).cast(kind)
        except pa.ArrowInvalid:
            why = f"the sum of a group does not fit {text_of(kind)}"
            raise RowsFailed("ARITHMETIC_OVERFLOW", why) from None
        table = table.set_column(place, name, column)
    return table
