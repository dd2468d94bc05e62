"""Calls the program's functions row by row within an expression, and makes a column of what they return."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeAlias

import pyarrow as pa

from headgate.relational.resolved import PythonApply
from headgate.relational.spark_types import text_of

Arguments: TypeAlias = tuple[Any, ...]
"""The values of one row with which a function of the program is called; null is None."""

UNFIT = (pa.ArrowException, OverflowError, TypeError, ValueError)
"""Exceptions that Arrow raises for a value that does not fit a column's type."""


class PythonFailed(Exception):
    """A function of the program raised, or returned a value that does not fit its declared type.

    Attributes:
        call: the function with its arguments, as text.
        error: what it raised; None if it returned a wrong value.
        why: what is wrong with the value.
    """

    def __init__(self, call: str, error: BaseException | None, why: str = "") -> None:
        super().__init__(call, error, why)
        self.call, self.error, self.why = call, error, why


def called_by_row(expression: PythonApply, rows: Iterable[Arguments]) -> pa.Array:
    """Call the function of `expression` with the values of each row; return the column of its results.

    Raises:
        PythonFailed: it raised, or a value does not fit its type.
    """
    function, kind = expression.function.function, expression.type
    given, found, row = list(rows), [], ()
    try:
        for row in given:
            found.append(function(*row))
    except BaseException as error:
        raise PythonFailed(_call(expression, row), error) from error
    try:
        return pa.array(found, kind, from_pandas=False)
    except UNFIT:
        raise _misfit(expression, given, found) from None


def _misfit(expression: PythonApply, given: list[Arguments], found: list[object]) -> PythonFailed:
    for row, value in zip(given, found, strict=True):
        try:
            pa.array([value], expression.type, from_pandas=False)
        except UNFIT:
            why = f"{value!r:.80} of type {type(value).__name__}"
            return PythonFailed(_call(expression, row), None, f"{why}; expected {text_of(expression.type)}")
    return PythonFailed(str(expression), None, f"values that are no {text_of(expression.type)}")


def _call(expression: PythonApply, row: Arguments) -> str:
    named = zip(expression.arguments, row, strict=True)
    return f"{expression.function.name}({', '.join(f'{name}={value!r:.100}' for name, value in named)})"
