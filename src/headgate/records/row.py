"""A record of a columnar batch as a per-record function gets it: a view, not a copy.

A column is turned into Python objects when the first row of the batch reads it, so a function that reads two
of twenty columns pays for two. A view keeps its batch's columns alive, so a program may keep rows; pickling
or sending one copies its values.

Reading a field is the commonest thing that functions do, so each schema has a class of its own whose methods
are generated. No class here has a `__getattr__` for usual names: it makes every attribute twice as slow.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from operator import attrgetter
from typing import TYPE_CHECKING, Any, ClassVar, Final, TypeAlias, TypeVar

if TYPE_CHECKING:
    import pyarrow as pa

T = TypeVar("T")

Values: TypeAlias = tuple[Any, ...]
"""The values of one row, of the types that its columns have."""


class Row:
    """A record with named fields: ``row.author``, ``row["author"]``, ``row.as_dict()``.

    Rows of equal field names and values are equal. No such field: AttributeError, KeyError or IndexError.

    Example:
        >>> row = Row.of(author="ada", lines=3)
        >>> row.author, row["lines"], row.as_dict()
        ('ada', 3, {'author': 'ada', 'lines': 3})
    """

    __slots__ = ("_c", "_i")
    _names: ClassVar[tuple[str, ...]] = ()
    _index: ClassVar[Mapping[str, int]] = {}
    _c: Any
    _i: int

    @staticmethod
    def of(**fields: Any) -> Row:
        """Return a row with these fields that holds its values itself, so it is no view of a batch."""
        return make_row(tuple(fields), tuple(fields.values()))

    def __getitem__(self, field: str | int) -> Any:
        # Classes of schemas have a faster one, which comes here for what it does not find.
        if isinstance(field, str):
            try:
                field = self._index[field]
            except KeyError:
                raise KeyError(f"no field {field!r}; the row has {', '.join(self._names)}") from None
        else:
            # Counts from the end as well, and refuses what is out of range alike for views and others.
            field = range(len(self._names))[field]
        return self._c.column(field)[self._i]

    def keys(self) -> tuple[str, ...]:
        """Return the field names, in order."""
        return self._names

    def values(self) -> Values:
        """Return the field values, in order."""
        column, i = self._c.column, self._i
        return tuple([column(k)[i] for k in range(len(self._names))])

    def as_dict(self) -> dict[str, Any]:
        """Return a dict: field name -> value."""
        return dict(zip(self._names, self.values(), strict=True))

    def guessed_size(self) -> int:
        """Return about how many bytes the row takes on the wire; for a view, the average of its batch."""
        if isinstance(self._c, Columns):
            batch = self._c._batch
            average: int = batch.nbytes // max(1, batch.num_rows)
            return average
        return sum(8 + (len(value) if isinstance(value, (str, bytes)) else 8) for value in self.values())

    def __iter__(self) -> Iterator[Any]:
        return iter(self.values())

    def __len__(self) -> int:
        return len(self._names)

    def __contains__(self, field: object) -> bool:
        return field in self._index

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Row):
            return NotImplemented
        return self._names == other._names and self.values() == other.values()

    def __hash__(self) -> int:
        return hash((self._names, self.values()))

    def __reduce__(self) -> tuple[Callable[..., Row], tuple[tuple[str, ...], Values]]:
        return make_row, (self._names, self.values())

    def __repr__(self) -> str:
        return f"Row({', '.join(f'{k}={v!r}' for k, v in self.as_dict().items())})"


class Columns:
    """The columns of one batch as Python lists, each converted when it is first read."""

    __slots__ = ("_batch",)
    _batch: pa.RecordBatch

    def column(self, index: int) -> list[Any]:
        # shared by all rows: not to be changed
        values: list[Any] | None = getattr(self, f"c{index}", None)
        if values is None:
            from headgate.records.column_values import python_values  # it loads Arrow

            values = python_values(self._batch.column(index))
            setattr(self, f"c{index}", values)
        return values


class _Single:
    """The values of one row that is no view of a batch, with the methods and slots of :class:`Columns`."""

    __slots__ = ("_values",)
    _values: Values

    def column(self, index: int) -> Values:
        return (self._values[index],)


@lru_cache(maxsize=256)
def _single_maker(count: int) -> Callable[[Values], _Single]:
    slots = [f"c{place}" for place in range(count)]
    cls = type("_Single", (_Single,), {"__slots__": tuple(slots)})
    filled = "".join(f"; one.{slot} = (values[{place}],)" for place, slot in enumerate(slots))
    return _compiled(
        "made", f"def made(values): one = cls(); one._values = values{filled}; return one", {"cls": cls}
    )


@lru_cache(maxsize=1024)
def row_type(names: tuple[str, ...]) -> type[Row]:
    """Return the cached :class:`Row` subclass for these fields; names fit for attributes get properties."""
    index = {name: place for place, name in enumerate(names)}
    # A property named like `__bool__` would change what Python does with the row.
    plain = {name: place for name, place in index.items() if not name.startswith("__")}
    plain = {name: place for name, place in plain.items() if not hasattr(Row, name)}
    body: dict[str, Any] = {"__slots__": (), "_names": names, "_index": index}
    body |= {name: _getter(place) for name, place in plain.items()}
    body["__getitem__"] = _subscript(index, len(names))
    if any(name not in plain and not hasattr(Row, name) for name in names):
        body["__getattr__"] = _odd_attribute
    return type("Row", (Row,), body)


def _odd_attribute(row: Row, field: str) -> Any:
    if field in row._index:
        return row[field]
    raise AttributeError(f"no field {field!r}", name=field, obj=row)


_GETTER: Final = """
def get(self):
    try:
        return self._c.c{place}[self._i]
    except AttributeError:  # not converted yet
        return self._c.column({place})[self._i]
