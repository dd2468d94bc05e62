"""Columns in a program's expressions, with Python's operators and the methods of PySpark's `Column`."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from typing import NoReturn, TypeAlias

from headgate.common.errors import PlanError
from headgate.relational.expressions import (
    AggregateCall,
    Alias,
    Aliases,
    Call,
    Case,
    Cast,
    Expression,
    Literal,
    Scalar,
    Setting,
    name_of,
)
from headgate.relational.function_families import function_names

ColumnLike: TypeAlias = "Column | Scalar"
"""A column, or a value that is the same for all rows."""


class Column:
    """A column expression, which a table computes for all its rows; ``headgate.functions`` makes columns.

    Example:
        >>> import headgate.functions as F
        >>> (F.col("price") * 2 > 100) & F.col("open")
        Column<and(((price * 2) > 100), open)>
    """

    __slots__ = ("expression",)
    __hash__ = None  # type: ignore[assignment]  # `==` makes a column

    def __init__(self, expression: Expression) -> None:
        self.expression = expression

    def __repr__(self) -> str:
        return f"Column<{self.expression}>"

    def __bool__(self) -> NoReturn:
        raise PlanError(
            f"{self!r} was used as a truth value; combine conditions with & | ~ (in parentheses), not with "
            "and, or, not"
        )

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("_"):
            raise AttributeError(name)
        if name in function_names():
            raise AttributeError(f"a column has no {name!r}; write F.{name}(column, ...)")
        near = difflib.get_close_matches(name, [each for each in dir(Column) if each[0] != "_"], 1)
        hint = f"did you mean {near[0]!r}?" if near else "functions are called as F.name(column)"
        raise AttributeError(f"a column has no {name!r}; {hint}")

    def __getitem__(self, key: object) -> NoReturn:
        raise PlanError(
            f"{self!r} was indexed with {key!r:.80}; write F.get(column, F.lit(0)) for an element of an "
            'array, F.element_at(column, key) for a value of a map, F.col("a.b") for a field of a struct'
        )

    # -- arithmetic

    def __add__(self, other: ColumnLike) -> Column:
        return call("+", self, other)

    def __radd__(self, other: ColumnLike) -> Column:
        return call("+", other, self)

    def __sub__(self, other: ColumnLike) -> Column:
        return call("-", self, other)

    def __rsub__(self, other: ColumnLike) -> Column:
        return call("-", other, self)

    def __mul__(self, other: ColumnLike) -> Column:
        return call("*", self, other)

    def __rmul__(self, other: ColumnLike) -> Column:
        return call("*", other, self)

    def __truediv__(self, other: ColumnLike) -> Column:
        return call("/", self, other)

    def __rtruediv__(self, other: ColumnLike) -> Column:
        return call("/", other, self)

    def __mod__(self, other: ColumnLike) -> Column:
        return call("%", self, other)

    def __rmod__(self, other: ColumnLike) -> Column:
        return call("%", other, self)

    def __neg__(self) -> Column:
        return call("negative", self)

    # -- comparisons and conditions

    def __eq__(self, other: ColumnLike) -> Column:  # type: ignore[override]
        return self._equal("=", other)

    def __ne__(self, other: ColumnLike) -> Column:  # type: ignore[override]
        return self._equal("<>", other)

    def _equal(self, function: str, other: ColumnLike) -> Column:
        if other is None:
            raise PlanError(
                f"{self!r} was compared with None, which is true for no row; write isNull() or isNotNull()"
            )
        return call(function, self, other)

    def __lt__(self, other: ColumnLike) -> Column:
        return call("<", self, other)

    def __le__(self, other: ColumnLike) -> Column:
        return call("<=", self, other)

    def __gt__(self, other: ColumnLike) -> Column:
        return call(">", self, other)

    def __ge__(self, other: ColumnLike) -> Column:
        return call(">=", self, other)

    def __and__(self, other: ColumnLike) -> Column:
        return call("and", self, other)

    def __rand__(self, other: ColumnLike) -> Column:
        return call("and", other, self)

    def __or__(self, other: ColumnLike) -> Column:
        return call("or", self, other)

    def __ror__(self, other: ColumnLike) -> Column:
        return call("or", other, self)

    def __invert__(self) -> Column:
        return call("not", self)

    def eqNullSafe(self, other: ColumnLike) -> Column:  # noqa: N802  # PySpark's name
        """Return whether both values are equal, or both are null; the result is never null."""
        return call("<=>", self, other)

    def isNull(self) -> Column:  # noqa: N802
        """Return whether the value is null."""
        return call("isnull", self)

    def isNotNull(self) -> Column:  # noqa: N802
        """Return whether the value is not null."""
        return call("isnotnull", self)

    def isin(self, *values: ColumnLike | Sequence[ColumnLike]) -> Column:
        """Return whether the value equals one of `values`, columns or constants, or of the one list given."""
        listed = values[0] if len(values) == 1 and isinstance(values[0], list | tuple) else values
        return call("in", self, *listed)

    def between(self, low: ColumnLike, high: ColumnLike) -> Column:
        """Return whether the value lies between `low` and `high`, both included."""
        return (self >= low) & (self <= high)

    # -- names and types

    def alias(self, name: str, *more: str) -> Column:
        """Return the column under a name; what makes several columns, as `posexplode`, takes one for each."""
        return Column(Aliases(self.expression, (name, *more)) if more else Alias(self.expression, name))

    name = alias

    def cast(self, to: str) -> Column:
        """Return the value as a Spark type such as "bigint"; a value that does not fit fails the job."""
        return Column(Cast(self.expression, _type_name(to)))

    astype = cast

    def try_cast(self, to: str) -> Column:
        """Return the value as a Spark type such as "bigint"; null where a value does not fit."""
        return Column(Cast(self.expression, _type_name(to), strict=False))

    def when(self, condition: Column, value: ColumnLike) -> Column:
        """Return this ``F.when(...)`` with one more branch, after the others; PlanError for other columns."""
        chosen = self._case()
        branch = (expression_of(condition), expression_of(value))
        return Column(Case((*chosen.branches, branch), chosen.otherwise))

    def otherwise(self, value: ColumnLike) -> Column:
        """Return this ``F.when(...)`` with `value` where no branch is true; PlanError for other columns."""
        return Column(Case(self._case().branches, expression_of(value)))

    def _case(self) -> Case:
        if not isinstance(self.expression, Case):
            raise PlanError(f"when() and otherwise() go on what F.when(...) gives; got {self!r}")
        return self.expression


def _type_name(to: str) -> str:
    if not isinstance(to, str):
        raise PlanError(f'cast() got {to!r:.80}; expected the name of a type, such as "bigint"')
    return to


def expression_of(value: ColumnLike) -> Expression:
    return value.expression if isinstance(value, Column) else Literal(value)


def call(function: str, *arguments: ColumnLike) -> Column:
    """Return a call of the registered function `function`, not yet checked; `arguments` may be constants."""
    return Column(Call(function, tuple(map(expression_of, arguments))))


def aggregate(
    function: str, *arguments: ColumnLike, settings: tuple[Setting, ...] = (), named: bool = False
) -> Column:
    """Return a column that aggregates a group's rows by `function`, which ``agg()`` checks, not this
    function. `arguments` are columns or values per row, `settings` its constants, such as the shares of a
    percentile. The name of the result's column shows the settings if `named`.
    """
    return Column(AggregateCall(function, tuple(map(expression_of, arguments)), settings, named))


def shown_name(column: Column) -> str:
    return name_of(column.expression)
