"""Functions of the registry as functions of Python, with the arguments that they have in PySpark."""

from __future__ import annotations

import difflib
from collections.abc import Callable
from functools import partial

from headgate.api.tables.aggregate_functions import plain_aggregate
from headgate.api.tables.column import Column, ColumnLike, call
from headgate.api.tables.column_functions import col
from headgate.relational.aggregates import AGGREGATE_ALIASES, AGGREGATES, aggregate_names
from headgate.relational.function_families import function_names
from headgate.relational.text_arguments import PLACES


def function_named(name: str) -> Callable[..., Column]:
    """Return the function or aggregate that is called `name`; it takes its arguments by place.

    Text names a column, except where PySpark takes text as a value, as for a pattern or a format.

    Raises:
        AttributeError: there is no such function; the message names the nearest one.

    Example:
        >>> import headgate.functions as F
        >>> F.lpad("name", 5, "*"), F.upper(F.col("name")), F.try_divide("a", "b")
        (Column<lpad(name, 5, *)>, Column<upper(name)>, Column<try_divide(a, b)>)
        >>> F.stddev("price"), F.count_distinct("a", "b")
        (Column<stddev(price)>, Column<count(DISTINCT a, b)>)
    """
    if name.startswith("_"):
        raise AttributeError(name)
    if name in AGGREGATES or name in AGGREGATE_ALIASES:
        return partial(plain_aggregate, name)
    known = [*function_names(), *aggregate_names()]
    if name not in known:
        near = difflib.get_close_matches(name, known, 1, 0.0)
        raise AttributeError(f"headgate.functions has no {name!r}; did you mean {near[0]!r}?")
    return partial(_called, name)


def _called(name: str, *arguments: ColumnLike | str) -> Column:
    texts = PLACES.get(name.removeprefix("try_"), ())
    given = [
        col(each) if isinstance(each, str) and place not in texts else each
        for place, each in enumerate(arguments)
    ]
    return call(name, *given)
