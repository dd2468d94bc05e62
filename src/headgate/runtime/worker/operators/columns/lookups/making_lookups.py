"""Makes the operator that looks rows up in one subtask."""

from __future__ import annotations

from headgate.relational.relations import Lookup
from headgate.runtime.job.operator_context import OperatorContext
from headgate.runtime.worker.operators.columns.lookups.looking_up import LookupOperator
from headgate.runtime.worker.operators.columns.lookups.refreshing import RefreshingLookupOperator


def lookup_operator(context: OperatorContext, plan: Lookup) -> LookupOperator:
    """Return a new operator for rows that never change, or for those that a function loads."""
    if plan.loading is None:
        return LookupOperator(context, plan)
    return RefreshingLookupOperator(context, plan, plan.loading)
