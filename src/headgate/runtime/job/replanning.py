"""A plan with the program that runs it, and the same job at another parallelism."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from headgate.api.jobs.executor_contract import JobSpec
from headgate.common.ids import JobId
from headgate.common.ports import UserCode
from headgate.common.process.same_interpreter import SAME_INTERPRETER
from headgate.graph.logical import Node
from headgate.graph.physical import PhysicalPlan
from headgate.graph.plan import edge_record_types, physical_plan
from headgate.runtime.job.shipped_program import Program, WorkerSettings


@dataclass(frozen=True, slots=True)
class PlannedJob:
    """A plan, and the bytes of the program that workers get to run it."""

    plan: PhysicalPlan
    shipped: bytes

    @classmethod
    def of(cls, plan: PhysicalPlan, program: Program, code: UserCode = SAME_INTERPRETER) -> PlannedJob:
        """Return a plan that is ready to be deployed; `code` is where the program's functions live."""
        return cls(plan, program.to_bytes(code))


Replan = Callable[[int], PlannedJob]
"""The job at another parallelism; raises a UsageError where there is no such plan."""


def replanner(
    job_id: JobId,
    job: JobSpec,  # as it was submitted
    plan: PhysicalPlan,  # as it runs, with the number of key groups that its state has
    settings: WorkerSettings,
    code: UserCode = SAME_INTERPRETER,  # where the program's functions live
) -> Replan:
    """Make a function that plans a running job: its graph goes through the passes again."""

    def replan(parallelism: int) -> PlannedJob:
        nodes = narrowed(job.nodes, parallelism)
        wanted = physical_plan(nodes, parallelism, plan.max_parallelism)
        program = Program(job_id, wanted, settings, edge_record_types(nodes, wanted))
        return PlannedJob.of(wanted, program, code)

    return replan


def narrowed(nodes: tuple[Node, ...], parallelism: int) -> tuple[Node, ...]:
    """Return the program for `parallelism` slots: an operator that asks for fewer still gets them."""
    return tuple(
        node if node.parallelism is None else replace(node, parallelism=min(node.parallelism, parallelism))
        for node in nodes
    )
