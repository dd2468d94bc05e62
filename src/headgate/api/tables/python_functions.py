"""Functions of the program within expressions: ``F.udf``, and the types that they declare."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeAlias, overload, runtime_checkable

import pyarrow as pa

from headgate.api.checking.arguments import refuse_arity, refuse_blocking, refuse_unawaited
from headgate.api.site import user_site
from headgate.api.tables.column import Column, ColumnLike, expression_of
from headgate.common.errors import PlanError
from headgate.relational.expressions import PythonCall, PythonFunction, Reference
from headgate.relational.spark_types import normal_type, type_named


@runtime_checkable
class SparkType(Protocol):
    """A type of ``pyspark.sql.types``, such as ``LongType()``."""

    def simpleString(self) -> str:  # noqa: N802  # PySpark's name
        """Return the type as Spark's text, such as "bigint"."""
        ...


ColumnType: TypeAlias = "str | pa.DataType | SparkType"
"""A column type as a program gives it: as text, such as "bigint", as Arrow's type, or as PySpark's."""

Function: TypeAlias = Callable[..., object]


class UserFunction:
    """A Python function of the program that is called with columns; ``F.udf`` makes it."""

    def __init__(self, function: Function, kind: pa.DataType) -> None:
        self.func, self.returnType = function, kind
        self.__name__ = getattr(function, "__name__", type(function).__name__)
        self.__doc__ = function.__doc__
        self._called = PythonFunction(self.__name__, function, kind)

    def __call__(self, *columns: ColumnLike) -> Column:
        """Return a call with these columns; text is a column's name. PlanError: wrong number of arguments."""
        refuse_arity(f"{self.__name__}() ({user_site()})", self.func, *map(str, columns))
        arguments = [Reference(each) if isinstance(each, str) else expression_of(each) for each in columns]
        return Column(PythonCall(self._called, tuple(arguments)))

    def __repr__(self) -> str:
        return f"<udf {self.__name__}>"


@overload
def udf(f: Function, returnType: ColumnType = "string") -> UserFunction: ...  # noqa: N803
@overload
def udf(
    f: ColumnType | None = None,
    returnType: ColumnType = "string",  # noqa: N803
) -> Callable[[Function], UserFunction]: ...
def udf(
    f: Function | ColumnType | None = None,
    returnType: ColumnType = "string",  # noqa: N803  # PySpark's name
) -> UserFunction | Callable[[Function], UserFunction]:
    """Make a function of columns from a Python function that is called with the values of each row.

    Null is passed as None. The returned value must be of the type: another one is an error. It may be called
    more than once for a row, and is not called where the value is not needed. A function of whole batches is
    faster: :meth:`Table.map_batches`.

    Args:
        f: the function; or its type, if `udf` is a decorator.
        returnType: as text such as "bigint", a ``pyarrow.DataType``, or a type of PySpark's.

    Raises:
        PlanError: there is no such type, or the function is ``async`` or marked `hg.blocking`.

    Example:
        >>> import headgate.functions as F
        >>> @F.udf("bigint")
        ... def double(n):
        ...     return None if n is None else 2 * n
        >>> F.udf(lambda text: text[::-1], "string")("name"), double(F.col("price") + 1)
        (Column<<lambda>(name)>, Column<double((price + 1))>)
    """
    if callable(f) and not isinstance(f, SparkType):
        return _made(f, returnType)
    kind = returnType if f is None else f
    return lambda function: _made(function, kind)


def _made(function: Function, kind: ColumnType) -> UserFunction:
    if not callable(function):
        raise PlanError(f"udf() ({user_site()}) got {function!r}; expected a function of values")
    refuse_unawaited("udf", function)
    refuse_blocking("udf", function)
    return UserFunction(function, column_type("udf", kind))


def column_type(verb: str, kind: ColumnType) -> pa.DataType:
    where = f"{verb}() ({user_site()})"
    if isinstance(kind, SparkType):
        kind = kind.simpleString()
    try:
        found = type_named(kind) if isinstance(kind, str) else normal_type(kind)
    except (PlanError, AttributeError, TypeError) as error:
        raise PlanError(f"{where}: {error}") from None
    if found is None:
        raise PlanError(f"{where} got type {kind}, which Spark does not have")
    return found
