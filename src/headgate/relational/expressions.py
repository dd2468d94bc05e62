"""Expressions as a program writes them: names, values and calls, a closed list of pure data."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import Literal as OneOf
from typing import TypeAlias

import pyarrow as pa

Scalar: TypeAlias = bool | int | float | str | bytes | Decimal | dt.date | dt.datetime | dt.timedelta | None
"""What may stand as a value in an expression."""

Setting: TypeAlias = bool | int | float | str | tuple[float, ...] | None
"""What an aggregate is told beside its arguments, such as whether nulls are left out."""


@dataclass(frozen=True, slots=True)
class Expression:
    """Base class of a program's expressions, as written and not checked yet; equal if written alike."""

    @property
    def inner(self) -> tuple[Expression, ...]:
        """The expressions from which this one is computed, in order."""
        return ()


@dataclass(frozen=True, slots=True)
class Reference(Expression):
    """A column by its name; `a.b` is field b of the struct a, unless a column has that name."""

    name: str

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class Literal(Expression):
    """A value that is the same for all rows."""

    value: Scalar

    def __str__(self) -> str:
        return "NULL" if self.value is None else str(self.value)


@dataclass(frozen=True, slots=True)
class Call(Expression):
    """A call of a function of the registry, or of an operator under its name there, such as "+"."""

    function: str
    arguments: tuple[Expression, ...]

    @property
    def inner(self) -> tuple[Expression, ...]:
        return self.arguments

    def __str__(self) -> str:
        texts = [str(argument) for argument in self.arguments]
        if not self.function[0].isalpha() and len(texts) == 2:
            return f"({texts[0]} {self.function} {texts[1]})"
        return f"{self.function}({', '.join(texts)})"


@dataclass(frozen=True, slots=True)
class PythonFunction:
    """A function of the program, called row by row: its name in plans, and the `type` of its results."""

    name: str
    function: Callable[..., object]
    type: pa.DataType


@dataclass(frozen=True, slots=True)
class PythonCall(Expression):
    """A call of a function of the program, for each row with the values of the arguments."""

    function: PythonFunction
    arguments: tuple[Expression, ...]

    @property
    def inner(self) -> tuple[Expression, ...]:
        return self.arguments

    def __str__(self) -> str:
        return f"{self.function.name}({', '.join(map(str, self.arguments))})"


@dataclass(frozen=True, slots=True)
class Cast(Expression):
    """A value as another type, named as Spark names it. Without `strict`, what does not fit becomes null."""

    child: Expression
    to: str
    strict: bool = True

    @property
    def inner(self) -> tuple[Expression, ...]:
        return (self.child,)

    def __str__(self) -> str:
        return f"{'' if self.strict else 'TRY_'}CAST({self.child} AS {self.to.upper()})"


@dataclass(frozen=True, slots=True)
class Case(Expression):
    """The value of the first branch whose condition is true, else `otherwise`.

    A branch is evaluated for its own rows only, so that it may fail for the others.
    """

    branches: tuple[tuple[Expression, Expression], ...]
    otherwise: Expression = Literal(None)

    @property
    def inner(self) -> tuple[Expression, ...]:
        return (*(part for branch in self.branches for part in branch), self.otherwise)

    def __str__(self) -> str:
        branches = " ".join(f"WHEN {condition} THEN {value}" for condition, value in self.branches)
        return f"CASE {branches} ELSE {self.otherwise} END"


@dataclass(frozen=True, slots=True)
class Alias(Expression):
    """An expression with a name for its column."""

    child: Expression
    name: str

    @property
    def inner(self) -> tuple[Expression, ...]:
        return (self.child,)

    def __str__(self) -> str:
        return f"{self.child} AS {self.name}"


@dataclass(frozen=True, slots=True)
class Aliases(Expression):
    """An expression that gives several columns, with a name for each."""

    child: Expression
    names: tuple[str, ...]

    @property
    def inner(self) -> tuple[Expression, ...]:
        return (self.child,)

    def __str__(self) -> str:
        return f"{self.child} AS ({', '.join(self.names)})"


@dataclass(frozen=True, slots=True)
class Generator(Expression):
    """An `explode` in `select`: a row per element; `position` adds its index, `outer` keeps empty arrays."""

    child: Expression
    position: bool
    outer: bool

    @property
    def inner(self) -> tuple[Expression, ...]:
        return (self.child,)

    def __str__(self) -> str:
        return f"{'pos' if self.position else ''}explode{'_outer' if self.outer else ''}({self.child})"


@dataclass(frozen=True, slots=True)
class AggregateCall(Expression):
    """An aggregate of a group's rows, such as a sum; without arguments, as `count(*)`, it is of whole rows.

    The call's text, which names its column, shows the settings only if `named` is true.
    """

    function: str
    arguments: tuple[Expression, ...] = ()
    settings: tuple[Setting, ...] = ()
    named: bool = False

    @property
    def inner(self) -> tuple[Expression, ...]:
        return self.arguments

    def __str__(self) -> str:
        name, plain, _ = self.function.partition("_distinct")
        of = [str(argument) for argument in self.arguments]
        if self.named:
            of[1:1] = map(_setting_text, self.settings)
        return f"{name}({'DISTINCT ' if plain else ''}{', '.join(of) or '*'})"


def _setting_text(setting: Setting) -> str:
    if isinstance(setting, tuple):
        return f"array({', '.join(map(str, setting))})"
    return "NULL" if setting is None else str(setting)


WindowKind: TypeAlias = OneOf["sliding", "cumulative", "session", "same", "running"]
Clock: TypeAlias = OneOf["event", "processing"]


@dataclass(frozen=True, slots=True)
class ProcessingTime(Expression):
    """The wall clock of the worker when it processes a row; it can be the time of windows only."""

    def __str__(self) -> str:
        return "proctime()"


@dataclass(frozen=True, slots=True)
class TimeWindow(Expression):
    """A row's window: a key of `group_by`, or a column of `select` (not sessions, nor the wall clock).

    Attributes:
        time: the event time column, or :class:`ProcessingTime`.
        size_ms: length in ms; the gap of a session, the longest of cumulative windows.
        slide_ms: ms between the beginnings of windows; between the ends of cumulative ones.
        offset_ms: by how many ms windows are moved from the multiples of their interval since 1970.
        kind: "sliding" (also for tumbling), "cumulative", "session", or "same": those that the event time
            column has already.
    """

    time: Expression
    size_ms: int
    slide_ms: int
    offset_ms: int = 0
    kind: WindowKind = "sliding"

    @property
    def inner(self) -> tuple[Expression, ...]:
        return (self.time,)

    @property
    def clock(self) -> Clock:
        """Which time the windows are of: "event" time, or "processing" time, the worker's wall clock."""
        return "processing" if isinstance(self.time, ProcessingTime) else "event"

    @property
    def name(self) -> str:
        """The name of the result's column with the window: "window", of sessions "session_window"."""
        return "session_window" if self.kind == "session" else "window"

    def __str__(self) -> str:
        slide = "" if self.slide_ms == self.size_ms else f", {self.slide_ms} ms"
        function = "cumulate_window" if self.kind == "cumulative" else self.name
        return f"{function}({self.time}, {self.size_ms} ms{slide})"


def name_of(expression: Expression) -> str:
    """Return the name that a column of this expression gets: its alias, its field's name, or its text."""
    if isinstance(expression, Alias):
        return expression.name
    if isinstance(expression, Reference):
        return expression.name.rpartition(".")[2]
    if isinstance(expression, TimeWindow):
        return expression.name
    return str(expression)
