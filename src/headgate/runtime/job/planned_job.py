"""A plan with the program that runs it, and the same job at another parallelism."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from headgate.common.ports import UserCode
from headgate.common.process.same_interpreter import SAME_INTERPRETER
from headgate.graph.physical import PhysicalPlan
from headgate.runtime.job.shipped_program import Program


@dataclass(frozen=True, slots=True)
class PlannedJob:
    """A plan, and what workers are sent to run it."""

    plan: PhysicalPlan  # what runs
    shipped: bytes  # the program's bytes

    @classmethod
    def of(cls, plan: PhysicalPlan, program: Program, code: UserCode = SAME_INTERPRETER) -> PlannedJob:
        """Ready to be deployed; `code` is where the program's functions live."""
        return cls(plan, program.to_bytes(code))


Replan = Callable[[int], PlannedJob]
"""The job at another parallelism; raises a UsageError where there is no such plan."""
