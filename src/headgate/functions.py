"""Functions of columns, by the names of ``pyspark.sql.functions``: ``import headgate.functions as F``."""

from headgate.api.tables.column_functions import (
    avg,
    col,
    column,
    count,
    expr,
    lit,
    max,  # noqa: A004  # PySpark's names
    mean,
    min,  # noqa: A004
    sum,  # noqa: A004
    when,
    window,
)

__all__ = ["avg", "col", "column", "count", "expr", "lit", "max", "mean", "min", "sum", "when", "window"]
