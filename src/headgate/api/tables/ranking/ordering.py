"""The order of rows, by columns that ascend or descend."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from headgate.api.site import user_site
from headgate.api.tables.column import Column
from headgate.common.errors import PlanError
from headgate.relational.expressions import Reference


class Ordered(NamedTuple):
    """A column by which rows are ordered. ``F.desc("price")`` makes one, and a plain column means ascending.

    Attributes:
        column: the values.
        descending: whether greater ones come first. Null is less than any value, NaN is greater.
    """

    column: Column
    descending: bool = False


def asc(column: Column | str) -> Ordered:
    """Return an order by `column`, with the least values first, and null before them."""
    return Ordered(_column(column))


def desc(column: Column | str) -> Ordered:
    """Return an order by `column`, with the greatest values first, and null after all."""
    return Ordered(_column(column), descending=True)


def orders_of(verb: str, given: Sequence[Ordered | Column | str] | Ordered | Column | str) -> list[Ordered]:
    """Return the orders that a program gave to the call `verb`; PlanError: something is none, or none
    came.
    """
    listed = [given] if isinstance(given, str | Column | Ordered) else list(given)
    for each in listed:
        if not isinstance(each, str | Column | Ordered):
            raise PlanError(
                f"{verb}() ({user_site()}) got {each!r:.80} to order by; expected columns, as in "
                'F.desc("price")'
            )
    if not listed:
        raise PlanError(
            f'{verb}() ({user_site()}) got nothing to order by; name a column, as in F.desc("at")'
        )
    return [each if isinstance(each, Ordered) else asc(each) for each in listed]


def _column(column: Column | str) -> Column:
    return Column(Reference(column)) if isinstance(column, str) else column
