"""Aggregates of tables whose rows are corrected: sums of what comes less what goes.

Each row counts with a weight, 1 if it comes and -1 if it goes. So counts, sums and means follow from sums of
weighted values. A group of which as many rows went as came is not there any more.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import pyarrow as pa

from headgate.api.tables.checked_columns import all_columns, resolved
from headgate.relational.aggregates import AGGREGATE_ALIASES
from headgate.relational.changes import CHANGE, Change
from headgate.relational.expressions import AggregateCall, Call, Case, Cast, Expression, Literal, Reference
from headgate.relational.passes.distinct_values import COUNTING
from headgate.relational.relations import Project, Relation
from headgate.relational.resolved import Choice, Column, Constant
from headgate.relational.resolving import called
from headgate.relational.schema import Field, Schema

PRESENT: Final = "__present"
"""Name of the aggregate that counts a group's rows."""

WEIGHT: Final = "__weight"
"""Name of the column that says by how much a row counts."""

_ONE, _MINUS_ONE = (Constant(pa.int32(), False, pa.scalar(weight, pa.int32())) for weight in (1, -1))
_ADD_UP: Final = {("count", 0), ("count", 1), ("count_if", 1), ("sum", 1), ("avg", 1), ("mean", 1)}
"""Aggregates with their number of arguments."""


class Rewritten(NamedTuple):
    """An aggregate of a changelog: sums of weighted values, by name, and the result as computed of them."""

    sums: dict[str, AggregateCall]
    result: Expression


def with_weights(child: Relation) -> Project:
    """Return the rows of a changelog, each with its weight, as rows that only come."""
    change = child.schema.fields[-1]
    adding = [Constant(change.type, False, pa.scalar(int(each), change.type)) for each in Change if each.adds]
    comes = called("in", [Column(change.type, False, len(child.schema) - 1, CHANGE), *adding])
    weight = Choice(pa.int32(), False, ((comes, _ONE),), _MINUS_ONE)
    columns = [*all_columns(child), (WEIGHT, weight)]
    fields = tuple(Field(name, each.type, each.nullable) for name, each in columns)
    return Project(Schema(fields), child, tuple(each for _, each in columns))


def present() -> AggregateCall:
    """Return the aggregate that counts a group's rows."""
    return AggregateCall("sum", (Reference(WEIGHT),))


def adds_up(call: AggregateCall, child: Relation) -> bool:
    """Return whether `call`, over rows of `child`, follows from sums of weighted values; else it needs
    all values of a group. Sums of floats do not: NaN cannot be subtracted, and nor can what rounding has
    swallowed.
    """
    of_values = _plain(call.function) in COUNTING and call.arguments
    if call.settings or not (of_values or (call.function, len(call.arguments)) in _ADD_UP):
        return False
    if call.function in ("count", "count_if") or _plain(call.function) == "count_distinct":
        return True
    return not pa.types.is_floating(resolved(child, "agg", call.arguments[0]).type)


def _plain(function: str) -> str:
    return AGGREGATE_ALIASES.get(function, function)


def one() -> Constant:
    """Return the key of groups without keys."""
    return Constant(pa.int32(), False, pa.scalar(0, pa.int32()))


def rewritten(name: str, call: AggregateCall) -> Rewritten:
    """Return `call`, the aggregate called `name`, as sums of weighted values; it :func:`adds_up`."""
    if _plain(call.function) in COUNTING:  # the weights count in its set of values
        return Rewritten({name: call}, Reference(name))
    match call.function, call.arguments:
        case "count", ():
            return Rewritten({name: present()}, Reference(name))
        case "count", (value,):
            return Rewritten({name: _counted(value)}, Reference(name))
        case "count_if", (condition,):
            found = AggregateCall("sum", (Case(((condition, Reference(WEIGHT)),), Literal(0)),))
            return Rewritten({name: found}, Reference(name))
        case ("sum" | "avg" | "mean") as function, (value,):
            counted, summed = f"{name}/counted", f"{name}/summed"
            total: Expression = Reference(summed)
            if function != "sum":
                total = Call("/", (Cast(total, "double"), Reference(counted)))
            known = Call(">", (Reference(counted), Literal(0)))
            sums = {counted: _counted(value), summed: AggregateCall("sum", (_weighted(value),))}
            return Rewritten(sums, Case(((known, total),), Literal(None)))
    raise AssertionError(f"{call} does not add up")


def _counted(value: Expression) -> AggregateCall:
    known = Call("isnotnull", (value,))
    return AggregateCall("sum", (Case(((known, Reference(WEIGHT)),), Literal(0)),))


def _weighted(value: Expression) -> Expression:
    return Call("*", (value, Reference(WEIGHT)))
