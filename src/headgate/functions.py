"""Functions of columns, by the names of ``pyspark.sql.functions``: ``import headgate.functions as F``."""

from collections.abc import Callable

from headgate.api.tables.column import Column
from headgate.api.tables.column_functions import (
    avg,
    col,
    column,
    count,
    cumulate_window,
    explode,
    explode_outer,
    expr,
    lit,
    mean,
    posexplode,
    posexplode_outer,
    session_window,
    when,
    window,
    window_time,
)
from headgate.api.tables.column_functions import max as max  # noqa: A004  # PySpark's names
from headgate.api.tables.column_functions import min as min  # noqa: A004
from headgate.api.tables.column_functions import sum as sum  # noqa: A004
from headgate.api.tables.named_functions import function_named
from headgate.api.tables.python_functions import udf

__all__ = [
    "avg", "col", "column", "count", "cumulate_window", "explode", "explode_outer", "expr", "lit", "max",
    "mean", "min", "posexplode", "posexplode_outer", "session_window", "sum", "udf", "when", "window",
    "window_time",
]  # fmt: skip


def __getattr__(name: str) -> Callable[..., Column]:
    """Return a function of the registry, such as `upper`."""
    return function_named(name)
