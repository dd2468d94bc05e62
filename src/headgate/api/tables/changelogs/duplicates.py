"""Plans of rows without duplicates: which of the rows with equal columns is kept."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Final, Literal, NamedTuple, TypeAlias

from headgate.api.site import user_site
from headgate.api.tables.checked_columns import all_columns, checked, place_of, projected
from headgate.api.tables.column import Column
from headgate.api.tables.firing_rules import refuse_repeated, time_to_live
from headgate.api.tables.ranking.ordering import Ordered, orders_of
from headgate.api.tables.ranking.ranks import ranked
from headgate.api.windows.window import checked_duration
from headgate.common.errors import PlanError
from headgate.relational.joins.odd_keys import Keys, keys_with_nulls
from headgate.relational.relations import Deduplicate, Project, Rank, Relation
from headgate.relational.schema import shown

Keep: TypeAlias = Literal["first", "last"]
OrderBy: TypeAlias = "Sequence[Ordered | Column | str] | Ordered | Column | str"

_VERB: Final = "drop_duplicates"


class Bounds(NamedTuple):
    """What bounds the state of a call: `within_ms` of event time, `ttl_ms` of the clock; None: nothing."""

    within_ms: int | None
    ttl_ms: int | None


def bounds_of(child: Relation, within: str | int | None, ttl: str | int | None) -> Bounds:
    """Return what bounds the state of ``drop_duplicates()``. PlanError: something is no duration, both are
    given, or rows have no event time to be `within`.
    """
    where = f"{_VERB}() ({user_site()})"
    if within is not None and ttl is not None:
        raise PlanError(
            f"{where} got within and ttl; within forgets keys by event time already: leave ttl away"
        )
    if within is not None and child.schema.event_time is None:
        raise PlanError(
            f"{where} got within={within!r}, and the table has no event time; call with_watermark() on "
            "it, or with_event_time() on its stream, first"
        )
    within_ms = None if within is None else checked_duration(_VERB, "within", within)
    return Bounds(within_ms, time_to_live(_VERB, ttl))


def check_how(child: Relation, keep: Keep, order_by: OrderBy | None, bounds: Bounds) -> None:
    """Raise PlanError if the arguments of ``drop_duplicates()`` do not go together, or not with the table."""
    where = f"{_VERB}() ({user_site()})"
    refuse_repeated(_VERB, child)
    if keep not in ("first", "last"):
        raise PlanError(f'{where} got keep={keep!r}; expected "first" or "last"')
    if bounds.within_ms is not None and (keep == "last" or order_by is not None):
        raise PlanError(
            f"{where} got within, by which each key's first row is sent once, as it comes; leave keep and "
            "order_by away, or take windows: group_by(columns, F.window(...)).agg(F.last(...))"
        )
    if child.schema.updating and order_by is None:
        raise PlanError(
            f"{where}: rows of the table are corrected as more come, so none of them is the first that "
            "came; say which one by order_by, or write distinct()"
        )


def keyed(verb: str, child: Relation, subset: Sequence[str] | None) -> tuple[Project, Keys]:
    """Return the rows of `child` with keys for the columns `subset` first, and the keys; None: for all
    columns. PlanError: there is no such column, or its values cannot be told from each other.
    """
    if isinstance(subset, str) or (subset is not None and not subset):
        raise PlanError(
            f"{verb}() ({user_site()}) got {subset!r}; expected a list of names of columns, or None"
        )
    names = [field.name for field in shown(child.schema)] if subset is None else list(subset)
    places = list(dict.fromkeys(place_of(child, verb, name) for name in names))
    keys = checked(verb, partial(keys_with_nulls, child.schema, places))
    return projected(verb, child, [*keys.columns, *all_columns(child)]), keys


def first_as_they_come(
    child: Relation, subset: Sequence[str] | None, bounds: Bounds, uid: str | None
) -> Deduplicate:
    """Return the plan of the first row of each key, which is sent once."""
    rows, keys = keyed(_VERB, child, subset)
    return Deduplicate(child.schema, rows, len(keys.columns), bounds.within_ms, uid, bounds.ttl_ms)


def one_in_order(
    child: Relation,
    subset: Sequence[str] | None,
    keep: Keep,
    order_by: OrderBy,
    bounds: Bounds,
    uid: str | None,
) -> Rank:
    """Return the plan of each key's first, or last, row in an order."""
    rows, keys = keyed(_VERB, child, subset)
    orders = orders_of(_VERB, order_by)
    if keep == "last":
        orders = [each._replace(descending=not each.descending) for each in orders]
    return ranked(_VERB, rows, 1, [name for name, _ in keys.columns], orders, None, uid, bounds.ttl_ms)
