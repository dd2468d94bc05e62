"""Turns plans of tables into nodes of the program: filters and columns, partitions by key, aggregations."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from types import GenericAlias
from typing import Any, NamedTuple

import pyarrow as pa

from headgate.api.functions import KeyedProcessFunction, is_blocking
from headgate.api.streams.steps import ProgramContext
from headgate.api.tables.aggregation_state import state_declaration
from headgate.api.tables.row_state import (
    all_declaration,
    first_declaration,
    joined_declaration,
    match_declaration,
    rows_declaration,
    seen_declaration,
    timed_declaration,
)
from headgate.common.keys.key_types import DeclaredKeys
from headgate.graph import logical
from headgate.graph.logical import NEW
from headgate.graph.partitioners import ByKeyGroup
from headgate.graph.table_nodes import (
    AccumulateNode,
    CheckedKeysNode,
    ColumnsNode,
    DeduplicateNode,
    FirstRowsNode,
    JoinNode,
    LoadedLookupNode,
    LookupNode,
    MatchNode,
    RankNode,
    RecomputeNode,
    RunningAggregateNode,
    TableFunctionNode,
    TimedJoinNode,
    TimedRowsNode,
    UpdatingJoinNode,
    WindowAggregateNode,
    WindowJoinNode,
)
from headgate.relational.changes import CHANGE, Change
from headgate.relational.joins.equal_joins import Join, WindowJoin
from headgate.relational.joins.timed_joins import TimedJoin
from headgate.relational.passes.extremes import Extremes, extremes_of
from headgate.relational.passes.fused_steps import AnyStep, Step, pruned, steps_of
from headgate.relational.patterns.match_plan import Match
from headgate.relational.python_types import plain_type
from headgate.relational.relations import (
    ALL_ROWS,
    RUNNING,
    Aggregation,
    Deduplicate,
    Form,
    Lookup,
    Over,
    Project,
    Rank,
    Relation,
    Scan,
    TableFunction,
    Union,
)
from headgate.relational.resolved import Column, Constant
from headgate.relational.schema import Field, Schema


def lowered(
    environment: ProgramContext, relation: Relation, uid: str | None = None, extremes: Extremes | None = None
) -> int:
    """Add the nodes that compute plan `relation` to the program; return the number of the last node.

    An aggregation is no part of such a plan: a table that is aggregated scans its results. With `extremes`,
    rows are left out that cannot be the greatest (or least) of their window, which the join asks for.
    """
    below, steps = steps_of(relation)
    steps = pruned(steps)
    number = _below(environment, below, steps[0].reads if steps else below.schema)
    if not steps:
        return number
    node = ColumnsNode(NEW, _name(steps), uid=uid, steps=steps, extremes=extremes)
    return environment.program.add(node, (number,))


def _below(environment: ProgramContext, relation: Relation, wanted: Schema) -> int:
    match relation:
        case Scan():
            return relation.stream
        case Union():
            parts = [lowered(environment, _narrowed(child, wanted)) for child in relation.children]
            return environment.program.add(logical.UnionNode(NEW, "union"), tuple(parts))
        case TableFunction():
            return _lowered_function(environment, relation)
        case Lookup():
            number = lowered(environment, relation.child)
            kind = LookupNode if relation.loading is None else LoadedLookupNode
            return environment.program.add(kind(NEW, "lookup", lookup=relation), (number,))
    raise AssertionError(f"{type(relation).__name__} is no plan of a table")


def _lowered_function(environment: ProgramContext, plan: TableFunction) -> int:
    number = lowered(environment, plan.child)
    node = TableFunctionNode(
        NEW,
        "as_rows" if plan.form is Form.ROWS else "map_batches",
        uid=plan.uid,
        site=plan.site,
        blocking=is_blocking(plan.function),
        function=plan.function,
        form=plan.form,
        reads=plan.child.schema,
        gives=plan.schema,
    )
    return environment.program.add(node, (number,))


def _narrowed(relation: Relation, wanted: Schema) -> Project:
    names = wanted.names or relation.schema.names[:1]
    chosen = [(relation.schema.names.index(name), name) for name in names]
    columns = tuple(
        Column(relation.schema.fields[place].type, relation.schema.fields[place].nullable, place, name)
        for place, name in chosen
    )
    fields = tuple(relation.schema.fields[place] for place, _ in chosen)
    return Project(Schema(fields, relation.schema.event_time), relation, columns)


def _name(steps: tuple[AnyStep, ...]) -> str:
    filters = any(isinstance(step, Step) and step.conditions for step in steps)
    return "filter and columns" if filters else "columns"


class _Keyed(NamedTuple):
    """Rows behind an exchange by key: the exchange's number, what its key is made of, and the key's types."""

    number: int
    key: str | tuple[str, ...]
    keys: DeclaredKeys


def _by_key(environment: ProgramContext, number: int, call: str, fields: Sequence[Field]) -> _Keyed:
    """Send the rows of node `number` to the subtasks of their keys, the columns `fields`, for `call`."""
    names = tuple(field.name for field in fields)
    key = names[0] if len(names) == 1 else names
    exchange = logical.PartitionNode(NEW, call, partitioner=ByKeyGroup(key))
    return _Keyed(environment.program.add(exchange, (number,)), key, _declared_keys(call, fields))


def _added(
    environment: ProgramContext,
    keyed: _Keyed,
    node: Callable[..., logical.KeyedProcessNode],
    function: KeyedProcessFunction[Any, Any, Any],
) -> int:
    """Add the node that runs a plan behind an exchange; `function` declares its state."""
    made = node(function=function, key=keyed.key, keys=keyed.keys)
    return environment.program.add(made, (keyed.number,))


def lowered_aggregation(environment: ProgramContext, plan: Aggregation) -> int:
    """Add the nodes of an aggregation to the program: accumulators of each batch, exchange by key, windows.
    Return the last one's number. PlanError: two results would be stored under one name.
    """
    if not plan.keys:
        child = _with_one_key(plan.child)
        plan = replace(plan, child=child, keys=(len(child.schema) - 1,))
    number = lowered(environment, plan.child)
    number = environment.program.add(AccumulateNode(NEW, "accumulate", aggregation=plan), (number,))
    fields = [plan.child.schema.fields[place] for place in plan.keys]
    keyed = _by_key(environment, number, "group_by", fields)
    running = plan.window.kind == RUNNING
    kind, name = (RunningAggregateNode, "groups") if running else (WindowAggregateNode, "windows")
    node = partial(kind, NEW, name, uid=plan.uid, aggregation=plan)
    return _added(environment, keyed, node, state_declaration(plan))


def lowered_join(environment: ProgramContext, plan: WindowJoin | Join | TimedJoin, where: str) -> int:
    """Add a join's nodes; return the last one's number. PlanError (`where`): columns stored as one name."""
    sides = plan.inputs if isinstance(plan, Join) else (plan.left, plan.right)
    inputs = [
        lowered(
            environment, side, extremes=extremes_of(plan, number) if isinstance(plan, WindowJoin) else None
        )
        for number, side in enumerate(sides)
    ]
    number = environment.program.add(logical.UnionNode(NEW, "both inputs"), tuple(inputs))
    schema = sides[0].schema
    fields = [schema.fields[schema.place(name)] for name in plan.keys]
    keyed = _by_key(environment, number, "join", fields)
    node: Callable[..., logical.KeyedProcessNode]
    if isinstance(plan, Join):
        kind = UpdatingJoinNode if plan.schema.updating else JoinNode
        node, function = partial(kind, NEW, "join", join=plan), joined_declaration(plan, where)
    elif isinstance(plan, TimedJoin):
        node = partial(TimedJoinNode, NEW, "join by time", join=plan)
        function = timed_declaration(plan, where)
    else:
        node = partial(WindowJoinNode, NEW, "window join", join=plan)
        function = rows_declaration(plan, where)
    return _added(environment, keyed, partial(node, uid=plan.uid), function)


def lowered_anew(environment: ProgramContext, plan: Aggregation | Rank | Over, where: str) -> int:
    """Add the nodes of what is computed anew for each key that changes; return the last one's number.
    PlanError (`where`): columns stored as one name.
    """
    plan = replace(plan, child=as_changes(plan.child))
    number = lowered(environment, plan.child)
    number = environment.program.add(CheckedKeysNode(NEW, "keys", plan=plan), (number,))
    schema = plan.child.schema
    fields = [schema.fields[schema.place(name)] for name in plan.key_names]
    keyed = _by_key(environment, number, "group_by", fields)
    function = all_declaration(plan, where)
    node = partial(RecomputeNode, NEW, "computed anew", uid=plan.uid, plan=plan)
    return _added(environment, keyed, node, function)


def lowered_rank(environment: ProgramContext, plan: Rank, where: str) -> int:
    """Add a rank's nodes; return the last one's number. PlanError (`where`): columns stored as one name."""
    number = lowered(environment, plan.child)
    number = environment.program.add(FirstRowsNode(NEW, "first rows", rank=plan), (number,))
    keyed = _by_key(environment, number, "rank", plan.key_fields)
    node = partial(RankNode, NEW, "rank", uid=plan.uid, rank=plan)
    return _added(environment, keyed, node, first_declaration(plan, where))


def lowered_deduplicate(environment: ProgramContext, plan: Deduplicate, where: str) -> int:
    """Add the nodes of what sends the first row of each key; return the last one's number."""
    number = lowered(environment, plan.child)
    keyed = _by_key(environment, number, "drop_duplicates", plan.key_fields)
    function = seen_declaration(where)
    node = partial(DeduplicateNode, NEW, "first rows of keys", uid=plan.uid, plan=plan)
    return _added(environment, keyed, node, function)


