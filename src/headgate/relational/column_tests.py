"""Conditions on single columns, by which a source may leave out records that a table would drop anyway."""

from __future__ import annotations

import datetime as dt
import operator
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, final, get_args

from headgate.common.errors import UsageError

if TYPE_CHECKING:
    import pyarrow as pa

Known: TypeAlias = bool | int | str | bytes | Decimal | dt.date | dt.datetime
"""A constant that a column is compared with."""

Comparison: TypeAlias = Literal["=", "<", "<=", ">", ">=", "in", "is null", "is not null"]

_ORDERS: Final[dict[str, Callable[[Any, Any], bool]]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_OF_NULL: Final = ("is null", "is not null")


@final
@dataclass(frozen=True, slots=True)
class ColumnTest:
    """A condition on one column, which a source gets by :meth:`Source.with_filters`: ``price > 100``.

    Columns of floats are never tested. Texts and binaries are compared by their bytes.

    Attributes:
        column: its name in the source.
        type: the type that the table reads it as. Where the input has another type, keep the records.
        comparison: one of "=", "<", "<=", ">", ">=", "in", "is null" and "is not null".
        values: what the column is compared with: one value, for "in" any number of them, else none. They are
            of the type's class in Python: a `date`, an aware `datetime` for timestamps (a naive one for those
            without zone), a `Decimal`, and so on.
        or_null: whether null passes, too; without it null passes "is null" only.

    Raises:
        UsageError: there is no such comparison, or it takes another number of values.

    Example:
        >>> import pyarrow as pa
        >>> import headgate as hg
        >>> test = hg.ColumnTest("price", pa.int64(), ">", (100,))
        >>> print(test), test.passes(101), test.passes(100), test.passes(None)
        price > 100
        (None, True, False, False)
        >>> test.may_pass(7, 100), test.may_pass(7, 120)  # rows whose prices lie in these bounds
        (False, True)
    """

    column: str
    type: pa.DataType
    comparison: Comparison
    values: tuple[Known, ...] = ()
    or_null: bool = False

    def __post_init__(self) -> None:
        if self.comparison not in get_args(Comparison):
            known = ", ".join(map(repr, get_args(Comparison)))
            raise UsageError(f"ColumnTest got comparison={self.comparison!r}; expected one of {known}")
        wanted = 0 if self.comparison in _OF_NULL else 1
        if self.comparison != "in" and len(self.values) != wanted:
            raise UsageError(
                f"ColumnTest got {len(self.values)} values for {self.comparison!r}; expected {wanted}"
            )

    def passes(self, value: Known | None) -> bool:
        """Return whether a record with `value` in the column passes; None stands for null."""
        if value is None:
            return self.or_null or self.comparison == "is null"
        return self.may_pass(value, value)

    def may_pass(self, least: Known, greatest: Known) -> bool:
        """Return whether some value from `least` to `greatest`, both included, passes; null is none of them.

        TypeError if they cannot be compared with the test's values.
        """
        match self.comparison:
            case "is null" | "is not null":
                return self.comparison == "is not null"
            case "=" | "in":
                at_most = _ORDERS["<="]
                return any(at_most(least, each) and at_most(each, greatest) for each in self.values)
            case "<" | "<=":
                return _ORDERS[self.comparison](least, self.values[0])
        return _ORDERS[self.comparison](greatest, self.values[0])

    def __str__(self) -> str:
        shown = ", ".join(repr(each) if isinstance(each, str) else str(each) for each in self.values)
        if self.comparison == "in":
            shown = f"({shown})"
        text = f"{self.column} {self.comparison}{f' {shown}' if shown else ''}"
        return f"({text} or null)" if self.or_null else text
