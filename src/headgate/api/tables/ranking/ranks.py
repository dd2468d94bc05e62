"""The first rows of each key in some order: checks the calls, and makes their plan."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import pyarrow as pa

from headgate.api.site import user_site
from headgate.api.tables.checked_columns import all_columns, checked, projected, resolved
from headgate.api.tables.column import Column
from headgate.api.tables.firing_rules import refuse_repeated
from headgate.api.tables.ranking.ordering import Ordered, orders_of
from headgate.common.errors import PlanError
from headgate.relational.aggregates import resolve_aggregate
from headgate.relational.changes import CHANGE
from headgate.relational.expressions import AggregateCall
from headgate.relational.python_types import can_be_key
from headgate.relational.relations import ORDER_PREFIX, Order, Over, Rank, Relation
from headgate.relational.resolved import Column as ResolvedColumn
from headgate.relational.resolved import Typed
from headgate.relational.schema import Field, Schema, refuse_reserved, shown
from headgate.relational.spark_types import text_of


def ranked(
    verb: str,
    child: Relation,
    n: object,
    by: Sequence[str],
    order_by: Sequence[Ordered | Column | str] | Ordered | Column | str,
    rank: str | None,
    uid: str | None,
    ttl_ms: int | None = None,
) -> Rank:
    """Return the plan of the first `n` rows of each key, the columns `by`, in the order `order_by`.

    `rank` names a column for their places, from 1; None: there is none. After `ttl_ms` without rows a key is
    forgotten; None: never. PlanError: a column is wrong, `n` is
    not 1 or more, a key is of no possible type, or rows of the table may come more than once.
    """
    where = f"{verb}() ({user_site()})"
    if isinstance(n, bool) or not isinstance(n, int) or n < 1:
        raise PlanError(f"{where} got n={n!r}; expected a number of rows, 1 or more")
    columns, keys, order = _ordered(verb, child, by, order_by)
    narrow = projected(verb, child, columns)
    first = len(columns) - len(order)
    return Rank(_schema(where, narrow, first, rank), narrow, keys, order, n, rank, uid, ttl_ms)


def over(
    child: Relation,
    by: Sequence[str],
    order_by: Sequence[Ordered | Column | str] | Ordered | Column | str,
    preceding: object,
    calls: Sequence[tuple[str, AggregateCall]],
    uid: str | None,
    ttl_ms: int | None = None,
) -> Over:
    """Return the plan of aggregates over each row and rows before it, for :meth:`Table.over`.

    PlanError: a column is wrong, `preceding` is below 0, a key is of no possible type, or rows may come more
    than once.
    """
    where = f"over() ({user_site()})"
    if not (preceding is None or (isinstance(preceding, int) and preceding >= 0)):
        raise PlanError(f"{where} got preceding={preceding!r}; expected a number of rows, 0 or more, or None")
    if not calls:
        raise PlanError(f"{where} got no aggregates; name one, such as F.avg('price')")
    columns, keys, order = _ordered("over", child, by, order_by)
    shown, found = len(columns) - len(order), []
    for name, call in calls:
        each = checked("over", partial(resolve_aggregate, call, name, child.schema))
        arguments = []
        for argument in each.arguments:
            arguments.append(
                ResolvedColumn(argument.type, argument.nullable, len(columns), f"{name}/argument")
            )
            columns.append((f"{name}/argument{len(columns)}", argument))
        found.append(each._replace(arguments=tuple(arguments)))
    narrow = projected("over", child, columns)
    results = [Field(each.name, each.result, each.nullable) for each in found]
    fields = (*narrow.schema.fields[:shown], *results, Field(CHANGE, pa.int8(), False))
    names = [field.name for field in fields]
    if len(set(names)) < len(names):
        raise PlanError(f"{where}: two columns of the result have one name; use alias()")
    return Over(Schema(fields), narrow, keys, order, preceding, tuple(found), shown, uid, ttl_ms)


def _ordered(
    verb: str,
    child: Relation,
    by: Sequence[str],
    order_by: Sequence[Ordered | Column | str] | Ordered | Column | str,
) -> tuple[list[tuple[str, Typed]], int, tuple[Order, ...]]:
    """Return the columns of `child`, the keys first, and then those to order by; how many are keys; the
    order.
    """
    where = f"{verb}() ({user_site()})"
    refuse_repeated(verb, child)
    orders = orders_of(verb, order_by)
    keys = [child.schema.names[_key(verb, child, name)] for name in by]
    if not keys:
        raise PlanError(f"{where} got no columns in by; name those that rows have in common")
    others = [field.name for field in shown(child.schema) if field.name not in keys]
    mine = dict(all_columns(child))
    columns = [(name, mine[name]) for name in (*keys, *others)]
    sorts = [sort_of(verb, child, each) for each in orders]
    # State is found by these names: rows that were kept in another order are no use.
    for number, (value, descending) in enumerate(sorts):
        columns.append((f"{ORDER_PREFIX}{number} {value}{' descending' if descending else ''}", value))
    first = len(keys) + len(others)
    order = tuple(Order(first + number, descending) for number, (_, descending) in enumerate(sorts))
    return columns, len(keys), order


def _key(verb: str, child: Relation, name: str) -> int:
    place = child.schema.place(name)
    kind = child.schema.fields[place].type
    if not can_be_key(kind):
        raise PlanError(
            f"{verb}() ({user_site()}): {name} is {text_of(kind)}, by which rows cannot be grouped; cast it "
            "to "
            "string or to a number"
        )
    return place


def sort_of(verb: str, child: Relation, order: Ordered) -> tuple[Typed, bool]:
    """Return the values to order by, and whether greater ones come first; PlanError: they have no order."""
    found = resolved(child, verb, order.column.expression)
    if pa.types.is_nested(found.type):
        raise PlanError(
            f"{verb}() ({user_site()}): rows have no order by {found}, which is {text_of(found.type)}"
        )
    return found, order.descending


def _schema(where: str, narrow: Relation, shown: int, rank: str | None) -> Schema:
    fields = [*narrow.schema.fields[:shown]]
    if rank is not None:
        refuse_reserved((rank,), where)
        if narrow.schema.find(rank) is not None:
            raise PlanError(f"{where}: the table has a column {rank!r} already; give the rank another name")
        fields.append(Field(rank, pa.int64(), False))
    return Schema((*fields, Field(CHANGE, pa.int8(), False)))
