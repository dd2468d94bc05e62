"""A job's plan with its serialized program, and a function that plans the job at another parallelism."""

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
    """A physical plan (chains and subtasks) and `shipped`, the serialized program by which workers run it."""

    plan: PhysicalPlan
    shipped: bytes

    @classmethod
    def of(cls, plan: PhysicalPlan, program: Program, code: UserCode = SAME_INTERPRETER) -> PlannedJob:
        """Return `plan` with its program serialized; `code` finds the program's modules in this process."""
        return cls(plan, program.to_bytes(code))


Replan = Callable[[int], PlannedJob]
"""Returns the job planned for a parallelism; raises UsageError if no plan is possible."""


def replanner(
    job_id: JobId,
    job: JobSpec,  # as it was submitted
    plan: PhysicalPlan,  # as it runs, with the number of key groups of its state
    settings: WorkerSettings,
    code: UserCode = SAME_INTERPRETER,  # where the program's functions live
) -> Replan:
    """Return a function that plans the running job at another parallelism, or raises UsageError."""

    def replan(parallelism: int) -> PlannedJob:
        nodes = narrowed(job.nodes, parallelism)
        wanted = physical_plan(nodes, parallelism, plan.max_parallelism)
        program = Program(job_id, wanted, settings, edge_record_types(nodes, wanted))
        return PlannedJob.of(wanted, program, code)

    return replan


def narrowed(nodes: tuple[Node, ...], parallelism: int) -> tuple[Node, ...]:
    return tuple(
        node if node.parallelism is None else replace(node, parallelism=min(node.parallelism, parallelism))
        for node in nodes
    )
