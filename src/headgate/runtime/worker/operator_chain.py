"""Creates the operators of a vertex (one chain) and links them from its head to its outputs."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Generic

from headgate.common.errors import InternalError
from headgate.graph.async_nodes import AsyncNode
from headgate.graph.logical import (
    BroadcastProcessNode,
    FilterNode,
    FlatMapNode,
    KeyedBroadcastProcessNode,
    KeyedProcessNode,
    MapNode,
    Node,
    ProcessNode,
    SelectNode,
    SinkNode,
    SourceNode,
    TimestampsNode,
    WindowNode,
)
from headgate.graph.physical import Vertex
from headgate.graph.stream_joins import StreamJoinNode
from headgate.graph.table_nodes import TableNode
from headgate.records.batch import Batch
from headgate.records.row_batch import RowBatch
from headgate.runtime.job.operator_context import OperatorContext
from headgate.runtime.worker.exchange.traced_output import Sending, traced
from headgate.runtime.worker.operators.asynchronous.async_operator import AsyncOperator
from headgate.runtime.worker.operators.broadcast_operators import (
    BroadcastProcessOperator,
    KeyedBroadcastProcessOperator,
)
from headgate.runtime.worker.operators.counting_source import CountingSource
from headgate.runtime.worker.operators.fused import FusedNode, FusedOperator
from headgate.runtime.worker.operators.guarded.guarded_functions import GuardedOperator, GuardedProcess
from headgate.runtime.worker.operators.guarded.holding_keyed import guarded_keyed_operator
from headgate.runtime.worker.operators.guarded.read_positions import note_positions
from headgate.runtime.worker.operators.keyed_operator import KeyedProcessOperator
from headgate.runtime.worker.operators.marked_sink import MarkedSinkOperator
from headgate.runtime.worker.operators.operator_contract import Operator, R, Receiver
from headgate.runtime.worker.operators.reading_source import SourceOperator
from headgate.runtime.worker.operators.source_alignment import AlignedTimestamps
from headgate.runtime.worker.operators.stateless import ProcessOperator, SelectOperator, SinkOperator
from headgate.runtime.worker.operators.timestamps import TimestampsOperator
from headgate.runtime.worker.operators.windows_of_rows.groups_of_rows_ahead import RescaledRowWindows
from headgate.runtime.worker.operators.windows_of_rows.timed_results import TimedResultsOperator

Refuse = Callable[[Iterable[R]], None]

_FUSED = (MapNode, FilterNode, FlatMapNode)


class _Border(Generic[R]):
    """Wraps a receiver: `refuse` first raises for records that must not leave isolated user code."""

    def __init__(self, receiver: Receiver, refuse: Refuse[R]) -> None:
        self._receiver, self._refuse = receiver, refuse
        self.watermark, self.idle, self.end_of_data = receiver.watermark, receiver.idle, receiver.end_of_data
        self.mark = receiver.mark

    def process(self, batch: Batch) -> None:
        if isinstance(batch, RowBatch):  # columns are Arrow's, which every copy of pyarrow reads
            self._refuse(batch.records)
        self._receiver.process(batch)

    def traced(self, batch: Batch, sending: Sending) -> None:
        if isinstance(batch, RowBatch):
            self._refuse(batch.records)
        traced(self._receiver, batch, sending)


@dataclass(frozen=True, slots=True)
class Chain:
    """The linked operators of one subtask, head first, and which of them runs each node of the vertex."""

    operators: list[Operator]  # head first
    places: Mapping[int, int]  # index of a node in the vertex -> index of its operator; fused nodes share one


def build_chain(
    vertex: Vertex,
    context_of: Callable[[Node], OperatorContext],
    main: Receiver,  # receives the last operator's output
    sides: Mapping[tuple[int, str], Receiver],  # (index of the node, tag) -> receiver of that side output
    entries: Collection[int] = (),  # nodes that receive restored in-flight records: each begins an operator
    refuse: Refuse | None = None,  # checks records that leave user code
) -> Chain:
    """Create the operators of one subtask, linked to each other and to its outputs; not opened yet.
    `context_of` makes a node's context. `main` receives the last operator's output, `sides` side outputs, by
    (index of the node, tag). `entries` are indexes of nodes that receive restored in-flight records: an
    operator begins at each. `refuse` raises for records that must not leave user code; None: all may.
    """
    operators: list[Operator] = []
    places: dict[int, int] = {}
    index = 0
    while index < len(vertex.chain):
        run = _fused_run(vertex.chain, index, entries)
        if run:
            operator: Operator = FusedOperator([context_of(node) for node in run], run)
        else:
            operator = _make(vertex.chain[index], context_of)
        width = max(1, len(run))
        places.update(dict.fromkeys(range(index, index + width), len(operators)))
        operators.append(operator)
        index += width

    def guarded(receiver: Receiver) -> Receiver:
        return receiver if refuse is None else _Border(receiver, refuse)

    for left, right in itertools.pairwise(operators):
        left.next = guarded(right) if isinstance(right, SinkOperator) else right
        if isinstance(right, TimestampsOperator) and isinstance(operators[0], SourceOperator):
            right.source = operators[0]
    note_positions(operators, _nodes_of(vertex, places))
    operators[-1].next = guarded(main)
    for (at, tag), receiver in sides.items():
        operators[places[at]].side_outputs[tag] = guarded(receiver)
    return Chain(operators, places)


def _nodes_of(vertex: Vertex, places: Mapping[int, int]) -> list[list[Node]]:
    nodes: list[list[Node]] = [[] for _ in set(places.values())]
    for index, place in places.items():
        nodes[place].append(vertex.chain[index])
    return nodes


def _fused_run(chain: tuple[Node, ...], start: int, entries: Collection[int]) -> list[FusedNode]:
    run: list[FusedNode] = []
    for index, node in enumerate(chain[start:], start):
        if not isinstance(node, _FUSED) or node.on_error is not None or (run and index in entries):
            break
        run.append(node)
    return run


def _make(node: Node, context_of: Callable[[Node], OperatorContext]) -> Operator:
    context = context_of(node)
    # A function instance belongs to one subtask; the mini-cluster's subtasks share a process.
    match node:
        case SourceNode():
            return (CountingSource if node.marked else SourceOperator)(context, node.source)
        case SelectNode():
            return SelectOperator(context, node.columns)
        case _ if isinstance(node, TableNode):
            from headgate.runtime.worker.operators.columns.making import (
                table_operator,  # it loads Arrow's kernels
            )

            return table_operator(context, node)
        case TimestampsNode():
            aligned = node.strategy.max_drift_ms is not None
            return (AlignedTimestamps if aligned else TimestampsOperator)(context, node.strategy)
        case MapNode() | FilterNode() | FlatMapNode():
            return GuardedOperator(context, node)
        case BroadcastProcessNode():
            return BroadcastProcessOperator(context, copy.copy(node.function))
        case ProcessNode() if node.on_error is not None:
            return GuardedProcess(context, node, copy.copy(node.function))
        case ProcessNode():
            return ProcessOperator(context, copy.copy(node.function))
        case KeyedBroadcastProcessNode():
            return KeyedBroadcastProcessOperator(context, copy.copy(node.function), node.key, node.keys)
        case WindowNode():
            return RescaledRowWindows(context, copy.copy(node.function), node.key, node.keys)
        case StreamJoinNode():
            return TimedResultsOperator(context, copy.copy(node.function), node.key, node.keys)
        case KeyedProcessNode() if node.on_error is not None:
            return guarded_keyed_operator(context, node, copy.copy(node.function))
        case KeyedProcessNode():
            return KeyedProcessOperator(context, copy.copy(node.function), node.key, node.keys)
        case AsyncNode():
            return AsyncOperator(context, node.function)
        case SinkNode():
            return (MarkedSinkOperator if node.marked else SinkOperator)(context, node.sink)
    raise InternalError(f"a chain holds a {type(node).__name__}, for which there is no operator")
