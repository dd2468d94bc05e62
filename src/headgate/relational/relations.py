"""The nodes of the relational plan: what is computed of which columns; pure data, whatever runs it.

Built are those that run: scan, project, filter, explode, union, functions of batches and of rows, aggregate,
joins with and without windows, rank, over, lookup, deduplicate, match. Watermark, changelog and sink have
their place in decision 0208.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Literal, NamedTuple, TypeAlias

import pyarrow as pa

from headgate.relational.aggregates import Aggregate
from headgate.relational.aggregating.accumulators import Parts
from headgate.relational.expressions import Clock, WindowKind
from headgate.relational.firing import AT_END, Firing
from headgate.relational.joins.loading import Loading
from headgate.relational.passes.distinct_values import DistinctValues, kept_parts
from headgate.relational.resolved import Typed
from headgate.relational.schema import Field, Schema

ALL_ROWS: Final = "__all_rows"
"""Name of the key column of an aggregation without keys; all rows have one value in it, results lack it."""

WINDOW_START: Final = "__window_start"
"""Name of the key column of an aggregation over windows of its input: where such a window begins, in ms."""

JoinKind: TypeAlias = Literal["inner", "left", "right", "full", "semi", "anti"]

HIDDEN: Final = (ALL_ROWS, WINDOW_START)
"""Names of key columns that results lack."""

LATE_PREFIX: Final = "late/"
"""What the names of columns begin with that an aggregation reads only to send late rows to a side output."""


RUNNING: Final = "running"
"""Kind of the windows of an aggregation that has none."""


@dataclass(frozen=True, slots=True)
class Relation:
    """Base class of the nodes of a plan of tables; `schema` has the columns of the node's result."""

    schema: Schema


@dataclass(frozen=True, slots=True)
class Scan(Relation):
    """The records of a stream, by its number in the program, as columns.

    `of` is the aggregation whose results the stream carries; None: it carries other records.
    """

    stream: int
    of: Aggregation | None = None


@dataclass(frozen=True, slots=True)
class Project(Relation):
    """New columns, each computed from a row of the input."""

    child: Relation
    columns: tuple[Typed, ...]


@dataclass(frozen=True, slots=True)
class Filter(Relation):
    """The rows for which the condition is true."""

    child: Relation
    condition: Typed


@dataclass(frozen=True, slots=True)
class Explode(Relation):
    """A row for each element of an array, or entry of a map, with the columns of the row that has it.

    Attributes:
        values: the array or map. After the child's columns come its elements, or its keys and values.
        position: whether the index of the element, from 0, comes before it.
        outer: whether a row without elements gives one row, with nulls.
    """

    child: Relation
    values: Typed
    position: bool
    outer: bool


@dataclass(frozen=True, slots=True)
class Union(Relation):
    """All rows of several plans, whose columns have the same names and types."""

    children: tuple[Relation, ...]


class Form(StrEnum):
    """The form in which a function of the program takes rows of a table, and returns rows."""

    ARROW = "arrow"  # a pyarrow.RecordBatch
    TABLE = "table"  # a pyarrow.Table
    POLARS = "polars"  # a polars.DataFrame
    ROWS = "rows"  # a dict, row by row


@dataclass(frozen=True, slots=True)
class TableFunction(Relation):
    """The rows that a function of the program returns for batches of rows, or for each row, as `form` says.

    `uid` names the operator, `site` is the line that made it.
    """

    child: Relation
    function: Callable[..., object]
    form: Form
    uid: str | None = None
    site: str = ""


@dataclass(frozen=True, slots=True)
class Windowed:
    """Windows of event time, or of processing time, as `clock` says.

    Attributes:
        size_ms: length in ms; the gap that ends a session; how often cumulative windows begin.
        slide_ms: ms from the beginning of a window to the next; by how much each cumulative one is longer.
        offset_ms: by how many ms sliding and cumulative windows are moved.
        kind: "sliding", "cumulative", "session", or "same": those in the input's column of event time.
            "running": no windows; a group's row is corrected as long as rows come.
    """

    size_ms: int
    slide_ms: int
    offset_ms: int = 0
    kind: WindowKind = "sliding"
    clock: Clock = "event"

    @property
    def stored_name(self) -> str:
        """Name of the stored accumulators' type, by which those of windows of other kinds are told apart."""
        return self._shape_name if self.clock == "event" else f"Processing_time_{self._shape_name}"

    @property
    def _shape_name(self) -> str:
        match self.kind:
            case "session":
                return f"Sessions_of_{self.size_ms}ms"
            case "same":
                return "Windows_of_input"
            case "running":
                return "Groups"
            case "cumulative":
                times = f"up_to_{self.size_ms}ms_by_{self.slide_ms}ms_from_{self.offset_ms % self.size_ms}ms"
                return f"Windows_{times}"
        moved = self.offset_ms % self.slide_ms
        return f"Windows_{self.size_ms}ms_every_{self.slide_ms}ms_from_{moved}ms"


Copies: TypeAlias = Literal["distinct", "intersect", "intersect_all", "subtract", "except_all"]
"""Operations on sets of rows: which rows come out, and how often, by how often they are on either side."""


