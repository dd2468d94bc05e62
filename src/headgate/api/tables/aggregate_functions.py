"""Aggregates of a group's rows whose arguments are not only columns, and those that programs use most."""

from __future__ import annotations

from collections.abc import Sequence

from headgate.api.tables.column import Column, ColumnLike, aggregate
from headgate.api.tables.column_functions import column
from headgate.common.errors import PlanError
from headgate.relational.expressions import Literal


def count(what: Column | str = "*") -> Column:
    """Return the number of a group's rows ("*"), or of those whose value in a column is not null."""
    return aggregate("count") if isinstance(what, str) and what == "*" else plain_aggregate("count", what)


def sum(what: Column | str) -> Column:  # noqa: A001  # PySpark's name
    """Return the sum of a column's values; null if there is none. Overflow is an error; see ``try_sum``."""
    return plain_aggregate("sum", what)


def min(what: Column | str) -> Column:  # noqa: A001
    """Return the least value of a column, NaN above all numbers; null if all values are null."""
    return plain_aggregate("min", what)


def max(what: Column | str) -> Column:  # noqa: A001
    """Return the greatest value of a column, NaN above all numbers; null if all values are null."""
    return plain_aggregate("max", what)


def avg(what: Column | str) -> Column:
    """Return the mean of a column's values that are not null; null if there is none."""
    return plain_aggregate("avg", what)


mean = avg


def first(col: Column | str, ignorenulls: bool = False) -> Column:
    """Return the value of a column in the first row of a group; which one that is depends on the order.

    Rows of one subtask count in the order in which they come; those of several subtasks in no order.

    Args:
        col: the column.
        ignorenulls: take the first value that is not null; null if there is none.

    Example:
        >>> import headgate.functions as F
        >>> F.first("price", ignorenulls=True)
        Column<first(price)>
    """
    return _placed("first", col, ignorenulls)


def last(col: Column | str, ignorenulls: bool = False) -> Column:
    """Return the value of a column in the last row of a group; which one that is depends on the order.

    Rows of one subtask count in the order in which they come; those of several subtasks in no order.

    Args:
        col: the column.
        ignorenulls: take the last value that is not null; null if there is none.

    Example:
        >>> import headgate.functions as F
        >>> F.last("price").alias("close")
        Column<last(price) AS close>
    """
    return _placed("last", col, ignorenulls)


def first_value(col: Column | str, ignoreNulls: bool | Column | None = None) -> Column:  # noqa: N803
    """Return the column's value in the first row, as :func:`first`; with `ignoreNulls` the first not null."""
    return _placed("first_value", col, ignoreNulls)


def last_value(col: Column | str, ignoreNulls: bool | Column | None = None) -> Column:  # noqa: N803
    """Return the column's value in the last row, as :func:`last`; with `ignoreNulls`, the last not null."""
    return _placed("last_value", col, ignoreNulls)


def any_value(col: Column | str, ignoreNulls: bool | Column | None = None) -> Column:  # noqa: N803
    """Return the value of a column in some row of a group, null included.

    Args:
        col: the column.
        ignoreNulls: take a value that is not null; null if there is none.

    Example:
        >>> import headgate.functions as F
        >>> F.any_value("city", True)
        Column<any_value(city)>
    """
    return _placed("any_value", col, ignoreNulls)


def mode(col: Column | str, deterministic: bool = False) -> Column:
    """Return the most frequent value of a column; null if there is none.

    Args:
        col: the column.
        deterministic: without effect, for PySpark's sake: of equally frequent values the least is returned.

    Example:
        >>> import headgate.functions as F
        >>> F.mode("channel")
        Column<mode(channel)>
    """
    return aggregate("mode", _column(col), settings=(bool(deterministic),))


def percentile(
    col: Column | str, percentage: float | Sequence[float] | Column, frequency: Column | int = 1
) -> Column:
    """Return the exact percentile of a column's numbers, as a double: a share of them lies below it.

    All different values of a group are kept until its window ends.

    Args:
        col: the column of numbers.
        percentage: the share, from 0 to 1; of several the result is an array.
        frequency: how often each row counts, a whole number from 0 on.

    Raises:
        PlanError: a share is not a number, or not from 0 to 1 (then `agg` raises).

    Example:
        >>> import headgate.functions as F
        >>> F.percentile("ms", [0.5, 0.99])
        Column<percentile(ms, array(0.5, 0.99), 1)>
    """
    settings = (_shares(percentage),)
    return aggregate("percentile", _column(col), frequency, settings=settings, named=True)


def _shares(percentage: float | Sequence[float] | Column) -> float | tuple[float, ...]:
    given = _constant(percentage)
    several = given if isinstance(given, list | tuple) else (given,)
    if not all(isinstance(each, int | float) and not isinstance(each, bool) for each in several):
        raise PlanError(
            f"percentile() got the share {percentage!r}; expected a number from 0 to 1, or a list"
        )
    return tuple(several) if isinstance(given, list | tuple) else several[0]


def listagg(col: Column | str, delimiter: str | Column | None = None) -> Column:
    """Return the texts of a column joined to one text, in the order of the rows; null if there is none.

    Args:
        col: the column of texts.
        delimiter: what stands between two texts, a constant (else PlanError); None: nothing.

    Example:
        >>> import headgate.functions as F
        >>> F.listagg("name", ", ")
        Column<listagg(name, , )>
    """
    return _texts("listagg", col, delimiter)


def listagg_distinct(col: Column | str, delimiter: str | Column | None = None) -> Column:
    """Return the different texts of a column, each once, joined as by :func:`listagg`."""
    return _texts("listagg_distinct", col, delimiter)


def string_agg(col: Column | str, delimiter: str | Column | None = None) -> Column:
    """Return what :func:`listagg` returns: texts joined, `delimiter` between them; null if there is none."""
    return _texts("string_agg", col, delimiter)


def string_agg_distinct(col: Column | str, delimiter: str | Column | None = None) -> Column:
    """Return what :func:`listagg_distinct` returns, under another name."""
    return _texts("string_agg_distinct", col, delimiter)


def plain_aggregate(function: str, *columns: ColumnLike) -> Column:
    """Return aggregate `function` of `columns`, not checked yet (`agg` does); text is a column's name."""
    return aggregate(_SHOWN.get(function, function), *map(_column, columns))


_SHOWN = {"array_agg": "collect_list", "countDistinct": "count_distinct", "sumDistinct": "sum_distinct"}
"""Name of an aggregate -> the name that PySpark shows for it, where the two differ."""


def _column(what: ColumnLike) -> ColumnLike:
    return column(what) if isinstance(what, str) else what


def _placed(function: str, what: Column | str, ignore_nulls: bool | Column | None) -> Column:
    return aggregate(function, _column(what), settings=(bool(_constant(ignore_nulls)),))


def _texts(function: str, what: Column | str, delimiter: str | Column | None) -> Column:
    between = _constant(delimiter)
    if not isinstance(between, str | None):
        raise PlanError(f"{function}() got the delimiter {delimiter!r}; expected a text")
    return aggregate(function, _column(what), settings=(between,), named=True)


def _constant(given: object) -> object:
    if not isinstance(given, Column):
        return given
    if not isinstance(given.expression, Literal):
        raise PlanError(f"{given!r} is computed of rows; a setting of an aggregate is a constant")
    return given.expression.value
