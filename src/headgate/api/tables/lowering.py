"""Turns plans of tables into nodes of the program: filters and columns, partitions by key, aggregations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from types import GenericAlias

from headgate.api.functions import is_blocking
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
    Join,
    Lookup,
    Over,
    Project,
    Rank,
    Relation,
    Scan,
    TableFunction,
    Union,
    WindowJoin,
)
from headgate.relational.resolved import Column, Typed
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


def lowered_aggregation(environment: ProgramContext, plan: Aggregation) -> int:
    """Add the nodes of an aggregation to the program: accumulators of each batch, exchange by key, windows.
    Return the last one's number. PlanError: two results would be stored under one name.
    """
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
    running = plan.window.kind == RUNNING
    node = (RunningAggregateNode if running else WindowAggregateNode)(
        NEW,
        "groups" if running else "windows",
        uid=plan.uid,
        function=function,
        key=selector,
        keys=_declared_keys("group_by", [plan.child.schema.fields[place] for place in plan.keys]),
        aggregation=plan,
    )
    return program.add(node, (number,))


def lowered_join(environment: ProgramContext, plan: WindowJoin | Join | TimedJoin, where: str) -> int:
    """Add a join's nodes; return the last one's number. PlanError (`where`): columns stored as one name."""
    program = environment.program
    inputs = [
        lowered(
            environment, side, extremes=extremes_of(plan, number) if isinstance(plan, WindowJoin) else None
        )
        for number, side in enumerate((plan.left, plan.right))
    ]
    number = program.add(logical.UnionNode(NEW, "both inputs"), tuple(inputs))
    selector = plan.keys[0] if len(plan.keys) == 1 else plan.keys
    exchange = logical.PartitionNode(NEW, "join", partitioner=ByKeyGroup(selector))
    number = program.add(exchange, (number,))
    fields = [plan.left.schema.fields[plan.left.schema.place(name)] for name in plan.keys]
    if isinstance(plan, Join):
        kind = UpdatingJoinNode if plan.schema.updating else JoinNode
        joined = kind(
            NEW,
            "join",
            uid=plan.uid,
            function=joined_declaration(plan, where),
            key=selector,
            keys=_declared_keys("join", fields),
            join=plan,
        )
        return program.add(joined, (number,))
    if isinstance(plan, TimedJoin):
        timed = TimedJoinNode(
            NEW,
            "join by time",
            uid=plan.uid,
            function=timed_declaration(plan, where),
            key=selector,
            keys=_declared_keys("join", fields),
            join=plan,
        )
        return program.add(timed, (number,))
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


def lowered_anew(environment: ProgramContext, plan: Aggregation | Rank | Over, where: str) -> int:
    """Add the nodes of what is computed anew for each key that changes; return the last one's number.
    PlanError (`where`): columns stored as one name.
    """
    plan = replace(plan, child=as_changes(plan.child))
    program, names = environment.program, plan.key_names
    selector = names[0] if len(names) == 1 else tuple(names)
    number = lowered(environment, plan.child)
    number = program.add(CheckedKeysNode(NEW, "keys", plan=plan), (number,))
    exchange = logical.PartitionNode(NEW, "group_by", partitioner=ByKeyGroup(selector))
    number = program.add(exchange, (number,))
    fields = [plan.child.schema.fields[plan.child.schema.place(name)] for name in names]
    node = RecomputeNode(
        NEW,
        "computed anew",
        uid=plan.uid,
        function=all_declaration(plan, where),
        key=selector,
        keys=_declared_keys("group_by", fields),
        plan=plan,
    )
    return program.add(node, (number,))


def lowered_rank(environment: ProgramContext, plan: Rank, where: str) -> int:
    """Add a rank's nodes; return the last one's number. PlanError (`where`): columns stored as one name."""
    program, names = environment.program, plan.key_names
    selector = names[0] if len(names) == 1 else tuple(names)
    number = lowered(environment, plan.child)
    number = program.add(FirstRowsNode(NEW, "first rows", rank=plan), (number,))
    exchange = logical.PartitionNode(NEW, "rank", partitioner=ByKeyGroup(selector))
    number = program.add(exchange, (number,))
    node = RankNode(
        NEW,
        "rank",
        uid=plan.uid,
        function=first_declaration(plan, where),
        key=selector,
        keys=_declared_keys("rank", plan.child.schema.fields[: plan.keys]),
        rank=plan,
    )
    return program.add(node, (number,))


def lowered_deduplicate(environment: ProgramContext, plan: Deduplicate, where: str) -> int:
    """Add the nodes of what sends the first row of each key; return the last one's number."""
    program, names = environment.program, plan.key_names
    selector = names[0] if len(names) == 1 else tuple(names)
    number = lowered(environment, plan.child)
    exchange = logical.PartitionNode(NEW, "duplicates", partitioner=ByKeyGroup(selector))
    number = program.add(exchange, (number,))
    node = DeduplicateNode(
        NEW,
        "first rows of keys",
        uid=plan.uid,
        function=seen_declaration(where),
        key=selector,
        keys=_declared_keys("drop_duplicates", plan.child.schema.fields[: plan.keys]),
        plan=plan,
    )
    return program.add(node, (number,))


def lowered_match(environment: ProgramContext, plan: Match, where: str) -> int:
    """Add a pattern's nodes; return the last one's number. PlanError (`where`): columns stored as one
    name.
    """
    program, names = environment.program, plan.key_names
    selector = names[0] if len(names) == 1 else tuple(names)
    number = lowered(environment, plan.child)
    number = program.add(TimedRowsNode(NEW, "rows", match=plan), (number,))
    exchange = logical.PartitionNode(NEW, "match", partitioner=ByKeyGroup(selector))
    number = program.add(exchange, (number,))
    node = MatchNode(
        NEW,
        "match",
        uid=plan.uid,
        function=match_declaration(plan, where),
        key=selector,
        keys=_declared_keys("match", plan.child.schema.fields[: plan.keys]),
        match=plan,
    )
    return program.add(node, (number,))


def as_changes(child: Relation) -> Relation:
    """Return the rows of `child` as changes; if they are none, each comes."""
    if child.schema.updating:
        return child
    import pyarrow as pa

    from headgate.relational.resolved import Constant

    kept: tuple[Typed, ...] = tuple(
        Column(each.type, each.nullable, place, each.name) for place, each in enumerate(child.schema)
    )
    comes = Constant(pa.int8(), False, pa.scalar(Change.INSERT.value, pa.int8()))
    fields = (*child.schema.fields, Field(CHANGE, pa.int8(), False))
    return Project(Schema(fields, child.schema.event_time), child, (*kept, comes))


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
