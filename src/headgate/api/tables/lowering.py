"""Turns plans of tables into nodes of the program: filters and columns, partitions by key, aggregations."""

from __future__ import annotations

from dataclasses import replace
from types import GenericAlias
from typing import Any, NamedTuple

from headgate.api.declared.keyed_states import MapState, map_state
from headgate.api.declared.operator_state import OperatorListState, operator_list_state
from headgate.api.functions import KeyedProcessFunction
from headgate.api.site import user_site
from headgate.api.streams.steps import ProgramContext
from headgate.common.errors import PlanError
from headgate.common.hints import Hint
from headgate.common.keys.key_types import DeclaredKeys
from headgate.graph import logical
from headgate.graph.logical import NEW
from headgate.graph.partitioners import ByKeyGroup
from headgate.graph.table_nodes import AccumulateNode, ColumnsNode, WindowAggregateNode
from headgate.relational.fused_steps import pruned, steps_of
from headgate.relational.python_types import hint_of, plain_type
from headgate.relational.relations import ALL_ROWS, Aggregation, Project, Relation
from headgate.relational.resolved import Column, Typed
from headgate.relational.schema import Field, Schema


def lowered(environment: ProgramContext, relation: Relation, uid: str | None = None) -> int:
    """Add the nodes that compute a plan of filters and projections; return the number of the last."""
    scan, steps = steps_of(relation)
    steps = pruned(steps)
    if not steps:
        return scan.stream
    node = ColumnsNode(NEW, _name(steps), uid=uid, steps=steps)
    return environment.program.add(node, (scan.stream,))


def _name(steps: tuple[Any, ...]) -> str:
    filters = any(step.conditions for step in steps)
    return "filter and columns" if filters else "columns"


def lowered_aggregation(environment: ProgramContext, plan: Aggregation) -> int:
    """Add the nodes of an aggregation: its columns, the exchange by key, and the windows."""
    keys = [plan.child.schema.names[place] for place in plan.keys]
    if not keys:
        child = _with_one_key(plan.child)
        plan, keys = replace(plan, child=child, keys=(len(child.schema) - 1,)), [ALL_ROWS]
    number = lowered(environment, plan.child)
    selector = keys[0] if len(keys) == 1 else tuple(keys)
    program = environment.program
    number = program.add(AccumulateNode(NEW, "accumulate", aggregation=plan), (number,))
    exchange = logical.PartitionNode(NEW, "group_by", partitioner=ByKeyGroup(selector))
    number = program.add(exchange, (number,))
    function = state_declaration(plan)
    node = WindowAggregateNode(
        NEW,
        "windows",
        uid=plan.uid,
        function=function,
        key=selector,
        keys=_declared_keys(plan),
        aggregation=plan,
    )
    return program.add(node, (number,))


def _declared_keys(plan: Aggregation) -> DeclaredKeys:
    fields = [plan.child.schema.fields[place] for place in plan.keys]
    kinds = tuple(plain_type(field.type) for field in fields)
    hint = kinds[0] if len(kinds) == 1 else GenericAlias(tuple, kinds)
    return DeclaredKeys(hint, f"group_by({', '.join(field.name for field in fields)})")


def _with_one_key(child: Relation) -> Relation:
    import pyarrow as pa

    from headgate.relational.resolved import Constant

    one = Constant(pa.int32(), False, pa.scalar(0, pa.int32()))
    kept: tuple[Typed, ...] = tuple(
        Column(each.type, each.nullable, place, each.name) for place, each in enumerate(child.schema)
    )
    fields = (*child.schema.fields, Field(ALL_ROWS, pa.int32(), False))
    return Project(Schema(fields, child.schema.event_time), child, (*kept, one))


def state_declaration(plan: Aggregation) -> KeyedProcessFunction[Any, Any, Any]:
    """Return a function that declares an aggregation's state: window -> accumulators, for each key.

    A window's key is the ms since 1970 at which its slice of event time begins. `ahead` holds key groups that
    are further in event time than their subtask, each with its watermark.
    """
    record = accumulators_record(plan)
    windows, ahead = MapState[int, record], OperatorListState[tuple[int, int]]  # type: ignore[valid-type]
    states = {"windows": map_state(), "ahead": operator_list_state(redistribution="union")}
    hints = {"__annotations__": {"windows": windows, "ahead": ahead}}
    body = {**hints, **states, "process": _refuse, "__module__": __name__}
    cls = type("WindowAggregation", (KeyedProcessFunction,), body)
    function: KeyedProcessFunction[Any, Any, Any] = cls()
    return function


def _refuse(_self: Any, _record: Any, _ctx: Any) -> None:
    raise AssertionError("an aggregation of columns is not run row by row")


def accumulators_record(plan: Aggregation) -> type:
    """Return the record type in which an aggregation's accumulators are stored, a field for each."""
    fields: list[tuple[str, Hint]] = []
    for each in plan.aggregates:
        for accumulator in each.parts.accumulators:
            fields.append((stored_name(each.name, accumulator.name), hint_of(accumulator.type)))
    names = [name for name, _ in fields]
    if len(set(names)) != len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise PlanError(
            f"two results of agg() ({user_site()}) would be stored as {twice!r}, since their names differ in "
            "signs only; give one another name with alias()"
        )
    # Accumulators of other windows mean something else: the name of the record lets a restore refuse them.
    window = plan.window
    name = f"Windows_{window.size_ms}ms_every_{window.slide_ms}ms_from_{window.offset_ms % window.slide_ms}ms"
    record: type = NamedTuple(name, fields)  # type: ignore[misc]
    record.__module__ = "headgate"
    return record


def stored_name(column: str, accumulator: str) -> str:
    """Return the name of an accumulator's field: the result column's, made an identifier, and its own."""
    plain = "".join(each if each.isalnum() and each.isascii() else "_" for each in column).strip("_")
    return f"{'' if plain[:1].isalpha() else 'column_'}{plain}_{accumulator}"