"""
_SUBSCRIPT: Final = """
def __getitem__(self, field):
    try:
        return column_of[field](self._c)[self._i]
    except (AttributeError, KeyError, TypeError):  # not converted yet, or no such field
        return other(self, field)
"""


def _getter(place: int) -> property:
    # a function for each class: Python keeps in it which slot of which class it last read
    return property(_compiled("get", _GETTER.format(place=place), {}))


def _subscript(index: Mapping[str, int], count: int) -> Callable[[Row, str | int], Values]:
    getters = [attrgetter(f"c{place}") for place in range(count)]
    places: dict[str | int, int] = {name: place for name, place in index.items()}  # noqa: C416  # another type
    places |= {place: place for place in range(-count, count)}
    column_of = {field: getters[place] for field, place in places.items()}
    return _compiled("__getitem__", _SUBSCRIPT, {"column_of": column_of, "other": Row.__getitem__})


def _compiled(name: str, source: str, known: dict[str, T]) -> Callable[..., Any]:
    # the function `name` that the text defines, which reads the names `known`
    scope: dict[str, Any] = {**known}
    exec(source, scope)
    return scope[name]  # type: ignore[no-any-return]


@lru_cache(maxsize=256)
def _columns_type(count: int) -> type[Columns]:
    return type("Columns", (Columns,), {"__slots__": tuple(f"c{i}" for i in range(count))})


def columns_of(batch: pa.RecordBatch) -> Columns:
    columns = _columns_type(batch.num_columns)()
    columns._batch = batch
    return columns


def make_row(names: tuple[str, ...], values: Sequence[T]) -> Row:
    """Return a row with these field names and values that holds them itself, so it is no view of a batch."""
    row = row_type(tuple(names))()
    row._c, row._i = _single_maker(len(names))(tuple(values)), 0
    return row


def lists_of_rows(rows: Sequence[Row]) -> list[list[Any]]:
    """Return the values of `rows`, which are of one class, as a list for each field."""
    return [list(values) for values in zip(*[row.values() for row in rows], strict=True)]
