"""Patterns in the rows of a key: checks the call, and makes its plan."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Final

import pyarrow as pa

from headgate.api.site import user_site
from headgate.api.tables.checked_columns import all_columns, checked, projected
from headgate.api.tables.column import Column
from headgate.api.tables.firing_rules import refuse_repeated
from headgate.api.tables.ranking.ordering import Ordered, orders_of
from headgate.api.tables.ranking.ranks import sort_of
from headgate.api.tables.updating import refuse_updates
from headgate.common.errors import PlanError
from headgate.common.time import duration_ms
from headgate.relational.expressions import Expression
from headgate.relational.patterns.match_plan import Match
from headgate.relational.patterns.navigation import LookedUp, Scope
from headgate.relational.patterns.parsing import parsed
from headgate.relational.patterns.shapes import Pattern, Skip, check_shape, variables_of
from headgate.relational.python_types import can_be_key
from headgate.relational.relations import ORDER_PREFIX, Order, Relation
from headgate.relational.resolved import PythonApply, Typed, columns_in, parts_of
from headgate.relational.schema import Field, Schema, refuse_reserved
from headgate.relational.spark_types import text_of

_SKIP: Final = re.compile(
    r"\s+(?:(past)\s+last\s+row|to\s+(next)\s+row|to\s+(first|last)\s+(\w+))\s*", re.IGNORECASE
)


def matched(
    child: Relation,
    by: Sequence[str],
    order_by: Sequence[Ordered | Column | str] | Ordered | Column | str,
    pattern: str,
    define: Mapping[str, Column],
    measures: Mapping[str, Column],
    within: str | int | None,
    skip: str,
    uid: str | None,
) -> Match:
    """Return the plan of the matches of a pattern, for :meth:`Table.match`. PlanError: the table has no event
    time or is corrected, a key or a column is wrong, or the pattern is.
    """
    where = f"match() ({user_site()})"
    refuse_updates("match", child)
    refuse_repeated("match", child)
    if child.schema.event_time is None:
        raise PlanError(
            f"{where}: rows are matched in event time, which the table has none of; call with_watermark()"
        )
    made = checked("match", lambda: _pattern(pattern, within, skip))
    _check_names(where, child, variables_of(made.shape), define, measures)
    keys = [checked("match", partial(_key, child, name)) for name in by]
    if not keys:
        raise PlanError(f"{where} got no columns in by; name those that rows of a match have in common")
    used = _Plan(child.schema, made, define, measures).columns_used()
    columns = all_columns(child)
    others = [name for place, (name, _) in enumerate(columns) if place in used and name not in keys]
    mine = dict(columns)
    sorts = [] if isinstance(order_by, list | tuple) and not order_by else orders_of("match", order_by)
    order = tuple(
        Order(len(keys) + len(others) + number, each.descending) for number, each in enumerate(sorts)
    )
    of_order = [
        (f"{ORDER_PREFIX}{number}", sort_of("match", child, each)[0]) for number, each in enumerate(sorts)
    ]
    narrow = projected("match", child, [*((name, mine[name]) for name in (*keys, *others)), *of_order])
    plan = _Plan(narrow.schema, made, define, measures)
    fields = [*narrow.schema.fields[: len(keys)], *plan.fields()]
    names = [field.name for field in fields]
    if twice := {name for name in names if names.count(name) > 1}:
        raise PlanError(
            f"{where}: {sorted(twice)[0]!r} is a key and a measure; give the measure another name"
        )
    of_conditions, of_measures = plan.looked_up
    computed = plan.conditions, of_conditions, plan.measures, of_measures
    return Match(Schema(tuple(fields)), narrow, len(keys), order, made, *computed, uid)


def _pattern(text: str, within: str | int | None, skip: str) -> Pattern:
    if not isinstance(text, str):
        raise PlanError(f'got the pattern {text!r:.80}; expected text, such as "START DOWN+ UP"')
    shape = parsed(text)
    check_shape(shape)
    try:
        within_ms = None if within is None else duration_ms(within, "within")
    except (TypeError, ValueError) as error:
        raise PlanError(str(error)) from None
    if within_ms is not None and within_ms <= 0:
        raise PlanError(f"got within={within!r}; expected a duration above 0, such as '5s'")
    found = _SKIP.fullmatch(f" {skip}")
    if found is None:
        raise PlanError(
            f"got skip={skip!r:.80}; expected 'past last row', 'to next row', 'to first A' or 'to last A', "
            "with "
            "a variable in place of A"
        )
    past, following, end, variable = found.groups()
    if past or following:
        return Pattern(shape, within_ms, Skip.PAST_LAST_ROW if past else Skip.TO_NEXT_ROW)
    if variable not in variables_of(shape):
        raise PlanError(f"got skip={skip!r}; the pattern has no variable {variable!r}")
    return Pattern(shape, within_ms, Skip.TO_FIRST if end.lower() == "first" else Skip.TO_LAST, variable)


def _check_names(
    where: str,
    child: Relation,
    variables: Sequence[str],
    define: Mapping[str, Column],
    measures: Mapping[str, Column],
) -> None:
    if unknown := [name for name in define if name not in variables]:
        raise PlanError(
            f"{where} defines {unknown[0]!r}, which is not in the pattern; it has {', '.join(variables)}"
        )
    if both := [name for name in variables if name in child.schema.names]:
        raise PlanError(f"{where}: {both[0]!r} is a variable and a column; give the variable another name")
    if not measures:
        raise PlanError(
            f"{where} got no measures; name what a match's row has, such as {{'start': F.first('A.at')}}"
        )
    refuse_reserved(measures, where)
    for name, each in (*define.items(), *measures.items()):
        if not isinstance(each, Column):
            raise PlanError(f"{where} got {each!r:.80} for {name!r}; expected an expression of columns")


def _key(child: Relation, name: str) -> str:
    field = child.schema.fields[child.schema.place(name)]
    if not can_be_key(field.type):
        raise PlanError(
            f"{field.name} is {text_of(field.type)}, by which rows cannot be grouped; cast it to string or "
            "to a number"
        )
    return field.name


class _Plan:
    # Conditions and measures, resolved against rows with certain columns.
    def __init__(
        self, schema: Schema, pattern: Pattern, define: Mapping[str, Column], measures: Mapping[str, Column]
    ) -> None:
        self._width, variables = len(schema), variables_of(pattern.shape)
        scopes = Scope(schema, variables), Scope(schema, variables)
        self._names = list(measures)
        self.conditions = tuple(
            _condition(scopes[0], name, define[name].expression, number) if name in define else None
            for number, name in enumerate(variables)
        )
        self.measures = tuple(_measure(scopes[1], name, each.expression) for name, each in measures.items())
        self.looked_up = tuple(scopes[0].looked_up), tuple(scopes[1].looked_up)

    def fields(self) -> list[Field]:
        """Return the result's columns of the measures."""
        return [
            Field(name, each.type, each.nullable)
            for name, each in zip(self._names, self.measures, strict=True)
        ]

    def columns_used(self) -> set[int]:
        """Return the indices of the rows' columns that are read."""
        every: list[Typed] = [each for each in (*self.conditions, *self.measures) if each is not None]
        for each in (*self.looked_up[0], *self.looked_up[1]):
            every += _read_by(each)
        return {place for each in every for place in columns_in(each) if place < self._width}


def _read_by(each: LookedUp) -> Iterable[Typed]:
    if each.value is not None:
        return (each.value,)
    return () if each.aggregate is None else each.aggregate.arguments


def _condition(scope: Scope, name: str, expression: Expression, number: int) -> Typed:
    found = checked("match", lambda: scope.resolved(expression, number))
    if not pa.types.is_boolean(found.type):
        raise PlanError(
            f"match() ({user_site()}): the condition of {name} is {text_of(found.type)}, not boolean"
        )
    return _without_functions(name, found)


def _measure(scope: Scope, name: str, expression: Expression) -> Typed:
    return _without_functions(name, checked("match", lambda: scope.resolved(expression, None)))


def _without_functions(name: str, found: Typed) -> Typed:
    if called := next((each for each in parts_of(found) if isinstance(each, PythonApply)), None):
        raise PlanError(
            f"match() ({user_site()}): {name} calls {called.function.name}(), a function of the program; "
            "compute "
            "it by with_columns() before"
        )
    return found
