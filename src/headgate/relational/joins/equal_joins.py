"""Plan nodes of joins by equal columns, and the columns of their inputs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from headgate.common.files.durable import crc32
from headgate.relational.changes import CHANGE
from headgate.relational.relations import WINDOW_START, JoinKind, Relation
from headgate.relational.resolved import Typed
from headgate.relational.schema import Schema

WINDOW_LAST: Final = "__window_last"
"""Name of the column of a join's inputs that holds the last ms of a row's window."""

SIDE: Final = "__side"
"""Name of the column of a join's inputs that says of which one a row is: 0 left, 1 right, then further."""

PART: Final = "__part"
"""Name of the key column of a join's inputs with the number of a part of the key, where keys are split."""

ODD_KEYS: Final = "__odd_keys"
"""Name of the key column of a join's inputs that says which keys are NaN or null; these hold 0 instead.

With n keys, the i-th of which is counted from 0, NaN is bit i and null is bit n + i; beside a null, bit 2n is
the side. So rows with the same NaN are partners, and a row with a null has none.
"""


def side_prefix(side: int) -> str:
    """Return what the names of columns of a join's input begin with that are not the keys."""
    return ("left/", "right/")[side] if side < 2 else f"table_{side + 1}/"


@dataclass(frozen=True, slots=True)
class WindowJoin(Relation):
    """Rows of two inputs with equal keys in the same window.

    Attributes:
        left: has the columns of both tables, null for those of the right one; `SIDE` is 0.
        right: the other input, of the same columns; `SIDE` is 1.
        keys: names of the columns that are equal; after those of the program come `ODD_KEYS`, if there are
            any, and `WINDOW_START`.
        how: which rows come out: "inner", "left", "right", "full", "semi" or "anti", as in SQL.
        window: name of the result's column of the window.
        uid: by which a later program finds the state; None: none was given.
        pairs: the columns of a pair, to which `where` refers.
        where: what else has to be true of partners, unless it is an inner join; None: nothing.
    """

    left: Relation
    right: Relation
    keys: tuple[str, ...]
    how: JoinKind
    window: str
    uid: str | None = None
    pairs: Schema | None = None
    where: Typed | None = None

    @property
    def shown_keys(self) -> tuple[str, ...]:
        """The names of the equal columns that the program gave, without the window and hidden columns."""
        return tuple(name for name in self.keys if name not in (ODD_KEYS, WINDOW_START))


def by_keys(names: Sequence[str], parts: int) -> str:
    """Return in words by which equal columns rows are joined, and into how many parts each key is split.

    Example:
        >>> by_keys(["user", PART], 8)
        'user in 8 parts'
    """
    return ", ".join(name for name in names if name != PART) + in_parts(parts)


def in_parts(parts: int, sign: str = " ") -> str:
    """Return in words that each key of a join is split into parts; nothing if there is one part only.

    Example:
        >>> in_parts(8), in_parts(8, "_"), in_parts(1)
        (' in 8 parts', '_in_8_parts', '')
    """
    return f"{sign}in{sign}{parts}{sign}parts" if parts > 1 else ""


@dataclass(frozen=True, slots=True)
class Join(Relation):
    """Rows of two inputs or more with equal keys, whenever they come; the result is a changelog where rows
    may leave.

    Attributes:
        inputs: of each table its rows, with `SIDE`, the table's number from 0, the keys, its other columns
            under names that begin with `side_prefix`, and `CHANGE` last, if rows may be taken back.
        keys: names of the columns that are equal, `ODD_KEYS` last.
        how: which rows come out: "inner", "left", "right", "full", "semi" or "anti", as in SQL; of more than
            two tables "inner".
        uid: by which a later program finds the state; None: none was given.
        ttl_ms: after so long without rows a key is forgotten, with its rows; None: never.
        parts: how many parts each key is split into; then `PART` is one of `keys`.
        pairs: the columns of a pair, to which `where` refers.
        where: what else has to be true of partners, unless it is an inner join; None: nothing.
    """

    inputs: tuple[Relation, ...]
    keys: tuple[str, ...]
    how: JoinKind
    uid: str | None = None
    ttl_ms: int | None = None
    parts: int = 1
    pairs: Schema | None = None
    where: Typed | None = None

    @property
    def shown_keys(self) -> tuple[str, ...]:
        """The names of the equal columns of the result, `PART` among them."""
        return tuple(name for name in self.keys if name != ODD_KEYS)

    @property
    def came(self) -> Schema:
        """The columns of all inputs, as rows are stored: those of the other tables are null in a row."""
        of_all = [field for each in self.inputs for field in each.schema]
        return Schema(tuple(sorted(dict.fromkeys(of_all), key=lambda field: field.name == CHANGE)))

    @property
    def stored_name(self) -> str:
        """Name of the stored rows' type: of another number of parts, rows would be in other parts; with
        another condition or number of tables, other rows were sent.
        """
        where = "" if self.where is None else f"_where_{crc32(str(self.where).encode()):08x}"
        tables = f"_of_{len(self.inputs)}_tables" if len(self.inputs) > 2 else ""
        return f"Rows_of_{self.how}_join{tables}{where}{in_parts(self.parts, '_')}"

    @property
    def grows_only(self) -> bool:
        """Whether no row of the inputs is taken back, nor of the result."""
        return self.how == "inner" and not self.inputs[0].schema.updating
