"""Functions of columns, by the names of ``pyspark.sql.functions``: ``import headgate.functions as F``."""

from collections.abc import Callable

from headgate.api.tables.column import Column
from headgate.api.tables.column_functions import (
    avg,
    col,
    column,
    count,
    explode,
    explode_outer,
    expr,
    lit,
    mean,
    posexplode,
    posexplode_outer,
    when,
    window,
)
from headgate.api.tables.column_functions import max as max  # noqa: A004  # PySpark's names
from headgate.api.tables.column_functions import min as min  # noqa: A004
from headgate.api.tables.column_functions import sum as sum  # noqa: A004
from headgate.api.tables.named_functions import function_named
from headgate.api.tables.python_functions import udf

__all__ = [
    "avg", "col", "column", "count", "explode", "explode_outer", "expr", "lit", "max", "mean", "min",
    "posexplode", "posexplode_outer", "sum", "udf", "when", "window",
]  # fmt: skip


def __getattr__(name: str) -> Callable[..., Column]:
    """Return a function of the registry, such as `upper`."""
    return function_named(name)
