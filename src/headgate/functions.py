"""Functions of columns, by the names of ``pyspark.sql.functions``: ``import headgate.functions as F``."""

from collections.abc import Callable

from headgate.api.tables.aggregate_functions import (
    any_value,
    avg,
    count,
    first,
    first_value,
    last,
    last_value,
    listagg,
    listagg_distinct,
    mean,
    mode,
    percentile,
    string_agg,
    string_agg_distinct,
)
from headgate.api.tables.aggregate_functions import max as max  # noqa: A004  # PySpark's names
from headgate.api.tables.aggregate_functions import min as min  # noqa: A004
from headgate.api.tables.aggregate_functions import sum as sum  # noqa: A004
from headgate.api.tables.column import Column as Column  # for the types of programs
from headgate.api.tables.column_functions import (
    col,
    column,
    cumulate_window,
    explode,
    explode_outer,
    expr,
    lit,
    posexplode,
    posexplode_outer,
    proctime,
    session_window,
    when,
    window,
    window_time,
)
from headgate.api.tables.named_functions import function_named
from headgate.api.tables.python_functions import udf
from headgate.api.tables.ranking.ordering import asc as asc
from headgate.api.tables.ranking.ordering import desc as desc

__all__ = [
    "any_value", "avg", "col", "column", "count", "cumulate_window", "explode", "explode_outer", "expr",
    "first", "first_value", "last", "last_value", "listagg", "listagg_distinct", "lit", "max", "mean", "min",
    "mode", "percentile", "posexplode", "posexplode_outer", "proctime", "session_window", "string_agg",
    "string_agg_distinct", "sum", "udf", "when", "window", "window_time",
]  # fmt: skip


def __getattr__(name: str) -> Callable[..., Column]:
    """Return the column function or aggregate `name`, such as `upper` or `stddev`, or AttributeError."""
    return function_named(name)
