"""Shows objects of a program in a shell, as a line or a table, and in a notebook, as a small HTML table.
No package is needed for it, and nothing is loaded from anywhere. Text of records is cut and escaped.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import escape
from typing import Any, Final, NamedTuple, overload

from typing_extensions import TypeVar, override

T = TypeVar("T", default=Any)

CELL_LENGTH_MAX: Final = 60
COLUMNS_MAX: Final = 20
ROWS_MAX: Final = 50
_STYLE: Final = "text-align:left;vertical-align:top;padding:2px 10px"


class Preview(Sequence[T]):
    """The first records of a stream, as a sequence whose `repr` is a table of at most 50 rows.

    Attributes:
        records: all records, in a list.

    Example:
        >>> Preview([{"name": "ada", "lines": 3}, {"name": "bob", "lines": 12}])
        name | lines
        -----+------
        ada  |     3
        bob  |    12
        2 records
    """

    def __init__(self, records: Iterable[T]) -> None:
        self.records = list(records)

    @override
    def __len__(self) -> int:
        return len(self.records)

    @overload
    def __getitem__(self, index: int) -> T: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[T]: ...
    @override
    def __getitem__(self, index: int | slice) -> T | Sequence[T]:
        return self.records[index]

    @override
    def __iter__(self) -> Iterator[T]:
        return iter(self.records)

    @override
    def __eq__(self, other: object) -> bool:
        return list(self) == list(other) if isinstance(other, Preview | list) else NotImplemented

    __hash__ = None  # type: ignore[assignment]

    @override
    def __repr__(self) -> str:
        columns, rows = table(self.records[:ROWS_MAX])
        if not rows:
            return counted(0)
        widths = [max(map(len, (name, *(row[at].text for row in rows)))) for at, name in enumerate(columns)]
        right = [all(row[at].number for row in rows) for at in range(len(columns))]
        lines = [
            " | ".join(name.ljust(width) for name, width in zip(columns, widths)).rstrip(),
            "-+-".join("-" * width for width in widths),
        ]
        for row in rows:
            cells = zip(row, widths, right)
            line = " | ".join(
                shown.text.rjust(wide) if to_right else shown.text.ljust(wide)
                for shown, wide, to_right in cells
            )
            lines.append(line.rstrip())
        return "\n".join([*lines, self._foot()])

    def _repr_html_(self) -> str:
        columns, rows = table(self.records[:ROWS_MAX])
        if not rows:
            return f"<div>{counted(0)}</div>"
        body = [[shown.text for shown in row] for row in rows]
        return html_table(columns, body) + f"<div>{escape(self._foot())}</div>"

    def _foot(self) -> str:
        more = len(self.records) - ROWS_MAX
        return counted(len(self.records)) + (f", {ROWS_MAX} shown" if more > 0 else "")


def counted(count: int) -> str:
    """Return a number of records as text.

    Example:
        >>> counted(1), counted(12000)
        ('1 record', '12,000 records')
    """
    return f"{count:,} record{'' if count == 1 else 's'}"


class Cell(NamedTuple):
    """A table cell: the text of a value in one short line, and whether the value is a number."""

    text: str
    number: bool


def table(records: Iterable[T]) -> tuple[list[str], list[list[Cell]]]:
    """Return names of columns (``record`` for values without fields; after 20 one "... n more") and rows."""
    found = [_fields(record) for record in records]
    names: dict[str, None] = {}
    for fields in found:
        names |= dict.fromkeys(fields)
    columns = list(names)[:COLUMNS_MAX]
    if len(names) > COLUMNS_MAX:
        columns.append(f"... {len(names) - COLUMNS_MAX} more")
    return columns, [[fields.get(name, Cell("", False)) for name in columns] for fields in found]


def cell(value: object) -> str:
    """Return a value's text (`repr`, but text as it is) as one printable line, cut to 60 characters."""
    text = value if isinstance(value, str) else repr(value)
    if isinstance(value, Mapping) and [*value] == ["start", "end"]:  # a window of columns
        text = f"{value['start']} to {value['end']}"
    text = "".join(char if char.isprintable() else " " for char in text[: 2 * CELL_LENGTH_MAX])
    return text if len(text) <= CELL_LENGTH_MAX else text[: CELL_LENGTH_MAX - 3] + "..."


def html_table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return an HTML table with these column names and rows; all texts are escaped."""
    head = "".join(f'<th style="{_STYLE}">{escape(cell(name))}</th>' for name in columns)
    body = "".join(
        "<tr>" + "".join(f'<td style="{_STYLE}">{escape(text)}</td>' for text in row) + "</tr>"
        for row in rows
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def html_facts(title: str, facts: Mapping[str, str | int]) -> str:
    """Return HTML of a title and a table of `facts`, name -> value; all texts are escaped."""
    body = "".join(
        f'<tr><th style="{_STYLE}">{escape(str(name))}</th>'
        f'<td style="{_STYLE}">{escape(cell(value))}</td></tr>'
        for name, value in facts.items()
    )
    return f"<div><b>{escape(title)}</b><table><tbody>{body}</tbody></table></div>"


class ShownAsLine:
    """Base class of objects that a notebook shows by their `repr`, as code."""

    def _repr_html_(self) -> str:
        return f"<code>{escape(repr(self))}</code>"


def _fields(record: object) -> dict[str, Cell]:
    if isinstance(record, Mapping):
        values = dict(record)
    elif isinstance(record, tuple):
        names = getattr(record, "_fields", None) or [f"_{at}" for at in range(1, len(record) + 1)]
        values = dict(zip(names, record))
    elif dataclasses.is_dataclass(record) and not isinstance(record, type):
        values = {field.name: getattr(record, field.name) for field in dataclasses.fields(record)}
    elif (names := getattr(type(record), "__struct_fields__", None)) is not None:
        values = {name: getattr(record, name) for name in names}
    else:
        values = {"record": record}
    return {str(name): Cell(cell(value), isinstance(value, int | float)) for name, value in values.items()}