@dataclass(frozen=True, slots=True)
class Aggregation(Relation):
    """A row for each group of rows with equal keys, in each window.

    Attributes:
        keys: indices of columns of the child; these columns stand first in the result.
        window: of the groups; its column `window` comes after the keys.
        uid: by which a later program finds the state; None: none was given.
        firing: when windows emit apart from their end, and what becomes of late rows.
        late: the columns of late rows that go to a side output; the child has them under `LATE_PREFIX`. None:
            late rows are dropped.
        present: of an aggregation of a changelog, the name of the result that counts a group's rows; a group
            with none has no row. None: rows of the input only come.
        copies: of an operation on sets: how many rows like its keys a group gives, by its two sums, of the
            rows of the left and of the right table; results are not shown. None: a group gives a row with its
            results.
        ttl_ms: without windows: after so long without rows a group is forgotten; None: never.
        distinct: without windows: the sets of values of which some of the aggregates follow.
    """

    child: Relation
    keys: tuple[int, ...]
    window: Windowed
    aggregates: tuple[Aggregate, ...]
    uid: str | None = None
    firing: Firing = AT_END
    late: Schema | None = None
    present: str | None = None
    copies: Copies | None = None
    ttl_ms: int | None = None
    distinct: tuple[DistinctValues, ...] = ()

    @property
    def key_names(self) -> list[str]:
        """The names of the columns that are keys, in the child."""
        return [self.child.schema.names[place] for place in self.keys]

    def follows(self, each: Aggregate) -> bool:
        """Return whether an aggregate follows from a set of values."""
        return any(told.name == each.name for one in self.distinct for told in one.told)

    def parts_of(self, each: Aggregate) -> Parts:
        """Return the accumulators that are kept for an aggregate, and its result."""
        return kept_parts(each) if self.follows(each) else each.parts


ORDER_PREFIX: Final = "order/"
"""What the names of columns begin with that are only there to order rows by."""


class Order(NamedTuple):
    """An order by the column at `place`; null is less than any value, NaN is greater."""

    place: int
    descending: bool


@dataclass(frozen=True, slots=True)
class OfKeys(Relation):
    """Base class of plans of what each key has; the key's columns are the first ones of the child.

    Attributes:
        keys: how many columns of the child are the key.
    """

    child: Relation
    keys: int

    @property
    def key_names(self) -> list[str]:
        """The names of the columns that are the key, in the child."""
        return self.child.schema.names[: self.keys]

    @property
    def key_fields(self) -> tuple[Field, ...]:
        """The columns that are the key."""
        return self.child.schema.fields[: self.keys]


@dataclass(frozen=True, slots=True)
class Rank(OfKeys):
    """The first rows of each key in some order, corrected whenever rows come.

    Attributes:
        order: by which columns; of equal rows the one that came earlier is first, or the one whose columns
            are less, where rows of the child are corrected.
        n: how many rows of a key.
        rank: name of the result's column with a row's place, from 1; None: it has none.
        uid: by which a later program finds the state; None: none was given.
        ttl_ms: after so long without rows a key is forgotten, with its rows; None: never.
    """

    order: tuple[Order, ...]
    n: int
    rank: str | None = None
    uid: str | None = None
    ttl_ms: int | None = None

    def shown(self, names: list[str]) -> list[str]:
        """Return the names of the result's columns in the order of the table's `names`, the rank last."""
        return [*names, *([] if self.rank is None else [self.rank])]


@dataclass(frozen=True, slots=True)
class Over(OfKeys):
    """All rows, each with aggregates over itself and rows of the same key before it, corrected as rows come.

    Attributes:
        order: by which columns rows are ordered; of equal rows the one whose columns are less is first.
        preceding: of how many rows before a row its aggregates are; None: of all.
        aggregates: their arguments are columns of the child.
        shown: how many columns of the child are in the result, from the first.
        uid: by which a later program finds the state; None: none was given.
        ttl_ms: after so long without rows a key is forgotten, with its rows; None: never.
    """

    order: tuple[Order, ...]
    preceding: int | None
    aggregates: tuple[Aggregate, ...]
    shown: int
    uid: str | None = None
    ttl_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Deduplicate(OfKeys):
    """The row of each key that comes first, sent once, when it comes.

    Attributes:
        keys: as in the base class; the result lacks these columns.
        within_ms: a row whose event time is so much later than that of the last one sent, or more, is sent,
            too; None: none is.
        uid: by which a later program finds the state; None: none was given.
        ttl_ms: after so long without rows a key is forgotten; None: never.
    """

    within_ms: int | None = None
    uid: str | None = None
    ttl_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Lookup(Relation):
    """Rows of the input with those of a table that every subtask has all of.

    Attributes:
        child: the input; its event time and its changes stay.
        table: the rows that are looked up; without rows if they are loaded.
        keys: names of the columns that are equal, of both.
        how: "inner", "left", "semi" or "anti", as in SQL.
        loading: how subtasks load the rows; None: they are those of `table`, and never change.
    """

    child: Relation
    table: pa.Table
    keys: tuple[str, ...]
    how: JoinKind
    loading: Loading | None = None
