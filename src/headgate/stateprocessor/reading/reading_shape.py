"""Which columns a read has: those of the state's canonical table, and when entries were written."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

import pyarrow as pa

from headgate.common.errors import UsageError
from headgate.common.plain_data import Description, text_in
from headgate.state.canonical.table_layout import TIMER, TIMERS, VERSION, TableInfo, row_of
from headgate.state.canonical.table_rows import TableRows
from headgate.state.heap.snapshot import KEY_SERIALIZER
from headgate.state.targets import timers_target

WRITTEN_AT: Final = "ttl_written_at"
"""The column of stamps."""
_STAMP: Final = pa.field(WRITTEN_AT, pa.timestamp("us", "UTC"))


@dataclass(frozen=True)
class Shape:
    """One keyed state, or all timers, as a table.

    Attributes:
        key: description of the typed column of keys; None: there is none.
        stamps: name of the state that says when entries were written; None: their life has no end.
    """

    name: str
    schema: Description
    key: Description | None
    stamps: str | None = None
    rows: TableRows = field(init=False, repr=False, compare=False)
    columns: pa.Schema = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        rows = TableRows(self.info())
        columns = rows.schema if self.stamps is None else rows.schema.append(_STAMP)
        object.__setattr__(self, "rows", rows)
        object.__setattr__(self, "columns", columns)

    def __reduce__(self) -> tuple[type[Shape], tuple[str, Description, Description | None, str | None]]:
        """Arrow's makers stay at home."""
        return Shape, (self.name, self.schema, self.key, self.stamps)

    @property
    def rows_are(self) -> str:
        """See `state.canonical.layout.TableInfo`."""
        return row_of(self.schema)

    @property
    def timers(self) -> bool:
        """Whether it is the table of all timers."""
        return self.rows_are == TIMER

    def info(self) -> TableInfo:
        """What a file of such a table says of itself, but for which key groups and rows are in it."""
        return TableInfo(
            format=VERSION,
            name=self.name,
            kind=text_in(self.schema, "kind"),
            rows_are=self.rows_are,
            schema=self.schema,
            key_schema=KEY_SERIALIZER.describe(),
            key=self.key,
            max_parallelism=1,
            first_group=0,
            last_group=0,
        )


def timers_shape(key: Description | None) -> Shape:
    """That of all timers of an operator."""
    return Shape(TIMERS, timers_target().schema, key)


def chosen(columns: Sequence[str], wanted: Sequence[str]) -> list[str]:
    """The columns that are wanted, in the order of the table; all where none is named.

    Example:
        >>> chosen(["key_group", "key", "value"], ["value", "key"])
        ['key', 'value']
    """
    strange = [name for name in wanted if name not in columns]
    if strange:
        raise UsageError(f"there is no column {strange[0]!r}; the columns are {', '.join(columns)}")
    return [name for name in columns if not wanted or name in wanted]
