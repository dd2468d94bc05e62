"""The same program at another parallelism: its graph goes through the passes again."""

from __future__ import annotations

from dataclasses import replace

from headgate.api.jobs.executor_contract import JobSpec
from headgate.common.ids import JobId
from headgate.common.ports import UserCode
from headgate.common.process.same_interpreter import SAME_INTERPRETER
from headgate.graph.logical import Node
from headgate.graph.physical import PhysicalPlan
from headgate.graph.plan import edge_record_types, physical_plan
from headgate.runtime.job.planned_job import PlannedJob, Replan
from headgate.runtime.job.shipped_program import Program, WorkerSettings


def replanner(
    job_id: JobId,  # its id
    job: JobSpec,  # as it was submitted
    plan: PhysicalPlan,  # as it runs, with the number of key groups that its state has
    settings: WorkerSettings,  # of its workers
    code: UserCode = SAME_INTERPRETER,  # where the program's functions live
) -> Replan:
    """Makes plans of a running job."""

    def replan(parallelism: int) -> PlannedJob:
        nodes = narrowed(job.nodes, parallelism)
        wanted = physical_plan(nodes, parallelism, plan.max_parallelism)
        program = Program(job_id, wanted, settings, edge_record_types(nodes, wanted))
        return PlannedJob.of(wanted, program, code)

    return replan


def narrowed(nodes: tuple[Node, ...], parallelism: int) -> tuple[Node, ...]:
    """The program for `parallelism` slots: an operator that asks for fewer subtasks keeps its wish."""

    def narrow(node: Node) -> Node:
        asked = node.parallelism
        return node if asked is None else replace(node, parallelism=min(asked, parallelism))

    return tuple(map(narrow, nodes))
