"""Turns plans of tables into nodes of the program: filters and columns, partitions by key, aggregations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from types import GenericAlias
from typing import Any

from headgate.api.streams.steps import ProgramContext
from headgate.api.tables.aggregation_state import state_declaration
from headgate.api.tables.row_state import rows_declaration
from headgate.common.keys.key_types import DeclaredKeys
from headgate.graph import logical
from headgate.graph.logical import NEW
from headgate.graph.partitioners import ByKeyGroup
from headgate.graph.table_nodes import AccumulateNode, ColumnsNode, WindowAggregateNode, WindowJoinNode
from headgate.relational.fused_steps import pruned, steps_of
from headgate.relational.python_types import plain_type
from headgate.relational.relations import ALL_ROWS, Aggregation, Project, Relation, WindowJoin
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
        keys=_declared_keys("group_by", [plan.child.schema.fields[place] for place in plan.keys]),
        aggregation=plan,
    )
    return program.add(node, (number,))


def lowered_join(environment: ProgramContext, plan: WindowJoin, where: str) -> int:
    """Add the nodes of a join: the columns of both inputs, the exchange by key, and the rows that wait."""
    program = environment.program
    inputs = (lowered(environment, plan.left), lowered(environment, plan.right))
    number = program.add(logical.UnionNode(NEW, "both inputs"), inputs)
    selector = plan.keys[0] if len(plan.keys) == 1 else plan.keys
    exchange = logical.PartitionNode(NEW, "join", partitioner=ByKeyGroup(selector))
    number = program.add(exchange, (number,))
    fields = [plan.left.schema.fields[plan.left.schema.place(name)] for name in plan.keys]
    node = WindowJoinNode(
        NEW,
        "window join",
        uid=plan.uid,
        function=rows_declaration(plan, where),
        key=selector,
        keys=_declared_keys("join", fields),
        join=plan,
    )
    return program.add(node, (number,))


def _declared_keys(call: str, fields: Sequence[Field]) -> DeclaredKeys:
    kinds = tuple(plain_type(field.type) for field in fields)
    hint = kinds[0] if len(kinds) == 1 else GenericAlias(tuple, kinds)
    return DeclaredKeys(hint, f"{call}({', '.join(field.name for field in fields)})")


def _with_one_key(child: Relation) -> Relation:
    import pyarrow as pa

    from headgate.relational.resolved import Constant

    one = Constant(pa.int32(), False, pa.scalar(0, pa.int32()))
    kept: tuple[Typed, ...] = tuple(
        Column(each.type, each.nullable, place, each.name) for place, each in enumerate(child.schema)
    )
    fields = (*child.schema.fields, Field(ALL_ROWS, pa.int32(), False))
    return Project(Schema(fields, child.schema.event_time), child, (*kept, one))
