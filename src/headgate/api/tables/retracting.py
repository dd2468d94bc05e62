"""Aggregates of tables whose rows are corrected: sums of what comes less what goes.

Each row counts with a weight, 1 if it comes and -1 if it goes. So counts, sums and means follow from sums of
weighted values. A group of which as many rows went as came is not there any more.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from headgate.api.tables.checked_columns import all_columns, resolved
from headgate.common.errors import PlanError
from headgate.relational.changes import CHANGE, Change
from headgate.relational.expressions import AggregateCall, Call, Case, Cast, Expression, Literal, Reference
from headgate.relational.relations import Project, Relation
from headgate.relational.schema import Field, Schema

PRESENT: Final = "__present"
"""Name of the aggregate that counts a group's rows."""

_WEIGHT: Final = "__weight"
_ONE: Final = Literal(1)


class Rewritten(NamedTuple):
    """An aggregate of a changelog: sums of weighted values, by name, and the result as computed of them."""

    sums: dict[str, AggregateCall]
    result: Expression


def with_weights(child: Relation) -> Project:
    """Return the rows of a changelog, each with its weight, as rows that only come."""
    comes = Call("in", (Reference(CHANGE), *(Literal(int(each)) for each in Change if each.adds)))
    weight = resolved(child, "agg", Case(((comes, _ONE),), Literal(-1)))
    columns = [*all_columns(child), (_WEIGHT, weight)]
    fields = tuple(Field(name, each.type, each.nullable) for name, each in columns)
    return Project(Schema(fields), child, tuple(each for _, each in columns))


def present() -> AggregateCall:
    """Return the aggregate that counts a group's rows."""
    return AggregateCall("sum", (Reference(_WEIGHT),))


def rewritten(name: str, call: AggregateCall, where: str) -> Rewritten:
    """Return `call`, the aggregate called `name`, as sums of weighted values.

    Raises:
        PlanError: the aggregate needs all values, such as max(); the message begins with `where`.
    """
    if call.settings:
        raise _refused(call, where)
    match call.function, call.arguments:
        case "count", ():
            return Rewritten({name: present()}, Reference(name))
        case "count", (value,):
            return Rewritten({name: _counted(value)}, Reference(name))
        case "count_if", (condition,):
            found = AggregateCall("sum", (Case(((condition, Reference(_WEIGHT)),), Literal(0)),))
            return Rewritten({name: found}, Reference(name))
        case ("sum" | "avg" | "mean") as function, (value,):
            counted, summed = f"{name}/counted", f"{name}/summed"
            total: Expression = Reference(summed)
            if function != "sum":
                total = Call("/", (Cast(total, "double"), Reference(counted)))
            known = Call(">", (Reference(counted), Literal(0)))
            sums = {counted: _counted(value), summed: AggregateCall("sum", (_weighted(value),))}
            return Rewritten(sums, Case(((known, total),), Literal(None)))
    raise _refused(call, where)


def _counted(value: Expression) -> AggregateCall:
    known = Call("isnotnull", (value,))
    return AggregateCall("sum", (Case(((known, Reference(_WEIGHT)),), Literal(0)),))


def _weighted(value: Expression) -> Expression:
    return Call("*", (value, Reference(_WEIGHT)))


def _refused(call: AggregateCall, where: str) -> PlanError:
    return PlanError(
        f"{where}: {call} of rows that are corrected needs all values of a group; of such tables there are "
        "count, count_if, sum and avg; compute it before the rows are corrected, or group by a window there"
    )