def lowered_match(environment: ProgramContext, plan: Match, where: str) -> int:
    """Add a pattern's nodes; return the last one's number. PlanError (`where`): columns stored as one
    name.
    """
    number = lowered(environment, plan.child)
    number = environment.program.add(TimedRowsNode(NEW, "rows", match=plan), (number,))
    keyed = _by_key(environment, number, "match", plan.key_fields)
    node = partial(MatchNode, NEW, "match", uid=plan.uid, match=plan)
    return _added(environment, keyed, node, match_declaration(plan, where))


def as_changes(child: Relation) -> Relation:
    """Return the rows of `child` as changes; if they are none, each comes."""
    if child.schema.updating:
        return child
    return _with_column(child, CHANGE, pa.int8(), Change.INSERT.value)


def _declared_keys(call: str, fields: Sequence[Field]) -> DeclaredKeys:
    kinds = tuple(plain_type(field.type) for field in fields)
    hint = kinds[0] if len(kinds) == 1 else GenericAlias(tuple, kinds)
    return DeclaredKeys(hint, f"{call}({', '.join(field.name for field in fields)})")


def _with_one_key(child: Relation) -> Relation:
    return _with_column(child, ALL_ROWS, pa.int32(), 0)


def _with_column(child: Relation, name: str, kind: pa.DataType, value: int) -> Relation:
    # The rows of a plan, with a column more that is the same in all of them.
    kept = [Column(each.type, each.nullable, place, each.name) for place, each in enumerate(child.schema)]
    constant = Constant(kind, False, pa.scalar(value, kind))
    fields = (*child.schema.fields, Field(name, kind, False))
    return Project(Schema(fields, child.schema.event_time), child, (*kept, constant))
