"""The first rows of each key in some order: checks the calls, and makes their plan."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from headgate.api.site import user_site
from headgate.api.tables.checked_columns import all_columns, projected, resolved
from headgate.api.tables.column import Column
from headgate.api.tables.firing_rules import refuse_repeated
from headgate.api.tables.ordering import Ordered, orders_of
from headgate.common.errors import PlanError
from headgate.relational.changes import CHANGE
from headgate.relational.python_types import can_be_key
from headgate.relational.relations import ORDER_PREFIX, Order, Rank, Relation
from headgate.relational.resolved import Typed
from headgate.relational.schema import Field, Schema
from headgate.relational.spark_types import text_of


def ranked(
    verb: str,
    child: Relation,
    n: int,
    by: Sequence[str],
    order_by: Sequence[Ordered | Column | str] | Ordered | Column | str,
    rank: str | None,
    uid: str | None,
) -> Rank:
    """Return the plan of the first `n` rows of each key, the columns `by`, in the order `order_by`.

    `rank` names a column for their places, from 1; None: there is none. PlanError: a column is wrong, `n` is
    not 1 or more, a key is of no possible type, or rows of the table may come more than once.
    """
    where = f"{verb}() ({user_site()})"
    if not isinstance(n, int) or n < 1:
        raise PlanError(f"{where} got n={n!r}; expected a number of rows, 1 or more")
    refuse_repeated(verb, child)
    orders = orders_of(verb, order_by)
    keys = [child.schema.names[_key(verb, child, name)] for name in by]
    if not keys:
        raise PlanError(f"{where} got no columns in by; name those that rows have in common")
    others = [field.name for field in child.schema.shown if field.name not in keys]
    mine = dict(all_columns(child))
    columns = [(name, mine[name]) for name in (*keys, *others)]
    sorts = [_sort(verb, child, each) for each in orders]
    columns += [(f"{ORDER_PREFIX}{number}", value) for number, (value, _) in enumerate(sorts)]
    first = len(keys) + len(others)
    order = tuple(Order(first + number, descending) for number, (_, descending) in enumerate(sorts))
    narrow = projected(verb, child, columns)
    return Rank(_schema(where, narrow, first, rank), narrow, len(keys), order, n, rank, uid)


def _key(verb: str, child: Relation, name: str) -> int:
    place = child.schema.place(name)
    kind = child.schema.fields[place].type
    if not can_be_key(kind):
        raise PlanError(
            f"{verb}() ({user_site()}): {name} is {text_of(kind)}, by which rows cannot be grouped; cast it to "
            "string or to a number"
        )
    return place


def _sort(verb: str, child: Relation, order: Ordered) -> tuple[Typed, bool]:
    found = resolved(child, verb, order.column.expression)
    if pa.types.is_nested(found.type):
        raise PlanError(f"{verb}() ({user_site()}): rows have no order by {found}, which is {text_of(found.type)}")
    return found, order.descending


def _schema(where: str, narrow: Relation, shown: int, rank: str | None) -> Schema:
    fields = [*narrow.schema.fields[:shown]]
    if rank is not None:
        if narrow.schema.find(rank) is not None:
            raise PlanError(f"{where}: the table has a column {rank!r} already; give the rank another name")
        fields.append(Field(rank, pa.int64(), False))
    return Schema((*fields, Field(CHANGE, pa.int8(), False)))
