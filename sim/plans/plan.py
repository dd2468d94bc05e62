"""Random plans of tables as data: nodes over input tables, each with its columns.

`sim.plans.program` makes Headgate tables of them, `sim.plans.queries` DuckDB's SQL.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, Literal, NamedTuple, TypeAlias

Kind = Literal["int", "float", "text"]
Row: TypeAlias = tuple[Any, ...]

NULLABLE: Final[dict[Kind, tuple[Any, ...]]] = {
    "int": (None, 0, 1, 1, 2, 3, -4),
    "float": (None, float("nan"), 0.0, -0.0, 0.5, 2.0, -1.25),
    "text": (None, "", "a", "a", "b", "ab"),
}
"""Values of input columns: few, so that keys meet. Sums of these floats are exact in any order, as those of
means are not; so means are not added up.
"""


class Column(NamedTuple):
    """A column of a node: its name, which no other node's column has, and the kind of its values."""

    name: str
    kind: Kind


class Computed(NamedTuple):
    """A column that is computed of another one.

    Attributes:
        name: of the result.
        kind: of the result.
        how: "same", "plus", "modulo", "twice", "known", "length", or "filled": without null and NaN.
        of: name of the column.
        number: what is added, or divided by.
    """

    name: str
    kind: Kind
    how: str
    of: str
    number: int = 0


class Condition(NamedTuple):
    """A condition on a column: `how` is "less", "equal", "unlike", "known" or "unknown"."""

    how: str
    of: str
    kind: Kind
    value: Any = None


class Aggregate(NamedTuple):
    """An aggregate; `of` is None for a count of rows, `within` says which rows count: None: all."""

    name: str
    kind: Kind
    function: str
    of: str | None = None
    within: Condition | None = None


@dataclass(frozen=True)
class Node:
    """One step of a plan.

    Attributes:
        uid: its name.
        inputs: uids of the nodes, or input tables, that it reads.
        columns: of its result.
    """

    uid: str
    inputs: tuple[str, ...]
    columns: tuple[Column, ...]


@dataclass(frozen=True)
class Chosen(Node):
    """Rows for which a condition holds, with columns that are computed of theirs."""

    computed: tuple[Computed, ...] = ()
    condition: Condition | None = None


@dataclass(frozen=True)
class United(Node):
    """Rows of two tables, all of them or those that `how` says: of each the columns of the result."""

    how: str = "union"
    sides: tuple[tuple[Computed, ...], tuple[Computed, ...]] = ((), ())


@dataclass(frozen=True)
class Different(Node):
    """The different rows."""

    computed: tuple[Computed, ...] = ()


@dataclass(frozen=True)
class Grouped(Node):
    """A row for each key; without keys one for all rows. `nulls`: null is a key, too."""

    nulls: bool = False
    keys: tuple[Computed, ...] = ()
    aggregates: tuple[Aggregate, ...] = ()


@dataclass(frozen=True)
class Joined(Node):
    """Rows with equal keys: `keys` of each side, called alike, and the columns that go along; `where`: a
    column of the left, "<" or "<>", and one of the right.
    """

    how: str = "inner"
    keys: tuple[tuple[Computed, ...], tuple[Computed, ...]] = ((), ())
    others: tuple[tuple[Computed, ...], tuple[Computed, ...]] = ((), ())
    where: tuple[str, str, str] | None = None


@dataclass(frozen=True)
class First(Node):
    """The first `n` rows of each key; `order` names all columns, so that no two different rows are equal.

    `keep`: instead, one row of each key, the "first" or "last", and null is a key, too.
    """

    keep: Literal["first", "last"] | None = None
    n: int = 1
    keys: tuple[Computed, ...] = ()
    others: tuple[Computed, ...] = ()
    order: tuple[tuple[str, bool], ...] = ()
    rank: str | None = None


@dataclass(frozen=True)
class Over(Node):
    """All rows with aggregates of some rows before them; `order` names all columns."""

    keys: tuple[Computed, ...] = ()
    others: tuple[Computed, ...] = ()
    order: tuple[tuple[str, bool], ...] = ()
    preceding: int | None = None
    aggregates: tuple[Aggregate, ...] = ()


@dataclass(frozen=True)
class Plan:
    """A job of tables.

    Attributes:
        inputs: input table -> its columns.
        rows: input table -> its rows, in the order of arrival.
        nodes: each after those that it reads.
        sinks: uids of the nodes whose rows go out; the last node is one.
        splits: input table -> rows of one split.
    """

    inputs: dict[str, tuple[Column, ...]]
    rows: dict[str, list[Row]]
    nodes: tuple[Node, ...]
    sinks: tuple[str, ...]
    splits: dict[str, int]

    def columns(self, uid: str) -> tuple[Column, ...]:
        """The columns of a node or an input table."""
        if uid in self.inputs:
            return self.inputs[uid]
        return next(node.columns for node in self.nodes if node.uid == uid)

    def describe(self) -> str:
        """A line for each input and node, for whoever looks at a failure."""
        lines = [
            f"  {uid}: {len(rows)} rows in splits of {self.splits[uid]}" for uid, rows in self.rows.items()
        ]
        return "\n".join([*lines, *(f"  {node}" for node in self.nodes), f"  sinks {', '.join(self.sinks)}"])
