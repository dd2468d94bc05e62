"""The columns of a table, by name and in order, and which of them carries event time."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import pyarrow as pa

from headgate.common.errors import PlanError
from headgate.relational.changes import CHANGE
from headgate.relational.spark_types import normal_type, text_of


@dataclass(frozen=True, slots=True)
class Field:
    """A column: its name, its type, and whether its values may be null."""

    name: str
    type: pa.DataType
    nullable: bool = True

    def __str__(self) -> str:
        return f"{self.name}: {text_of(self.type)}{'' if self.nullable else ' not null'}"


@dataclass(frozen=True, slots=True)
class Schema:
    """The columns of a table. `event_time`: name of the column with the rows' event time; None: none."""

    fields: tuple[Field, ...]
    event_time: str | None = None

    def __iter__(self) -> Iterator[Field]:
        return iter(self.fields)

    def __len__(self) -> int:
        return len(self.fields)

    @property
    def names(self) -> list[str]:
        """The names of the columns, in order."""
        return [field.name for field in self.fields]

    @property
    def updating(self) -> bool:
        """Whether rows are changes of a table, as the last column says."""
        return bool(self.fields) and self.fields[-1].name == CHANGE

    def find(self, name: str) -> int | None:
        """Return the index of the column `name`, written exactly so, else of one that differs in case only.
        None if there is none; PlanError if several would do and not exactly one of them is written so. What
        a changelog says of its rows is not found by name.
        """
        lower = name.lower()
        places = [place for place, field in enumerate(shown(self)) if field.name.lower() == lower]
        exact = [place for place in places if self.fields[place].name == name]
        if len(places) > 1 and len(exact) != 1:
            raise PlanError(f"column {name!r} is ambiguous: there are {len(places)} of that name; rename one")
        found = exact or places
        return found[0] if found else None

    def place(self, name: str) -> int:
        """Return a column's index as :meth:`find` does; PlanError, with the nearest name, if none."""
        found = self.find(name)
        if found is None:
            names = [field.name for field in shown(self)]
            near = difflib.get_close_matches(name, names, 1, 0.0)
            hint = f"did you mean {near[0]!r}? " if near else ""
            raise PlanError(f"there is no column {name!r}; {hint}the columns are {', '.join(names)}")
        return found

    def to_arrow(self) -> pa.Schema:
        """Return the Arrow schema of record batches with these columns."""
        return pa.schema([pa.field(field.name, field.type, field.nullable) for field in self.fields])

    def tree(self) -> str:
        """Return the columns as text, a line each, as Spark's `printSchema`."""
        mark = " (event time)"
        lines = [f" |-- {field}{mark if field.name == self.event_time else ''}" for field in shown(self)]
        return "\n".join(["root (rows are corrected)" if self.updating else "root", *lines])


def schema_of(arrow: pa.Schema, event_time: str | None = None) -> Schema:
    """Return the columns of an Arrow schema, with the types to which they are converted for computing.

    Raises:
        PlanError: a column is of a type that has no meaning in Spark, such as `uint64`, or has the name of
            the one that says what a row of a changelog does.
    """
    fields = []
    refuse_reserved(arrow.names)
    for field in arrow:
        kind = normal_type(field.type)
        if kind is None:
            raise PlanError(
                f"column {field.name!r} is of type {field.type}, which Spark does not have; "
                "select the other columns, or write it as another type"
            )
        fields.append(Field(field.name, kind, field.nullable))
    return Schema(tuple(fields), event_time)


def refuse_reserved(names: Iterable[str], where: str = "") -> None:
    """Raise PlanError, which begins with the call `where`, if one of the `names` that a program gives columns
    is that of the column which says what a row of a changelog does.
    """
    if CHANGE in names:
        raise PlanError(
            f"{where}{': ' if where else ''}a column is called {CHANGE!r}, which is kept for what a row does "
            "to a corrected table; give it another name"
        )


def shown(schema: Schema) -> tuple[Field, ...]:
    """Return the columns that a program sees: all but what a changelog says of its rows."""
    return schema.fields[:-1] if schema.updating else schema.fields
