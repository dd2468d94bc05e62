"""Turns the program's graph into the graph that runs (the physical plan), by a list of passes in order."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from headgate.common.errors import PlanError
from headgate.common.hints import Hint
from headgate.common.ids import EdgeId
from headgate.common.keys.keygroups import default_max_parallelism
from headgate.common.settings.options import MAX_PARALLELISM, PARALLELISM_MAX
from headgate.graph.aligned_sources import check_aligned_sources
from headgate.graph.logical import Node, SideOutputNode
from headgate.graph.marked_sources import mark_sources
from headgate.graph.narrowing import narrow_sources
from headgate.graph.physical import PhysicalPlan
from headgate.graph.rewrites import (
    Flow,
    assign_uids,
    chain_operators,
    check_max_parallelism,
    check_unique_uids,
    choose_partitioners,
    expand_unions,
    flow_of,
    fold_partitions,
    fold_side_outputs,
    number_vertices,
    resolve_parallelism,
)
from headgate.graph.source_filters import push_filters

Pass = Callable[[Flow], Flow]


def passes(default_parallelism: int) -> tuple[Pass, ...]:
    """Return, in order, the passes that make a program's graph a plan. Side outputs go first, while the node
    they were taken from still stands before them; then unions and partitions, so that what follows sees
    operators only; chaining last, when every link knows its partitioner.
    """
    return (
        assign_uids,
        lambda flow: resolve_parallelism(flow, default_parallelism),
        fold_side_outputs,
        expand_unions,
        fold_partitions,
        push_filters,
        narrow_sources,
        choose_partitioners,
        chain_operators,
        check_aligned_sources,
        mark_sources,
    )


def physical_plan(
    nodes: Iterable[Node], default_parallelism: int = 1, max_parallelism: int | None = None
) -> PhysicalPlan:
    """Return the plan by which a program's nodes run: chains of operators, exchanges, slots.
    `default_parallelism` is for nodes that set none; `max_parallelism` is the number of key groups (None:
    chosen by the widest operator). PlanError: the nodes cannot run so.
    """
    flow = flow_of(nodes)
    check_unique_uids(flow.nodes.values())
    for step in passes(default_parallelism):
        flow = step(flow)
    vertices, edges = number_vertices(flow)
    slots = max((vertex.parallelism for vertex in vertices), default=0)
    groups = _key_groups(slots, max_parallelism)
    check_max_parallelism(vertices, groups)
    return PhysicalPlan(vertices, edges, groups, slots)


def edge_record_types(nodes: Iterable[Node], plan: PhysicalPlan) -> dict[EdgeId, Hint]:
    """Return, by edge (exchange between two chains of operators), the type of its records; edges without one
    declared type are left out. `nodes` are the planned program: only they have the types of side outputs.
    """
    tagged: dict[tuple[int, str], list[Hint | None]] = {}
    for node in nodes:
        if isinstance(node, SideOutputNode):
            tagged.setdefault((node.inputs[0].id, node.tag), []).append(node.record_type)
    found: dict[EdgeId, Hint] = {}
    for edge in plan.edges:
        sender = plan.vertices[edge.source].chain[edge.operator]
        kinds = [sender.record_type] if edge.tag is None else tagged[sender.id, edge.tag]
        if kinds[0] is not None and all(kind == kinds[0] for kind in kinds):
            found[edge.id] = kinds[0]
    return found


def _key_groups(slots: int, wanted: int | None) -> int:
    if wanted is None:
        return default_max_parallelism(max(slots, 1))
    if not 1 <= wanted <= PARALLELISM_MAX:
        raise PlanError(f"{MAX_PARALLELISM.key} is {wanted}; expected a number from 1 to {PARALLELISM_MAX}")
    return wanted
