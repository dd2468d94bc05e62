"""From the shipped plan to live subtasks: chains, channels between them, restored state."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from headgate.checkpoint.data_files import read_handle
from headgate.common.errors import InternalError, ProtocolError
from headgate.common.ids import ChannelId, EdgeId, SubtaskId, SubtaskIndex
from headgate.common.ports import Disk
from headgate.core.alignment.factory import make_handler
from headgate.graph.guarantees import always_aligned, late_vertices
from headgate.graph.logical import Node
from headgate.graph.partitioners import Forward
from headgate.graph.physical import Edge, PhysicalPlan, Vertex
from headgate.records.batch import Batch
from headgate.records.detach import detached
from headgate.records.row_batch import RowBatch
from headgate.runtime.job.operator_context import OperatorContext
from headgate.runtime.job.shipped_program import Program
from headgate.runtime.protocol.element_codec import ElementCodec
from headgate.runtime.protocol.elements import Event
from headgate.runtime.protocol.frames import Frame, FrameKind
from headgate.runtime.protocol.messages import Deploy, SlowRecords, Told
from headgate.runtime.protocol.undeclared_rows import UndeclaredRows
from headgate.runtime.worker.exchange.output import EdgeEnds, EdgeReceiver, OutputChannel, OutputEdge, Outputs
from headgate.runtime.worker.exchange.remote_channel import Between, RemoteLane
from headgate.runtime.worker.in_flight.catalog import StreamCatalog
from headgate.runtime.worker.in_flight.prefetch import PrefetchedParts
from headgate.runtime.worker.in_flight.recovered import RecoveredInput
from headgate.runtime.worker.operators.operator_chain import build_chain
from headgate.runtime.worker.operators.operator_contract import Receiver
from headgate.runtime.worker.snapshot.finishing import AttemptServices
from headgate.runtime.worker.task.chain_runner import ChainRunner, CollectedOutput, InLoop, OnThread
from headgate.runtime.worker.task.gate_task import GateTask, InputChannel
from headgate.runtime.worker.task.source_task import SourceTask
from headgate.runtime.worker.task.step_budget import StepBudget
from headgate.runtime.worker.task.task import Task
from headgate.runtime.worker.worker_ports import WorkerPorts
from headgate.state.backends import ChangelogBackends, StateBackends, backends_for
from headgate.state.snapshots import InFlightShare, OperatorSubtaskState

_CREDIT = struct.Struct("<I")


class LocalLane:
    """To a subtask in the same process: nothing is encoded, but what can be changed is copied."""

    __slots__ = ("_channel", "_task")

    def __init__(self, task: GateTask, channel: int) -> None:
        self._task, self._channel = task, channel

    def deliver(self, element: Batch | Event) -> None:
        """See `runtime.output.Lane`."""
        if isinstance(element, RowBatch):
            element = detached(element)
        self._task.deliver(self._channel, element)


class Exchange:
    """Which local end a frame from a peer belongs to."""

    def __init__(self) -> None:
        self.outgoing: dict[ChannelId, OutputChannel] = {}
        self.incoming: dict[ChannelId, tuple[GateTask, int, ElementCodec]] = {}

    def arrived(self, slot: int, frame: Frame) -> None:
        """Hand a frame to its channel. Raises ProtocolError: there is no such channel between these two."""
        channel = ChannelId(EdgeId(frame.edge), SubtaskIndex(frame.sender), SubtaskIndex(frame.receiver))
        if frame.kind is FrameKind.CREDIT:
            output = self.outgoing.get(channel)
            if output is None or frame.receiver != slot:
                raise ProtocolError(
                    f"slot {slot} granted credit on {channel}, which it does not receive from here"
                )
            output.grant(_CREDIT.unpack(b"".join(frame.parts))[0])
            return
        entry = self.incoming.get(channel)
        if entry is None or frame.sender != slot:
            raise ProtocolError(f"slot {slot} sent a frame on {channel}, which is none of its channels")
        task, index, codec = entry
        task.deliver(index, codec.decode(frame.kind, memoryview(b"".join(frame.parts))))


@dataclass(frozen=True, slots=True)
class Assembly:
    """The live subtasks of one attempt in one worker."""

    tasks: Mapping[SubtaskId, Task]  # by id
    # downstream first, so that what a step emits is taken up in the next turn and queues drain before they
    # fill
    ordered: Sequence[Task]
    sources: Sequence[SourceTask]  # those that begin with a reader
    exchange: Exchange  # where frames from peers go


class Assembler:
    """Builds the subtasks of `slot`, which are subtask `slot` of every vertex that has one.

    `deploy` tells attempt and restored state, which lies on `disk`.
    """

    def __init__(
        self,
        program: Program,
        slot: int,
        deploy: Deploy,
        services: AttemptServices,
        ports: WorkerPorts,
        disk: Disk | None,
    ) -> None:
        self._program, self._plan, self._slot = program, program.plan, slot
        self._deploy, self._services, self._ports, self._disk = deploy, services, ports, disk
        self._restored = {(v, s): states for v, s, states in deploy.restored}
        self._in_flight = {(v, s): shares for v, s, shares in deploy.in_flight}
        self._finished = set(deploy.finished)
        self._catalog = StreamCatalog(program)
        self._late = late_vertices(self._plan)
        settings = program.settings
        backends = backends_for(
            settings.state_backend,
            settings.rocksdb_memory_bytes,
            settings.rocksdb_local_dir,
            settings.incremental,
            timers_on_disk=settings.rocksdb_timers,
            eager_migration=settings.rocksdb_eager_migration,
        )
        self._backends: StateBackends = backends
        if settings.changelog:
            interval, restored = settings.changelog_materialize_ms, deploy.restored_checkpoint or 0
            self._backends = ChangelogBackends(backends, interval, ports.clock, restored)
        undeclared = UndeclaredRows(ports.code, deploy.program, self._slow_records)
        types = program.record_types
        self._codecs = {e.id: ElementCodec(types.get(e.id), undeclared) for e in self._plan.edges}
        self._tasks: dict[SubtaskId, Task] = {}
        self._exchange = Exchange()

    def build(self) -> Assembly:
        """Make the subtasks and connect them."""
        # Receivers first: a local lane needs its task.
        here = [vertex for vertex in self._plan.vertices if self._slot < vertex.parallelism]
        for vertex in reversed(here):
            self._tasks[SubtaskId(vertex.id, SubtaskIndex(self._slot))] = self._task(vertex)
        for vertex in here:
            self._connect_inputs(vertex)
        ordered = list(self._tasks.values())
        sources = [task for task in ordered if isinstance(task, SourceTask)]
        return Assembly(self._tasks, ordered, sources, self._exchange)

    def _task(self, vertex: Vertex) -> Task:
        settings = self._program.settings
        outputs = Outputs(settings.buffer_timeout_ms)
        edges: dict[int, OutputEdge] = {}
        for edge in self._plan.outputs(vertex.id):
            edges[edge.id] = self._output_edge(edge)
            outputs.edges.append(edges[edge.id])
        main, sides = self._receivers(vertex, outputs, edges)
        runner: Callable[[StepBudget], ChainRunner] = InLoop
        if vertex.chain[0].blocking:
            collected = CollectedOutput()
            main, sides = collected.before(main), {at: collected.before(side) for at, side in sides.items()}
            runner = self._on_thread(vertex, collected)
        shares = self._in_flight.get((vertex.id, self._slot), [])
        nodes = {_uid(node): at for at, node in enumerate(vertex.chain)}
        entries = {nodes[share.stream.receiver] for share in shares}
        chain = build_chain(
            vertex, self._context_of(vertex), main, sides, entries, self._ports.code.refuse_leaving
        )
        subtask = SubtaskId(vertex.id, SubtaskIndex(self._slot))
        arguments = (subtask, chain.operators, outputs, self._services, settings.step_target_ms)
        recovered = self._recovered_input(shares, lambda uid: chain.places[nodes[uid]])
        senders = self._senders(vertex)
        if not senders:
            finished = (vertex.id, self._slot) in self._finished
            return SourceTask(*arguments, recovered=recovered, finished=finished)
        channels = [self._input_channel(edge, sender) for edge, sender in senders]
        handler = make_handler(
            len(channels),
            exactly_once=settings.exactly_once,
            unaligned=settings.unaligned,
            forced=frozenset(i for i, (edge, _) in enumerate(senders) if always_aligned(edge)),
            awaited=frozenset(i for i, (edge, _) in enumerate(senders) if edge.source in self._late),
        )
        return GateTask(*arguments, recovered=recovered, runner=runner, channels=channels, handler=handler)

    def _on_thread(self, vertex: Vertex, collected: CollectedOutput) -> Callable[[StepBudget], ChainRunner]:
        """How the chain of a blocking function is run."""
        ports, name = self._ports, f"headgate-blocking-{_uid(vertex.chain[0])}-{self._slot}"
        return lambda budget: OnThread(lambda: ports.beside(name), ports.post, collected, ports.clock, budget)

    def _recovered_input(
        self, shares: Sequence[InFlightShare], position_of: Callable[[str], int]
    ) -> RecoveredInput | None:
        if not shares:
            return None
        disk = self._disk
        if disk is None:
            raise InternalError("records in flight were restored without the storage that they lie in")
        return RecoveredInput(
            shares,
            position_of,
            lambda stream: self._catalog.codec_of(stream.sender, stream.tag),
            PrefetchedParts(lambda handle: read_handle(disk, handle), shares),
            self._plan.max_parallelism,
            self._slot,
        )

    def _receivers(
        self, vertex: Vertex, outputs: Outputs, edges: Mapping[int, OutputEdge]
    ) -> tuple[Receiver, dict[tuple[int, str], Receiver]]:
        mains: list[OutputEdge] = []
        sides: dict[tuple[int, str], list[OutputEdge]] = {}
        for edge in self._plan.outputs(vertex.id):
            if edge.tag is None:
                mains.append(edges[edge.id])
            else:
                sides.setdefault((edge.operator, edge.tag), []).append(edges[edge.id])
        main = EdgeReceiver(outputs, mains, True)
        return main, {at: EdgeReceiver(outputs, group, False) for at, group in sides.items()}

    def _output_edge(self, edge: Edge) -> OutputEdge:
        target = self._plan.vertices[edge.target]
        forward = isinstance(edge.partitioner, Forward)
        receivers = [self._slot] if forward else range(target.parallelism)
        channels = [self._output_channel(edge, receiver) for receiver in receivers]
        receiver = self._context_of(target)(target.chain[0])
        return OutputEdge(
            edge.partitioner,
            channels,
            self._plan.max_parallelism,
            self._slot,
            receiver,
            edge_ends(self._plan, edge),
            receivers,
        )

    def _output_channel(self, edge: Edge, receiver: int) -> OutputChannel:
        name = ChannelId(edge.id, SubtaskIndex(self._slot), SubtaskIndex(receiver))
        if receiver == self._slot:
            task = self._tasks[SubtaskId(edge.target, SubtaskIndex(receiver))]
            assert isinstance(task, GateTask)
            index = self._senders(self._plan.vertices[edge.target]).index((edge, self._slot))
            lane: LocalLane | RemoteLane = LocalLane(task, index)
        else:
            lane = RemoteLane(self._ports.data, receiver, name, self._codecs[edge.id], self._between(edge))
        channel = OutputChannel(lane, self._program.settings.credit_initial, withheld=True)
        self._exchange.outgoing[name] = channel
        return channel

    def _between(self, edge: Edge) -> Between:
        source, target = self._plan.vertices[edge.source], self._plan.vertices[edge.target]
        sender = next(node for node in source.chain if _uid(node) == edge_ends(self._plan, edge).sender)
        return Between(
            self._context_of(source)(sender).label,
            self._context_of(target)(target.chain[0]).label,
            self._program.settings.frame_size_max,
        )

    def _input_channel(self, edge: Edge, sender: int) -> InputChannel:
        name = ChannelId(edge.id, SubtaskIndex(sender), SubtaskIndex(self._slot))
        credit = self._program.settings.credit_initial
        ends = edge_ends(self._plan, edge)
        return InputChannel(credit, self._credit_return(name), ends, sender, edge.side, withheld=True)

    def _credit_return(self, name: ChannelId) -> Callable[[int], None]:
        if name.sender == self._slot:
            return lambda frames: self._exchange.outgoing[name].grant(frames)
        data = self._ports.data
        return lambda frames: data.send(name.sender, Frame(FrameKind.CREDIT, *name, [_CREDIT.pack(frames)]))

    def _senders(self, vertex: Vertex) -> list[tuple[Edge, int]]:
        """The channels of a subtask here, in order of their index."""
        senders: list[tuple[Edge, int]] = []
        for edge in self._plan.inputs(vertex.id):
            if isinstance(edge.partitioner, Forward):
                senders.append((edge, self._slot))
            else:
                count = self._plan.vertices[edge.source].parallelism
                senders.extend((edge, sender) for sender in range(count))
        return senders

    def _connect_inputs(self, vertex: Vertex) -> None:
        task = self._tasks[SubtaskId(vertex.id, SubtaskIndex(self._slot))]
        for index, (edge, sender) in enumerate(self._senders(vertex)):
            if not isinstance(task, GateTask):
                raise InternalError(f"vertex {vertex.id} has inputs but begins with a source")
            name = ChannelId(edge.id, SubtaskIndex(sender), SubtaskIndex(self._slot))
            self._exchange.incoming[name] = (task, index, self._codecs[edge.id])

    def _context_of(self, vertex: Vertex) -> Callable[[Node], OperatorContext]:
        states = self._restored.get((vertex.id, self._slot), [])

        def context(node: Node) -> OperatorContext:
            uid = _uid(node)
            mine: list[OperatorSubtaskState] = [state for state in states if state.uid == uid]
            return OperatorContext(
                uid=uid,
                name=node.name,
                subtask=self._slot,
                parallelism=vertex.parallelism,
                attempt=self._deploy.attempt,
                job=self._program.job,
                max_parallelism=self._plan.max_parallelism,
                clock=self._ports.clock,
                restored=mine,
                disk=self._disk,
                step_target_ms=self._program.settings.step_target_ms,
                backends=self._backends,
                ignore_unclaimed=self._program.settings.ignore_unclaimed,
                generation=self._deploy.generation,
                tell=self._tell,
            )

        return context

    def _slow_records(self, name: str, pickled: bool) -> None:
        self._ports.link.send(SlowRecords(self._deploy.attempt, name, pickled))

    def _tell(self, uid: str, subtask: int, data: bytes) -> None:
        self._ports.link.send(Told(self._deploy.attempt, uid, subtask, data))


def edge_ends(plan: PhysicalPlan, edge: Edge) -> EdgeEnds:
    """What an exchange is called in a checkpoint.

    A stream that is united with itself reaches its receiver by several exchanges: each has a time of
    its own, so what is in flight there is kept apart.
    """
    sender = plan.vertices[edge.source].chain[edge.operator]
    receiver = plan.vertices[edge.target].chain[0]
    ends = (edge.operator, edge.tag, edge.target)
    same = [e.id for e in plan.outputs(edge.source) if (e.operator, e.tag, e.target) == ends]
    return EdgeEnds(edge.id, _uid(sender), edge.tag, _uid(receiver), same.index(edge.id))


def _uid(node: Node) -> str:
    return node.uid or f"node-{node.id}"
