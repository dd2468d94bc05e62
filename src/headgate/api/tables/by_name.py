"""Access to the columns of a table by name, and the errors for names that a table does not have.

PySpark's users try PySpark's names first. Where a table has another call, the message is that call.
"""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from typing import Final, NoReturn

from headgate.api.site import user_site
from headgate.api.tables.column import Column, ColumnLike
from headgate.common.errors import PlanError
from headgate.relational.expressions import Reference
from headgate.relational.relations import Relation

_SORT: Final = "a stream has no last row to sort before; sort what collect() returns"
_FIRST: Final = "write take(n) for a list of rows, or preview(n) to look at them"
_RENAME: Final = 'write rename({"old": "new"})'
_STREAM: Final = "that is a call of streams: write to_stream() before it"
_NULLS: Final = "write F.coalesce(column, value), or filter(F.col(name).isNotNull())"
_WRITE: Final = "write write_parquet(path), write_json(path) or to_spark(writer)"
_INSTEAD: Final = {
    "agg": 'write group_by(F.window("at", "10s")).agg(...): a stream is counted in windows',
    "count": 'write group_by(F.window("at", "10s")).count(), or len(table.collect())',
    "orderBy": _SORT, "sort": _SORT, "order_by": _SORT,
    "limit": _FIRST, "show": _FIRST, "head": _FIRST, "first": _FIRST, "display": _FIRST,
    "dropDuplicatesWithinWatermark": 'write drop_duplicates(["user"], within="10min")',
    "withColumnRenamed": _RENAME, "withColumnsRenamed": _RENAME,
    "fillna": _NULLS, "na": _NULLS, "dropna": _NULLS,
    "write": _WRITE, "writeStream": _WRITE, "writeTo": _WRITE,
    "toPandas": "write to_dataframe().toPandas()", "to_pandas": "write to_dataframe().toPandas()",
    "selectExpr": 'write select(F.col("price") * 2): text is the name of a column',
    "map": _STREAM, "flat_map": _STREAM, "key_by": _STREAM, "process": _STREAM, "print": _STREAM,
    "foreach": "write as_rows(function, schema), which calls a function for each row",
}  # fmt: skip
"""A name that tables do not have -> what to write."""


class ByName:
    """Base class of tables: ``table["price"]`` and ``table.price`` are columns, unknown names are refused."""

    _relation: Relation

    def __getitem__(self, name: str) -> Column:
        if not isinstance(name, str):
            raise PlanError(f"table[...] ({user_site()}) got {name!r:.80}; expected the name of a column")
        try:
            self._relation.schema.place(name)
        except PlanError as error:
            raise PlanError(f"table[...] ({user_site()}): {error}") from None
        return Column(Reference(name))

    def __getattr__(self, name: str) -> Column:
        # Names with an underscore are asked for by copying, pickling and notebooks.
        if name.startswith("_"):
            raise AttributeError(name)
        names = self._relation.schema.names
        if name in names:
            return Column(Reference(name))
        raise AttributeError(f"a table has no {name!r}; {_INSTEAD.get(name) or self._nearest(name, names)}")

    def __iter__(self) -> NoReturn:
        raise PlanError(
            f"a table ({user_site()}) was iterated over; collect() returns its rows, and `columns` is the "
            "list of its columns"
        )

    def _nearest(self, name: str, names: list[str]) -> str:
        calls = [each for each in dir(type(self)) if not each.startswith("_")]
        return f"did you mean {difflib.get_close_matches(name, [*calls, *names], 1, 0.0)[0]!r}?"


def selected_columns(
    given: Sequence[Column | str | Sequence[Column | str]], names: Sequence[str], where: str
) -> list[Column]:
    """Return the columns that a program selects: `given`, where "*" is all of `names` and a list its items.

    Raises:
        PlanError: something is neither a column nor a name; the message begins with `where`.
    """
    listed = given[0] if len(given) == 1 and isinstance(given[0], list | tuple) else given
    found: list[Column] = []
    for each in listed:
        if not isinstance(each, Column | str):
            raise PlanError(f"{where} got {each!r:.80}; expected a column or the name of one")
        if isinstance(each, Column):
            found.append(each)
        else:
            found += [Column(Reference(name)) for name in (names if each == "*" else (each,))]
    return found


def refuse_text(value: ColumnLike, where: str) -> None:
    """Raise PlanError, which begins with `where`, for text: it may mean a column or the text itself."""
    if isinstance(value, str):
        raise PlanError(f"{where} got {value!r:.80}; write F.col(...) for a column, or F.lit(...) for text")
