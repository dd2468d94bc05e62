"""Resolved expressions: every part has a type, columns are found by place, functions by name; pure data."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TypeAlias

import pyarrow as pa

from headgate.relational.expressions import PythonFunction

Values: TypeAlias = "pa.Array | pa.Scalar"
"""Values of an expression for a batch: a `pyarrow.Array`, or one `pyarrow.Scalar` for all its rows."""


@dataclass(frozen=True, slots=True)
class Typed:
    """Base class of resolved expressions: the type of their values, and whether one of these may be null."""

    type: pa.DataType
    nullable: bool

    @property
    def inner(self) -> tuple[Typed, ...]:
        """The expressions from which this one is computed, in order."""
        return ()

    @property
    def may_fail(self) -> bool:
        """Whether evaluation may raise RowsFailed or PythonFailed for some rows.
        If so, the expression is evaluated only for rows that need it, as the branch of a choice.
        """
        return any(part.may_fail for part in self.inner)


@dataclass(frozen=True, slots=True)
class Column(Typed):
    """The column at `index` of the input, counted from 0; `name` is for people."""

    index: int
    name: str

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class Constant(Typed):
    """A value that is the same for all rows."""

    value: pa.Scalar

    def __str__(self) -> str:
        return "NULL" if not self.value.is_valid else str(self.value.as_py())


@dataclass(frozen=True, slots=True)
class Member(Typed):
    """Field `name` of the struct that the expression `child` gives."""

    child: Typed
    name: str

    @property
    def inner(self) -> tuple[Typed, ...]:
        return (self.child,)

    def __str__(self) -> str:
        return f"{self.child}.{self.name}"


@dataclass(frozen=True, slots=True)
class Apply(Typed):
    """A call of the rule `function` of the registry. `fails`: whether that rule raises for some values.

    With `tolerant`, as by a `try_` function, a row for which the rule would raise gets null.
    """

    function: str
    arguments: tuple[Typed, ...]
    fails: bool = False
    tolerant: bool = False

    @property
    def inner(self) -> tuple[Typed, ...]:
        return self.arguments

    @property
    def may_fail(self) -> bool:
        return (self.fails and not self.tolerant) or any(part.may_fail for part in self.arguments)

    def __str__(self) -> str:
        texts = [str(argument) for argument in self.arguments]
        if not self.function[0].isalpha() and len(texts) == 2:
            return f"({texts[0]} {self.function} {texts[1]})"
        return f"{'try_' if self.tolerant else ''}{self.function}({', '.join(texts)})"


@dataclass(frozen=True, slots=True)
class PythonApply(Typed):
    """A call of one of the program's own functions for each row; it may always fail."""

    function: PythonFunction
    arguments: tuple[Typed, ...]

    @property
    def inner(self) -> tuple[Typed, ...]:
        return self.arguments

    @property
    def may_fail(self) -> bool:
        # Nothing is known of the program's functions.
        return True

    def __str__(self) -> str:
        return f"{self.function.name}({', '.join(map(str, self.arguments))})"


@dataclass(frozen=True, slots=True)
class Conversion(Typed):
    """A cast of `child` to `type`; null stays null.

    Attributes:
        strict: whether a value that does not fit raises RowsFailed; otherwise it becomes null.
        safe: whether every value of the child's type fits, so that the cast cannot fail.
    """

    child: Typed
    strict: bool
    safe: bool

    @property
    def inner(self) -> tuple[Typed, ...]:
        return (self.child,)

    @property
    def may_fail(self) -> bool:
        return (self.strict and not self.safe) or self.child.may_fail

    def __str__(self) -> str:
        from headgate.relational.spark_types import text_of

        return f"{'' if self.strict else 'try_'}cast({self.child} as {text_of(self.type)})"


@dataclass(frozen=True, slots=True)
class Choice(Typed):
    """The value of the first branch whose condition is true, else `otherwise`.

    Each value is evaluated only for the rows that get it, so that it may fail for the others.
    """

    branches: tuple[tuple[Typed, Typed], ...]
    otherwise: Typed

    @property
    def inner(self) -> tuple[Typed, ...]:
        return (*(part for branch in self.branches for part in branch), self.otherwise)

    def __str__(self) -> str:
        branches = " ".join(f"when {condition} then {value}" for condition, value in self.branches)
        return f"case {branches} else {self.otherwise} end"


@dataclass(frozen=True, slots=True)
class WindowsOf(Typed):
    """The windows in which a timestamp lies, ascending by end, as an array; times in microseconds.

    Windows are `size` long, one every `slide`, moved by `offset`. If they `grow` (cumulative windows), they
    begin every `size`, and one ends after each `slide`.
    """

    child: Typed
    size: int
    slide: int
    offset: int
    grow: bool

    @property
    def inner(self) -> tuple[Typed, ...]:
        return (self.child,)

    def __str__(self) -> str:
        name = "cumulate_window" if self.grow else "window"
        return f"{name}({self.child}, {self.size // 1000} ms, {self.slide // 1000} ms)"


@dataclass(frozen=True, slots=True)
class PieceOf(Typed):
    """The piece `number` of a split text, from 1, or from the end below 0; "" where there is none.

    `child` gives the lists of pieces; `shown` is the call as the program wrote it.
    """

    child: Typed
    number: int
    shown: str

    @property
    def inner(self) -> tuple[Typed, ...]:
        return (self.child,)

    def __str__(self) -> str:
        return self.shown


@dataclass(frozen=True, slots=True)
class Shared(Typed):
    """An expression used more than once, and computed once for a `Rows` object, which keeps it by `slot`."""

    child: Typed
    slot: int

    @property
    def inner(self) -> tuple[Typed, ...]:
        return (self.child,)

    def __str__(self) -> str:
        return str(self.child)


def with_inner(expression: Typed, inner: tuple[Typed, ...]) -> Typed:
    """Return a copy of an expression in which `inner` replaces its inner expressions, in their order.
    An expression without inner ones is returned as it is. Its type and `nullable` stay what they were.
    """
    match expression:
        case Apply() | PythonApply():
            return replace(expression, arguments=inner)
        case Choice():
            branches = tuple(zip(inner[:-1:2], inner[1::2], strict=True))
            return replace(expression, branches=branches, otherwise=inner[-1])
        case Member() | Conversion() | WindowsOf() | PieceOf() | Shared():
            return replace(expression, child=inner[0])
    return expression


def parts_of(expression: Typed) -> Iterator[Typed]:
    """Yield an expression and all expressions inside it, each before those from which it is computed."""
    yield expression
    for part in expression.inner:
        yield from parts_of(part)


def columns_in(expression: Typed) -> set[int]:
    """Return the indices of the input columns that an expression reads."""
    return {part.index for part in parts_of(expression) if isinstance(part, Column)}
