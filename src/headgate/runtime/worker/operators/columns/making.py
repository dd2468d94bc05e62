"""Makes the operator that runs a node of a table's plan in one subtask."""

from __future__ import annotations

import copy

import pyarrow as pa

from headgate.graph.table_nodes import (
    AccumulateNode,
    CheckedKeysNode,
    ColumnsNode,
    DeduplicateNode,
    FirstRowsNode,
    JoinNode,
    LookupNode,
    MatchNode,
    RankNode,
    RecomputeNode,
    TableFunctionNode,
    TableNode,
    TimedJoinNode,
    TimedRowsNode,
    WindowJoinNode,
)
from headgate.relational.firing import AT_END
from headgate.relational.relations import RUNNING
from headgate.runtime.job.operator_context import OperatorContext
from headgate.runtime.worker.operators.columns.accumulating import AccumulatingOperator
from headgate.runtime.worker.operators.columns.column_steps import ColumnsOperator
from headgate.runtime.worker.operators.columns.extreme_columns import ExtremeColumnsOperator
from headgate.runtime.worker.operators.columns.functions_of_batches import TableFunctionOperator
from headgate.runtime.worker.operators.columns.late.accumulating_late import LateAccumulatingOperator
from headgate.runtime.worker.operators.columns.late.patient_aggregate import PatientAggregateOperator
from headgate.runtime.worker.operators.columns.lookups.making_lookups import lookup_operator
from headgate.runtime.worker.operators.columns.matching.match_operator import (
    MatchOperator,
    TimedRowsOperator,
)
from headgate.runtime.worker.operators.columns.processing_time import (
    ProcessingAccumulatingOperator,
    ProcessingWindowsOperator,
)
from headgate.runtime.worker.operators.columns.timed.making_joins import timed_join_operator
from headgate.runtime.worker.operators.columns.updating.counted_rows import CountedRowsOperator
from headgate.runtime.worker.operators.columns.updating.deduplicating import DeduplicateOperator
from headgate.runtime.worker.operators.columns.updating.different.finding_values import FindingOperator
from headgate.runtime.worker.operators.columns.updating.join_operator import JoinOperator
from headgate.runtime.worker.operators.columns.updating.ranked.rank_operator import (
    FirstRowsOperator,
    RankOperator,
)
from headgate.runtime.worker.operators.columns.updating.recomputing import (
    CheckedKeysOperator,
    RecomputingOperator,
)
from headgate.runtime.worker.operators.columns.updating.running_aggregate import RunningAggregateOperator
from headgate.runtime.worker.operators.columns.window_aggregate import WindowAggregateOperator
from headgate.runtime.worker.operators.columns.window_join import WindowJoinOperator
from headgate.runtime.worker.operators.operator_contract import Operator


def table_operator(context: OperatorContext, node: TableNode) -> Operator:
    """Return a new operator that runs a table's node in one subtask, with its own copy of the function."""
    pa.array([0])  # Arrow loads pandas at the first such call: 0.2 s, now rather than while rows wait
    if isinstance(node, ColumnsNode):
        if node.extremes is not None:
            return ExtremeColumnsOperator(context, node.steps, node.extremes)
        return ColumnsOperator(context, node.steps)
    if isinstance(node, WindowJoinNode):
        return WindowJoinOperator(context, node.join, copy.copy(node.function))
    if isinstance(node, LookupNode):
        return lookup_operator(context, node.lookup)
    if isinstance(node, TimedRowsNode):
        return TimedRowsOperator(context, node.match)
    if isinstance(node, MatchNode):
        return MatchOperator(context, node.match, copy.copy(node.function))
    if isinstance(node, CheckedKeysNode):
        return CheckedKeysOperator(context, node.plan)
    if isinstance(node, RecomputeNode):
        return RecomputingOperator(context, node.plan, copy.copy(node.function))
    if isinstance(node, DeduplicateNode):
        return DeduplicateOperator(context, node.plan, copy.copy(node.function))
    if isinstance(node, FirstRowsNode):
        return FirstRowsOperator(context, node.rank)
    if isinstance(node, RankNode):
        return RankOperator(context, node.rank, copy.copy(node.function))
    if isinstance(node, TimedJoinNode):
        return timed_join_operator(context, node.join, copy.copy(node.function))
    if isinstance(node, JoinNode):
        return JoinOperator(context, node.join, copy.copy(node.function))
    if isinstance(node, TableFunctionNode):
        return TableFunctionOperator(context, node)
    plan = node.aggregation
    running = plan.window.kind == RUNNING
    by_clock, patient = plan.window.clock == "processing", plan.firing != AT_END
    if isinstance(node, AccumulateNode):
        if plan.distinct:
            return FindingOperator(context, plan)
        if by_clock or running:
            return ProcessingAccumulatingOperator(context, plan)
        return LateAccumulatingOperator(context, plan) if patient else AccumulatingOperator(context, plan)
    # A function instance belongs to one subtask; the mini-cluster's subtasks share a process.
    function = copy.copy(node.function)
    if running:
        counted = plan.copies is not None
        return (CountedRowsOperator if counted else RunningAggregateOperator)(context, plan, function)
    if by_clock:
        return ProcessingWindowsOperator(context, plan, function)
    return (PatientAggregateOperator if patient else WindowAggregateOperator)(context, plan, function)
