"""The registry of aggregates, and aggregates of a plan.

An aggregate is computed in two parts: rows of a batch become accumulators, accumulators of equal keys are
merged, any number of times and in any order, and the result is computed from them at the end.
"""

from __future__ import annotations

import difflib
from typing import Final, NamedTuple

import pyarrow as pa

from headgate.common.errors import PlanError
from headgate.relational.aggregating import collected, counted, moments, numbers, pairs, picked
from headgate.relational.aggregating.accumulators import AggregateRule, Parts
from headgate.relational.expressions import AggregateCall, Setting
from headgate.relational.resolved import Typed
from headgate.relational.resolving import convert, resolve
from headgate.relational.rules import Types
from headgate.relational.schema import Schema
from headgate.relational.spark_types import text_of

AGGREGATES: Final[dict[str, AggregateRule]] = {
    made.name: made
    for family in (numbers, moments, pairs, picked, collected, counted)
    for made in family.RULES
}
AGGREGATE_ALIASES: Final = {
    "mean": "avg",
    "every": "bool_and",
    "some": "bool_or",
    "any": "bool_or",
    "std": "stddev",
    "stddev_samp": "stddev",
    "var_samp": "variance",
    "first_value": "first",
    "last_value": "last",
    "array_agg": "collect_list",
    "string_agg": "listagg",
    "string_agg_distinct": "listagg_distinct",
    "countDistinct": "count_distinct",
    "sumDistinct": "sum_distinct",
}
"""Other name of an aggregate -> its name in `AGGREGATES`."""


class Aggregate(NamedTuple):
    """An aggregate of a plan, resolved against the columns of its input; its result is the column `name`.
    `given`: the types of the program's arguments; `arguments`: these, converted to what `function` takes.
    """

    name: str
    function: str
    given: Types
    arguments: tuple[Typed, ...]
    result: pa.DataType
    nullable: bool
    settings: tuple[Setting, ...] = ()

    @property
    def parts(self) -> Parts:
        return parts_of(self.function, self.given, self.settings)

    def __str__(self) -> str:
        return f"{self.function}({', '.join(map(str, self.arguments)) or '*'}) AS {self.name}"


def aggregate_names() -> list[str]:
    """Return the names of all aggregates, aliases among them, in alphabetical order.

    Example:
        >>> "stddev" in aggregate_names(), "std" in aggregate_names(), "sdt" in aggregate_names()
        (True, True, False)
    """
    return sorted({*AGGREGATES, *AGGREGATE_ALIASES})


def parts_of(function: str, given: Types, settings: tuple[Setting, ...] = ()) -> Parts:
    """Return the accumulators of the aggregate `function` for arguments of types `given`, and its result.

    Raises:
        PlanError: there is no such aggregate, or it does not take arguments of these types.
    """
    made = AGGREGATES.get(AGGREGATE_ALIASES.get(function, function))
    if made is None:
        near = difflib.get_close_matches(function, AGGREGATES, 1, 0.0)
        raise PlanError(f"there is no aggregate {function!r}; did you mean {near[0]!r}?")
    found = made.judge(given, *settings)
    if found is None:
        texts = ", ".join(map(text_of, given)) or "nothing"
        raise PlanError(f"{function}() takes {made.takes}; got {texts}")
    return found


def resolve_aggregate(call: AggregateCall, name: str, schema: Schema) -> Aggregate:
    """Return `call` resolved against the input's columns, `schema`, with `name` for its result's column.
    Arguments are converted to what the function takes. PlanError: no such function or column, or type.
    """
    arguments = [resolve(argument, schema) for argument in call.arguments]
    given = tuple(argument.type for argument in arguments)
    parts = parts_of(call.function, given, call.settings)
    converted = tuple(map(convert, arguments, parts.arguments))
    return Aggregate(name, call.function, given, converted, parts.result, parts.nullable, call.settings)
