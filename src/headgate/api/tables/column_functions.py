"""Functions of columns, by the names of ``pyspark.sql.functions``: ``import headgate.functions as F``."""

from __future__ import annotations

from headgate.api.tables.column import Column, ColumnLike, call, expression_of
from headgate.common.errors import PlanError
from headgate.common.time import duration_ms
from headgate.relational.expressions import (
    Case,
    Expression,
    Generator,
    Literal,
    ProcessingTime,
    Reference,
    Scalar,
    TimeWindow,
)


def col(name: str) -> Column:
    """Return the column of this name, which the table that uses it checks; ``a.b``: field b of the struct a.

    Example:
        >>> import headgate.functions as F
        >>> F.col("price") > 100
        Column<(price > 100)>
    """
    return Column(Reference(name))


column = col


def lit(value: Scalar) -> Column:
    """Return a constant column: `value` in all rows."""
    return Column(Literal(value))


def when(condition: Column, value: ColumnLike) -> Column:
    """Return `value` where `condition` is true, else null; ``.when(...)`` and ``.otherwise(...)`` add to it.

    Example:
        >>> import headgate.functions as F
        >>> F.when(F.col("n") > 0, 1 / F.col("n")).otherwise(0)
        Column<CASE WHEN (n > 0) THEN (1 / n) ELSE 0 END>
    """
    return Column(Case(((expression_of(condition), expression_of(value)),)))


def expr(function: str, *arguments: ColumnLike | str) -> Column:
    """Return a call of function `function`, checked by the table; it is no SQL. Text names a column."""
    return call(function, *map(_column, arguments))


def _column(value: ColumnLike) -> ColumnLike:
    return col(value) if isinstance(value, str) else value


def window(
    time: Column | str, size: str | int, slide: str | int | None = None, offset: str | int = 0
) -> Column:
    """Return the window, or with `slide` the windows, in which a row lies: a key of ``group_by``.

    Args:
        time: the table's column of event time, or :func:`proctime`.
        size: length of a window, as text such as "10 seconds" or "10s", or in ms.
        slide: time between the starts of two windows, like `size`, which it is by default (None).
        offset: by which all windows are moved from 1970-01-01 00:00 UTC.

    Raises:
        PlanError: a text is no duration, `size` or `slide` not above 0, or `slide` is above `size`.
    """
    size_ms = _duration("window", size, "size")
    slide_ms = size_ms if slide is None else _duration("window", slide, "slide")
    if not 0 < slide_ms <= size_ms:
        raise PlanError(
            f"window(): size is {size!r} and slide {slide!r}; expected a slide above 0 and up to the size"
        )
    offset_ms = _duration("window", offset, "offset")
    return Column(TimeWindow(_time(time), size_ms, slide_ms, offset_ms))


def session_window(time: Column | str, gap: str | int) -> Column:
    """Return the session in which a row lies, a key of ``group_by``: rows of a key with short pauses between.

    The result's column is called ``session_window``. It ends `gap` after the session's last row; a row at
    that very moment still belongs to the session.

    Args:
        time: the table's column of event time, or :func:`proctime`.
        gap: the longest pause, as text such as "10 seconds" or "10s", or in ms.

    Raises:
        PlanError: `gap` is no duration, or not above 0.

    Example:
        >>> import headgate.functions as F
        >>> F.session_window("at", "10s")
        Column<session_window(at, 10000 ms)>
    """
    gap_ms = _duration("session_window", gap, "gap")
    if gap_ms <= 0:
        raise PlanError(f"session_window(): gap is {gap!r}; expected a duration above 0")
    return Column(TimeWindow(_time(time), gap_ms, gap_ms, kind="session"))


def cumulate_window(time: Column | str, size: str | int, step: str | int, offset: str | int = 0) -> Column:
    """Return windows that grow, a key of ``group_by``: they begin together, and one ends after each `step`.

    Args:
        time: the table's column of event time, or :func:`proctime`.
        size: length of the longest window, as text such as "1 day" or "1d", or in ms.
        step: by how much each window is longer than the one before; `size` is a multiple of it.
        offset: by which all windows are moved from 1970-01-01 00:00 UTC.

    Raises:
        PlanError: a text is no duration, `step` is not above 0, or `size` is no multiple of `step`.

    Example:
        >>> import headgate.functions as F
        >>> F.cumulate_window("at", "1h", "10min")
        Column<cumulate_window(at, 3600000 ms, 600000 ms)>
    """
    size_ms, step_ms = _duration("cumulate_window", size, "size"), _duration("cumulate_window", step, "step")
    if not 0 < step_ms <= size_ms or size_ms % step_ms:
        raise PlanError(
            f"cumulate_window(): size is {size!r} and step {step!r}; expected a size that is a multiple of "
            "the step"
        )
    offset_ms = _duration("cumulate_window", offset, "offset")
    return Column(TimeWindow(_time(time), size_ms, step_ms, offset_ms, "cumulative"))


def window_time(window: Column | str) -> Column:
    """Return the last moment of a window column, a microsecond before the window's end.

    Example:
        >>> import headgate.functions as F
        >>> F.window_time("window")
        Column<timestamp_micros((unix_micros(window.end) - 1))>
    """
    name = window if isinstance(window, str) else str(window.expression)
    return call("timestamp_micros", call("unix_micros", col(f"{name}.end")) - 1)


def proctime() -> Column:
    """Return the wall clock of the worker, as the time of windows: ``F.window(F.proctime(), "10s")``.

    A row is in the window in which it comes to the worker that keeps its key, so results depend on the speed
    of the job, no row is late, and after a failure rows may come into other windows. Windows that have not
    ended when a bounded input ends give nothing. The name is that of Flink's SQL.

    Example:
        >>> import headgate.functions as F
        >>> F.window(F.proctime(), "10s")
        Column<window(proctime(), 10000 ms)>
    """
    return Column(ProcessingTime())


def _time(time: Column | str) -> Expression:
    return (time if isinstance(time, Column) else col(time)).expression


def _duration(function: str, given: str | int, what: str) -> int:
    if not isinstance(given, str | int | float):
        raise PlanError(f"{function}(): {what} is {given!r}; expected text such as '10s', or milliseconds")
    try:
        return duration_ms(given, what)
    except ValueError as error:
        raise PlanError(f"{function}(): {error}") from None


# -- several rows of one


def explode(values: Column | str) -> Column:
    """Return a row for each element of an array (column `col`), or entry of a map (`key`, `value`).

    It is a column of ``select()``, beside others, which are repeated. Rows whose array is null or empty give
    none. Each row has the event time of the row whose array it is from.

    Example:
        >>> import headgate.functions as F
        >>> F.explode("items").alias("item")
        Column<explode(items) AS item>
    """
    return _generator(values, position=False, outer=False)


def explode_outer(values: Column | str) -> Column:
    """Return what :func:`explode` gives, and one row of nulls where the array or map is null or empty."""
    return _generator(values, position=False, outer=True)


def posexplode(values: Column | str) -> Column:
    """Return what :func:`explode` gives, with the place of each element, from 0, before it (`pos`)."""
    return _generator(values, position=True, outer=False)


def posexplode_outer(values: Column | str) -> Column:
    """Return what :func:`posexplode` gives, and one row of nulls where the array or map is null or empty."""
    return _generator(values, position=True, outer=True)


def _generator(values: Column | str, *, position: bool, outer: bool) -> Column:
    of = col(values) if isinstance(values, str) else values
    return Column(Generator(of.expression, position, outer))
