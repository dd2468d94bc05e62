"""What conditions and measures of a pattern refer to: columns of other rows of the match, and aggregates of
them.

Each such part becomes a column of its own, a *looked-up* column, after the columns of the row.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final, Literal, NamedTuple, TypeAlias

from headgate.common.errors import PlanError
from headgate.relational.aggregates import Aggregate, resolve_aggregate
from headgate.relational.expressions import (
    AggregateCall,
    Alias,
    Call,
    Case,
    Cast,
    Expression,
    PythonCall,
    Reference,
)
from headgate.relational.patterns.remembered_rows import Wanted
from headgate.relational.resolved import Typed
from headgate.relational.resolving import resolve
from headgate.relational.schema import Field, Schema

Kind: TypeAlias = Literal["first", "last"]

_PICKED: Final[dict[str, Kind]] = {
    "first": "first", "first_value": "first", "last": "last", "last_value": "last"
}  # fmt: skip
"""Aggregates that are the value of one row -> which one."""


@dataclass(frozen=True, slots=True)
class Navigation(Expression):
    """A value of a variable's first row, or last one, or of one `offset` rows after, or before, that."""

    kind: Kind
    child: Expression
    offset: int

    @property
    def inner(self) -> tuple[Expression, ...]:
        return (self.child,)

    def __str__(self) -> str:
        return f"{self.kind}({self.child}{f', {self.offset}' if self.offset else ''})"


@dataclass(frozen=True, slots=True)
class Previous(Expression):
    """A value of the row that lies `offset` rows of the same key before this one."""

    child: Expression
    offset: int

    @property
    def inner(self) -> tuple[Expression, ...]:
        return (self.child,)

    def __str__(self) -> str:
        return f"prev({self.child}{f', {self.offset}' if self.offset > 1 else ''})"


class LookedUp(NamedTuple):
    """A looked-up column: its value is of one of a variable's rows, or aggregates all of them.

    Attributes:
        variable: its index; the one after the last stands for the rows of any variable.
        kind: whether offsets count from the first row or from the last one.
        offset: in rows of this variable.
        value: is computed of the row that is found; None: `aggregate` is computed of all rows.
    """

    variable: int
    kind: Kind
    offset: int
    value: Typed | None
    aggregate: Aggregate | None = None

    @property
    def wanted(self) -> Wanted:
        """What has to be remembered of the variable's rows."""
        if self.value is None:
            return Wanted(all=True)
        count = self.offset + 1
        return Wanted(first=count) if self.kind == "first" else Wanted(last=count)


def wanted_of(columns: Sequence[LookedUp]) -> dict[int, Wanted]:
    """Return what has to be remembered for these columns: variable -> what of its rows."""
    found: dict[int, Wanted] = {}
    for each in columns:
        found[each.variable] = found.get(each.variable, Wanted()).and_also(each.wanted)
    return found


