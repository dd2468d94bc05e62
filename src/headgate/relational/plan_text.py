"""Plans of tables as text, a line for each node, as the program wrote them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeAlias

from headgate.common.time import format_ms
from headgate.relational.joins.equal_joins import Join, by_keys
from headgate.relational.passes.fused_steps import substituted
from headgate.relational.passes.inputs import inputs_of
from headgate.relational.patterns.match_plan import Match
from headgate.relational.relations import (
    ALL_ROWS,
    RUNNING,
    Aggregation,
    Deduplicate,
    Explode,
    Filter,
    Form,
    Lookup,
    Over,
    Project,
    Rank,
    Relation,
    Scan,
    TableFunction,
    Union,
    Windowed,
)
from headgate.relational.resolved import columns_in
from headgate.relational.schema import Schema

Below: TypeAlias = Callable[[Scan], "str | Relation"]
"""Says of a scanned stream what it is: a text, or the plan of which it is the result, shown in its place."""


def plan_lines(relation: Relation, below: Below) -> list[str]:
    """Return a plan as lines of text, each node before its inputs, indented; `below` describes its scans."""
    return list(_lines(relation, below, 0))


def _lines(relation: Relation, below: Below, depth: int) -> Iterator[str]:
    known = below(relation) if isinstance(relation, Scan) else ""
    if isinstance(known, Relation):
        yield from _lines(known, below, depth)
        return
    yield f"{'  ' * depth}{_head(relation, known)}"
    for child in _children(relation):
        yield from _lines(child, below, depth + 1)


def _children(relation: Relation) -> tuple[Relation, ...]:
    match relation:
        case Aggregation(child=Project() as arguments):
            # Their columns are shown where the aggregates use them.
            return (arguments.child,)
        case Join(inputs=inputs):
            return tuple(each.child if isinstance(each, Project) else each for each in inputs)
    return inputs_of(relation)


def _head(relation: Relation, of_scan: str) -> str:
    match relation:
        case Scan():
            return f"scan {of_scan}: {_columns(relation.schema)}"
        case Project():
            return f"columns {', '.join(_named(relation))}"
        case Filter():
            return f"filter {relation.condition}"
        case Explode():
            name = f"{'pos' if relation.position else ''}explode{'_outer' if relation.outer else ''}"
            return f"{name} {relation.values}"
        case Union():
            return f"union: {_columns(relation.schema)}"
        case TableFunction():
            verb = "as_rows" if relation.form is Form.ROWS else "map_batches"
            return (
                f"{verb} {function_text(relation.function)} at {relation.site}: {_columns(relation.schema)}"
            )
        case Aggregation():
            return f"aggregate {aggregates_text(relation)}"
        case Join():
            way = "as rows come" if relation.grows_only else "corrected at marks"
            also = "" if relation.where is None else f" where {relation.where}"
            of = f" of {len(relation.inputs)} tables" if len(relation.inputs) > 2 else ""
            return f"{relation.how} join{of} by {by_keys(relation.shown_keys, relation.parts)}{also}, {way}"
        case Rank():
            return f"first {relation.n} by {', '.join(relation.key_names)}, corrected at marks"
        case Over():
            made = ", ".join(map(str, relation.aggregates))
            return f"{made} over rows by {', '.join(relation.key_names)}, corrected at marks"
        case Deduplicate():
            return f"first row by {relation.keys} key columns, as rows come"
        case Match():
            return f"match {relation.pattern} by {', '.join(relation.key_names)}"
    return type(relation).__name__


def _named(relation: Project) -> Iterator[str]:
    for each, field in zip(relation.columns, relation.schema, strict=True):
        yield field.name if str(each) == field.name else f"{each} AS {field.name}"


def _columns(schema: Schema) -> str:
    mark = " (event time)"
    return ", ".join(f"{each}{mark if each.name == schema.event_time else ''}" for each in schema)


def function_text(function: object) -> str:
    """Return the name of a function of the program as plans show it, such as "score()"."""
    return f"{getattr(function, '__qualname__', type(function).__name__).rpartition('.')[2]}()"


def lookup_lines(plan: Lookup) -> Iterator[str]:
    """Yield the lines in which `explain()` tells what a lookup joins, and where its rows come from."""
    yield f"lookup join, {plan.how}, by {', '.join(plan.keys)}"
    if plan.loading is None:
        yield f"each subtask has all {plan.table.num_rows} rows, which are shipped with the program"
        return
    refresh = plan.loading.refresh_ms
    when = "once" if refresh is None else f"every {format_ms(refresh)}"
    yield f"each subtask has all rows of {function_text(plan.loading.function)}, called {when}"


def match_lines(plan: Match) -> Iterator[str]:
    """Yield the lines in which `explain()` tells how a pattern is matched."""
    yield f"finds {plan.pattern}"
    width = len(plan.child.schema)
    for name, condition in zip(plan.variables, plan.conditions, strict=True):
        if condition is None:
            yield f"{name} is any row"
            continue
        alone = max(columns_in(condition), default=0) < width
        yield f"{name} is a row with {condition}, {'for whole batches' if alone else 'row after row'}"
    within = plan.pattern.within_ms
    kept = "until the pattern is decided" if within is None else f"for {format_ms(within)} at most"
    yield f"keeps the rows of partial matches {kept}"


def aggregates_text(plan: Aggregation) -> str:
    """Return what an aggregation computes, such as "count(*) AS n by user in windows of 10s every 2s"."""
    computed = plan.child.columns if isinstance(plan.child, Project) else None
    if plan.copies is not None:
        return f"{plan.copies.replace('_', ' ')} of whole rows, corrected at marks"
    made = []
    for each in plan.aggregates:
        arguments = each.arguments
        if computed is not None:
            arguments = tuple(substituted(argument, computed) for argument in arguments)
        made.append(str(each._replace(arguments=arguments)))
    names = [plan.child.schema.names[place] for place in plan.keys]
    keys = ", ".join(name for name in names if name != ALL_ROWS)
    grouped = f"{', '.join(made)}{f' by {keys}' if keys else ''}"
    if plan.window.kind == RUNNING:
        return f"{grouped} without windows, corrected at marks"
    return f"{grouped} in windows of {_window_text(plan.window)}"


def _window_text(window: Windowed) -> str:
    slide = "" if window.slide_ms == window.size_ms else f" every {format_ms(window.slide_ms)}"
    offset = f" moved by {format_ms(window.offset_ms)}" if window.offset_ms else ""
    clock = " of processing time" if window.clock == "processing" else ""
    return f"{format_ms(window.size_ms)}{slide}{offset}{clock}"
