"""Columns of rows of a match that lie some rows after a variable's first row, or before its last one."""

from __future__ import annotations

from headgate.api.site import user_site
from headgate.api.tables.column import Column
from headgate.common.errors import PlanError
from headgate.relational.expressions import Reference
from headgate.relational.patterns.navigation import Kind, Navigation


def first(value: Column | str, offset: int = 0) -> Column:
    """Return a value of a variable's first row in the match, or of the one `offset` rows of it later; null:
    none.

    Args:
        value: a column of the variable, as "A.price", or an expression of such columns.
        offset: how many rows of the variable later.

    Raises:
        PlanError: `offset` is no number of rows.

    Example:
        >>> import headgate.patterns as P
        >>> P.first("A.price", 1)
        Column<first(A.price, 1)>
    """
    return _navigated("first", value, offset)


def last(value: Column | str, offset: int = 0) -> Column:
    """Return a value of a variable's last row so far, or of the one `offset` rows of it earlier; null: none.
    In the condition of that variable the row itself is the last one already.

    Args:
        value: a column of the variable, as "A.price", or an expression of such columns.
        offset: how many rows of the variable earlier.

    Raises:
        PlanError: `offset` is no number of rows.

    Example:
        >>> import headgate.functions as F
        >>> import headgate.patterns as P
        >>> F.col("A.price") < P.last("A.price", 1)
        Column<(A.price < last(A.price, 1))>
    """
    return _navigated("last", value, offset)


def _navigated(kind: Kind, value: Column | str, offset: object) -> Column:
    if not isinstance(offset, int) or isinstance(offset, bool) or offset < 0:
        raise PlanError(
            f"{kind}() ({user_site()}) got offset={offset!r}; expected a number of rows, 0 or more"
        )
    child = Reference(value) if isinstance(value, str) else value.expression
    return Column(Navigation(kind, child, offset))