class Scope:
    """Resolves expressions against rows with the columns of `schema`, and looked-up ones, which it gathers.

    Attributes:
        looked_up: these columns, in order.
        schema: of the row, the looked-up columns last.
    """

    def __init__(self, schema: Schema, variables: Sequence[str]) -> None:
        self._row, self._variables = schema, list(variables)
        self._known: dict[tuple[object, ...], str] = {}
        self.looked_up: list[LookedUp] = []
        self.schema = schema

    def resolved(self, expression: Expression, own: int | None) -> Typed:
        """Return an expression over the columns of :attr:`schema`. PlanError: a column does not exist, or
        does not fit. `own` is the variable whose condition it is; None: it is a measure.
        """
        rewritten = self._rewritten(expression, own)
        return resolve(rewritten, self.schema)

    def _rewritten(self, expression: Expression, own: int | None) -> Expression:
        match expression:
            case Reference():
                variable = self._variable_of(expression)
                if own is not None and variable in (own, None):
                    return self._plain(expression)
                return self._looked_up("last", expression, 0)
            case AggregateCall(function, arguments) if function in _PICKED:
                if any(expression.settings):
                    raise PlanError(f"{expression} leaves nulls out, which a pattern's {function}() does not")
                return self._looked_up(_PICKED[function], arguments[0], 0)
            case AggregateCall():
                return self._aggregated(expression)
            case Navigation():
                return self._looked_up(expression.kind, expression.child, expression.offset)
        return with_inner(expression, [self._rewritten(part, own) for part in expression.inner])

    def _variable_of(self, reference: Reference) -> int | None:
        name, dot, _ = reference.name.partition(".")
        if dot and name in self._variables:
            return self._variables.index(name)
        if dot and self._row.find(reference.name) is None and self._row.find(name) is None:
            raise PlanError(
                f"{reference} is of no row of a match: {name} is neither a variable of the pattern, which "
                f"has {', '.join(self._variables)}, nor a column"
            )
        return None

    def _only_variable(self, expression: Expression) -> int:
        found = {self._variable_of(part) for part in _parts(expression) if isinstance(part, Reference)}
        if len(found) > 1:
            raise PlanError(f"{expression} has columns of several variables; take those of one")
        variable = next(iter(found), None)
        return len(self._variables) if variable is None else variable

    def _plain(self, expression: Expression) -> Expression:
        if isinstance(expression, Reference):
            known = self._variable_of(expression) is not None
            return Reference(expression.name.partition(".")[2]) if known else expression
        return with_inner(expression, list(map(self._plain, expression.inner)))

    def _looked_up(self, kind: Kind, value: Expression, offset: int) -> Reference:
        _check_one_row(value)
        variable, plain = self._only_variable(value), self._plain(value)
        make = partial(LookedUp, variable, kind, offset, resolve(plain, self._row))
        shown = f"{kind}({value}{f', {offset}' if offset else ''})"
        return self._reference((variable, kind, offset, plain), shown, make)

    def _aggregated(self, call: AggregateCall) -> Reference:
        for each in call.inner:
            _check_one_row(each)
        variable = self._only_variable(call)
        plain = self._plain(call)
        assert isinstance(plain, AggregateCall)
        if plain.arguments == (Reference("*"),):  # as in count("A.*")
            plain = replace(plain, arguments=())
        found = resolve_aggregate(plain, f"aggregate {len(self.looked_up)}", self._row)
        make = partial(LookedUp, variable, "last", 0, None, found)
        return self._reference((variable, plain), str(call), make)

    def _reference(self, key: tuple[object, ...], shown: str, make: partial[LookedUp]) -> Reference:
        name = self._known.get(key)
        if name is None:
            each = make()
            name = self._known[key] = (
                shown if self.schema.find(shown) is None else f"{shown}/{len(self.looked_up)}"
            )
            self.looked_up.append(each)
            if each.aggregate is not None:
                field = Field(name, each.aggregate.result, each.aggregate.nullable)
            else:
                assert each.value is not None
                field = Field(name, each.value.type, True)
            self.schema = replace(self.schema, fields=(*self.schema.fields, field))
        return Reference(name)


def _check_one_row(value: Expression) -> None:
    for part in _parts(value):
        if isinstance(part, AggregateCall | Navigation):
            raise PlanError(f"{part} looks at several rows, and stands where a value of one row goes")


def _parts(expression: Expression) -> Iterator[Expression]:
    yield expression
    for part in expression.inner:
        yield from _parts(part)


def with_inner(expression: Expression, inner: Sequence[Expression]) -> Expression:
    """Return a copy of an expression in which `inner` replaces its inner expressions, in their order."""
    match expression:
        case Call() | PythonCall() | AggregateCall():
            return replace(expression, arguments=tuple(inner))
        case Cast() | Alias() | Previous():
            return replace(expression, child=inner[0])
        case Case():
            branches = tuple(zip(inner[:-1:2], inner[1::2], strict=True))
            return replace(expression, branches=branches, otherwise=inner[-1])
    if inner:
        raise PlanError(f"{expression} does not go into a pattern's condition or measure")
    return expression
