"""Makes the operator that runs a join by time in one subtask."""

from __future__ import annotations

from typing import Any

from headgate.api.functions import KeyedProcessFunction
from headgate.relational.joins.timed_joins import AsOfJoin, IntervalJoin, TimedJoin
from headgate.runtime.job.operator_context import OperatorContext
from headgate.runtime.worker.operators.columns.timed.as_of_join import AsOfJoinOperator
from headgate.runtime.worker.operators.columns.timed.interval_join import IntervalJoinOperator
from headgate.runtime.worker.operators.columns.timed.timed_operator import TimedJoinOperator


def timed_join_operator(
    context: OperatorContext, plan: TimedJoin, function: KeyedProcessFunction[Any, Any, Any]
) -> TimedJoinOperator:
    """Return a new operator that runs a join by time; `function` declares its state."""
    if isinstance(plan, AsOfJoin):
        return AsOfJoinOperator(context, plan, function)
    assert isinstance(plan, IntervalJoin)  # there are no others
    return IntervalJoinOperator(context, plan, function)
